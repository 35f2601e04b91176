//! Nominations of recent plans: the pods that a node is expected to receive, so that no other launch and no early removal
//! intervenes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// Karpenter's minimum lifetime of a nomination.
const LEAST: Duration = Duration::from_secs(10);

/// Nominations, shared by provisioning and the reconcilers.
pub type SharedNominations = Arc<Mutex<Nominations>>;

/// Nominated nodes by pod.
#[derive(Debug, Default)]
pub struct Nominations {
    pods: BTreeMap<String, Nomination>,
    /// Pods by node.
    nodes: BTreeMap<String, BTreeSet<String>>,
    /// Number of order numbers that were assigned.
    numbers: u64,
}

#[derive(Debug)]
struct Nomination {
    node: String,
    until: Timestamp,
    /// Position in the order of all nominations.
    number: u64,
    /// True if the pod had no node at its nomination. A pod that must leave another node gets a successor, which is unknown
    /// yet.
    waited: bool,
}

/// Returns the lifetime of a nomination: twice the longest batch, and at least [`LEAST`].
#[must_use]
pub fn lifetime(batch_max: Duration) -> Duration {
    (batch_max * 2).max(LEAST)
}

impl Nominations {
    /// Nominates the pod with this UID to `node` (a Node or a NodeClaim). `waits` is true if the pod has no node yet.
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

    /// Moves the nominations of these pods to the end, in this order: a nomination comes after those that it depends on.
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

    /// Removes expired nominations. Also removes nominations with an expiration beyond the lifetime: the clock was set back
    /// since then.
    pub fn expire(&mut self, now: Timestamp, lifetime: Duration) {
        let latest = after(now, lifetime);
        self.forget(|_, promise| promise.until <= now || promise.until > latest);
    }

    /// Removes nominations of pods that were pending and no longer are. A node that has its pods can be evaluated by them, and
    /// a deleted pod never arrives.
    pub fn forget_arrived(&mut self, waits: impl Fn(&str) -> bool) {
        self.forget(|pod, promise| promise.waited && !waits(pod));
    }

    fn forget(&mut self, has_ended: impl Fn(&str, &Nomination) -> bool) {
        let ended: Vec<(String, Nomination)> =
            self.pods.extract_if(.., |pod, promise| has_ended(pod, promise)).collect();
        ended.iter().for_each(|(pod, promise)| self.leave(pod, &promise.node));
    }

    /// Returns the pods with their nominated nodes, in the order of the nominations.
    #[must_use]
    pub fn in_order(&self) -> Vec<(String, String)> {
        let mut all: Vec<(&String, &Nomination)> = self.pods.iter().collect();
        all.sort_by_key(|(_, promise)| promise.number);
        all.into_iter().map(|(pod, promise)| (pod.clone(), promise.node.clone())).collect()
    }

    /// Reports whether the pod with this UID has a nomination.
    #[must_use]
    pub fn holds(&self, pod: &str) -> bool {
        self.pods.contains_key(pod)
    }

    /// Returns the UIDs of the pods nominated to a node, by either of its names.
    #[must_use]
    pub fn pods_on(&self, names: [&str; 2]) -> Vec<String> {
        names.iter().filter_map(|name| self.nodes.get(*name)).flatten().cloned().collect()
    }

    /// Returns the time until which each node has a nomination.
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

/// Returns the time `span` after `now`, or the maximum time if that is out of range.
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
    fn by_node_contains_a_node_until_its_last_nomination_expires() {
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
    fn forget_arrived_removes_pods_that_are_no_longer_pending() {
        let mut nominations = Nominations::default();
        for (pod, waits) in [("arrived", true), ("waiting", true), ("moved", false)] {
            nominations.promise(pod, waits, "node", Timestamp::MAX);
        }
        nominations.forget_arrived(|pod| pod == "waiting");
        assert_eq!(["arrived", "waiting", "moved"].map(|pod| nominations.holds(pod)), [false, true, true]);
        assert_eq!(nominations.pods_on(["node", "claim"]), ["moved", "waiting"]);
    }

    #[test]
    fn expire_removes_nominations_when_the_clock_is_set_back() {
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
    fn pods_on_returns_pods_by_both_names_of_a_node() {
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
    fn arrange_orders_nominations_as_in_the_plan() {
        let mut nominations = Nominations::default();
        for pod in ["a", "b", "c", "d"] {
            nominations.promise(pod, true, "node", Timestamp::MAX);
        }
        nominations.arrange(["c", "unknown", "a"].into_iter());
        let pods: Vec<String> = nominations.in_order().into_iter().map(|(pod, _)| pod).collect();
        assert_eq!(pods, ["b", "d", "c", "a"]);
    }

    #[test]
    fn lifetime_is_two_batches_and_at_least_ten_seconds() {
        assert_eq!(lifetime(Duration::from_secs(10)), Duration::from_secs(20));
        assert_eq!(lifetime(Duration::from_millis(200)), Duration::from_secs(10));
    }
}
