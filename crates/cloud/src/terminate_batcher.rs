//! Batches TerminateInstances calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::batcher::{Answers, CallBatcher};
use crate::calls::Cloud;
use crate::error::{CloudError, ErrorKind};

/// Maximum number of instances per call.
const MOST: usize = 500;

type Answer = Result<(), CloudError>;

/// Terminates instances. Requests that are pending at the same moment share a call.
pub struct TerminateBatcher(CallBatcher<Answer>);

impl TerminateBatcher {
    /// Creates a batcher without pending requests.
    #[must_use]
    pub fn new(cloud: Arc<dyn Cloud>) -> Self {
        Self(CallBatcher::new(cloud, MOST, end))
    }

    /// Terminates one instance, in a call that may contain others.
    ///
    /// # Errors
    /// When the call for this instance fails or has no answer. The kind is `NotFound` when the instance is unknown.
    pub async fn end(&self, id: &str) -> Answer {
        self.0.ask(id).await
    }
}

fn end<'a>(cloud: &'a dyn Cloud, ids: &'a [String]) -> Answers<'a, Answer> {
    Box::pin(async move {
        let answer = cloud.terminate_instances(ids).await;
        let one_is_unknown = matches!(&answer, Err(error) if error.kind == ErrorKind::NotFound) && ids.len() > 1;
        let mut answers = BTreeMap::new();
        for id in ids {
            // One unknown id fails the whole call, so each id is retried alone.
            let alone = std::slice::from_ref(id);
            let answer = if one_is_unknown { cloud.terminate_instances(alone).await } else { answer.clone() };
            answers.insert(id.clone(), answer);
        }
        answers
    })
}
