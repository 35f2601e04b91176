//! Batches of DescribeInstances and TerminateInstances: requests for single ids become calls for many ids. One call serves, for
//! example, a hundred nodes that wait for the end of their instances.
//!
//! The first request starts its call at once. Requests that arrive while a call is under way are batched for the next call.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Cloud, CloudError, ErrorKind, Instance};

/// Maximum number of instances per DescribeInstances call: EC2's maximum number of values in a filter.
pub const MAX_DESCRIBED: usize = 200;
/// Maximum number of instances per TerminateInstances call.
const MAX_TERMINATED: usize = 500;

type Description = Result<Option<Instance>, CloudError>;
type Termination = Result<(), CloudError>;

/// Describes instances by id. Requests that are pending at the same moment share a call.
pub struct DescribeBatcher(CallBatcher<Description>);

impl DescribeBatcher {
    /// Creates a batcher without pending requests.
    #[must_use]
    pub fn new(cloud: Arc<dyn Cloud>) -> Self {
        Self(CallBatcher::new(cloud, MAX_DESCRIBED, describe))
    }

    /// Returns an instance in any state, or `None` if its id is unknown.
    ///
    /// # Errors
    /// When the EC2 call fails.
    pub async fn instance(&self, id: &str) -> Description {
        self.0.request(id).await
    }
}

fn describe<'a>(cloud: &'a dyn Cloud, ids: &'a [String]) -> Answers<'a, Description> {
    Box::pin(async move {
        let found = cloud.instances_by_id(ids).await.map(|all| {
            let by_id = all.into_iter().map(|instance| (instance.id.clone(), instance));
            by_id.collect::<BTreeMap<String, Instance>>()
        });
        let answer = |id: &String| found.as_ref().map(|all| all.get(id).cloned()).map_err(Clone::clone);
        ids.iter().map(|id| (id.clone(), answer(id))).collect()
    })
}

/// Terminates instances. Requests that are pending at the same moment share a call.
pub struct TerminateBatcher(CallBatcher<Termination>);

impl TerminateBatcher {
    /// Creates a batcher without pending requests.
    #[must_use]
    pub fn new(cloud: Arc<dyn Cloud>) -> Self {
        Self(CallBatcher::new(cloud, MAX_TERMINATED, terminate))
    }

    /// Terminates one instance, in a call that may contain others.
    ///
    /// # Errors
    /// When the call for this instance fails or has no answer. The kind is `NotFound` when the instance is unknown.
    pub async fn end(&self, id: &str) -> Termination {
        self.0.request(id).await
    }
}

fn terminate<'a>(cloud: &'a dyn Cloud, ids: &'a [String]) -> Answers<'a, Termination> {
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

/// Future of one call: the result for each id of the call.
type Answers<'a, A> = Pin<Box<dyn Future<Output = BTreeMap<String, A>> + Send + 'a>>;

/// Batches requests for ids: each call carries as many ids as are pending, up to a maximum.
struct CallBatcher<A> {
    cloud: Arc<dyn Cloud>,
    call: for<'a> fn(&'a dyn Cloud, &'a [String]) -> Answers<'a, A>,
    max_ids: usize,
    waiting: Mutex<Vec<(String, oneshot::Sender<A>)>>,
    /// Lock of the task that calls.
    calling: tokio::sync::Mutex<()>,
}

impl<A: Clone + Send> CallBatcher<A> {
    /// Creates a batcher without pending requests. `call` takes at most `max_ids` ids and returns a result for each of them.
    fn new(
        cloud: Arc<dyn Cloud>,
        max_ids: usize,
        call: for<'a> fn(&'a dyn Cloud, &'a [String]) -> Answers<'a, A>,
    ) -> Self {
        Self { cloud, call, max_ids, waiting: Mutex::default(), calling: tokio::sync::Mutex::new(()) }
    }

    /// Returns the result for one id. The same call may carry the ids of other requests.
    async fn request(&self, id: &str) -> A {
        loop {
            let (answer, mut answered) = oneshot::channel();
            self.waiting.lock().push((id.to_owned(), answer));
            // Requests of the same moment join one batch.
            tokio::task::yield_now().await;
            // The task that holds the lock calls for all pending ids, which may already include this one.
            let _calling = self.calling.lock().await;
            if let Ok(answer) = answered.try_recv() {
                return answer;
            }
            self.call().await;
            if let Ok(answer) = answered.try_recv() {
                return answer;
            }
            // No result yet: the task that called for this id was cancelled, or more ids than `max_ids` were pending.
        }
    }

    async fn call(&self) {
        let batch = {
            let mut waiting = self.waiting.lock();
            waiting.retain(|(_, answer)| !answer.is_closed());
            let count = waiting.len().min(self.max_ids);
            waiting.drain(..count).collect::<Vec<_>>()
        };
        let mut ids: Vec<String> = batch.iter().map(|(id, _)| id.clone()).collect();
        ids.sort();
        ids.dedup();
        if ids.is_empty() {
            return;
        }
        let answers = (self.call)(self.cloud.as_ref(), &ids).await;
        for (id, sender) in batch {
            if let Some(answer) = answers.get(&id) {
                // A cancelled request needs no result.
                let _ = sender.send(answer.clone());
            }
        }
    }
}
