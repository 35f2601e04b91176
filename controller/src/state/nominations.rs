//! Promises of recent plans: which pods a node waits for, so that neither another launch nor an early removal
//! comes between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// Karpenter's least time that a promise holds.
const LEAST: Duration = Duration::from_secs(10);

/// Nominations that provisioning and reconcilers share.
pub type SharedNominations = Arc<Mutex<Nominations>>;

/// Nodes by the pods that they wait for.
#[derive(Debug, Default)]
pub struct Nominations {
    pods: BTreeMap<String, Nomination>,
    /// The same by node.
    nodes: BTreeMap<String, BTreeSet<String>>,
    /// How many numbers were given out.
    numbers: u64,
}

#[derive(Debug)]
struct Nomination {
    node: String,
    until: Timestamp,
    /// Its place among all promises.
    number: u64,
    /// Whether the pod had no node when it was given. One that has to leave another has a successor, which nobody knows yet.
    waited: bool,
}

/// How long a promise holds: twice the longest batch, and at least [`LEAST`].
#[must_use]
pub fn lifetime(batch_max: Duration) -> Duration {
    (batch_max * 2).max(LEAST)
}

impl Nominations {
    /// Promises a place on `node` (a Node or a NodeClaim) to the pod with this UID; `waits` tells whether it has no node yet.
    pub fn promise(&mut self, pod: &str, waits: bool, node: &str, until: Timestamp) {
        let number = self.number();
        let promise = Nomination { node: node.to_owned(), until, number, waited: waits };
        let before = self.pods.insert(pod.to_owned(), promise);
        before.iter().for_each(|before| self.leave(pod, &before.node));
        self.nodes.entry(node.to_owned()).or_default().insert(pod.to_owned());
    }

    fn leave(&mut self, pod: &str, node: &str) {
        let Some(pods) = self.nodes.get_mut(node) else { return };
        pods.remove(pod);
        if pods.is_empty() {
            self.nodes.remove(node);
        }
    }

    /// Brings the promises to these pods into this order, behind all others: what one rests on comes before it.
    pub fn arrange<'p>(&mut self, pods: impl Iterator<Item = &'p str>) {
        for pod in pods {
            let number = self.number();
            if let Some(promise) = self.pods.get_mut(pod) {
                promise.number = number;
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Forgets what has run out, and what would hold for longer than any promise does: since it was given the clock was set back.
    pub fn expire(&mut self, now: Timestamp, lifetime: Duration) {
        let latest = after(now, lifetime);
        self.forget(|_, promise| promise.until <= now || promise.until > latest);
    }

    /// Forgets promises to pods that waited and do not any more: a node that has its pods may be evaluated by what runs on it, and nobody
    /// comes for a pod that is gone.
    pub fn forget_arrived(&mut self, waits: impl Fn(&str) -> bool) {
        self.forget(|pod, promise| promise.waited && !waits(pod));
    }

    fn forget(&mut self, has_ended: impl Fn(&str, &Nomination) -> bool) {
        let ended: Vec<(String, Nomination)> =
            self.pods.extract_if(.., |pod, promise| has_ended(pod, promise)).collect();
        ended.iter().for_each(|(pod, promise)| self.leave(pod, &promise.node));
    }

    /// Pods with the node that each was promised, in the order of the promises.
    #[must_use]
    pub fn in_order(&self) -> Vec<(String, String)> {
        let mut all: Vec<(&String, &Nomination)> = self.pods.iter().collect();
        all.sort_by_key(|(_, promise)| promise.number);
        all.into_iter().map(|(pod, promise)| (pod.clone(), promise.node.clone())).collect()
    }

    /// Whether the pod with this UID was promised a place.
    #[must_use]
    pub fn holds(&self, pod: &str) -> bool {
        self.pods.contains_key(pod)
    }

    /// UIDs of the pods that wait for a machine, by either of its names.
    #[must_use]
    pub fn pods_on(&self, names: [&str; 2]) -> Vec<String> {
        names.iter().filter_map(|name| self.nodes.get(*name)).flatten().cloned().collect()
    }

    /// Until when each node is promised to someone.
    #[must_use]
    pub fn by_node(&self) -> BTreeMap<String, Timestamp> {
        let mut nodes: BTreeMap<String, Timestamp> = BTreeMap::new();
        for promise in self.pods.values() {
            let until = nodes.entry(promise.node.clone()).or_insert(promise.until);
            *until = (*until).max(promise.until);
        }
        nodes
    }
}

/// A moment `span` after `now`; the end of time if that is too far.
#[must_use]
pub fn after(now: Timestamp, span: Duration) -> Timestamp {
    let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
    now.checked_add(span).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Duration, Nominations, after, lifetime};
    use jiff::Timestamp;

    #[test]
    fn a_node_is_protected_until_the_last_promise_runs_out() {
        let now = Timestamp::UNIX_EPOCH;
        let at = |seconds| after(now, Duration::from_secs(seconds));
        let mut nominations = Nominations::default();
        nominations.promise("a", true, "node", at(20));
        nominations.promise("b", true, "node", at(30));
        nominations.expire(at(25), Duration::from_secs(20));
        assert_eq!(["a", "b"].map(|pod| nominations.holds(pod)), [false, true]);
        assert_eq!(nominations.by_node().get("node"), Some(&at(30)));
        assert_eq!(nominations.in_order(), [("b".to_owned(), "node".to_owned())]);
        nominations.expire(at(30), Duration::from_secs(20));
        assert!(nominations.by_node().is_empty());
    }

    #[test]
    fn a_promise_ends_when_its_pod_does_not_wait_any_more_unless_it_never_did() {
        let mut nominations = Nominations::default();
        for (pod, waits) in [("arrived", true), ("waiting", true), ("moved", false)] {
            nominations.promise(pod, waits, "node", Timestamp::MAX);
        }
        nominations.forget_arrived(|pod| pod == "waiting");
        assert_eq!(["arrived", "waiting", "moved"].map(|pod| nominations.holds(pod)), [false, true, true]);
        assert_eq!(nominations.pods_on(["node", "claim"]), ["moved", "waiting"]);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_make_a_promise_last() {
        let hour = Duration::from_secs(3600);
        let (now, lifetime) = (after(Timestamp::UNIX_EPOCH, hour), Duration::from_secs(20));
        let mut nominations = Nominations::default();
        nominations.promise("a", true, "node", after(now, lifetime));
        nominations.expire(now, lifetime);
        assert!(nominations.holds("a"));
        nominations.expire(Timestamp::UNIX_EPOCH, lifetime);
        assert!(!nominations.holds("a"));
    }

    #[test]
    fn pods_wait_for_a_machine_under_both_of_its_names() {
        let mut nominations = Nominations::default();
        for (pod, machine) in [("a", "claim"), ("b", "node"), ("c", "other")] {
            nominations.promise(pod, true, machine, Timestamp::MAX);
        }
        assert_eq!(nominations.pods_on(["claim", "node"]), ["a", "b"]);
        nominations.promise("a", true, "other", Timestamp::UNIX_EPOCH);
        assert_eq!(nominations.pods_on(["claim", "other"]), ["a", "c"]);
        nominations.expire(Timestamp::UNIX_EPOCH, Duration::MAX);
        assert_eq!(nominations.pods_on(["claim", "other"]), ["c"]);
    }

    #[test]
    fn promises_stand_in_the_order_of_the_plan_that_made_them() {
        let mut nominations = Nominations::default();
        for pod in ["a", "b", "c", "d"] {
            nominations.promise(pod, true, "node", Timestamp::MAX);
        }
        nominations.arrange(["c", "unknown", "a"].into_iter());
        let pods: Vec<String> = nominations.in_order().into_iter().map(|(pod, _)| pod).collect();
        assert_eq!(pods, ["b", "d", "c", "a"]);
    }

    #[test]
    fn a_promise_holds_for_two_batches() {
        assert_eq!(lifetime(Duration::from_secs(10)), Duration::from_secs(20));
        assert_eq!(lifetime(Duration::from_millis(200)), Duration::from_secs(10));
    }
}
