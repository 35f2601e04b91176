//! Which nodes go, and what has to be there before they do.
//!
//! The algorithm in prose. Every managed node is judged (`evaluation`): on its way already, held by something, or free to go for a
//! reason. The reasons have their turns, the surest first:
//! 1. nodes that are unhealthy for good, whatever their budget says; static pools give back what they have too many of (`surplus`);
//! 2. nodes on which nothing runs that would need another place, the dearest first;
//! 3. nodes that have drifted or expired, the longest first: their pods get places on other nodes or on new ones, at any price,
//!    and each node of a static pool has a successor from the pool's template;
//! 4. nodes whose pods have cheaper places (`consolidate`), those first that save the most for what they disturb (`worth`).
//!
//! Budgets are spent over the whole plan (`remaining budgets`), so a node that goes for one reason leaves less for all others. Places are
//! looked for on a simulation on which the plan's own pods have theirs already (`simulation`); what is found for one move is taken for
//! all after it. Moves are carried out side by side, so none may depend on another: pods that move count where they are and
//! where they go, and a move that would take the place of one away waits for the next plan. Where a move needs new nodes,
//! these are narrowed to what is sure to be cheaper (`narrow`).
//!
//! Requests of pods that stay change beside the moves: those that were lowered and are needed again go up first (`returns`); in the
//! end, where pools pack, what would make room for pods of nodes that found nothing is lowered (`lowering`).

mod consolidate;
mod disruption_plan;
mod eligibility;
mod independent_parts;
mod lower_requests;
mod remaining_budgets;
mod replacement_types;
mod restore_requests;
mod savings;
mod simulation;
mod split_balance;
mod surplus;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use disruption_plan::{DisruptionPlan, PlannedCommands, Position, disrupted_node};
use eligibility::EligibilityRules;
use lower_requests::{Lookahead, LowerRequests};
use remaining_budgets::RemainingBudgets;
use savings::{SavingsRules, cost_of};
use simulation::SimulatedCluster;

use crate::provision::KnownDomains;
use crate::{
    Balance, CommandCause, CommandReason, MicroDollars, Node, NodeVerdict, Plan, PlannedCommand, Resize, Snapshot,
    Stage,
};

/// How often places are looked for anew, at most, because something in them was not foreseen.
const MOST_SURPRISES: usize = 3;

/// Adds what goes to a plan that has placed its pods, and a verdict for every managed node.
pub(crate) fn disrupt(snapshot: &Snapshot, plan: &mut Plan) {
    let judge = EligibilityRules::new(snapshot, plan);
    let mut free: BTreeMap<CommandReason, Vec<Position>> = BTreeMap::new();
    let mut verdicts: BTreeMap<Position, NodeVerdict> = BTreeMap::new();
    for (position, node) in snapshot.nodes.iter().enumerate().filter(|(_, node)| node.claim.is_some()) {
        match judge.evaluate(node) {
            Ok(reason) => free.entry(reason).or_default().push(position),
            Err(verdict) => {
                verdicts.insert(position, verdict);
            }
        }
    }
    let scales = SavingsRules::new(snapshot);
    let mut going = DisruptionPass {
        snapshot,
        scales: &scales,
        budgets: RemainingBudgets::new(snapshot),
        moves: Vec::new(),
        verdicts,
    };
    going.unhealthy(free.remove(&CommandReason::Unhealthy).unwrap_or_default());
    going.surplus(&judge);
    free.values_mut().for_each(|nodes| nodes.retain(|node| !going.verdicts.contains_key(node)));
    for position in going.empty(free.remove(&CommandReason::Empty).unwrap_or_default()) {
        // What its budget for empty nodes does not allow, another reason may.
        if let Some(reason) = judge.outdated(&snapshot.nodes[position]) {
            free.entry(reason).or_default().push(position);
        }
    }
    let DisruptionPass { budgets, mut moves, mut verdicts, .. } = going;
    let mut resizes = restore_requests::restore_requests(snapshot, plan);
    let lowering = LowerRequests::new(snapshot, &judge, &resizes);
    let mut ahead = Lookahead::default();
    if !free.is_empty() {
        let found = relocate((snapshot, &scales), plan, &judge, budgets, &mut free, (&moves, &resizes, &lowering));
        let first = plan.launches.len();
        moves.extend(found.moves.into_iter().map(|it| it.counted_from(first)));
        plan.launches.extend(found.launches);
        verdicts.extend(found.verdicts);
        ahead = found.ahead;
    }
    verdicts.extend(ahead.verdicts);
    let gone: BTreeSet<&str> = moves.iter().flat_map(|it| &it.nodes).map(|leaver| leaver.node.as_str()).collect();
    resizes.extend(ahead.resizes);
    resizes.retain(|resize| !gone.contains(resize.node.as_str()));
    resizes.sort_by(|one, other| {
        (&one.node, &one.pod, &one.uid, one.why).cmp(&(&other.node, &other.pod, &other.uid, other.why))
    });
    plan.resizes = resizes;
    plan.saved_by_usage = MicroDollars(ahead.saving + lower_requests::saved(snapshot, &moves));
    plan.report.unpacked = lowering.unpacked;
    plan.report.nodes =
        verdicts.into_iter().map(|(position, verdict)| (snapshot.nodes[position].name.clone(), verdict)).collect();
    plan.moves = moves;
}

/// What moves that save money mean for each pool that they take nodes from; nothing where a saving is unknown.
#[must_use]
pub fn balances<'m>(snapshot: &Snapshot, moves: impl IntoIterator<Item = &'m PlannedCommand>) -> Vec<Balance> {
    let scales = SavingsRules::new(snapshot);
    let known: BTreeMap<&str, &Node> = snapshot.nodes.iter().map(|node| (node.name.as_str(), node.as_ref())).collect();
    let of_move = |planned: &PlannedCommand| {
        let nodes: Vec<&Node> =
            planned.nodes.iter().filter_map(|leaver| known.get(leaver.node.as_str()).copied()).collect();
        planned.saving.map_or_else(Vec::new, |saved| scales.balances(&nodes, saved.0))
    };
    moves.into_iter().flat_map(of_move).collect()
}

/// Nodes that go without anyone looking for places first.
struct DisruptionPass<'a> {
    snapshot: &'a Snapshot,
    scales: &'a SavingsRules<'a>,
    budgets: RemainingBudgets<'a>,
    moves: Vec<PlannedCommand>,
    verdicts: BTreeMap<Position, NodeVerdict>,
}

impl<'a> DisruptionPass<'a> {
    fn node(&self, position: Position) -> &'a Node {
        &self.snapshot.nodes[position]
    }

    fn remove(&mut self, position: Position, reason: CommandReason, why: CommandCause) {
        let node = self.node(position);
        self.budgets.spend(&[node]);
        self.verdicts.insert(position, NodeVerdict::Remove(reason));
        let (replacements, pods) = (Vec::new(), Vec::new());
        let saving = self.scales.price_of(node).map(MicroDollars);
        let cost = if reason == CommandReason::Empty { 0 } else { cost_of(node) };
        self.moves.push(PlannedCommand {
            reason,
            nodes: vec![disrupted_node(node)],
            replacements,
            pods,
            saving,
            cost,
            why,
        });
    }

    fn unhealthy(&mut self, nodes: Vec<Position>) {
        for position in nodes {
            let condition = self.node(position).sick.as_ref().map(|sick| sick.condition.clone()).unwrap_or_default();
            self.remove(position, CommandReason::Unhealthy, CommandCause::Sick { condition });
        }
    }

    fn surplus(&mut self, judge: &EligibilityRules<'_>) {
        let goes = |position| matches!(self.verdicts.get(&position), Some(NodeVerdict::Remove(_)));
        for position in surplus::surplus_nodes(self.snapshot, judge, goes) {
            self.remove(position, CommandReason::Static, CommandCause::Surplus);
        }
    }

    /// The dearest go first while a budget lasts; those that it does not last for.
    fn empty(&mut self, mut nodes: Vec<Position>) -> Vec<Position> {
        nodes.sort_by_key(|position| (Reverse(self.node(*position).price), self.node(*position).name.as_str()));
        let mut left = Vec::new();
        for position in nodes {
            if self.budgets.allows(&[self.node(position)], CommandReason::Empty) {
                self.remove(position, CommandReason::Empty, CommandCause::NothingRuns);
            } else {
                self.verdicts.insert(position, NodeVerdict::Budget { reason: CommandReason::Empty });
                left.push(position);
            }
        }
        left
    }
}

/// Places for pods of nodes that are free to go for other reasons than that nothing runs there.
fn relocate(
    (snapshot, scales): (&Snapshot, &SavingsRules<'_>),
    plan: &Plan,
    judge: &EligibilityRules<'_>,
    budgets: RemainingBudgets<'_>,
    free: &mut BTreeMap<CommandReason, Vec<Position>>,
    (going, raised, lowering): (&[PlannedCommand], &[Resize], &LowerRequests<'_>),
) -> PlannedCommands {
    let node = |position: Position| Arc::clone(&snapshot.nodes[position]);
    for (reason, nodes) in free.iter_mut() {
        match reason {
            CommandReason::Underutilized => consolidate::in_order(nodes, node, scales),
            reason => nodes.sort_by_key(|position| age(&snapshot.nodes[*position], *reason)),
        }
    }
    let all: Vec<Position> = free.values().flatten().copied().collect();
    let simulation = SimulatedCluster::new(snapshot, plan, &all, raised);
    let gone: BTreeSet<&str> = going.iter().flat_map(|it| &it.nodes).map(|leaver| leaver.node.as_str()).collect();
    let turns: BTreeMap<&str, usize> =
        all.iter().rev().enumerate().map(|(turn, it)| (snapshot.nodes[*it].name.as_str(), turn + 1)).collect();
    let mut foreseen = KnownDomains::default();
    let mut attempts = 0;
    loop {
        // Pods go to nodes that stay, else to those that would go last.
        let rank = |node: &Node| turns.get(node.name.as_str()).copied().unwrap_or(0);
        let prepared = || {
            let mut draft = DisruptionPlan::new(&simulation, scales, budgets.clone(), rank, &foreseen);
            draft.retire(|node| gone.contains(node.name.as_str()));
            draft.close(|node| node.stage != Stage::Initialized);
            draft.scatter_promised();
            outdated(&mut draft, free, judge);
            draft.spare(|node| is_no_place(judge, node));
            draft.apply_utilization_limits();
            draft
        };
        let underutilized = free.get(&CommandReason::Underutilized).map_or(&[][..], Vec::as_slice);
        let ahead = lowering.look_ahead(prepared, underutilized);
        let mut draft = prepared();
        let mut left = consolidate::delete_nodes(&mut draft, underutilized);
        left.retain(|(position, _)| !ahead.verdicts.contains_key(position));
        consolidate::exchange(&mut draft, scales, left);
        let found = PlannedCommands { ahead, ..draft.finish() };
        attempts += 1;
        if found.surprises == KnownDomains::default() {
            return found;
        }
        if attempts == MOST_SURPRISES {
            return found.forgone();
        }
        foreseen.extend(found.surprises);
    }
}

/// Whether nothing is sent to a node to save money: it was in use not long ago, or is so new that nobody has said since when it is
/// quiet. A pool that never consolidates may receive.
fn is_no_place(judge: &EligibilityRules<'_>, node: &Node) -> bool {
    judge.pool(node).is_some_and(|pool| {
        matches!(judge.is_quiet(node, pool), Err(NodeVerdict::Quiet { .. } | NodeVerdict::NotInitialized))
    })
}

/// Those without pods to move first, then those that have drifted, or are expired, for the longest time.
fn age(node: &Node, reason: CommandReason) -> (bool, i64, String) {
    let moves = node.pods.iter().any(|pod| pod.reschedulable);
    let since = match reason {
        CommandReason::Drifted => node.drifted.as_ref().map(|drifted| drifted.since),
        _ => node.expires,
    };
    (moves, since.unwrap_or_default().0, node.name.clone())
}

/// Drifted nodes, then expired ones. A node that is both goes for its age where its drift alone does not let it: another budget counts,
/// and the drain of an expired one may end by force.
fn outdated(
    draft: &mut DisruptionPlan<'_>,
    free: &BTreeMap<CommandReason, Vec<Position>>,
    judge: &EligibilityRules<'_>,
) {
    let of = |reason| free.get(&reason).into_iter().flatten().copied();
    let mut expired: Vec<Position> = of(CommandReason::Expired).collect();
    for position in of(CommandReason::Drifted) {
        let node = draft.node(position);
        let reason = node.drifted.as_ref().map(|drifted| drifted.reason.clone()).unwrap_or_default();
        let refused = draft.replace(position, CommandReason::Drifted, CommandCause::Drifted { reason }, false).err();
        let helps =
            |refused: &NodeVerdict| matches!(refused, NodeVerdict::Budget { .. }) || node.termination_grace.is_some();
        expired.extend(refused.filter(|it| judge.has_expired(node) && helps(it)).map(|_| position));
    }
    expired.sort_by_cached_key(|position| age(draft.node(*position), CommandReason::Expired));
    for position in expired {
        let force = draft.node(position).termination_grace.is_some();
        // Its verdict is known by then.
        let _ = draft.replace(position, CommandReason::Expired, CommandCause::Expired, force);
    }
}
