//! A move begins, and what is left of one that never began.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::objects::Node;
use api::{NodeClaim, annotation};
use jiff::Timestamp;
use planner::CommandReason;
use serde_json::json;

use super::{
    CommandKind, DisruptedClaim, close, give_back, heeds, is_going, leaver, name, open, say, target, unsay, why,
};
use crate::state::index::Index;
use crate::write::writer::Operation;

/// A move to begin.
#[derive(Clone, Debug)]
pub struct DisruptionCommand {
    /// Why the nodes go.
    pub reason: CommandReason,
    /// Names of the claims that go.
    pub claims: Vec<String>,
    /// The condition that calls the nodes unhealthy, if that is why they go.
    pub sick: Option<String>,
    /// Claims to create first.
    pub replacements: Vec<NodeClaim>,
    /// Places for the pods of the nodes: a pod's UID, and the name of a Node or of a replacement.
    pub places: Vec<(String, String)>,
}

impl DisruptionCommand {
    /// The list of replacements, which is the move's name while it is under way; `None` where there are none.
    #[must_use]
    pub fn id(&self) -> Option<String> {
        let names: Vec<&str> = self.replacements.iter().map(name).collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> CommandKind {
        CommandKind {
            reason: self.reason.as_str().to_owned(),
            replaces: !self.replacements.is_empty(),
            nodes: self.claims.len(),
        }
    }
}

/// The steps that begin a move, and for one that waits for nothing those that end it; `None` if since it was planned a claim has
/// gone, a pod has come to a node that was empty, or one asks not to be disrupted.
///
/// Nothing is bought before every node is closed and says what it waits for. Whatever comes between two steps, the next look finds
/// either a whole move or one to roll back.
#[must_use]
pub fn begin(index: &Index, order: &DisruptionCommand, now: Timestamp) -> Option<Vec<Operation>> {
    let leavers: Vec<DisruptedClaim> =
        order.claims.iter().map(|name| present(index, name, now)).collect::<Option<_>>()?;
    let kind = order.kind();
    let taken = |it: &DisruptedClaim| {
        it.in_use && kind.is(CommandReason::Empty) || it.held_by.is_some() && heeds(&it.claim, &kind)
    };
    if leavers.iter().any(taken) {
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
    if order.replacements.is_empty() {
        steps.extend(leavers.iter().flat_map(|it| give_back(it, &kind.reason, now)));
    }
    Some(steps)
}

/// A claim that is there and stays so far, with its node.
fn present(index: &Index, name: &str, now: Timestamp) -> Option<DisruptedClaim> {
    let claim = index.claims.get(name).filter(|claim| !is_going(claim) && claim.replaced_by().is_none())?;
    Some(leaver(index, claim, now))
}

/// What a process left behind that died between two steps of a begin: nodes that are closed, and claims that say why they go,
/// though no move is under way. `beginning` are claims that go now.
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
