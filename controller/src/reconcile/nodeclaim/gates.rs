//! Gates of the agent, as the controller handles them. The startup taint is removed in two writes after the agent's report. A
//! NodeClaim whose gates remain closed for longer than its EC2NodeClass allows is deleted.

use std::time::Duration;

use api::objects::Node;
use api::status::Conditioned;
use api::{NodeClaim, Taint, condition, reason, taint};
use jiff::Timestamp;
use serde_json::json;

use super::{NodeClaimDecision, NodeClaimView, delete, name, target, time_left};
use crate::state::registration_health::Registration;
use crate::write::events::{Event, ObjectReference};
use crate::write::patches;
use crate::write::writer::{Operation, Target};

/// Delay between the two writes that remove the taint, from the second of the first write (timestamps have no fractions): a
/// quarter of a second at least.
const SETTLE: Duration = Duration::from_millis(1250);
/// Delay before the next check of a node that waits for other replacements in its NodePool.
const TURN: Duration = Duration::from_secs(30);

/// Limit for the closed gates of a NodeClaim's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateLimit {
    /// Maximum time since the registration.
    pub timeout: Duration,
    /// True if this node may be replaced now: at most a fifth of a NodePool is replaced at a time.
    pub turn: bool,
}

impl GateLimit {
    /// Returns the limit for `claim`, from all NodeClaims of its NodePool with their nodes. The order is by name, so that
    /// concurrent reconciles of several NodeClaims agree.
    #[must_use]
    pub fn new(claim: &NodeClaim, timeout: Duration, pool: &[(&NodeClaim, Option<&Node>)], now: Timestamp) -> Self {
        let before = |other: &NodeClaim, node: Option<&Node>| {
            is_given_up(other) || name(other) < name(claim) && is_late(other, node, timeout, now)
        };
        let ahead = pool.iter().filter(|(other, node)| before(other, *node)).count();
        Self { timeout, turn: ahead < pool.len().div_ceil(5) }
    }
}

/// Reports whether the NodeClaim is being deleted because its gates remained closed.
fn is_given_up(claim: &NodeClaim) -> bool {
    let initialized = api::status::find(claim.conditions(), condition::INITIALIZED);
    claim.metadata.deletion_timestamp.is_some() && initialized.is_some_and(|it| it.reason == reason::GATE_TIMEOUT)
}

fn is_late(claim: &NodeClaim, node: Option<&Node>, timeout: Duration, now: Timestamp) -> bool {
    let waiting = claim.metadata.deletion_timestamp.is_none() && !claim.is_true(condition::INITIALIZED);
    waiting && node.is_some_and(is_held) && left(claim, timeout, now).is_some_and(|left| left.is_zero())
}

fn left(claim: &NodeClaim, timeout: Duration, now: Timestamp) -> Option<Duration> {
    let registered = api::status::find(claim.conditions(), condition::REGISTERED).filter(|it| it.is_true())?;
    Some(time_left(registered.last_transition_time.0, timeout, now))
}

fn says_ready(node: &Node) -> bool {
    node.condition(condition::AGENT_READY).is_some_and(|found| found.status == condition::TRUE)
}

/// Reports whether the agent's gates keep pods away.
fn is_held(node: &Node) -> bool {
    !says_ready(node) && taint_of(node).is_some()
}

fn taint_of(node: &Node) -> Option<&Taint> {
    node.spec.taints.iter().find(|found| found.key == taint::AGENT_NOT_READY)
}

/// Adds the next of the two writes that remove the taint after the agent's report, and reports whether one is left. The first
/// write only changes the effect. A taint controller with an older view must not evict pods that kube-scheduler has just bound.
pub(super) fn lift_taint(view: &NodeClaimView, node: &Node, decision: &mut NodeClaimDecision) -> bool {
    let Some(held) = taint_of(node).filter(|_| says_ready(node)) else { return false };
    let others = node.spec.taints.iter().filter(|found| found.key != taint::AGENT_NOT_READY).cloned();
    let mut taints: Vec<Taint> = others.collect();
    if node.has_taint(taint::AGENT_NOT_READY, taint::NO_EXECUTE) {
        let since = Timestamp::from_second(view.now.as_second()).unwrap_or(view.now);
        let harmless = Taint::new(taint::AGENT_NOT_READY, taint::NO_SCHEDULE);
        taints.push(Taint { time_added: Some(since.to_string()), ..harmless });
    } else {
        let since = held.time_added.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
        let wait = since.map_or(Duration::ZERO, |since| time_left(since, SETTLE, view.now));
        if !wait.is_zero() {
            decision.wake(wait);
            return true;
        }
    }
    let patch = json!({
        "metadata": {"resourceVersion": node.metadata.resource_version},
        "spec": {"taints": taints},
    });
    decision.steps.push(Operation::Patch(Target::Node(node.name().to_owned()), patch));
    decision.wake(SETTLE);
    true
}

/// Deletes the NodeClaim if the gates of its node were closed for too long and the node may be replaced now.
pub(super) fn give_up(
    view: &NodeClaimView,
    claim: &NodeClaim,
    decision: &mut NodeClaimDecision,
) -> Option<NodeClaimDecision> {
    let (limit, node) = (view.gates?, view.nodes.first().filter(|node| is_held(node))?);
    let left = left(claim, limit.timeout, view.now)?;
    if !left.is_zero() || !limit.turn {
        decision.wake(if left.is_zero() { TURN } else { left });
        return None;
    }
    let said = node.condition(condition::AGENT_READY).map_or("no report of the agent", |it| it.message.as_str());
    let message = format!("gates did not open within {} s of registration: {said}", limit.timeout.as_secs());
    let mut failed = claim.clone();
    failed.set_false(condition::INITIALIZED, reason::GATE_TIMEOUT, &message, view.now);
    let note = Event::warning(ObjectReference::to(claim), reason::GATE_TIMEOUT, message.clone());
    let patch = patches::status(&view.claim.metadata, &view.claim.status, &failed.status);
    Some(NodeClaimDecision {
        steps: vec![Operation::PatchStatus(target(claim), patch), Operation::Note(note), delete(claim)],
        disrupted: Some("gate_timeout"),
        registration: Some(Registration::Bad { reason: reason::GATE_TIMEOUT.to_owned(), message }),
        ..NodeClaimDecision::default()
    })
}
