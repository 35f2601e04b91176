//! Many ends in one call: while one TerminateInstances is under way or waits for its turn, those that come meanwhile
//! gather for the next (aws 4.6). The first goes out at once, so nobody waits for company.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::calls::Cloud;
use crate::error::{CloudError, Kind};

/// Instances that one call ends.
const MOST: usize = 500;

type Answer = Result<(), CloudError>;

/// Ends instances, as many as there are to end in one call.
pub struct Terminations {
    cloud: Arc<dyn Cloud>,
    waiting: Mutex<Vec<(String, oneshot::Sender<Answer>)>>,
    turn: tokio::sync::Mutex<()>,
}

impl Terminations {
    /// Nothing to end yet.
    #[must_use]
    pub fn new(cloud: Arc<dyn Cloud>) -> Self {
        Self { cloud, waiting: Mutex::default(), turn: tokio::sync::Mutex::new(()) }
    }

    /// Ends one instance, perhaps together with others.
    ///
    /// # Errors
    /// When EC2 does not end this one, or does not say; of kind `NotFound` when it does not know it.
    pub async fn end(&self, id: &str) -> Answer {
        loop {
            let (answer, mut answered) = oneshot::channel();
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push((id.to_owned(), answer));
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
        let mut batch = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.retain(|(_, answer)| !answer.is_closed());
            let count = waiting.len().min(MOST);
            waiting.drain(..count).collect::<Vec<_>>()
        };
        let mut ids: Vec<String> = batch.iter().map(|(id, _)| id.clone()).collect();
        ids.sort();
        ids.dedup();
        if ids.is_empty() {
            return;
        }
        let answer = self.cloud.terminate_instances(&ids).await;
        let one_is_unknown = matches!(&answer, Err(error) if error.kind == Kind::NotFound) && ids.len() > 1;
        for (id, told) in batch.drain(..) {
            // One that EC2 does not know fails the whole call; the others must end nevertheless.
            let answer = if one_is_unknown { self.cloud.terminate_instances(&[id]).await } else { answer.clone() };
            // Whoever does not wait any more needs no answer.
            let _ = told.send(answer);
        }
    }
}
