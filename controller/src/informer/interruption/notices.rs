//! Notices that wait for the reconcile of their NodeClaim, and results of EC2's status checks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::Notice;
use super::notice_limit::NoticeLimit;

/// Age from which results of status checks are ignored: three requests have failed.
const STALE: SignedDuration = SignedDuration::from_mins(3);

/// Notices by name of the NodeClaim, and instances that fail EC2's status checks.
#[derive(Debug, Default)]
pub struct Notices {
    pending: Mutex<BTreeMap<String, Pending>>,
    impaired: Mutex<Option<Impaired>>,
    /// Limit for removals by unconfirmed notices.
    pub limit: NoticeLimit,
    /// True while AWS refuses the request for status checks.
    are_status_checks_disabled: AtomicBool,
}

/// Start of the failure by instance id, and time of the result.
#[derive(Debug)]
struct Impaired {
    since: BTreeMap<String, Timestamp>,
    checked_at: Timestamp,
}

#[derive(Debug)]
struct Pending {
    notice: Notice,
    waiting: Vec<oneshot::Sender<()>>,
}

impl Notices {
    /// Stores a notice for a NodeClaim. Of several notices, the one with the earliest deadline applies. The receiver completes
    /// once the NodeClaim is deleting or gone.
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

    /// Returns the notice of a NodeClaim.
    #[must_use]
    pub fn latest(&self, claim: &str) -> Option<Notice> {
        self.all().get(claim).map(|pending| pending.notice.clone())
    }

    /// Completes the notices of a NodeClaim that is deleting or gone.
    pub fn settle(&self, claim: &str) {
        let settled = self.all().remove(claim);
        for waiting in settled.into_iter().flat_map(|pending| pending.waiting) {
            // A message whose receiver stopped waiting is received again and then requires nothing.
            let _ = waiting.send(());
        }
    }

    /// Stores the result of status checks at `checked_at`: the start of the failure by instance id. All other instances pass.
    pub fn record_status_checks(&self, since: BTreeMap<String, Timestamp>, checked_at: Timestamp) {
        *self.checks() = Some(Impaired { since, checked_at });
    }

    /// Drops the notices of failed status checks of all NodeClaims but these: their instances pass again.
    pub fn withdraw_status_checks(&self, failing: &BTreeSet<&str>) {
        self.all().retain(|claim, pending| pending.notice.kind.is_announced() || failing.contains(claim.as_str()));
    }

    /// Records whether AWS allows the request for status checks. Returns true if that has changed.
    pub fn enable_status_checks(&self, enabled: bool) -> bool {
        self.are_status_checks_disabled.swap(!enabled, Ordering::Relaxed) == enabled
    }

    /// Reports whether status checks are requested.
    #[must_use]
    pub fn are_status_checks_enabled(&self) -> bool {
        !self.are_status_checks_disabled.load(Ordering::Relaxed)
    }

    /// Returns the start of the failure by instance id; empty if the last result is stale. A result after `now`, from before
    /// the clock was set back, is ignored too.
    #[must_use]
    pub fn impaired(&self, now: Timestamp) -> BTreeMap<String, Timestamp> {
        let recent = |found: &&Impaired| found.checked_at <= now && now.duration_since(found.checked_at) < STALE;
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
    fn impaired_ignores_results_when_they_are_three_minutes_old() {
        let notices = Notices::default();
        assert!(notices.impaired(at(0)).is_empty());
        let impaired: std::collections::BTreeMap<_, _> = [("i-1".to_owned(), at(5))].into();
        notices.record_status_checks(impaired.clone(), at(60));
        for (now, counts) in [(60, true), (239, true), (240, false), (59, false)] {
            assert_eq!(notices.impaired(at(now)) == impaired, counts, "{now}");
        }
        notices.record_status_checks(std::collections::BTreeMap::new(), at(120));
        assert!(notices.impaired(at(121)).is_empty(), "it is well again");
    }

    #[test]
    fn withdraw_status_checks_keeps_failing_claims_and_announcements() {
        let notices = Notices::default();
        let post = |claim: &str, kind| drop(notices.post(claim, Notice { kind, deadline: None }));
        post("failing", NoticeKind::SystemStatus);
        post("passing", NoticeKind::InstanceStatus);
        post("announced", NoticeKind::EventStatus);
        notices.withdraw_status_checks(&["failing"].into());
        let left: Vec<_> = ["failing", "passing", "announced"].iter().map(|it| notices.latest(it).is_some()).collect();
        assert_eq!(left, [true, false, true]);
    }

    #[test]
    fn settle_completes_all_notices_of_a_nodeclaim() {
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
