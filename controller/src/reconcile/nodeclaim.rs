//! A NodeClaim's way from the request to a node that pods may use, and back to nothing: one look, one decision.
//!
//! Pure: the view holds all that the decision may depend on, `now` included.

mod consolidatable;
mod deletion;
mod gates;
mod initialization;
mod nominated_pods;
mod registration;

use std::sync::Arc;
use std::time::Duration;

use api::objects::{Node, Pod};
use api::status::Conditioned;
use api::{NodeClaim, NodePool, condition, finalizer, label, reason};
use cloud::unavailable_offerings::Scope;
use jiff::Timestamp;
use planner::CapacityType;
use serde_json::json;

pub use consolidatable::quiet_time;
pub use gates::GateLimit;

use crate::gc::drift;
use crate::informer::interruption::{Notice, NoticeKind};
use crate::reconcile::queue::QueueAction;
use crate::reconcile::work::WorkItem;
use crate::state::registration_health::Registration;
use crate::write::events::{Event, ObjectReference};
use crate::write::patches;
use crate::write::writer::{Operation, Target};

/// A claim that has no instance after this long is given up (core 3.1).
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// A claim whose node has not registered after this long is given up.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// A claim that is older than this was not written by a plan that is still at work.
const STRAGGLER: Duration = Duration::from_secs(2);
/// Pod events are written down at most this often.
const POD_EVENT_INTERVAL: Duration = Duration::from_secs(10);

/// Time between looks at an instance that is ending.
const SOONEST_LOOK: Duration = Duration::from_secs(1);
const LATEST_LOOK: Duration = Duration::from_secs(5);

/// All that a decision about a claim depends on.
#[derive(Clone, Debug)]
pub struct NodeClaimView {
    /// The claim.
    pub claim: Arc<NodeClaim>,
    /// Its pool, if that exists.
    pub pool: Option<Arc<NodePool>>,
    /// Nodes with the claim's provider id.
    pub nodes: Vec<Arc<Node>>,
    /// Pods that wait and were promised a place on the claim's node.
    pub expected: Vec<Arc<Pod>>,
    /// What EC2 says of the claim's instance; read only for claims that are being deleted.
    pub instance: InstanceState,
    /// When a pod last came to the claim's node or left it.
    pub last_pod_event: Option<Timestamp>,
    /// How long the gates of the claim's node may stay closed; `None` for ever.
    pub gates: Option<GateLimit>,
    /// What the controller itself heard of the end of the claim's instance.
    pub notice: Option<Notice>,
    /// The moment of the look.
    pub now: Timestamp,
}

/// What EC2 says of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// Nobody asked.
    Unknown,
    /// It runs or starts.
    Alive,
    /// It was asked to end and has not yet.
    Ending,
    /// It is terminated, or EC2 does not know it any more.
    Gone,
}

/// What to do about a claim.
#[derive(Debug, Default)]
pub struct NodeClaimDecision {
    /// Steps in order.
    pub steps: Vec<Operation>,
    /// Other things to look at now.
    pub work: Vec<WorkItem>,
    /// When to look again although nothing changed.
    pub after: Option<Duration>,
    /// Counted once the steps are done: why the claim is given up.
    pub disrupted: Option<&'static str>,
    /// How the claim's launch ended, when this decision ends it.
    pub registration: Option<Registration>,
    /// Counted as out of stock from now on.
    pub short: Option<Scope>,
    /// Whether the last step lets the claim go for good.
    pub released: bool,
}

impl NodeClaimDecision {
    /// What the queue should do next.
    #[must_use]
    pub fn next(&self) -> QueueAction {
        self.after.map_or(QueueAction::Wait, QueueAction::After)
    }

    /// Asks to be woken at the latest after `delay`.
    fn wake(&mut self, delay: Duration) {
        self.after = Some(self.after.map_or(delay, |after| after.min(delay)));
    }
}

/// Whether what becomes of the claim depends on what EC2 says of its instance now.
#[must_use]
pub fn asks(view: &NodeClaimView) -> bool {
    deletion::asks(view)
}

/// How long to leave an instance alone that was asked to end: an eighth of the time that it has had, for most take half a minute
/// and some minutes.
#[must_use]
pub fn next_look(claim: &NodeClaim, now: Timestamp) -> Duration {
    let told = api::status::find(claim.conditions(), condition::INSTANCE_TERMINATING).filter(|found| found.is_true());
    let passed = told.map(|found| now.duration_since(found.last_transition_time.0));
    let passed = passed.and_then(|passed| Duration::try_from(passed).ok()).unwrap_or_default();
    (passed / 8).clamp(SOONEST_LOOK, LATEST_LOOK)
}

/// Decides about one claim.
#[must_use]
pub fn decide(view: &NodeClaimView) -> NodeClaimDecision {
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
        return give_up_interrupted(view, &reason);
    }
    if !claim.is_true(condition::LAUNCHED) {
        ask_for_launch(view, &mut decision);
    } else if !claim.is_true(condition::REGISTERED) {
        registration::register(view, &mut claim, &mut decision);
    } else if !claim.is_true(condition::INITIALIZED) {
        if let Some(given_up) = gates::give_up(view, &claim, &mut decision) {
            return given_up;
        }
        initialization::initialize(view, &mut claim, &mut decision);
    } else if let Some(node) = view.nodes.first() {
        nominated_pods::annotate(view, node, &mut decision);
    }
    if give_up_late(view, &claim, &mut decision) {
        return decision;
    }
    note_pod_event(view, &mut claim, &mut decision);
    consolidatable::follow(view, &mut claim, &mut decision);
    drift::follow_pool(&mut claim, view.pool.as_deref(), view.now);
    write_status(view, &claim, &mut decision);
    decision
}

/// Claims of one plan go into fleets together once all are written; a claim that nobody took along asks by itself.
fn ask_for_launch(view: &NodeClaimView, decision: &mut NodeClaimDecision) {
    let created = view.claim.metadata.creation_timestamp.as_ref().map_or(view.now, |time| time.0);
    let patience = time_left(created, STRAGGLER, view.now);
    match crate::state::index::launch_token(&view.claim) {
        Some(token) => decision.work.push(WorkItem::Launch(token.to_owned())),
        None if patience.is_zero() => decision.work.push(WorkItem::Gather),
        None => decision.wake(patience),
    }
}

fn has_finalizer(claim: &NodeClaim) -> bool {
    patches::has_finalizer(&claim.metadata, finalizer::TERMINATION)
}

/// The finalizer goes on before anything is launched, so that nothing launched is ever forgotten.
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

/// The claim's pool.
#[must_use]
pub fn pool(claim: &NodeClaim) -> &str {
    claim.metadata.labels.as_ref().and_then(|labels| labels.get(label::NODEPOOL)).map_or("", String::as_str)
}

fn delete(claim: &NodeClaim) -> Operation {
    Operation::Delete(target(claim), claim.metadata.uid.clone().unwrap_or_default())
}

/// A notice that the instance goes: as the agent wrote it on the node, or as the controller heard it.
struct Interruption {
    reason: String,
    deadline: Option<String>,
    kind: NoticeKind,
}

/// The agent's word comes first: it knows the deadline from the machine itself.
fn interruption(view: &NodeClaimView) -> Option<Interruption> {
    agents_word(view).or_else(|| {
        view.notice.as_ref().map(|notice| Interruption {
            reason: notice.kind.as_str().to_owned(),
            deadline: notice.deadline.map(|deadline| deadline.to_string()),
            kind: notice.kind,
        })
    })
}

fn agents_word(view: &NodeClaimView) -> Option<Interruption> {
    let node = view.nodes.first()?;
    Some(Interruption {
        reason: node.interruption()?.reason.clone(),
        deadline: node.annotation(api::annotation::INTERRUPTION_DEADLINE).map(str::to_owned),
        kind: NoticeKind::SpotInterrupted,
    })
}

/// The claim goes at once; its node stays until the agent has emptied it or the deadline has come.
fn give_up_interrupted(view: &NodeClaimView, interruption: &Interruption) -> NodeClaimDecision {
    let claim = &view.claim;
    let mut steps = Vec::new();
    if let Some(deadline) = interruption.deadline.as_ref().filter(|deadline| tightens(claim, deadline)) {
        let annotations = json!({api::annotation::TERMINATION_TIMESTAMP: deadline});
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
    let message = match &interruption.deadline {
        Some(deadline) => format!("instance terminates at {deadline} ({})", interruption.reason),
        None => format!("instance terminates ({})", interruption.reason),
    };
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

/// Whether `deadline` comes before the one that the claim carries, if it carries one that can be read.
fn tightens(claim: &NodeClaim, deadline: &str) -> bool {
    let moment = |text: &str| text.parse::<Timestamp>().ok();
    let annotations = claim.metadata.annotations.as_ref();
    let carried =
        annotations.and_then(|all| all.get(api::annotation::TERMINATION_TIMESTAMP)).and_then(|text| moment(text));
    carried.is_none_or(|carried| moment(deadline).is_some_and(|deadline| deadline < carried))
}

/// The spot pool that the claim's machine came from: where EC2 takes machines back, it has none to give.
fn offering(claim: &NodeClaim) -> Option<Scope> {
    let labels = claim.metadata.labels.as_ref()?;
    let spot = labels.get(label::CAPACITY_TYPE).is_some_and(|found| found == label::CAPACITY_SPOT);
    let (kind, zone) = (labels.get(label::INSTANCE_TYPE)?, labels.get(label::ZONE)?);
    spot.then(|| Scope::offering(CapacityType::Spot, kind, zone))
}

/// The reservation that the claim's machine runs in.
fn reservation(claim: &NodeClaim) -> Option<Scope> {
    claim.metadata.labels.as_ref()?.get(label::CAPACITY_RESERVATION_ID).cloned().map(Scope::Reservation)
}

/// Liveness (core 3.1): both clocks start when the condition last changed its status, which at first is the
/// claim's creation.
fn give_up_late(view: &NodeClaimView, claim: &NodeClaim, decision: &mut NodeClaimDecision) -> bool {
    let clocks = [
        (condition::LAUNCHED, LAUNCH_TIMEOUT, "launch_timeout"),
        (condition::REGISTERED, REGISTRATION_TIMEOUT, "registration_timeout"),
    ];
    for (type_, timeout, reason) in clocks {
        let Some(found) = api::status::find(claim.conditions(), type_).filter(|found| !found.is_true()) else {
            continue;
        };
        let left = time_left(found.last_transition_time.0, timeout, view.now);
        if left.is_zero() {
            let message = format!("timed out after {} minutes: {}", timeout.as_secs() / 60, found.message);
            decision.steps = vec![
                Operation::Note(Event::warning(ObjectReference::to(claim), reason::LAUNCH_FAILED, message)),
                delete(claim),
            ];
            decision.disrupted = Some(reason);
            decision.registration = Some(failure(claim, found));
            return true;
        }
        decision.wake(left);
    }
    false
}

/// Why the launch failed: EC2's word if it never launched, else that its node never came.
fn failure(claim: &NodeClaim, launched: &api::Condition) -> Registration {
    match claim.is_true(condition::LAUNCHED) {
        true => Registration::Bad {
            reason: reason::REGISTRATION_FAILED.to_owned(),
            message: format!("the node of {} did not register", name(claim)),
        },
        false => Registration::Bad { reason: launched.reason.clone(), message: launched.message.clone() },
    }
}

/// What is left of `span` since `start`.
fn time_left(start: Timestamp, span: Duration, now: Timestamp) -> Duration {
    let passed = Duration::try_from(now.duration_since(start)).unwrap_or_default();
    span.saturating_sub(passed)
}

/// Consolidation waits until a node has been quiet; when it was last not, is kept with the claim.
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

/// Writes the status if the decision changed it.
fn write_status(view: &NodeClaimView, claim: &NodeClaim, decision: &mut NodeClaimDecision) {
    if claim.status != view.claim.status {
        let patch = patches::status(&view.claim.metadata, &view.claim.status, &claim.status);
        decision.steps.push(Operation::PatchStatus(target(claim), patch));
    }
}

#[cfg(test)]
mod tests;
