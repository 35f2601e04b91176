//! Bound pods of a node, with the facts that matter for its disruption.

use std::sync::Arc;

use api::objects::{self, Pod, PodDisruptionBudget, PoolSurge, Unevictable};
use jiff::Timestamp;
use planner::BoundPod;

use crate::pods::records::{Record, Records};
use crate::pods::{full_name, is_reschedulable, uid, workload};
use crate::{Problem, millis};

/// Translates a bound pod. `surging` are the pods of the NodePool that get a copy before their eviction, and `None` if no pod can have
/// one.
pub(super) fn bound_pod(
    records: &Records,
    record: &Record,
    surging: Option<PoolSurge>,
    now: Timestamp,
    problems: &mut Vec<Problem>,
) -> BoundPod {
    let pod = &record.pod;
    let surges = surges(records, record, surging);
    let own = records.budgets(record);
    problems.extend(record.requested().err().map(|error| Problem::Requested { pod: full_name(pod), error }));
    let asks = surging.is_none() && objects::surges(pod, PoolSurge::Never, || false, || false);
    problems.extend(asks.then(|| Problem::SurgeNotPermitted { pod: full_name(pod), others: 0 }));
    BoundPod {
        uid: uid(pod),
        name: full_name(pod),
        reschedulable: is_reschedulable(pod),
        do_not_disrupt: blocks_disruption(pod, now),
        protected_until: pod.protected_until(now).map(millis),
        held_by: blocking_budgets(&own, pod, surges, now),
        cost: BoundPod::cost_of(pod.deletion_cost(), pod.spec.priority.unwrap_or_default()),
        works_since: pod.works_since().map(millis),
        workload: pod.rests_until().ok().flatten().map(|_| workload(pod).into()),
        shape: Arc::clone(&record.shape),
        claims: record.claims.clone(),
        mix: record.mix.clone(),
        ending: pod.is_terminating(),
        used: None,
        sizing: None,
        surges,
        holder: None,
    }
}

/// Reports whether a copy of the pod starts before its eviction.
fn surges(records: &Records, record: &Record, surging: Option<PoolSurge>) -> bool {
    let is_alone = || records.is_only_replica(record);
    surging.is_some_and(|pool| {
        objects::surges(&record.pod, pool, is_alone, || objects::blocks_without_copy(&records.budgets(record)))
    })
}

/// Returns a problem if the pod can never be evicted.
pub(super) fn never_evicted(
    records: &Records,
    record: &Record,
    surging: Option<PoolSurge>,
    now: Timestamp,
) -> Option<Problem> {
    let pod = &record.pod;
    let own = records.budgets(record);
    let surges = !own.is_empty() && surges(records, record, surging);
    let why = Unevictable::from_pod(pod, &own, surges, now)?;
    Some(Problem::NeverEvicted { pod: full_name(pod), others: 0, why })
}

/// Reports whether the pod blocks the disruption of its node. A terminating pod blocks nothing.
fn blocks_disruption(pod: &Pod, now: Timestamp) -> bool {
    !pod.is_terminating() && pod.is_do_not_disrupt(now)
}

/// Returns the PodDisruptionBudgets that block the pod's eviction, with the API server's rules.
///
/// Several matching budgets always block, and a pod that has never run can always be evicted. A pod with a surge copy can be
/// evicted when the copy is ready.
fn blocking_budgets(own: &[&PodDisruptionBudget], pod: &Pod, surges: bool, now: Timestamp) -> Vec<String> {
    let passes = match own {
        [] => true,
        [only] => only.allows_eviction(pod) || surges && only.allows_eviction_beside_copy(),
        _ => false,
    };
    if passes || pod.has_never_run() || !pod.is_evictable(now) {
        return Vec::new();
    }
    own.iter().map(|budget| budget.full_name()).collect()
}
