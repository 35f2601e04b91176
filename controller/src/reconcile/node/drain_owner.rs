//! Drain owner of a node: its agent if one is live, else the controller, never both and never none. The agent is asked by an
//! annotation and answers with a condition. The wait of the controller for the agent is limited here. Then the controller signs
//! on the node, and evicts pods once no request of the agent can arrive any more (`drain::Drain::take_over`).
//!
//! All that the agent says stands on the Node, which a compromised node writes as it likes. So a drain without an end passes to
//! the controller for good, which is recorded on the NodeClaim.

use std::time::Duration;

use api::objects::Node;
use api::{DrainProgress, DrainRequest, DrainTaken, NodeClaim, annotation, condition, reason};
use drain::{Drain, MARK_HOLDS, Millis};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{NodeView, millis};
use crate::write::writer::{Operation, Target};

/// Time without a report after which an agent is not live.
const SILENCE: SignedDuration = SignedDuration::from_mins(3);
/// Time without a report after which a draining agent is not live. A draining agent reports every few seconds.
const SILENCE_DRAINING: SignedDuration = SignedDuration::from_secs(30);
/// Time in which an agent acknowledges a request.
const ACKNOWLEDGES: SignedDuration = SignedDuration::from_secs(5);
/// Time after the deadline in which an agent finishes its drain.
const MARGIN: Duration = Duration::from_secs(30);
/// Time in which a pod must leave a node whose agent drains.
const STALLED: Duration = Duration::from_mins(10);
/// Reason for a drain that the controller owns from the beginning.
pub(super) const UNHEARD: &str = "no report of an agent for 3 minutes";

/// Owner of a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DrainOwner {
    /// Agent that must receive this request, which is new or has changed.
    Ask(DrainRequest),
    /// Agent that drains, or may still acknowledge.
    Agent,
    /// Controller, with the reason. The controller remains the owner until an agent removes the controller's signature.
    Ours(String),
    /// Controller until the end, with the reason. The NodeClaim must record it before the controller evicts pods.
    Final(String),
}

/// Decides the drain owner while pods that must be evicted are left.
pub(super) fn whose(view: &NodeView, drain: &Drain) -> DrainOwner {
    if let Some(record) = recorded(view) {
        return DrainOwner::Final(record.reason);
    }
    match (by_node(view), overdue(view, drain)) {
        // A node can also change the signature of the controller again and again.
        (DrainOwner::Ours(why), Some(_)) => DrainOwner::Final(why),
        (_, Some(why)) => DrainOwner::Final(why),
        (owner, None) => owner,
    }
}

/// Returns why a drain that has no end passes to the controller for good, if its NodeClaim can record it.
fn overdue(view: &NodeView, drain: &Drain) -> Option<String> {
    let now = millis(view.now);
    view.claim.as_ref()?;
    if super::deadline(view).is_some_and(|deadline| now >= deadline + MARGIN) {
        return Some("the agent did not finish its drain within 30 s after the deadline".to_owned());
    }
    let stalled = drain.without_progress(now) >= STALLED;
    stalled.then(|| "no pod left the node for 10 minutes while its agent drained".to_owned())
}

fn by_node(view: &NodeView) -> DrainOwner {
    if view.node.annotation(annotation::DRAIN_TAKEN_OVER).is_some() {
        return DrainOwner::Ours(taken(&view.node).map_or_else(|| UNHEARD.to_owned(), |taken| taken.reason));
    }
    let wanted = request(view);
    let standing = standing(&view.node).filter(|standing| standing.id == wanted.id);
    let silence = view.now.duration_since(last_agent_report(&view.node).unwrap_or(Timestamp::MIN));
    match standing {
        None if silence < SILENCE => DrainOwner::Ask(wanted),
        None => DrainOwner::Ours(UNHEARD.to_owned()),
        Some(standing) => asked(view, &wanted, &standing, silence),
    }
}

fn asked(view: &NodeView, wanted: &DrainRequest, standing: &DrainRequest, silence: SignedDuration) -> DrainOwner {
    let since = view.now.duration_since(standing.requested_at.unwrap_or(Timestamp::MIN));
    let ours = |why: &str| DrainOwner::Ours(why.to_owned());
    let same = (standing.deadline, standing.termination) == (wanted.deadline, wanted.termination);
    match answer(&view.node, &standing.id) {
        None if since < ACKNOWLEDGES => DrainOwner::Agent,
        None => ours("the agent did not acknowledge the drain within 5 s"),
        Some(_) if silence >= SILENCE_DRAINING => ours("no report of the agent for 30 s"),
        Some(AgentReply::Over) => ours("the agent finished its drain, but pods are left"),
        Some(AgentReply::Drains) if !same => DrainOwner::Ask(wanted.clone()),
        Some(AgentReply::Drains) => DrainOwner::Agent,
    }
}

/// Returns the time until which the controller, as owner, may evict pods. `None` requires a signature first.
pub(super) fn relieve(view: &NodeView, drain: &mut Drain) -> Option<Millis> {
    let signed = taken(&view.node).map(|taken| millis(taken.at));
    drain.take_over(millis(view.now), signed, view.node.annotation(annotation::AGENT_HEARTBEAT).is_some())
}

/// Returns the record of the controller's final ownership on the NodeClaim.
pub(super) fn recorded(view: &NodeView) -> Option<DrainTaken> {
    let annotations = view.claim.as_ref()?.metadata.annotations.as_ref()?;
    DrainTaken::parse(annotations.get(annotation::DRAIN_TAKEN_OVER)?).filter(|record| record.id == id(view))
}

/// Records the final ownership of the controller on the NodeClaim.
pub(super) fn record(view: &NodeView, claim: &NodeClaim, why: &str) -> Operation {
    let annotations = json!({annotation::DRAIN_TAKEN_OVER: signature(view, why)});
    Operation::Patch(super::claim_target(claim), json!({"metadata": {"annotations": annotations}}))
}

/// Returns the time until which the controller, as the final owner, may evict pods, whatever signature the node shows.
pub(super) fn relieve_for_good(view: &NodeView, drain: &mut Drain) -> Option<Millis> {
    drain.sign();
    drain.take_over(millis(view.now), Some(millis(view.now)), true)
}

/// Returns a new signature for an agent that may still run, if the present one is missing or will soon be abandoned.
pub(super) fn renew(view: &NodeView, why: &str) -> Option<Operation> {
    let is_current = |taken: DrainTaken| taken.at <= view.now && millis(view.now) < millis(taken.at) + MARK_HOLDS;
    let annotations = json!({annotation::DRAIN_TAKEN_OVER: signature(view, why)});
    let patch = json!({"metadata": {"annotations": annotations}});
    (!taken(&view.node).is_some_and(is_current))
        .then(|| Operation::Patch(Target::Node(view.node.name().to_owned()), patch))
}

/// Signs on the node in the version that was read, so that a later change is read first.
pub(super) fn sign(view: &NodeView, why: &str) -> Operation {
    let metadata = json!({
        "resourceVersion": view.node.metadata.resource_version,
        "annotations": {annotation::DRAIN_TAKEN_OVER: signature(view, why)},
    });
    Operation::Patch(Target::Node(view.node.name().to_owned()), json!({"metadata": metadata}))
}

/// Returns the signature of the controller.
pub(super) fn signature(view: &NodeView, why: &str) -> String {
    DrainTaken { id: id(view), reason: why.to_owned(), at: view.now }.to_string()
}

/// Returns the time that the agent has left, or `None` if the agent is not the owner.
pub(super) fn patience(view: &NodeView, drain: &Drain) -> Option<Duration> {
    let left = match whose(view, drain) {
        DrainOwner::Ask(_) => ACKNOWLEDGES,
        DrainOwner::Agent => {
            let standing = standing(&view.node)?;
            match answer(&view.node, &standing.id) {
                None => ACKNOWLEDGES - view.now.duration_since(standing.requested_at?),
                Some(_) => SILENCE_DRAINING - view.now.duration_since(last_agent_report(&view.node)?),
            }
        }
        DrainOwner::Ours(_) | DrainOwner::Final(_) => return None,
    };
    Duration::try_from(left).ok()
}

/// Returns the request for an agent on this node. The time of the first request is kept.
pub(super) fn request(view: &NodeView) -> DrainRequest {
    let id = id(view);
    let requested_at =
        standing(&view.node).filter(|standing| standing.id == id).and_then(|standing| standing.requested_at);
    DrainRequest {
        id,
        reason: super::why(view).to_owned(),
        deadline: super::deadline(view).and_then(|at| Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()),
        daemon_sets: true,
        termination: true,
        requested_at: Some(requested_at.unwrap_or(view.now)),
    }
}

/// Returns the id of the drain for agent and controller.
fn id(view: &NodeView) -> String {
    format!("termination-{}", view.node.metadata.uid.as_deref().unwrap_or_default())
}

/// Reports whether the agent was asked for this drain.
pub(super) fn is_asked(view: &NodeView) -> bool {
    standing(&view.node).is_some_and(|standing| standing.id == id(view))
}

/// Reports whether an agent on the instance is live and would receive a request.
pub(super) fn is_heard(view: &NodeView) -> bool {
    has_live_agent(&view.node, view.now)
}

/// Reports whether an agent on the node has reported recently before `now`.
#[must_use]
pub fn has_live_agent(node: &Node, now: Timestamp) -> bool {
    last_agent_report(node).is_some_and(|last| now.duration_since(last) < SILENCE)
}

/// Returns the agent's report about the requested drain.
#[must_use]
pub fn drain_condition(node: &Node) -> Option<DrainProgress> {
    let standing = standing(node)?;
    let found = node.condition(condition::NODE_DRAINED)?;
    Some(DrainProgress::parse(&found.message)).filter(|said| said.ids.contains(&standing.id))
}

enum AgentReply {
    Drains,
    Over,
}

fn answer(node: &Node, id: &str) -> Option<AgentReply> {
    let found = node.condition(condition::NODE_DRAINED)?;
    let ours = DrainProgress::parse(&found.message).ids.iter().any(|said| said == id);
    let drains = found.status == condition::FALSE && found.reason == reason::DRAINING;
    ours.then_some(if drains { AgentReply::Drains } else { AgentReply::Over })
}

fn standing(node: &Node) -> Option<DrainRequest> {
    DrainRequest::parse(node.annotation(annotation::DRAIN)?).ok()
}

fn taken(node: &Node) -> Option<DrainTaken> {
    DrainTaken::parse(node.annotation(annotation::DRAIN_TAKEN_OVER)?)
}

fn last_agent_report(node: &Node) -> Option<Timestamp> {
    node.annotation(annotation::AGENT_HEARTBEAT)?.parse().ok()
}
