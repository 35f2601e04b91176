//! Pods on a machine, as far as taking the machine away concerns them.

use std::sync::Arc;

use api::objects::{Pod, PodDisruptionBudget};
use api::{annotation, duration};
use jiff::{SignedDuration, Timestamp};
use planner::BoundPod;

use crate::Problem;
use crate::records::{Record, Records, workload};
use crate::rescheduling::{full_name, is_reschedulable, uid};

/// Phase of a pod whose containers have never run.
const PENDING: &str = "Pending";

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
    let rests_until = pod.rests_until().unwrap_or_else(|error| {
        problems.push(Problem::Rest { pod: full_name(pod), error });
        None
    });
    problems.extend(pod.requested().err().map(|error| Problem::Requested { pod: full_name(pod), error }));
    let word = pod.annotation(annotation::RESIZE).filter(|word| *word != annotation::RESIZE_NEVER);
    problems.extend(word.map(|word| Problem::Resize { pod: full_name(pod), text: word.to_owned() }));
    let word = pod.misread_surge();
    problems.extend(word.map(|word| Problem::Surge { pod: full_name(pod), text: word.to_owned() }));
    BoundPod {
        uid: uid(pod),
        name: full_name(pod),
        reschedulable: is_reschedulable(pod),
        do_not_disrupt: holds_its_node(pod, now),
        held_by: held_by(&records.budgets(record), pod, surges, now),
        cost: BoundPod::cost_of(pod.deletion_cost(), pod.spec.priority.unwrap_or_default()),
        workload: rests_until.map(|_| workload(pod).into()),
        shape: Arc::clone(&record.shape),
        claims: record.claims.clone(),
        mix: record.mix.clone(),
        ending: pod.is_terminating(),
        used: None,
        sizing: None,
        surges,
    }
}

/// Whether the pod forbids to take its node away; one that ends anyway forbids nothing.
fn holds_its_node(pod: &Pod, now: Timestamp) -> bool {
    !pod.is_terminating() && pod.is_do_not_disrupt(now)
}

/// The budgets that would refuse the pod's eviction, as the API server judges: more than one is always too many, and what has
/// never run may go. A pod of which there is a copy first goes when that is ready.
fn held_by(own: &[&PodDisruptionBudget], pod: &Pod, surges: bool, now: Timestamp) -> Vec<String> {
    let passes = match own {
        [] => true,
        [only] => only.lets_go(pod) || surges && only.lets_go_beside_a_copy(),
        _ => false,
    };
    if passes || pod.status.phase == PENDING || !pod.is_evictable(now) {
        return Vec::new();
    }
    let named = own.iter().filter_map(|budget| budget.metadata.name.as_deref());
    named.map(|name| format!("{}/{name}", pod.namespace())).collect()
}

/// When a protection that holds now will end by itself.
pub(super) fn protected_until(pod: &Pod, now: Timestamp) -> Option<Timestamp> {
    let nanos = duration::nanos(pod.annotation(annotation::DO_NOT_DISRUPT)?).ok().filter(|nanos| *nanos > 0)?;
    let end = pod.status.start_time.as_ref()?.0.checked_add(SignedDuration::from_nanos(nanos)).ok()?;
    (end > now).then_some(end)
}
