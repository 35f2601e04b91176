//! Pods on a machine, as far as taking the machine away concerns them.

use std::sync::Arc;

use api::objects::{Pod, PodDisruptionBudget};
use jiff::Timestamp;
use planner::BoundPod;

use crate::records::{Record, Records, workload};
use crate::rescheduling::{full_name, is_reschedulable, uid};
use crate::{Problem, millis};

/// `surging` says whether the node's pool asks for copies of single pods before they go.
pub(super) fn bound(
    records: &Records,
    record: &Record,
    surging: bool,
    now: Timestamp,
    problems: &mut Vec<Problem>,
) -> BoundPod {
    let pod = &record.pod;
    let surges = pod.surges(surging, || records.is_alone(record));
    let own = records.budgets(record);
    problems.extend(pod.requested().err().map(|error| Problem::Requested { pod: full_name(pod), error }));
    BoundPod {
        uid: uid(pod),
        name: full_name(pod),
        reschedulable: is_reschedulable(pod),
        do_not_disrupt: holds_its_node(pod, now),
        protected_until: pod.protected_until(now).map(millis),
        held_by: held_by(&own, pod, surges, now),
        cost: BoundPod::cost_of(pod.deletion_cost(), pod.spec.priority.unwrap_or_default()),
        workload: pod.rests_until().ok().flatten().map(|_| workload(pod).into()),
        shape: Arc::clone(&record.shape),
        claims: record.claims.clone(),
        mix: record.mix.clone(),
        ending: pod.is_terminating(),
        used: None,
        sizing: None,
        surges,
    }
}

/// A pod that no eviction will ever take.
pub(super) fn never_evicted(records: &Records, record: &Record, surging: bool, now: Timestamp) -> Option<Problem> {
    let pod = &record.pod;
    let own = records.budgets(record);
    let surges = !own.is_empty() && pod.surges(surging, || records.is_alone(record));
    let why = pod.unevictable(&own, surges, now)?;
    Some(Problem::NeverEvicted { pod: full_name(pod), others: 0, why })
}

/// Whether the pod forbids to take its node away; one that ends anyway forbids nothing.
fn holds_its_node(pod: &Pod, now: Timestamp) -> bool {
    !pod.is_terminating() && pod.is_do_not_disrupt(now)
}

/// The budgets that would refuse the pod's eviction, as the API server evaluates: more than one is always too many, and what has
/// never run may go. A pod of which there is a copy first goes when that is ready.
fn held_by(own: &[&PodDisruptionBudget], pod: &Pod, surges: bool, now: Timestamp) -> Vec<String> {
    let passes = match own {
        [] => true,
        [only] => only.lets_go(pod) || surges && only.lets_go_beside_a_copy(),
        _ => false,
    };
    if passes || pod.has_never_run() || !pod.is_evictable(now) {
        return Vec::new();
    }
    own.iter().map(|budget| budget.full_name()).collect()
}
