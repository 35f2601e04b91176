//! Batches DescribeInstances calls: one call serves, for example, a hundred nodes that wait for the end of their instances.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::batcher::{Answers, CallBatcher};
use crate::calls::{Cloud, Instance};
use crate::error::CloudError;

/// Maximum number of instances per call, which is EC2's maximum number of values in a filter.
pub const MOST: usize = 200;

type Answer = Result<Option<Instance>, CloudError>;

/// Describes instances by id. Requests that are pending at the same moment share a call.
pub struct DescribeBatcher(CallBatcher<Answer>);

impl DescribeBatcher {
    /// Creates a batcher without pending requests.
    #[must_use]
    pub fn new(cloud: Arc<dyn Cloud>) -> Self {
        Self(CallBatcher::new(cloud, MOST, look))
    }

    /// Returns an instance in any state, or `None` if its id is unknown.
    ///
    /// # Errors
    /// When the EC2 call fails.
    pub async fn instance(&self, id: &str) -> Answer {
        self.0.ask(id).await
    }
}

fn look<'a>(cloud: &'a dyn Cloud, ids: &'a [String]) -> Answers<'a, Answer> {
    Box::pin(async move {
        let found = cloud.instances_by_id(ids).await.map(|all| {
            let by_id = all.into_iter().map(|instance| (instance.id.clone(), instance));
            by_id.collect::<BTreeMap<String, Instance>>()
        });
        let answer = |id: &String| found.as_ref().map(|all| all.get(id).cloned()).map_err(Clone::clone);
        ids.iter().map(|id| (id.clone(), answer(id))).collect()
    })
}
