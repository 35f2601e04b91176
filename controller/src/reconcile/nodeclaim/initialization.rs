//! Initialization of a registered node. The node may receive pods once kubelet is ready, the startup taints are removed, and
//! every requested resource is registered.
//!
//! Kerf owns one startup taint, `kerf.sh/agent-not-ready`. Kerf removes it once, when the agent reports the node as ready, and
//! never adds it again. All other taints belong to their owners.

use api::decisions::{Decision, DecisionKind};
use api::objects::Node;
use api::status::Conditioned;
use api::{NodeClaim, condition, label, reason, taint};
use jiff::Timestamp;
use serde_json::json;

use super::{NodeClaimDecision, NodeClaimView, gates, nominated_pods};
use crate::write::writer::{Operation, Target};

/// Initializes the node of the NodeClaim.
pub(super) fn initialize(view: &NodeClaimView, claim: &mut NodeClaim, decision: &mut NodeClaimDecision) {
    let Some(node) = view.nodes.first() else {
        let message = "the registered Node does not exist";
        claim.set_unknown(condition::INITIALIZED, reason::NODE_NOT_FOUND, message, view.now);
        return;
    };
    nominated_pods::annotate(view, node, decision);
    if gates::lift_taint(view, node, decision) {
        return;
    }
    match obstacle(claim, node, view.now) {
        Some((reason, message)) => {
            claim.set_unknown(condition::INITIALIZED, reason, &message, view.now);
        }
        None => {
            let labels = json!({label::INITIALIZED: label::TRUE});
            let patch = json!({"metadata": {"labels": labels, "resourceVersion": node.metadata.resource_version}});
            decision.steps.push(Operation::Patch(Target::Node(node.name().to_owned()), patch));
            claim.set_true(condition::INITIALIZED, view.now);
            decision.initialized = true;
        }
    }
}

/// Returns the record of an initialized node, with the stages of its start so far.
#[must_use]
pub fn record(view: &NodeClaimView) -> Decision {
    let mut claim = view.claim.as_ref().clone();
    claim.set_true(condition::INITIALIZED, view.now);
    let node = view.nodes.first();
    Decision {
        nodepools: [claim.nodepool()].into_iter().collect(),
        nodeclaims: claim.metadata.name.iter().cloned().collect(),
        nodes: node.iter().map(|node| node.name()).collect(),
        stages: api::timeline::stages(&claim, node.map(AsRef::as_ref), view.awaited_pod.as_deref()),
        ..Decision::new(view.now, DecisionKind::Initialized, condition::INITIALIZED)
    }
}

/// Returns the first obstacle to the initialization of the node.
fn obstacle(claim: &NodeClaim, node: &Node, now: Timestamp) -> Option<(&'static str, String)> {
    if !node.is_ready() {
        return Some((reason::NODE_NOT_READY, "Node is not Ready".to_owned()));
    }
    let startup = claim.spec.startup_taints.iter().flatten();
    if let Some(left) = startup.into_iter().find(|wanted| node.spec.taints.iter().any(|found| found.matches(wanted))) {
        let message = format!("startup taint {} is not removed{}", left.key, gates::hint(claim, node, now));
        return Some((reason::STARTUP_TAINTS_EXIST, message));
    }
    if let Some(left) = node.spec.taints.iter().find(|found| taint::is_known_ephemeral(found)) {
        let hint = Some(left).filter(|left| left.key == taint::AGENT_NOT_READY).map(|_| gates::hint(claim, node, now));
        let message = format!("taint {} is not removed{}", left.key, hint.unwrap_or_default());
        return Some((reason::KNOWN_EPHEMERAL_TAINTS_EXIST, message));
    }
    let missing = claim.spec.resources.requests.iter().find(|(name, wanted)| {
        let asked = wanted.millis().is_ok_and(|amount| amount > 0);
        let there = node.status.allocatable.get(*name).and_then(|amount| amount.millis().ok());
        asked && there.unwrap_or(0) == 0
    });
    missing.map(|(name, _)| (reason::RESOURCE_NOT_REGISTERED, format!("resource {name} is not registered")))
}
