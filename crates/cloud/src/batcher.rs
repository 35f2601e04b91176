//! Many who ask, one call: while one call is under way or waits for its turn, those who come meanwhile gather for the next
//! (aws 4.6). The first goes out at once, so nobody waits for company.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::calls::Cloud;

/// What a call says of each id that it was asked about.
pub(crate) type Answers<'a, A> = Pin<Box<dyn Future<Output = BTreeMap<String, A>> + Send + 'a>>;

/// Asks about ids, as many as there are to ask about in one call.
pub(crate) struct CallBatcher<A> {
    cloud: Arc<dyn Cloud>,
    call: for<'a> fn(&'a dyn Cloud, &'a [String]) -> Answers<'a, A>,
    most: usize,
    waiting: Mutex<Vec<(String, oneshot::Sender<A>)>>,
    turn: tokio::sync::Mutex<()>,
}

impl<A: Clone + Send> CallBatcher<A> {
    /// Nobody asks yet. A call takes `most` ids and answers for each of them.
    pub(crate) fn new(
        cloud: Arc<dyn Cloud>,
        most: usize,
        call: for<'a> fn(&'a dyn Cloud, &'a [String]) -> Answers<'a, A>,
    ) -> Self {
        Self { cloud, call, most, waiting: Mutex::default(), turn: tokio::sync::Mutex::new(()) }
    }

    /// The answer for one id, from a call that perhaps asks about others as well.
    pub(crate) async fn ask(&self, id: &str) -> A {
        loop {
            let (answer, mut answered) = oneshot::channel();
            self.waiting.lock().push((id.to_owned(), answer));
            // Those who come at the same moment come together.
            tokio::task::yield_now().await;
            // Whoever has the turn calls for all that wait, which may already include us.
            let _turn = self.turn.lock().await;
            if let Ok(answer) = answered.try_recv() {
                return answer;
            }
            self.call().await;
            if let Ok(answer) = answered.try_recv() {
                return answer;
            }
            // The one who called for us was given up in the middle, or there were too many for one call.
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
                // Whoever does not wait any more needs no answer.
                let _ = told.send(answer.clone());
            }
        }
    }
}
