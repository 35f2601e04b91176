//! Obstacles of bootstrap, and the decision whether to report them by an event. A failure that only a person can fix is
//! reported at once. A wait is reported once it takes longer than a normal boot.

use std::collections::BTreeSet;
use std::time::Duration;

use drain::Millis;

use crate::bootstrap::state::BootstrapState;
use crate::cluster::NodeEvent;
use crate::notices::moment;
use crate::run::report::BOOTSTRAP_KEY;

/// Normal duration of a wait for metadata, network and systemd units at a boot.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of events of one boot. A reason whose text changes with each attempt must not flood the cluster.
const MOST: usize = 16;

/// Current obstacle, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StartupObstacle {
    /// Time since which bootstrap has been blocked, for any reason.
    since: Option<Millis>,
    reason: Option<Reason>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    Waiting(String),
    Failed(String),
}

impl StartupObstacle {
    /// Records the state of bootstrap at `now`.
    pub(super) fn observe(&mut self, state: Option<&BootstrapState>, now: Millis) {
        let (reason, since) = match state {
            Some(BootstrapState::Waiting { reason, since }) => (Reason::Waiting(reason.clone()), *since),
            Some(BootstrapState::Failed { reason, since }) => (Reason::Failed(reason.clone()), *since),
            Some(BootstrapState::Done { .. }) | None => {
                *self = Self::default();
                return;
            }
        };
        self.reason = Some(reason);
        self.since.get_or_insert(moment(since).min(now));
    }

    /// Returns the time at which a wait becomes an event, if nothing changes until then.
    pub(super) fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        let waiting = matches!(self.reason, Some(Reason::Waiting(_)));
        self.since.filter(|_| waiting).map(|since| since + PATIENCE).filter(|at| *at > now)
    }

    /// Returns the event for `now`, unless the maximum number of events is reached.
    pub(super) fn event(&self, published: &BTreeSet<String>, now: Millis) -> Option<NodeEvent> {
        if published.iter().filter(|key| key.starts_with(BOOTSTRAP_KEY)).count() >= MOST {
            return None;
        }
        match self.reason.as_ref()? {
            Reason::Failed(why) => Some(NodeEvent::bootstrap_failed(why)),
            Reason::Waiting(why) => {
                self.since.filter(|since| now >= *since + PATIENCE).map(|_| NodeEvent::bootstrap_waiting(why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn waiting(why: &str, since: i64) -> BootstrapState {
        BootstrapState::Waiting {
            reason: why.into(),
            since: Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(since),
        }
    }

    fn at(seconds: u64) -> Millis {
        Millis(seconds * 1000)
    }

    #[test]
    fn event_reports_waiting_after_patience_of_one_boot() {
        let mut obstacle = StartupObstacle::default();
        let none = BTreeSet::new();
        obstacle.observe(Some(&waiting("no metadata", 100)), at(105));
        assert_eq!(obstacle.event(&none, at(129)), None);
        assert_eq!(obstacle.poll_timeout(at(129)), Some(at(130)));
        obstacle.observe(Some(&waiting("no user data", 129)), at(129));
        let event = obstacle.event(&none, at(130)).map(|it| (it.reason, it.message));
        let message = "Bootstrap is waiting: no user data".to_owned();
        assert_eq!(event, Some(("BootstrapWaiting", message)));
        let done = BootstrapState::Done { node_name: "n".into(), since: Timestamp::UNIX_EPOCH };
        obstacle.observe(Some(&done), at(140));
        assert_eq!((obstacle.event(&none, at(200)), obstacle.poll_timeout(at(141))), (None, None));
        obstacle.observe(Some(&waiting("no metadata", 300)), at(300));
        assert_eq!(obstacle.event(&none, at(301)), None, "it is another boot's patience");
    }

    #[test]
    fn event_is_limited_when_the_reason_keeps_changing() {
        let mut obstacle = StartupObstacle::default();
        let mut published = BTreeSet::from(["drained-x".to_owned()]);
        let mut events = 0;
        for attempt in 0..100 {
            let since = Timestamp::UNIX_EPOCH;
            obstacle
                .observe(Some(&BootstrapState::Failed { reason: format!("attempt {attempt}"), since }), at(attempt));
            let event = obstacle.event(&published, at(attempt));
            events += usize::from(event.is_some());
            published.extend(event.map(|it| it.key));
        }
        assert_eq!(events, MOST);
    }
}
