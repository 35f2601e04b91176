//! Start of disruption commands, and repair of incomplete starts.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::decisions::Decision;
use api::objects::Node;
use api::{NodeClaim, annotation};
use jiff::Timestamp;
use planner::CommandReason;
use serde_json::json;

use super::{
    CommandKind, DisruptedClaim, LivePods, blocking_pod, close, give_back, is_going, leaver, name, open, say, target,
    unsay, why,
};
use crate::state::index::Index;
use crate::write::writer::Operation;

/// Disruption command to start.
#[derive(Clone, Debug)]
pub struct DisruptionCommand {
    /// Reason of the disruption.
    pub reason: CommandReason,
    /// Names of the NodeClaims to disrupt.
    pub claims: Vec<String>,
    /// Condition of unhealthy nodes, if it is the reason.
    pub unhealthy: Option<String>,
    /// NodeClaims to create first.
    pub replacements: Vec<NodeClaim>,
    /// Planned nodes for the pods: UID of a pod, and name of a Node or of a replacement.
    pub places: Vec<(String, String)>,
    /// Records for the decision log: of the command, then of each replacement.
    pub records: Vec<Decision>,
}

impl DisruptionCommand {
    /// Returns the list of replacements, which is the id of a command in progress; `None` without replacements.
    #[must_use]
    pub fn id(&self) -> Option<String> {
        let names: Vec<&str> = self.replacements.iter().map(name).collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    /// Returns the kind of the command.
    #[must_use]
    pub fn kind(&self) -> CommandKind {
        CommandKind {
            reason: self.reason.as_str().to_owned(),
            replaces: !self.replacements.is_empty(),
            nodes: self.claims.len(),
        }
    }
}

/// Returns the operations that start a command. Returns `None` if since the plan a NodeClaim is gone, a pod arrived on an empty
/// node, or a pod blocks its node.
///
/// Nothing is launched before every node is tainted and has its reason. After a crash between two operations, the next
/// reconcile finds either a complete command or one to roll back.
#[must_use]
pub fn begin(index: &Index, order: &DisruptionCommand, now: Timestamp) -> Option<Vec<Operation>> {
    let leavers: Vec<DisruptedClaim> =
        order.claims.iter().map(|name| present(index, name, &LivePods::new(), now)).collect::<Option<_>>()?;
    let kind = order.kind();
    if leavers.iter().any(|leaver| newcomer(leaver, &kind).is_some()) {
        return None;
    }
    let mut steps: Vec<Operation> = leavers.iter().filter_map(|it| say(&it.claim, &kind.reason, now)).collect();
    steps.extend(leavers.iter().filter_map(close));
    if let Some(id) = order.id() {
        let mark = json!({"metadata": {"annotations": {annotation::REPLACED_BY: id}}});
        steps.extend(leavers.iter().map(|it| Operation::Patch(target(&it.claim), mark.clone())));
    }
    let replaces = order.claims.join(",");
    steps.extend(order.replacements.iter().map(|claim| {
        let mut claim = claim.clone();
        claim.metadata.annotations.get_or_insert_default().insert(annotation::REPLACES.to_owned(), replaces.clone());
        Operation::CreateClaim(Box::new(claim))
    }));
    Some(steps)
}

/// Returns the operations that end a command without replacements, after its nodes are tainted. kube-scheduler may have bound
/// pods after the plan and before the taints, which only a live list shows.
///
/// # Errors
/// Returns why a pod of the live list blocks the command. The next plan opens its nodes, see [`stale`].
pub fn finish(
    index: &Index,
    order: &DisruptionCommand,
    live: &LivePods,
    now: Timestamp,
) -> Result<Vec<Operation>, String> {
    let kind = order.kind();
    let leavers: Vec<DisruptedClaim> = order.claims.iter().filter_map(|name| present(index, name, live, now)).collect();
    match leavers.iter().find_map(|leaver| newcomer(leaver, &kind)) {
        Some(why) => Err(why),
        None => Ok(leavers.iter().flat_map(|leaver| give_back(leaver, &kind.reason, now)).collect()),
    }
}

/// Returns the reason why a pod that arrived after the plan blocks the command.
fn newcomer(leaver: &DisruptedClaim, kind: &CommandKind) -> Option<String> {
    let is_occupied = leaver.in_use && kind.is(CommandReason::Empty);
    let occupied = || format!("a pod was bound to the node of {} since", name(&leaver.claim));
    is_occupied.then(occupied).or_else(|| blocking_pod(leaver, kind))
}

/// Returns a NodeClaim that exists, is not being deleted and is in no command, with its node.
fn present(index: &Index, name: &str, live: &LivePods, now: Timestamp) -> Option<DisruptedClaim> {
    let claim = index.claims.get(name).filter(|claim| !is_going(claim) && claim.replaced_by().is_none())?;
    Some(leaver(index, claim, live, now))
}

/// Returns repairs after a crash between two operations of a start: of tainted nodes, and of NodeClaims with a reason, without
/// a command. The commands of `beginning` start now.
#[must_use]
pub fn stale(index: &Index, beginning: &BTreeSet<&str>) -> Vec<Operation> {
    let left =
        |claim: &NodeClaim| !is_going(claim) && claim.replaced_by().is_none() && !beginning.contains(name(claim));
    let of_left = |node: &&Arc<Node>| index.claim_of(node).is_some_and(|claim| left(claim));
    let closed = index.nodes.values().filter(of_left).filter_map(open);
    let said = index.claims.values().filter(|claim| left(claim)).filter_map(|claim| {
        let since = why(claim)?.last_transition_time.0;
        unsay(claim, since)
    });
    closed.chain(said).collect()
}
