//! Stopped watches: no command begins while the view of a kind is stale, and work that needs the kind gets the time of the stop
//! in addition.

use simulator::api_server::{CLAIMS, NODES, PODS};

use super::Audit;
use crate::clock::{MINUTE, Moment};
use crate::cluster_state::ClusterState;

/// Age from which the view of a kind is stale.
const STALE: i64 = 3 * MINUTE;
/// Longest time from the decision to begin a command to its last write.
const WRITES: i64 = MINUTE;
/// Time after the end of a stop until the view is complete and the controller has used it.
const RECOVERS: i64 = MINUTE;

/// Time without a view of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blind {
    from: Moment,
    until: Moment,
    /// True if launches need the kind.
    launches: bool,
}

impl Audit {
    /// Notes that the watch of a kind stops.
    pub fn blinded(&mut self, plural: &str, from: Moment, until: Moment) {
        let launches = [PODS, NODES, CLAIMS].contains(&plural);
        self.blind.push(Blind { from, until: until + RECOVERS, launches });
    }

    /// Reports whether the leader's view of a kind is stale.
    #[must_use]
    pub fn is_blind(&self, now: Moment) -> bool {
        self.blind_since.is_some_and(|since| now - since > STALE)
    }

    /// Checks that no command begins while the leader's view of a kind is stale.
    pub(super) fn sees(&mut self, cluster_state: &ClusterState, claims: &[String]) {
        let now = cluster_state.now;
        let age = self.blind_since.map_or(0, |since| now - since);
        self.expect(age <= STALE + WRITES, now, || {
            format!("a command for {claims:?} begins, and a view is {} min old", age / MINUTE)
        });
    }

    /// Returns how much of the time since a moment passed without a view of a kind. Overlaps of stops count once.
    pub(super) fn blind_time(&self, since: Moment, now: Moment, only_launches: bool) -> Moment {
        let mut end = since;
        let mut sum = 0;
        for blind in self.blind.iter().filter(|blind| blind.launches || !only_launches) {
            let (from, until) = (blind.from.max(end), blind.until.min(now));
            if from < until {
                sum += until - from;
                end = until;
            }
        }
        sum
    }
}
