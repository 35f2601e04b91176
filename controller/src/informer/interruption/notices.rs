//! Notices that wait for their claim's next look, and what EC2's checks say beside what others say.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::Notice;

/// What EC2 said of its instances' checks this long ago says nothing any more: three answers have failed to come.
const STALE: SignedDuration = SignedDuration::from_mins(3);

/// Notices by the claim's name, and instances that fail EC2's checks.
#[derive(Debug, Default)]
pub struct Notices {
    pending: Mutex<BTreeMap<String, Pending>>,
    impaired: Mutex<Option<Impaired>>,
}

/// Since when instances fail checks, by id, and when EC2 said so.
#[derive(Debug)]
struct Impaired {
    since: BTreeMap<String, Timestamp>,
    told: Timestamp,
}

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
    pub fn latest(&self, claim: &str) -> Option<Notice> {
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

    /// EC2 says at `told` since when instances fail checks, by id; of all others it says that they do not.
    pub fn witness(&self, since: BTreeMap<String, Timestamp>, told: Timestamp) {
        *self.checks() = Some(Impaired { since, told });
    }

    /// Since when instances fail EC2's checks, by id; none while nobody has asked lately. What was told after `now`, by a clock
    /// that was set back since, does not count either.
    #[must_use]
    pub fn impaired(&self, now: Timestamp) -> BTreeMap<String, Timestamp> {
        let recent = |found: &&Impaired| found.told <= now && now.duration_since(found.told) < STALE;
        self.checks().as_ref().filter(recent).map(|found| found.since.clone()).unwrap_or_default()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Pending>> {
        self.pending.lock()
    }

    fn checks(&self) -> MutexGuard<'_, Option<Impaired>> {
        self.impaired.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::{Notice, Notices};
    use crate::fixture::at;
    use crate::informer::interruption::NoticeKind;

    #[test]
    fn the_last_answer_about_checks_counts_for_three_minutes() {
        let notices = Notices::default();
        assert!(notices.impaired(at(0)).is_empty());
        let sick: std::collections::BTreeMap<_, _> = [("i-1".to_owned(), at(5))].into();
        notices.witness(sick.clone(), at(60));
        for (now, counts) in [(60, true), (239, true), (240, false), (59, false)] {
            assert_eq!(notices.impaired(at(now)) == sick, counts, "{now}");
        }
        notices.witness(std::collections::BTreeMap::new(), at(120));
        assert!(notices.impaired(at(121)).is_empty(), "it is well again");
    }

    #[test]
    fn all_who_said_it_hear_when_it_is_done() {
        let notices = Notices::default();
        let soon = Notice { kind: NoticeKind::SpotInterrupted, deadline: Some(at(10)) };
        let mut answers = [
            notices.post("a", Notice { kind: NoticeKind::ScheduledChange, deadline: None }),
            notices.post("a", soon.clone()),
            notices.post("a", Notice { kind: NoticeKind::SpotInterrupted, deadline: Some(at(20)) }),
        ];
        assert_eq!(notices.latest("a"), Some(soon), "the earliest deadline counts");
        assert_eq!(notices.latest("b"), None);
        assert!(answers.iter_mut().all(|answer| answer.try_recv().is_err()));
        notices.settle("a");
        assert!(answers.iter_mut().all(|answer| answer.try_recv().is_ok()));
        assert_eq!(notices.latest("a"), None);
    }
}
