//! NodeClaims joined with their Nodes: existing, in-flight and leaving nodes, and the capacity of each.

mod bound_pod;
mod health;
mod instance_bounds;
mod node_cache;
mod translate;
pub(crate) mod unclaimed;
mod utilization;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::objects::Node;
use api::{Condition, NodeClaim, RebalanceRisk, condition, label, status, taint};
use jiff::Timestamp;
use planner::Leaving;

use crate::{Input, millis};

pub use health::unhealthy;
pub use instance_bounds::instance_capacity;
pub(crate) use node_cache::{CachedNode, refresh};
pub(crate) use translate::TranslationContext;
pub use utilization::{node_usage, sizing};

/// A NodeClaim with its Node; at most one is missing.
pub(crate) struct NodeSource<'a> {
    pub(crate) claim: Option<&'a Arc<NodeClaim>>,
    pub(crate) node: Option<&'a Arc<Node>>,
}

/// Stage of a node's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MachineStage {
    /// Not launched: the instance type is unknown.
    Unlaunched,
    /// Launched, with the instance's data in the status; not registered.
    Launched,
    /// Registered, not initialized.
    Registered,
    /// Initialized, or not managed.
    Initialized,
}

/// State of a node with respect to its NodePool's budgets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DisruptionState {
    /// True if the Node is `Ready`.
    pub(crate) ready: bool,
    /// True if the node is marked for disruption, which is the first step of a command.
    pub(crate) marked: bool,
    /// True if the NodeClaim or the Node is being deleted.
    pub(crate) deleted: bool,
    /// True if the termination of the instance has begun. Such a node no longer counts.
    pub(crate) terminating: bool,
}

impl DisruptionState {
    /// Reports whether the node uses the budget by itself.
    pub(crate) fn is_disrupted(self) -> bool {
        self.marked || !self.ready
    }
}

/// Joins NodeClaims and Nodes; each occurs once, ordered by name.
pub(crate) fn machines<'a>(input: &Input<'a>) -> Vec<NodeSource<'a>> {
    let mut nodes: BTreeMap<&str, &'a Arc<Node>> = input.nodes.iter().map(|node| (node.name(), *node)).collect();
    let by_provider: BTreeMap<&str, &str> = match input.claims.iter().any(|claim| unnamed(claim).is_some()) {
        // The first of several Nodes by name, regardless of the list's order.
        true => nodes.iter().rev().map(|(name, node)| (node.spec.provider_id.as_str(), *name)).collect(),
        false => BTreeMap::new(),
    };
    let mut machines: Vec<NodeSource<'a>> = Vec::new();
    let mut claims = input.claims.clone();
    claims.sort_by_key(|claim| claim.metadata.name.as_deref());
    for claim in claims {
        let named = claim.status.as_ref().map(|status| status.node_name.as_str()).filter(|name| !name.is_empty());
        let name = named.or_else(|| by_provider.get(unnamed(claim)?).copied());
        machines.push(NodeSource { claim: Some(claim), node: name.and_then(|name| nodes.remove(name)) });
    }
    machines.extend(nodes.into_values().map(|node| NodeSource { claim: None, node: Some(node) }));
    machines.sort_by(|one, other| (one.name(), one.claim_name()).cmp(&(other.name(), other.claim_name())));
    machines
}

/// Returns the provider id of a NodeClaim whose status has no node name yet.
fn unnamed(claim: &NodeClaim) -> Option<&str> {
    let status = claim.status.as_ref()?;
    (status.node_name.is_empty() && !status.provider_id.is_empty()).then_some(&status.provider_id)
}

/// Nominations by pod UID: their number, and the name of the node.
pub(crate) type Nominations<'a> = BTreeMap<&'a str, (usize, &'a str)>;

/// Returns the nominations of recent plans: their number and the current node name by pod UID. A NodeClaim with a Node has the
/// name of the Node.
pub(crate) fn nominations<'a>(input: &'a Input<'_>, machines: &'a [NodeSource<'_>]) -> Nominations<'a> {
    if input.nominations.is_empty() {
        return BTreeMap::new();
    }
    let claims: BTreeMap<&str, &str> =
        machines.iter().filter_map(|machine| Some((machine.claim_name()?, machine.name()))).collect();
    let present = |to: &'a String| claims.get(to.as_str()).copied().unwrap_or(to);
    let numbered = input.nominations.iter().enumerate();
    numbered.map(|(number, (uid, to))| (uid.as_str(), (number, present(to)))).collect()
}

impl<'a> NodeSource<'a> {
    /// Returns the Node's name, or the NodeClaim's while it has no Node.
    pub(crate) fn name(&self) -> &'a str {
        self.node.map(|node| node.name()).or_else(|| self.claim_name()).unwrap_or_default()
    }

    pub(crate) fn claim_name(&self) -> Option<&'a str> {
        self.claim.and_then(|claim| claim.metadata.name.as_deref())
    }

    /// Returns the id of the EC2 instance.
    pub(crate) fn instance(&self) -> Option<&'a str> {
        let of_claim = self.claim.and_then(|claim| Some(claim.status.as_ref()?.provider_id.as_str()));
        let of_node = self.node.map(|node| node.spec.provider_id.as_str());
        of_node.filter(|id| !id.is_empty()).or(of_claim)?.rsplit('/').next().filter(|id| !id.is_empty())
    }

    pub(crate) fn disruption_state(&self) -> DisruptionState {
        let holds = |type_| self.condition(type_).is_some_and(Condition::is_true);
        let closed = |node: &Arc<Node>| node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE);
        DisruptionState {
            ready: self.node.is_some_and(|node| node.is_ready()),
            marked: self.node.is_some_and(closed) || holds(condition::DISRUPTION_REASON),
            deleted: self.is_deleted(),
            terminating: holds(condition::INSTANCE_TERMINATING),
        }
    }

    /// Returns a condition of the NodeClaim.
    pub(crate) fn condition(&self, type_: &str) -> Option<&'a Condition> {
        status::find(&self.claim?.status.as_ref()?.conditions, type_)
    }

    /// Returns the name of the NodePool.
    pub(crate) fn pool(&self) -> Option<&'a String> {
        let of_claim = self.claim.and_then(|claim| claim.metadata.labels.as_ref()?.get(label::NODEPOOL));
        of_claim.or_else(|| self.node.and_then(|node| node.metadata.labels.as_ref()?.get(label::NODEPOOL)))
    }

    pub(crate) fn stage(&self) -> MachineStage {
        match (self.claim, self.node) {
            (None, _) => MachineStage::Initialized,
            (Some(_), Some(node)) if node.is_initialized() => MachineStage::Initialized,
            (Some(_), Some(node)) if node.is_registered() => MachineStage::Registered,
            (Some(claim), _) => {
                let known =
                    |status: &api::NodeClaimStatus| !status.provider_id.is_empty() && !status.allocatable.is_empty();
                let launched = claim.status.as_ref().is_some_and(known);
                if launched { MachineStage::Launched } else { MachineStage::Unlaunched }
            }
        }
    }

    /// Returns why the node is leaving. An interruption takes precedence over a deletion, because it cannot be postponed.
    pub(crate) fn leaving(&self) -> Option<Leaving> {
        let replaced = self
            .node
            .is_some_and(|node| RebalanceRisk::requested_replacement(node, self.claim.map(AsRef::as_ref)).is_some())
            || self.claim.is_some_and(|claim| claim.replaced_by().is_some());
        self.interruption().or((self.is_deleted() || replaced).then_some(Leaving::Deleting))
    }

    /// Reports whether the NodeClaim or the Node is being deleted.
    fn is_deleted(&self) -> bool {
        self.node.is_some_and(|node| node.metadata.deletion_timestamp.is_some())
            || self.claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some())
    }

    fn interruption(&self) -> Option<Leaving> {
        let node = self.node?;
        let deadline = || node.interruption_deadline().map(millis);
        node.interruption().map(|_| Leaving::Interrupted { deadline: deadline() })
    }

    /// Reports whether the instance reboots, by the record of the NodeClaim: a node could say so for ever.
    pub(crate) fn is_rebooting(&self) -> bool {
        self.condition(condition::REBOOTING).is_some_and(Condition::is_true)
    }

    /// Returns the time since which the node is initialized and Ready; `None` if it is not, or without a NodeClaim.
    pub(crate) fn healthy_since(&self) -> Option<Timestamp> {
        let ready = self.node?.condition(condition::READY).filter(|found| found.status == condition::TRUE)?;
        let initialized = self.condition(condition::INITIALIZED).filter(|found| found.is_true())?;
        let initialized = initialized.last_transition_time.0;
        Some(ready.last_transition_time.as_ref().map_or(initialized, |since| since.0.max(initialized)))
    }

    /// Returns the time of the last change: the initialization, or the arrival or departure of a pod.
    pub(crate) fn quiet_since(&self) -> Option<Timestamp> {
        self.claim?.quiet_since()
    }
}
