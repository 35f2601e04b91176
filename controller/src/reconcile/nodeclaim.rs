//! Life of a NodeClaim from the request to an initialized node, and to its removal. Each reconcile makes one decision.
//!
//! Pure: the view contains all inputs of the decision, including `now`.

mod consolidatable;
mod deletion;
mod gates;
mod initialization;
mod launched_labels;
mod nominated_pods;
pub mod reboot;
mod registration;
mod replacement;
mod start_timeline;
mod timeouts;
mod view;

use std::sync::Arc;
use std::time::Duration;

use api::decisions::{Decision, DecisionKind};
use api::objects::{Node, Pod};
use api::status::Conditioned;
use api::timeline::StartStage;
use api::{NodeClaim, NodePool, RebalanceRisk, annotation, condition, finalizer, label, reason};
use cloud::unavailable_offerings::Scope;
use jiff::Timestamp;
use planner::CapacityType;
use serde_json::json;

pub use consolidatable::quiet_time;
pub use gates::{GateLimit, startup_failure};
pub use initialization::record as initialized_record;
pub use registration::partition::is_awaited as awaits_partition;
pub use replacement::{ReplacementResult, ReplacementView};
pub use view::view;

use crate::gc::drift;
use crate::informer::interruption::{Notice, NoticeKind, notice_limit};
use crate::reconcile::queue::QueueAction;
use crate::reconcile::work::WorkItem;
use crate::state::class_readiness::{ClassReadiness, NOT_READY};
use crate::state::registration_health::Registration;
use crate::write::events::{Event, ObjectReference};
use crate::write::patches;
use crate::write::writer::{Operation, Target};

/// Age from which a NodeClaim is no longer part of a plan that is being carried out.
const STRAGGLER: Duration = Duration::from_secs(2);
/// Minimum interval between updates of the last pod event.
const POD_EVENT_INTERVAL: Duration = Duration::from_secs(10);

/// Shortest and longest interval between checks of an ending instance.
const SOONEST_LOOK: Duration = Duration::from_secs(1);
const LATEST_LOOK: Duration = Duration::from_secs(5);
/// Delay before the next check of an instance in a zone that a zonal shift excludes; zonal shifts are requested as often.
pub const SHIFTED_LOOK: Duration = Duration::from_secs(30);

/// Input of a decision about a NodeClaim.
#[derive(Clone, Debug)]
pub struct NodeClaimView {
    /// NodeClaim to decide about.
    pub claim: Arc<NodeClaim>,
    /// Its NodePool, if it exists.
    pub pool: Option<Arc<NodePool>>,
    /// Nodes with the provider id of the NodeClaim.
    pub nodes: Vec<Arc<Node>>,
    /// Pending pods that are nominated to the NodeClaim's node.
    pub expected: Vec<Arc<Pod>>,
    /// Pod for which the NodeClaim was created, if it exists.
    pub awaited_pod: Option<Arc<Pod>>,
    /// Other Nodes that carry the provider id of the NodeClaim. They have no effect on it.
    pub other_nodes: Vec<Arc<Node>>,
    /// True if EC2 has an instance for the NodeClaim, or may have one, that its status does not name yet.
    pub awaits_adoption: bool,
    /// State of the instance in EC2; read only for NodeClaims that are being deleted.
    pub instance: InstanceState,
    /// Partition of the instance in its placement group; read only for NodeClaims that await it.
    pub partition: Option<u32>,
    /// Time at which a pod last arrived on the node or left it.
    pub last_pod_event: Option<Timestamp>,
    /// Limit for closed gates of the node; `None` without a limit.
    pub gates: Option<GateLimit>,
    /// Readiness of its EC2NodeClass.
    pub class: ClassReadiness,
    /// State of a replacement that is not initialized; `None` for other NodeClaims.
    pub replacement: Option<ReplacementView>,
    /// Time limit of a reboot.
    pub reboot_timeout: Duration,
    /// Notice about the instance that the controller received itself.
    pub notice: Option<Notice>,
    /// True if the limit for unconfirmed notices keeps the NodeClaim.
    pub is_notice_held: bool,
    /// Time of the reconcile.
    pub now: Timestamp,
}

/// State of an instance in EC2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// State that was not requested.
    Unknown,
    /// Instance in a zone that a zonal shift excludes: EC2 is neither called about its state nor for its termination.
    Shifted,
    /// Running or starting instance.
    Alive,
    /// Instance that is terminating.
    Ending,
    /// Terminated instance, or an instance that EC2 no longer returns.
    Gone,
}

/// Decision about a NodeClaim.
#[derive(Debug, Default)]
pub struct NodeClaimDecision {
    /// Operations in order.
    pub steps: Vec<Operation>,
    /// Further work to enqueue now.
    pub work: Vec<WorkItem>,
    /// Delay before the next reconcile without a change.
    pub after: Option<Duration>,
    /// Reason of the NodeClaim's removal, counted after the operations.
    pub disrupted: Option<&'static str>,
    /// Result of the launch, if this decision ends it.
    pub registration: Option<Registration>,
    /// True if the decision ends the initialization.
    pub initialized: bool,
    /// Stages of the node's start, if the decision completes its timeline.
    pub started: Vec<StartStage>,
    /// Offering or reservation that becomes unavailable.
    pub short: Option<Scope>,
    /// True if the last operation removes the NodeClaim.
    pub released: bool,
}

impl NodeClaimDecision {
    /// Returns the next action of the queue.
    #[must_use]
    pub fn next(&self) -> QueueAction {
        self.after.map_or(QueueAction::Wait, QueueAction::After)
    }

    /// Requests a reconcile after `delay` at the latest.
    fn wake(&mut self, delay: Duration) {
        self.after = Some(self.after.map_or(delay, |after| after.min(delay)));
    }
}

/// Reports whether the decision depends on the current state of the instance in EC2.
#[must_use]
pub fn asks(view: &NodeClaimView) -> bool {
    deletion::asks(view)
}

/// Returns the delay before the next check of an ending instance: an eighth of the time since the request. Most instances end
/// in half a minute, and some in minutes.
#[must_use]
pub fn next_look(claim: &NodeClaim, now: Timestamp) -> Duration {
    let found = api::status::find(claim.conditions(), condition::INSTANCE_TERMINATING).filter(|found| found.is_true());
    let passed = found.map(|found| now.duration_since(found.last_transition_time.0));
    let passed = passed.and_then(|passed| Duration::try_from(passed).ok()).unwrap_or_default();
    (passed / 8).clamp(SOONEST_LOOK, LATEST_LOOK)
}

/// Returns the event of a NodeClaim whose instance stays because of a zonal shift.
#[must_use]
pub fn not_terminated(claim: &NodeClaim, instance: &str) -> Event {
    let message = format!("instance {instance} is not terminated while a zonal shift excludes its zone");
    Event::warning(ObjectReference::to(claim), reason::ZONAL_SHIFT_ACTIVE, message)
}

/// Decides about one NodeClaim.
#[must_use]
pub fn decide(view: &NodeClaimView) -> NodeClaimDecision {
    let mut decision = next_stage(view);
    if !decision.released {
        launched_labels::restore(view, &mut decision);
    }
    decision
}

fn next_stage(view: &NodeClaimView) -> NodeClaimDecision {
    if view.claim.metadata.deletion_timestamp.is_some() {
        return deletion::decide(view);
    }
    if !has_finalizer(&view.claim) {
        return add_finalizer(&view.claim);
    }
    let mut claim = NodeClaim::clone(&view.claim);
    let mut decision = NodeClaimDecision::default();
    claim.initialize(view.now);
    if let Some(reason) = interruption(view) {
        if !view.is_notice_held {
            return give_up_interrupted(view, &reason);
        }
        decision.wake(notice_limit::RECHECK);
    }
    if claim.is_true(condition::REGISTERED)
        && let Some(given_up) = reboot::follow(view, &mut claim, &mut decision)
    {
        return given_up;
    }
    if !claim.is_true(condition::LAUNCHED) {
        if let Some(refused) = refuse_launch(view) {
            return refused;
        }
        ask_for_launch(view, &mut decision);
    } else if !claim.is_true(condition::REGISTERED) {
        if let Some(labelled) = registration::partition::label(view) {
            return labelled;
        }
        registration::register(view, &mut claim, &mut decision);
    } else if !claim.is_true(condition::INITIALIZED) {
        if let Some(given_up) = gates::give_up(view, &claim, &mut decision) {
            return given_up;
        }
        initialization::initialize(view, &mut claim, &mut decision);
    } else if let Some(node) = view.nodes.first() {
        nominated_pods::annotate(view, node, &mut decision);
    }
    if view.claim.is_true(condition::REGISTERED) {
        decision.steps.extend(view.nodes.iter().filter_map(|node| report_rebalance(node, &claim)));
        decision.steps.extend(view.other_nodes.iter().map(|node| report_conflict(node, &claim)));
    }
    if timeouts::give_up(view, &claim, &mut decision) {
        return decision;
    }
    note_pod_event(view, &mut claim, &mut decision);
    consolidatable::follow(view, &mut claim, &mut decision);
    drift::follow_pool(&mut claim, view.pool.as_deref(), view.now);
    write_status(view, &claim, &mut decision);
    decision
}

/// Reports an agent that waits to be replaced by the settings of its image, which the controller does not follow.
fn report_rebalance(node: &Node, claim: &NodeClaim) -> Option<Operation> {
    let risk = RebalanceRisk::from_node(node).filter(|risk| risk.replace && !risk.is_approved(node))?;
    if RebalanceRisk::requested_replacement(node, Some(claim)).is_some() {
        return None;
    }
    let message = format!(
        "the agent waits to be replaced, but the NodePool does not ask for it: set the annotation {}=replace in \
         spec.template.metadata.annotations of the NodePool, or {}={} on node {}",
        annotation::REBALANCE,
        annotation::REPLACEMENT_APPROVED,
        risk.id,
        node.name()
    );
    Some(Operation::Note(Event::warning(ObjectReference::to(claim), reason::REBALANCE_NOT_APPROVED, message)))
}

fn report_conflict(node: &Arc<Node>, claim: &NodeClaim) -> Operation {
    let own = claim.status.as_ref().map_or("", |status| status.node_name.as_str());
    let message = format!("node {own} registered for the instance of this provider id; this node has no effect on it");
    Operation::Note(Event::warning(ObjectReference::to(node.as_ref()), reason::PROVIDER_ID_CONFLICT, message))
}

/// Deletes a NodeClaim whose EC2NodeClass cannot launch. With a token, EC2 may have launched an instance already.
fn refuse_launch(view: &NodeClaimView) -> Option<NodeClaimDecision> {
    let untouched = view.claim.launch_token().is_none();
    let steps = view.class.deletion_of(&view.claim).filter(|_| untouched)?;
    Some(NodeClaimDecision { steps, disrupted: Some(NOT_READY), ..NodeClaimDecision::default() })
}

/// Enqueues the launch. NodeClaims of one plan are launched together once all are written. A NodeClaim that no fleet includes
/// enqueues its own launch.
fn ask_for_launch(view: &NodeClaimView, decision: &mut NodeClaimDecision) {
    let created = view.claim.metadata.creation_timestamp.as_ref().map_or(view.now, |time| time.0);
    let patience = time_left(created, STRAGGLER, view.now);
    match view.claim.launch_token() {
        Some(token) => decision.work.push(WorkItem::Launch(token.to_owned())),
        None if patience.is_zero() => decision.work.push(WorkItem::Gather),
        None => decision.wake(patience),
    }
}

fn has_finalizer(claim: &NodeClaim) -> bool {
    patches::has_finalizer(&claim.metadata, finalizer::TERMINATION)
}

/// Adds the finalizer before anything is launched, so that no launched instance is ever forgotten.
fn add_finalizer(claim: &NodeClaim) -> NodeClaimDecision {
    let patch = patches::with_finalizer(&claim.metadata, finalizer::TERMINATION);
    NodeClaimDecision { steps: vec![Operation::Patch(target(claim), patch)], ..NodeClaimDecision::default() }
}

fn target(claim: &NodeClaim) -> Target {
    Target::Claim(name(claim).to_owned())
}

fn name(claim: &NodeClaim) -> &str {
    claim.metadata.name.as_deref().unwrap_or_default()
}

fn delete(claim: &NodeClaim) -> Operation {
    Operation::Delete(target(claim), claim.metadata.uid.clone().unwrap_or_default())
}

/// Notice of the end of an instance, from the agent's condition on the node or from the controller's own sources.
struct Interruption {
    reason: String,
    deadline: Option<String>,
    kind: NoticeKind,
}

impl Interruption {
    /// Returns the deadline, if it is valid.
    fn moment(&self) -> Option<Timestamp> {
        self.deadline.as_ref()?.parse().ok()
    }
}

/// Returns the notice. The agent's condition takes precedence: the agent reads the deadline on the instance itself.
fn interruption(view: &NodeClaimView) -> Option<Interruption> {
    agents_word(view).or_else(|| {
        view.notice.as_ref().filter(|_| !has_explained_notice(view)).map(|notice| Interruption {
            reason: notice.kind.as_str().to_owned(),
            deadline: notice.deadline.map(|deadline| deadline.to_string()),
            kind: notice.kind,
        })
    })
}

/// Reports whether only the agent or a failed status check asks for the removal of the NodeClaim.
#[must_use]
pub fn has_unconfirmed_notice(view: &NodeClaimView) -> bool {
    let is_confirmed = view.notice.as_ref().is_some_and(|notice| notice.kind.is_announced());
    let is_reported = interruption(view).is_some() || reboot::is_overdue(view);
    view.claim.metadata.deletion_timestamp.is_none() && !is_confirmed && is_reported
}

/// Reports whether a reboot explains the notice that the controller received, so that the notice has no effect.
#[must_use]
pub fn has_explained_notice(view: &NodeClaimView) -> bool {
    view.notice.as_ref().is_some_and(|notice| reboot::explains(view, notice.kind))
}

fn agents_word(view: &NodeClaimView) -> Option<Interruption> {
    let node = view.nodes.first()?;
    let reason = node.interruption()?.reason.clone();
    Some(Interruption {
        kind: kind_of_reason(&reason),
        deadline: node.annotation(annotation::INTERRUPTION_DEADLINE).map(str::to_owned),
        reason,
    })
}

/// Returns the kind of an interruption by the agent's reason. Only a spot interruption gives information about capacity.
fn kind_of_reason(reason: &str) -> NoticeKind {
    match reason {
        reason::SPOT_INTERRUPTION => NoticeKind::SpotInterrupted,
        reason::REBALANCE_REPLACEMENT => NoticeKind::RebalanceRecommendation,
        reason::SCHEDULED_EVENT => NoticeKind::ScheduledChange,
        reason::INSTANCE_SHUTDOWN => NoticeKind::InstanceStopped,
        // The Auto Scaling group, or a reason of a later agent.
        _ => NoticeKind::InstanceTerminated,
    }
}

/// Deletes the NodeClaim at once. Its node remains until the agent has drained it or the deadline has passed.
fn give_up_interrupted(view: &NodeClaimView, interruption: &Interruption) -> NodeClaimDecision {
    let claim = &view.claim;
    let mut steps = Vec::new();
    if let Some(deadline) = shorter_deadline(claim, interruption, view.now) {
        let annotations = json!({annotation::TERMINATION_TIMESTAMP: deadline});
        steps.push(Operation::Patch(target(claim), json!({"metadata": {"annotations": annotations}})));
    }
    let kind = interruption.kind;
    if view.notice.is_some() {
        let objects = view.nodes.iter().map(|node| ObjectReference::to(node.as_ref()));
        let objects = std::iter::once(ObjectReference::to(claim.as_ref())).chain(objects);
        steps.extend(
            objects.map(|object| Operation::Note(Event::warning(object, kind.event(), kind.sentence().to_owned()))),
        );
    }
    let message = match (&interruption.deadline, interruption.moment()) {
        (Some(_), Some(deadline)) => format!("instance terminates at {deadline} ({})", interruption.reason),
        (Some(_), None) => format!("instance terminates ({}); ignored its invalid deadline", interruption.reason),
        (None, _) => format!("instance terminates ({})", interruption.reason),
    };
    steps.push(Operation::Record(Box::new(Decision {
        message: message.clone(),
        nodepools: [claim.nodepool()].into_iter().collect(),
        nodeclaims: claim.metadata.name.iter().cloned().collect(),
        nodes: view.nodes.iter().map(|node| node.name()).collect(),
        ..Decision::new(view.now, DecisionKind::Interrupted, kind.event())
    })));
    steps.push(Operation::Note(Event::warning(
        ObjectReference::to(claim.as_ref()),
        reason::TERMINATING_ON_INTERRUPTION,
        message,
    )));
    steps.push(delete(claim));
    let short = match kind {
        NoticeKind::SpotInterrupted => offering(claim),
        NoticeKind::CapacityReservationInterrupted => reservation(claim),
        _ => None,
    };
    NodeClaimDecision { steps, disrupted: Some(kind.as_str()), short, ..NodeClaimDecision::default() }
}

/// Returns the deadline of an interruption if it is valid and earlier than that of the NodeClaim. The node writes the deadline, so
/// it can shorten the termination grace period and never extend it.
fn shorter_deadline(claim: &NodeClaim, interruption: &Interruption, now: Timestamp) -> Option<Timestamp> {
    let by_grace = deletion::grace_end(claim, now);
    let deadline = interruption.moment()?;
    let deadline = by_grace.map_or(deadline, |end| end.min(deadline));
    deletion::termination_time(claim).is_none_or(|carried| deadline < carried).then_some(deadline)
}

/// Returns the spot offering of the NodeClaim's instance: where EC2 interrupts instances, it has no capacity.
fn offering(claim: &NodeClaim) -> Option<Scope> {
    let labels = claim.metadata.labels.as_ref()?;
    let spot = labels.get(label::CAPACITY_TYPE).is_some_and(|found| found == label::CAPACITY_SPOT);
    let (kind, zone) = (labels.get(label::INSTANCE_TYPE)?, labels.get(label::ZONE)?);
    spot.then(|| Scope::offering(CapacityType::Spot, kind, zone))
}

/// Returns the capacity reservation of the NodeClaim's instance.
fn reservation(claim: &NodeClaim) -> Option<Scope> {
    claim.metadata.labels.as_ref()?.get(label::CAPACITY_RESERVATION_ID).cloned().map(Scope::Reservation)
}

/// Returns the rest of `span` since `start`.
fn time_left(start: Timestamp, span: Duration, now: Timestamp) -> Duration {
    let passed = Duration::try_from(now.duration_since(start)).unwrap_or_default();
    span.saturating_sub(passed)
}

/// Stores the time of the last pod event on the NodeClaim; `consolidateAfter` begins then.
fn note_pod_event(view: &NodeClaimView, claim: &mut NodeClaim, decision: &mut NodeClaimDecision) {
    let Some(event) = view.last_pod_event else { return };
    let status = claim.status.get_or_insert_default();
    let written = status.last_pod_event_time.as_ref().map(|time| time.0);
    if written.is_some_and(|written| event <= written) {
        return;
    }
    let wait = written.map_or(Duration::ZERO, |written| time_left(written, POD_EVENT_INTERVAL, view.now));
    if wait.is_zero() {
        status.last_pod_event_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(event));
    } else {
        decision.wake(wait);
    }
}

/// Writes the status if the decision changed it, otherwise the timeline if it is complete.
fn write_status(view: &NodeClaimView, claim: &NodeClaim, decision: &mut NodeClaimDecision) {
    if claim.status == view.claim.status {
        start_timeline::copy(view, decision);
        return;
    }
    let patch = patches::status(&view.claim.metadata, &view.claim.status, &claim.status);
    decision.steps.push(Operation::PatchStatus(target(claim), patch));
}

#[cfg(test)]
mod tests;
