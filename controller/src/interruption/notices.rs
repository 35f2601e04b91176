//! Notices that wait for their claim's next look.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::Notice;

/// Notices by the claim's name.
#[derive(Debug, Default)]
pub struct Notices(Mutex<BTreeMap<String, Pending>>);

#[derive(Debug)]
struct Pending {
    notice: Notice,
    waiting: Vec<oneshot::Sender<()>>,
}

impl Notices {
    /// Lays a notice beside a claim; of several the one with the earliest deadline counts. The answer comes once the claim is
    /// on its way out, or gone.
    pub fn post(&self, claim: &str, notice: Notice) -> oneshot::Receiver<()> {
        let (done, answer) = oneshot::channel();
        let mut all = self.all();
        let pending =
            all.entry(claim.to_owned()).or_insert_with(|| Pending { notice: notice.clone(), waiting: Vec::new() });
        if notice.deadline.is_some_and(|new| pending.notice.deadline.is_none_or(|old| new < old)) {
            pending.notice = notice;
        }
        pending.waiting.push(done);
        answer
    }

    /// What is said of a claim.
    #[must_use]
    pub fn of(&self, claim: &str) -> Option<Notice> {
        self.all().get(claim).map(|pending| pending.notice.clone())
    }

    /// The claim is on its way out, or gone.
    pub fn settle(&self, claim: &str) {
        let settled = self.all().remove(claim);
        for waiting in settled.into_iter().flat_map(|pending| pending.waiting) {
            // Who has stopped waiting hears of it in another way: the message comes again and finds nothing to do.
            let _ = waiting.send(());
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Pending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Notice, Notices};
    use crate::fixture::at;
    use crate::interruption::Kind;

    #[test]
    fn all_who_said_it_hear_when_it_is_done() {
        let notices = Notices::default();
        let soon = Notice { kind: Kind::SpotInterrupted, deadline: Some(at(10)) };
        let mut answers = [
            notices.post("a", Notice { kind: Kind::ScheduledChange, deadline: None }),
            notices.post("a", soon.clone()),
            notices.post("a", Notice { kind: Kind::SpotInterrupted, deadline: Some(at(20)) }),
        ];
        assert_eq!(notices.of("a"), Some(soon), "the earliest deadline counts");
        assert_eq!(notices.of("b"), None);
        assert!(answers.iter_mut().all(|answer| answer.try_recv().is_err()));
        notices.settle("a");
        assert!(answers.iter_mut().all(|answer| answer.try_recv().is_ok()));
        assert_eq!(notices.of("a"), None);
    }
}
