//! Drain owner of a node: its agent if one is live, else the controller, never both and never none. The agent is asked by an
//! annotation and answers with a condition. The wait of the controller for the agent is limited here. Then the controller signs
//! on the node, and evicts pods once no request of the agent can arrive any more (`drain::Drain::take_over`).

use std::time::Duration;

use api::objects::Node;
use api::{DrainProgress, DrainRequest, DrainTaken, annotation, condition, reason};
use drain::{Drain, Millis};
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
}

/// Decides the drain owner while pods that must be evicted are left.
pub(super) fn whose(view: &NodeView) -> DrainOwner {
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
pub(super) fn patience(view: &NodeView) -> Option<Duration> {
    let left = match whose(view) {
        DrainOwner::Ask(_) => ACKNOWLEDGES,
        DrainOwner::Agent => {
            let standing = standing(&view.node)?;
            match answer(&view.node, &standing.id) {
                None => ACKNOWLEDGES - view.now.duration_since(standing.requested_at?),
                Some(_) => SILENCE_DRAINING - view.now.duration_since(last_agent_report(&view.node)?),
            }
        }
        DrainOwner::Ours(_) => return None,
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
