//! Coalesces requests for single ids into calls for many ids.
//!
//! The first request starts its call at once. Requests that arrive while a call is under way are batched for the next call.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::calls::Cloud;

/// Future of one call: the result for each id of the call.
pub(crate) type Answers<'a, A> = Pin<Box<dyn Future<Output = BTreeMap<String, A>> + Send + 'a>>;

/// Batches requests for ids: each call carries as many ids as are pending, up to a maximum.
pub(crate) struct CallBatcher<A> {
    cloud: Arc<dyn Cloud>,
    call: for<'a> fn(&'a dyn Cloud, &'a [String]) -> Answers<'a, A>,
    most: usize,
    waiting: Mutex<Vec<(String, oneshot::Sender<A>)>>,
    turn: tokio::sync::Mutex<()>,
}

impl<A: Clone + Send> CallBatcher<A> {
    /// Creates a batcher without pending requests. `call` takes at most `most` ids and returns a result for each of them.
    pub(crate) fn new(
        cloud: Arc<dyn Cloud>,
        most: usize,
        call: for<'a> fn(&'a dyn Cloud, &'a [String]) -> Answers<'a, A>,
    ) -> Self {
        Self { cloud, call, most, waiting: Mutex::default(), turn: tokio::sync::Mutex::new(()) }
    }

    /// Returns the result for one id. The same call may carry the ids of other requests.
    pub(crate) async fn ask(&self, id: &str) -> A {
        loop {
            let (answer, mut answered) = oneshot::channel();
            self.waiting.lock().push((id.to_owned(), answer));
            // Requests of the same moment join one batch.
            tokio::task::yield_now().await;
            // The task that holds the lock calls for all pending ids, which may already include this one.
            let _turn = self.turn.lock().await;
            if let Ok(answer) = answered.try_recv() {
                return answer;
            }
            self.call().await;
            if let Ok(answer) = answered.try_recv() {
                return answer;
            }
            // No result yet: the task that called for this id was cancelled, or more ids than `most` were pending.
        }
    }

    async fn call(&self) {
        let batch = {
            let mut waiting = self.waiting.lock();
            waiting.retain(|(_, answer)| !answer.is_closed());
            let count = waiting.len().min(self.most);
            waiting.drain(..count).collect::<Vec<_>>()
        };
        let mut ids: Vec<String> = batch.iter().map(|(id, _)| id.clone()).collect();
        ids.sort();
        ids.dedup();
        if ids.is_empty() {
            return;
        }
        let answers = (self.call)(self.cloud.as_ref(), &ids).await;
        for (id, told) in batch {
            if let Some(answer) = answers.get(&id) {
                // A cancelled request needs no result.
                let _ = told.send(answer.clone());
            }
        }
    }
}
