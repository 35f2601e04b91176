//! Many ends in one call.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::batcher::{Answers, CallBatcher};
use crate::calls::Cloud;
use crate::error::{CloudError, ErrorKind};

/// Instances that one call ends.
const MOST: usize = 500;

type Answer = Result<(), CloudError>;

/// Ends instances, as many as there are to end in one call.
pub struct TerminateBatcher(CallBatcher<Answer>);

impl TerminateBatcher {
    /// Nothing to end yet.
    #[must_use]
    pub fn new(cloud: Arc<dyn Cloud>) -> Self {
        Self(CallBatcher::new(cloud, MOST, end))
    }

    /// Ends one instance, perhaps together with others.
    ///
    /// # Errors
    /// When EC2 does not end this one, or does not say; of kind `NotFound` when it does not know it.
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
            // One that EC2 does not know fails the whole call; the others must end nevertheless.
            let alone = std::slice::from_ref(id);
            let answer = if one_is_unknown { cloud.terminate_instances(alone).await } else { answer.clone() };
            answers.insert(id.clone(), answer);
        }
        answers
    })
}
