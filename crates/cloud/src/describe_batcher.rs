//! Many looks at instances in one call: a hundred nodes that wait for their machines' ends ask one question.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::batcher::{Answers, CallBatcher};
use crate::calls::{Cloud, Instance};
use crate::error::CloudError;

/// Instances that one call asks about: EC2 takes so many values in a filter.
pub const MOST: usize = 200;

type Answer = Result<Option<Instance>, CloudError>;

/// Looks at instances by id, at as many as there are to look at in one call.
pub struct DescribeBatcher(CallBatcher<Answer>);

impl DescribeBatcher {
    /// Nothing to look at yet.
    #[must_use]
    pub fn new(cloud: Arc<dyn Cloud>) -> Self {
        Self(CallBatcher::new(cloud, MOST, look))
    }

    /// One instance whatever its state, `None` when EC2 does not know it.
    ///
    /// # Errors
    /// When EC2 does not answer.
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
