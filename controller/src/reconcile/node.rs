//! Termination of a node: no new pods, drain, termination of the instance, removal of the finalizer.
//!
//! A live agent drains its own node, and the controller only observes. The controller takes over if the agent does not
//! acknowledge the request or has not reported for a while. Both never drain at the same time (`drain_owner`).

mod drain_owner;
mod surge;

use std::sync::Arc;
use std::time::Duration;

use api::objects::{Node, Pod};
use api::status::Conditioned;
use api::{NodeClaim, Taint, annotation, condition, finalizer, label, reason, taint};
use drain::{AwaitedCopy, Drain, Millis, PodOnNode, Protection};
use jiff::Timestamp;
use serde_json::json;

use crate::reconcile::nodeclaim::{InstanceState, SHIFTED_LOOK, next_look, not_terminated};
use crate::state::index::Index;
use crate::write::events::{Event, ObjectReference};
use crate::write::patches;
use crate::write::writer::{Operation, PodRef, Target};

use drain_owner::DrainOwner;
pub use drain_owner::{drain_condition, has_live_agent};
pub use surge::{Surging, surges, surging_pods as surging};

/// Karpenter's reason for an unplanned termination.
const FORCEFUL: &str = "Forceful Termination";
/// Minimum duration of a drain, also for an empty node, so that a pod bound meanwhile is seen.
const LEAST_DRAIN: Duration = Duration::from_secs(5);
/// Minimum delay of a reconcile that only time requires. Without it, a node whose pods are all evicted at once would occupy a
/// worker.
const SOONEST: Duration = Duration::from_millis(100);
/// Maximum delay of a reconcile, also while no rule reports a moment.
const LATEST: Duration = Duration::from_secs(5);

/// Input of a decision about a node.
pub struct NodeView {
    /// Node to terminate.
    pub node: Arc<Node>,
    /// Its NodeClaim, if there is exactly one.
    pub claim: Option<Arc<NodeClaim>>,
    /// Pods bound to the node.
    pub pods: Vec<Arc<Pod>>,
    /// Pods of the node that need a copy before their eviction.
    pub surging: Vec<Surging>,
    /// Volumes that are still attached to the node and that no remaining pod uses.
    pub attached: Vec<String>,
    /// State of the instance in EC2.
    pub instance: InstanceState,
    /// Time of the reconcile.
    pub now: Timestamp,
}

/// Decision about a node.
#[derive(Debug, Default)]
pub struct NodeDecision {
    /// Operations in order.
    pub steps: Vec<Operation>,
    /// Requests to pods, whose replies go to the drain.
    pub requests: Vec<PodRequest>,
    /// Delay before the next reconcile without a change.
    pub after: Option<Duration>,
    /// True if the finalizer of the node is removed.
    pub released: bool,
}

/// Request to a pod for the drain.
#[derive(Debug)]
pub struct PodRequest {
    /// UID of the pod, its key in the drain.
    pub uid: String,
    /// Operation to run.
    pub step: Operation,
    /// Time from which the request must not be sent: the drain may have another owner.
    pub by: Millis,
}

/// Returns the view of a node, without the state of its instance.
#[must_use]
pub fn view(index: &Index, name: &str, now: Timestamp) -> Option<NodeView> {
    let node = Arc::clone(index.nodes.get(name)?);
    let claim = index.claim_of(&node).cloned();
    Some(NodeView {
        surging: surging(index, &node, claim.as_deref()),
        claim,
        pods: index.pods_on(name).cloned().collect(),
        attached: index.detaching(name),
        instance: InstanceState::Unknown,
        now,
        node,
    })
}

/// Reports whether the node is being deleted, and has Kerf's finalizer or an instance of a NodeClaim that still runs. A node may
/// remove the finalizer from its own Node.
#[must_use]
pub fn concerns(node: &Node, claim: Option<&NodeClaim>) -> bool {
    let runs = || claim.is_some_and(|claim| !claim.is_true(condition::INSTANCE_TERMINATING));
    node.metadata.deletion_timestamp.is_some() && (has_finalizer(node) || runs())
}

fn has_finalizer(node: &Node) -> bool {
    patches::has_finalizer(&node.metadata, finalizer::TERMINATION)
}

/// Creates a drain for the node, with the deadline of its NodeClaim.
#[must_use]
pub fn start_drain(view: &NodeView) -> Drain {
    let seed = view.node.name().bytes().fold(0_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    Drain::new(drain::Settings::for_termination(deadline(view), seed), millis(view.now))
}

/// Reports whether the decision depends on the state of the instance: after the drain, or while the node is not Ready, because
/// a terminated instance releases its node. For other nodes EC2 is not called.
#[must_use]
pub fn asks(view: &NodeView, drain: &mut Drain) -> bool {
    let over =
        |drain| view.claim.is_some() && is_closed(&view.node) && matches!(stage(view, drain), TerminationStage::Over);
    !view.node.is_ready() || over(drain)
}

/// Reports whether the decision will terminate the instance.
#[must_use]
pub fn ends_instance(view: &NodeView, drain: &mut Drain) -> bool {
    let ends = view.instance == InstanceState::Alive && view.claim.is_some() && is_closed(&view.node);
    ends && matches!(stage(view, drain), TerminationStage::Over)
}

/// Phase of a termination.
enum TerminationStage {
    /// Wait for copies of pods.
    Surging(Vec<Operation>),
    /// Eviction of the remaining pods.
    Draining,
    /// Wait for a pod that may have been bound meanwhile, with the remaining time.
    Late(Duration),
    /// Wait for attached volumes.
    Detaching,
    /// Termination of the instance.
    Over,
}

fn stage(view: &NodeView, drain: &mut Drain) -> TerminationStage {
    let now = millis(view.now);
    let deadline = deadline(view);
    deadline.into_iter().for_each(|deadline| drain.tighten(deadline));
    drain.pods(now, view.pods.iter().map(|pod| on_node(pod, view.now)).collect());
    if !drain.is_done() {
        let Some(steps) = surge::before_draining(view) else { return TerminationStage::Draining };
        drain.postpone(now);
        return TerminationStage::Surging(steps);
    }
    let waited = view.claim.as_ref().map_or(Duration::MAX, |claim| drained_for(claim, view.now));
    if waited < LEAST_DRAIN {
        return TerminationStage::Late(LEAST_DRAIN.saturating_sub(waited));
    }
    let patient = deadline.is_none_or(|deadline| now < deadline);
    if patient && !view.attached.is_empty() { TerminationStage::Detaching } else { TerminationStage::Over }
}

fn is_closed(node: &Node) -> bool {
    node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE)
}

/// Returns the delay before the next reconcile of a draining node, after the replies to its requests: until the next moment of
/// the drain, or until the agent's time is over. Evicted pods and reports of the agent trigger a reconcile themselves.
#[must_use]
pub fn next_moment(view: &NodeView, drain: &Drain) -> Duration {
    let ours = || drain.poll_timeout(millis(view.now)).map(|due| due.since(millis(view.now)));
    drain_owner::patience(view, drain).or_else(ours).unwrap_or(LATEST).clamp(SOONEST, LATEST)
}

/// Decides about a node for which [`concerns`] returns true.
#[must_use]
pub fn decide(view: &NodeView, drain: &mut Drain) -> NodeDecision {
    let mut decision = NodeDecision::default();
    if let Some(claim) = view.claim.as_ref().filter(|claim| claim.metadata.deletion_timestamp.is_none()) {
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        decision.steps.push(Operation::Delete(claim_target(claim), uid));
    }
    if !view.node.is_ready() && view.instance == InstanceState::Gone {
        release(view, &mut decision);
    } else if !is_closed(&view.node) {
        decision.steps.push(close(view, drain));
        decision.steps.extend(surge::start_late_copies(view));
    } else {
        empty(view, drain, &mut decision);
    }
    decision
}

/// Keeps new pods and new traffic away. The same patch requests the drain from a live agent, or signs for the controller
/// without one.
fn close(view: &NodeView, drain: &mut Drain) -> Operation {
    let node = &view.node;
    let mut taints: Vec<Taint> =
        node.spec.taints.iter().filter(|found| found.key != taint::DISRUPTED).cloned().collect();
    taints.push(Taint::new(taint::DISRUPTED, taint::NO_SCHEDULE));
    let mut patch = json!({
        "metadata": {
            "resourceVersion": node.metadata.resource_version,
            "labels": {label::EXCLUDE_BALANCERS: label::KARPENTER},
        },
        "spec": {"taints": taints},
    });
    if !drain_owner::is_heard(view) {
        drain.sign();
        let signature = drain_owner::signature(view, drain_owner::UNHEARD);
        patch["metadata"]["annotations"] = json!({annotation::DRAIN_TAKEN_OVER: signature});
    } else if surge::before_draining(view).is_none() {
        patch["metadata"]["annotations"] = json!({annotation::DRAIN: drain_owner::request(view).to_string()});
    }
    Operation::Patch(Target::Node(node.name().to_owned()), patch)
}

fn empty(view: &NodeView, drain: &mut Drain, decision: &mut NodeDecision) {
    match stage(view, drain) {
        TerminationStage::Surging(steps) => {
            decision.steps.extend(steps);
            decision.after = Some(surge::LOOK);
            say_draining(view, format!("waiting for copies of {}", surge::waited_for(view)), decision);
        }
        TerminationStage::Draining => {
            ask_to_leave(view, drain, decision);
            decision.after = Some(next_moment(view, drain));
            report_draining(view, drain, decision);
        }
        TerminationStage::Late(left) => {
            report_draining(view, drain, decision);
            decision.after = Some(left);
        }
        TerminationStage::Detaching => await_detachment(view, decision),
        TerminationStage::Over => end_instance(view, decision),
    }
}

/// Waits for volumes. A volume that is attached when its instance ends cannot be attached elsewhere for minutes.
fn await_detachment(view: &NodeView, decision: &mut NodeDecision) {
    let message = format!("waiting for volumes to detach: {}", view.attached.join(", "));
    if let Some(claim) = &view.claim {
        let mut changed = NodeClaim::clone(claim);
        changed.set_true(condition::DRAINED, view.now);
        changed.set_unknown(condition::VOLUMES_DETACHED, reason::AWAITING_VOLUME_DETACHMENT, &message, view.now);
        push_status(claim, &changed, decision);
    }
    let note = Event::normal(ObjectReference::to(view.node.as_ref()), reason::AWAITING_VOLUME_DETACHMENT, message);
    decision.steps.push(Operation::Note(note));
    let left = deadline(view).map_or(LATEST, |deadline| deadline.since(millis(view.now)));
    decision.after = Some(left.clamp(SOONEST, LATEST));
}

/// Returns the time since the condition Drained reported a drain. A completed drain has nothing left to wait for.
fn drained_for(claim: &NodeClaim, now: Timestamp) -> Duration {
    match api::status::find(claim.conditions(), condition::DRAINED) {
        Some(found) if found.is_true() => Duration::MAX,
        Some(found) => Duration::try_from(now.duration_since(found.last_transition_time.0)).unwrap_or_default(),
        None => Duration::ZERO,
    }
}

fn report_draining(view: &NodeView, drain: &Drain, decision: &mut NodeDecision) {
    let progress = drain.progress();
    let message = match progress.remaining() {
        0 => "waiting for pods bound before the taint".to_owned(),
        left => format!("{left} pods left"),
    };
    say_draining(view, message, decision);
    if progress.blocked > 0 {
        let blocked: Vec<String> = drain.refusals().map(|refused| refused.to_string()).collect();
        let message = format!("failed to evict {}", blocked.join("; "));
        decision.steps.push(Operation::Note(Event::warning(
            ObjectReference::to(view.node.as_ref()),
            reason::FAILED_DRAINING,
            message,
        )));
    }
}

fn say_draining(view: &NodeView, message: String, decision: &mut NodeDecision) {
    let Some(claim) = &view.claim else { return };
    let mut changed = NodeClaim::clone(claim);
    changed.set_unknown(condition::DRAINED, reason::DRAINING, &message, view.now);
    push_status(claim, &changed, decision);
}

fn push_status(before: &NodeClaim, after: &NodeClaim, decision: &mut NodeDecision) {
    if before.status != after.status {
        let patch = patches::status(&before.metadata, &before.status, &after.status);
        decision.steps.push(Operation::PatchStatus(claim_target(before), patch));
    }
}

fn end_instance(view: &NodeView, decision: &mut NodeDecision) {
    let id = view.node.spec.provider_id.rsplit('/').next().unwrap_or_default();
    match view.instance {
        InstanceState::Gone => return release(view, decision),
        InstanceState::Alive if view.claim.is_some() => decision.steps.push(Operation::Terminate(id.to_owned())),
        InstanceState::Shifted => {
            let events = view.claim.iter().map(|claim| Operation::Note(not_terminated(claim, id)));
            decision.steps.extend(events);
            decision.after = Some(SHIFTED_LOOK);
            return;
        }
        InstanceState::Alive | InstanceState::Ending | InstanceState::Unknown => {}
    }
    let Some(claim) = &view.claim else { return release(view, decision) };
    let mut changed = NodeClaim::clone(claim);
    changed.set_true(condition::DRAINED, view.now);
    if view.attached.is_empty() {
        changed.set_true(condition::VOLUMES_DETACHED, view.now);
    } else {
        let message = format!("still attached at the deadline: {}", view.attached.join(", "));
        let reason = reason::TERMINATION_GRACE_PERIOD_ELAPSED;
        changed.set_false(condition::VOLUMES_DETACHED, reason, &message, view.now);
    }
    changed.set_true(condition::INSTANCE_TERMINATING, view.now);
    push_status(claim, &changed, decision);
    decision.after = Some(next_look(claim, view.now));
}

/// Removes the finalizer; Kubernetes then deletes the node.
fn release(view: &NodeView, decision: &mut NodeDecision) {
    if !has_finalizer(&view.node) {
        return;
    }
    let patch = patches::without_finalizer(&view.node.metadata, finalizer::TERMINATION);
    decision.steps.push(Operation::Patch(Target::Node(view.node.name().to_owned()), patch));
    decision.released = true;
}

/// Continues the drain according to its owner.
fn ask_to_leave(view: &NodeView, drain: &mut Drain, decision: &mut NodeDecision) {
    let (why, until) = match drain_owner::whose(view, drain) {
        DrainOwner::Agent => return,
        DrainOwner::Ask(request) => {
            let patch = json!({"metadata": {"annotations": {annotation::DRAIN: request.to_string()}}});
            decision.steps.push(Operation::Patch(Target::Node(view.node.name().to_owned()), patch));
            return;
        }
        DrainOwner::Ours(why) => {
            let until = drain_owner::relieve(view, drain);
            decision.steps.extend(until.is_none().then(|| drain_owner::sign(view, &why)));
            (why, until)
        }
        DrainOwner::Final(why) => {
            let until = keep_drain(view, drain, &why, decision);
            (why, until)
        }
    };
    if drain_owner::is_asked(view) {
        let message = format!("the controller drains this node: {why}");
        let note = Event::warning(ObjectReference::to(view.node.as_ref()), reason::DRAIN_TAKEN_OVER, message);
        decision.steps.push(Operation::Note(note));
    }
    if let Some(by) = until {
        let actions = drain.step(millis(view.now)).into_iter();
        decision.requests = actions.filter_map(|action| request(action, by)).collect();
    }
}

/// Keeps the drain whatever the node says. Returns the time until which pods may be evicted.
fn keep_drain(view: &NodeView, drain: &mut Drain, why: &str, decision: &mut NodeDecision) -> Option<Millis> {
    decision.steps.extend(drain_owner::renew(view, why));
    if drain_owner::recorded(view).is_none() {
        let records = view.claim.iter().map(|claim| drain_owner::record(view, claim, why));
        decision.steps.extend(records);
        return None;
    }
    drain_owner::relieve_for_good(view, drain)
}

/// Returns the reason of the termination from the NodeClaim.
#[must_use]
pub fn why(view: &NodeView) -> &str {
    let conditions = view.claim.as_ref().map(|claim| claim.conditions()).unwrap_or_default();
    let found = api::status::find(conditions, condition::DISRUPTION_REASON).filter(|found| found.is_true());
    found.map_or(FORCEFUL, |found| found.reason.as_str())
}

/// Returns the time at which every pod must be gone: that of the NodeClaim, or an earlier one of a later notice.
fn deadline(view: &NodeView) -> Option<Millis> {
    let annotations = view.claim.as_ref().and_then(|claim| claim.metadata.annotations.as_ref());
    let carried = annotations.and_then(|all| all.get(annotation::TERMINATION_TIMESTAMP)).map(String::as_str);
    let since_time = view.node.interruption().and_then(|_| view.node.annotation(annotation::INTERRUPTION_DEADLINE));
    let moments = [carried, since_time].into_iter().flatten().filter_map(|text| text.parse::<Timestamp>().ok());
    moments.map(millis).min()
}

fn millis(moment: Timestamp) -> Millis {
    Millis(u64::try_from(moment.as_millisecond()).unwrap_or_default())
}

fn claim_target(claim: &NodeClaim) -> Target {
    Target::Claim(claim.metadata.name.clone().unwrap_or_default())
}

fn on_node(pod: &Pod, now: Timestamp) -> PodOnNode {
    let disrupted = Taint::new(taint::DISRUPTED, taint::NO_SCHEDULE);
    PodOnNode {
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        namespace: pod.namespace().to_owned(),
        name: pod.name().to_owned(),
        owner_kind: pod.controller().map(|owner| owner.kind.clone()),
        critical: PodOnNode::is_critical(&pod.spec.priority_class_name, pod.spec.priority.unwrap_or_default()),
        priority: pod.spec.priority.unwrap_or_default(),
        size: size(pod),
        claims: 0,
        grace_seconds: grace_seconds(pod),
        terminal: pod.is_terminal(),
        deletion: pod.metadata.deletion_timestamp.as_ref().map(|time| millis(time.0)),
        tolerates_disrupted: pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(&disrupted)),
        mirror: pod.is_static(),
        do_not_disrupt: protection(pod, now),
        // The drain begins when the copies are ready.
        copy: AwaitedCopy::None,
    }
}

/// Returns the grace period of the pod. The API server writes its default of 30 s.
fn grace_seconds(pod: &Pod) -> u64 {
    pod.spec.termination_grace_period_seconds.and_then(|grace| grace.try_into().ok()).unwrap_or(30)
}

fn protection(pod: &Pod, now: Timestamp) -> Protection {
    match (pod.is_do_not_disrupt(now), pod.protected_until(now)) {
        (false, _) => Protection::None,
        (true, Some(end)) => Protection::Until(millis(end)),
        (true, None) => Protection::Always,
    }
}

/// Returns the sum of the requests of the containers. Requests of init containers do not affect the order.
fn size(pod: &Pod) -> u64 {
    let requested = |resource: &str| {
        let each =
            pod.spec.containers.iter().filter_map(|it| it.resources.requests.get(resource)?.amount(resource).ok());
        each.fold(0, i64::saturating_add)
    };
    PodOnNode::size(requested("cpu"), requested("memory"))
}

fn request(action: drain::Action, by: Millis) -> Option<PodRequest> {
    let of = |namespace, name, uid: &String| PodRef { namespace, name, uid: uid.clone() };
    match action {
        drain::Action::Evict { namespace, pod, uid, grace } => {
            Some(PodRequest { step: Operation::Evict(of(namespace, pod, &uid), grace), uid, by })
        }
        drain::Action::Delete { namespace, pod, uid, grace } => {
            Some(PodRequest { step: Operation::DeletePod(of(namespace, pod, &uid), grace), uid, by })
        }
        // The index follows the API server by a watch: the next reconcile is as current as a list.
        drain::Action::List => None,
    }
}

/// Returns the NodePool for the counters of a node's termination.
#[must_use]
pub fn pool_of(view: &NodeView) -> &str {
    view.claim.as_deref().map_or("", NodeClaim::nodepool)
}

#[cfg(test)]
mod drain_scenarios;
#[cfg(test)]
mod tests;
