//! Pods that are evicted only after a copy is ready. The pod is detached from its ReplicaSet, which creates a copy. The pod is
//! evicted when the copy is ready. An annotation of the pod identifies its copies ([`api::objects::Surged`]), so that any
//! process can continue.
//!
//! After a notice of EC2 the agent drains its node without a request. It leaves pods that wait for a copy on the node until the
//! controller requests the termination ([`drain::AwaitedCopy`]).

use std::sync::Arc;
use std::time::Duration;

use api::objects::{self, Node, Pod, PoolSurge, Surged, blocks_without_copy};
use api::{NodeClaim, annotation, label, reason};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{NodeView, concerns, deadline, millis};
use crate::state::index::Index;
use crate::write::events::{Event, ObjectReference};
use crate::write::writer::{Operation, PodRef};

/// Interval between reconciles while copies start. Copies start on other nodes, which triggers no reconcile of this one.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// Time without a new pod after which the ReplicaSet needs none: its Deployment was scaled down, rolled out or deleted.
const UNWANTED: SignedDuration = SignedDuration::from_mins(5);
/// Time after which a copy that is not ready is reported.
const SLOW: SignedDuration = SignedDuration::from_mins(1);
/// Time before the deadline that is reserved for evictions.
const HURRY: Duration = Duration::from_secs(60);
/// The same time where the agent has already evicted all other pods after a notice.
const HURRY_AFTER_NOTICE: Duration = Duration::from_secs(15);
/// Maximum difference between the clocks of API server and controller.
const CLOCKS: SignedDuration = SignedDuration::from_secs(30);
/// Length to which the API server cuts generated names, before their last five letters.
const NAME_FRONT: usize = 58;

/// Pod of the node that needs a copy.
#[derive(Clone, Debug)]
pub struct Surging {
    /// Pod to evict.
    pub pod: Arc<Pod>,
    /// Former owner, and time of the detachment; `None` before the detachment.
    pub surged: Option<Surged>,
    /// Pods that its ReplicaSet has created since.
    pub copies: Vec<Arc<Pod>>,
}

/// Returns the pods of a terminating node that need a copy.
#[must_use]
pub fn surging_pods(index: &Index, node: &Node, claim: Option<&NodeClaim>) -> Vec<Surging> {
    if !concerns(node, claim) {
        return Vec::new();
    }
    let pool = claim.map(|claim| pool_surge(index, claim)).unwrap_or_default();
    let surging =
        index.pods_on(node.name()).filter(|pod| !pod.is_terminal() && !pod.is_terminating()).filter_map(|pod| {
            let surged = Surged::from_pod(pod);
            let asks = surged.is_some() || asks(index, pool, pod);
            let copies = surged.as_ref().map(|surged| copies(index, pod, surged)).unwrap_or_default();
            asks.then(|| Surging { pod: Arc::clone(pod), surged, copies })
        });
    surging.collect()
}

/// Reports whether a copy of the pod must be ready before its eviction from the NodeClaim's node.
#[must_use]
pub fn surges(index: &Index, claim: &NodeClaim, pod: &Pod) -> bool {
    asks(index, pool_surge(index, claim), pod)
}

fn asks(index: &Index, pool: PoolSurge, pod: &Pod) -> bool {
    index.permissions.surge
        && objects::surges(pod, pool, || is_alone(index, pod), || blocks_without_copy(&index.budgets_of(pod)))
}

fn pool_surge(index: &Index, claim: &NodeClaim) -> PoolSurge {
    index.pool_of(claim).and_then(|pool| pool.surges().ok()).unwrap_or_default()
}

fn is_alone(index: &Index, pod: &Pod) -> bool {
    let Some(owner) = pod.replica_set() else { return false };
    made_by(index, pod.namespace(), &owner.name, &owner.uid).filter(|it| it.is_bound()).count() == 1
}

fn copies(index: &Index, pod: &Pod, surged: &Surged) -> Vec<Arc<Pod>> {
    let since = surged.since.saturating_sub(CLOCKS).unwrap_or(surged.since);
    let newer = |it: &&Arc<Pod>| it.metadata.creation_timestamp.as_ref().is_some_and(|made| made.0 >= since);
    made_by(index, pod.namespace(), &surged.name, &surged.owner).filter(newer).cloned().collect()
}

/// Returns the live pods that a ReplicaSet owns.
fn made_by<'a>(index: &'a Index, namespace: &str, name: &str, uid: &'a str) -> impl Iterator<Item = &'a Arc<Pod>> {
    let front: String = format!("{name}-").chars().take(NAME_FRONT).collect();
    let own = move |pod: &Pod| pod.controller().is_some_and(|owner| owner.uid == uid);
    let named = index.pods.starting_with(format!("{namespace}/{front}"));
    named.filter(move |pod| own(pod) && !pod.is_terminal() && !pod.is_terminating())
}

/// Returns the operations before the drain, or `None` if the drain waits for no copy.
pub(super) fn before_draining(view: &NodeView) -> Option<Vec<Operation>> {
    if !is_patient(view) || super::drain_owner::is_asked(view) {
        return None;
    }
    let waiting: Vec<&Surging> = view.surging.iter().filter(|it| waits(it, view)).collect();
    let letting_go = waiting.iter().filter_map(|it| let_go(it, view.now)).flatten();
    let slow = waiting.iter().filter_map(|it| tell_of(it, view));
    (!waiting.is_empty()).then(|| letting_go.chain(slow).collect())
}

/// Returns the operations that start copies when the deadline leaves no time to wait for them. A copy that starts before its pod
/// is evicted is ready earlier.
pub(super) fn start_late_copies(view: &NodeView) -> Vec<Operation> {
    let all = || view.surging.iter().filter_map(|it| let_go(it, view.now)).flatten().collect();
    if is_patient(view) { Vec::new() } else { all() }
}

/// Returns the names of the pods that wait for a copy.
pub(super) fn waited_for(view: &NodeView) -> String {
    let waiting = view.surging.iter().filter(|it| waits(it, view));
    let names: Vec<String> = waiting.map(|it| format!("{}/{}", it.pod.namespace(), it.pod.name())).collect();
    names.join(", ")
}

/// Reports whether the node's deadline leaves time for copies: more than the grace period of the pods to evict.
fn is_patient(view: &NodeView) -> bool {
    let drains = view.node.interruption().is_some() && super::drain_owner::is_heard(view);
    let evicted = view.pods.iter().filter(|pod| !drains || is_surging(view, pod));
    let grace = evicted.map(|pod| super::grace_seconds(pod)).max().unwrap_or_default();
    let needed = Duration::from_secs(grace) + if drains { HURRY_AFTER_NOTICE } else { HURRY };
    deadline(view).is_none_or(|deadline| deadline.since(millis(view.now)) > needed)
}

fn is_surging(view: &NodeView, pod: &Pod) -> bool {
    view.surging.iter().any(|it| it.pod.metadata.uid == pod.metadata.uid)
}

/// Reports whether the pod waits for a copy. Each detached pod needs a copy of its own.
fn waits(surging: &Surging, view: &NodeView) -> bool {
    let Some(surged) = &surging.surged else { return true };
    let same = |it: &&Surging| it.surged.as_ref().is_some_and(|other| other.owner == surged.owner);
    let needed = view.surging.iter().filter(same).count();
    let ready = surging.copies.iter().filter(|copy| copy.is_ready()).count();
    let unwanted = surging.copies.is_empty() && view.now.duration_since(surged.since) >= UNWANTED;
    ready < needed && !unwanted
}

fn let_go(surging: &Surging, now: Timestamp) -> Option<[Operation; 2]> {
    let pod = &surging.pod;
    let owner = pod.replica_set().filter(|_| surging.surged.is_none())?;
    let since = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let surged = Surged { owner: owner.uid.clone(), name: owner.name.clone(), since };
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let metadata = json!({
        "uid": uid,
        "resourceVersion": pod.metadata.resource_version,
        "labels": {label::POD_TEMPLATE_HASH: null},
        "annotations": {annotation::SURGED: surged.to_string()},
    });
    let target = PodRef { namespace: pod.namespace().to_owned(), name: pod.name().to_owned(), uid };
    let message = "Node is being drained; pod is evicted after a copy is ready".to_owned();
    let note = Event::normal(ObjectReference::to::<Pod>(pod.as_ref()), reason::SURGING, message);
    Some([Operation::PatchPod(target, json!({"metadata": metadata})), Operation::Note(note)])
}

fn tell_of(surging: &Surging, view: &NodeView) -> Option<Operation> {
    let since = surging.surged.as_ref()?.since;
    let pod = &surging.pod;
    let unready =
        surging.copies.iter().find(|copy| !copy.is_ready()).map_or("its ReplicaSet has created none", |it| it.name());
    let message = format!(
        "pod {}/{} waits for a ready copy, for {} s now: {unready}",
        pod.namespace(),
        pod.name(),
        view.now.duration_since(since).as_secs()
    );
    let slow = view.now.duration_since(since) >= SLOW;
    slow.then(|| {
        Operation::Note(Event::warning(ObjectReference::to(view.node.as_ref()), reason::FAILED_DRAINING, message))
    })
}

#[cfg(test)]
mod tests;
