//! Demand of the workloads of a recording: slots, each with one pod at a time.
//!
//! A Deployment that lost a pod to an eviction creates another one. Both pods are one slot, and a replay may evict the pod of the slot at
//! other times, or never. A slot begins with a pod that replaces none, and ends with a pod that none replaces: the workload was scaled down,
//! or a Job was done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{Pod, PodStatus};
use jiff::{SignedDuration, Timestamp};

use crate::history::{History, RecordedPod};

/// Longest time from the end of a pod to the creation of its replacement.
const GAP: SignedDuration = SignedDuration::from_secs(30);
/// Shortest one: times of Kubernetes are whole seconds, and a copy may start before a pod ends.
const OVERLAP: SignedDuration = SignedDuration::from_secs(2);

/// Demand for one pod at a time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slot {
    /// The pod without its node and state.
    pub(crate) pod: Arc<Pod>,
    /// Time from which the workload wanted it.
    pub(crate) arrives: Timestamp,
    /// End of the demand.
    pub(crate) ends: SlotEnd,
    /// Node on which it ran in the first state, and since when it was ready.
    pub(crate) at_begin: Option<(String, Option<Timestamp>)>,
    /// True if its owner replaces the pod when it is evicted.
    pub(crate) is_replaced: bool,
}

/// End of the demand for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotEnd {
    /// After the end of the recording.
    Open,
    /// The owner wanted it no longer.
    At(Timestamp),
    /// The pod had done its work after it ran for this long.
    AfterRunning(SignedDuration),
}

/// Returns the slots of a recording in the order of their begin.
pub(crate) fn slots(history: &History) -> Vec<Slot> {
    let mut owners: BTreeMap<String, Vec<&RecordedPod>> = BTreeMap::new();
    for pod in &history.pods {
        owners.entry(owner(&pod.pod)).or_default().push(pod);
    }
    let mut slots: Vec<Slot> = owners.into_values().flat_map(|pods| of_owner(&pods, history.begin)).collect();
    slots.sort_by(|one, other| (one.arrives, &one.pod.metadata.uid).cmp(&(other.arrives, &other.pod.metadata.uid)));
    slots
}

/// Returns the identity of the owner that replaces a pod: of the pod itself if nothing does.
fn owner(pod: &Pod) -> String {
    let own = || pod.metadata.uid.clone().unwrap_or_default();
    pod.controller().map_or_else(own, |owner| format!("{}/{}/{}", pod.namespace(), owner.kind, owner.uid))
}

/// Returns the slots for the pods of one owner, which are in the order of their creation.
fn of_owner(pods: &[&RecordedPod], begin: Timestamp) -> Vec<Slot> {
    let mut slots: Vec<Slot> = Vec::new();
    // Slots whose pod has left, by the time.
    let mut vacant: BTreeSet<(Timestamp, usize)> = BTreeSet::new();
    for pod in pods {
        let window = (pod.created - GAP, 0)..=(pod.created + OVERLAP, usize::MAX);
        let free = vacant.range(window).next().copied();
        let slot = match free {
            Some(key) => {
                vacant.remove(&key);
                slots[key.1].ends = end_of(pod);
                key.1
            }
            None => {
                slots.push(Slot::new(pod, begin));
                slots.len() - 1
            }
        };
        if let Some(leaves) = pod.leaves.filter(|_| !pod.succeeded) {
            vacant.insert((leaves, slot));
        }
    }
    slots
}

fn end_of(pod: &RecordedPod) -> SlotEnd {
    let Some(leaves) = pod.leaves else { return SlotEnd::Open };
    let ran = pod.ready.or(pod.bound).filter(|_| pod.succeeded);
    ran.map_or(SlotEnd::At(leaves), |since| {
        SlotEnd::AfterRunning(leaves.duration_since(since).max(SignedDuration::ZERO))
    })
}

impl Slot {
    fn new(recorded: &RecordedPod, begin: Timestamp) -> Self {
        let mut pod = recorded.pod.as_ref().clone();
        pod.spec.node_name.clear();
        pod.status = PodStatus::default();
        pod.metadata.deletion_timestamp = None;
        let ran = recorded.bound.is_some_and(|bound| bound <= begin);
        let at_begin = ran.then(|| (recorded.node.clone(), recorded.ready.filter(|ready| *ready <= begin)));
        Self {
            is_replaced: pod.controller().is_some(),
            pod: Arc::new(pod),
            arrives: recorded.created,
            ends: end_of(recorded),
            at_begin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod(uid: &str, created: i64, leaves: Option<i64>) -> RecordedPod {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": uid, "uid": uid, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true}]},
            "spec": {"nodeName": "a", "containers": [{"name": "web"}]}, "status": {"phase": "Running"},
        }))
        .unwrap();
        RecordedPod {
            pod: Arc::new(pod),
            created: at(created),
            bound: Some(at(created + 1)),
            node: "a".to_owned(),
            ready: Some(at(created + 3)),
            leaves: leaves.map(at),
            gone: leaves.map(|leaves| at(leaves + 2)),
            succeeded: false,
            evicted: false,
        }
    }

    fn of(pods: Vec<RecordedPod>) -> Vec<(i64, SlotEnd)> {
        let history = History { begin: at(0), end: at(1000), pods, nodes: Vec::new(), changes: Vec::new() };
        slots(&history).into_iter().map(|slot| (slot.arrives.as_second(), slot.ends)).collect()
    }

    #[test]
    fn slots_join_a_pod_with_its_replacement() {
        let evicted = || pod("a", 0, Some(100));
        assert_eq!(of(vec![evicted(), pod("b", 101, None)]), [(0, SlotEnd::Open)]);
        assert_eq!(of(vec![evicted(), pod("b", 101, Some(200))]), [(0, SlotEnd::At(at(200)))]);
        let scaled = of(vec![evicted(), pod("b", 300, None)]);
        assert_eq!(scaled, [(0, SlotEnd::At(at(100))), (300, SlotEnd::Open)]);
        let both = of(vec![evicted(), pod("b", 50, None)]);
        assert_eq!(both, [(0, SlotEnd::At(at(100))), (50, SlotEnd::Open)], "a pod that still runs is not replaced");
    }

    #[test]
    fn slots_of_jobs_end_after_the_time_that_their_pod_ran() {
        let done = RecordedPod { succeeded: true, ..pod("a", 10, Some(73)) };
        let ran = SlotEnd::AfterRunning(SignedDuration::from_secs(60));
        assert_eq!(of(vec![done, pod("b", 74, None)]), [(10, ran), (74, SlotEnd::Open)]);
    }

    #[test]
    fn slots_know_where_their_pod_ran_at_the_begin() {
        let history = History {
            begin: at(10),
            end: at(20),
            pods: vec![pod("a", 0, None), pod("b", 15, None)],
            nodes: Vec::new(),
            changes: Vec::new(),
        };
        let found: Vec<_> = slots(&history).into_iter().map(|slot| slot.at_begin).collect();
        assert_eq!(found, [Some(("a".to_owned(), Some(at(3)))), None]);
    }
}
