//! Disruption: the nodes to remove, and the replacements that must exist before.
//!
//! The planner evaluates every managed node (`eligibility`): leaving already, blocked, or a candidate for a reason. The reasons
//! are processed in this order:
//! 1. nodes that are permanently unhealthy or whose NodePools are outside of their active times, independent of budgets; static
//!    NodePools remove surplus nodes (`surplus`);
//! 2. nodes without pods that would need another place, the most expensive first;
//! 3. nodes that have drifted or expired, the longest first: their pods are placed on other nodes or on new ones, at any price.
//!    Each node of a static NodePool has a replacement from the NodePool's template;
//! 4. nodes whose pods have cheaper places (`consolidate`), those first that save the most for their disruption cost
//!    (`savings`).
//!
//! The plan uses one budget for all reasons (`remaining_budgets`): a node that is removed for one reason leaves less for all
//! others. Places are searched in a simulation in which the plan's own pods have their places (`simulation`). Places found for
//! one command are used up for all later ones. Commands run in parallel, so none may depend on another. Moved pods count at
//! their old and at their new places. A command that would take the place of one of them waits for the next plan. Where a
//! command needs new nodes, they are narrowed to types that are certainly cheaper (`replacement_types`).
//!
//! Virtual pods of CapacityBuffers move like pods that run (`simulation`), but keep a node only from being empty.
//!
//! Requests of pods that do not move change beside the commands. Lowered requests that are needed again are restored first
//! (`restore_requests`). At the end, NodePools with utilization `Pack` lower requests to make room for pods of nodes without
//! another place (`lower_requests`).

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

use consolidate::Remaining;
use disruption_plan::{DisruptionPlan, PlannedCommands, disrupted_node};
use eligibility::EligibilityRules;
use lower_requests::{Lookahead, LowerRequests};
use remaining_budgets::RemainingBudgets;
pub use remaining_budgets::allowed_by_canaries;
use savings::{SavingsRules, cost_of};
use simulation::{Position, SimulatedCluster};

use crate::provision::KnownDomains;
use crate::{
    Balance, CommandCause, CommandReason, MicroDollars, Node, NodeVerdict, Plan, PlannedCommand, Report, Snapshot,
    Stage,
};

/// Maximum number of searches for places, repeated after facts that a search did not foresee.
const MOST_SURPRISES: usize = 3;

/// Adds disruption commands to a plan that has placed its pods, and a verdict for every managed node.
pub(crate) fn disrupt(snapshot: &Snapshot, plan: &mut Plan) {
    let Some((bound, mut disrupting)) = simulation::buffer_pods::bound(snapshot, plan) else {
        return add_commands(snapshot, plan);
    };
    add_commands(&bound, &mut disrupting);
    let Report { pods, order, preferences, .. } = std::mem::take(&mut plan.report);
    *plan = Plan { report: Report { pods, order, preferences, ..disrupting.report }, ..disrupting };
}

fn add_commands(snapshot: &Snapshot, plan: &mut Plan) {
    let eligibility = EligibilityRules::new(snapshot, plan);
    let mut free = Candidates::new();
    let mut verdicts: BTreeMap<Position, NodeVerdict> = BTreeMap::new();
    for (position, node) in snapshot.nodes.iter().enumerate().filter(|(_, node)| node.claim.is_some()) {
        match eligibility.evaluate(node) {
            Ok(reason) => free.entry(reason).or_default().push(position),
            Err(verdict) => {
                verdicts.insert(position, verdict);
            }
        }
    }
    let savings = SavingsRules::new(snapshot);
    let mut pass = DisruptionPass {
        snapshot,
        savings: &savings,
        budgets: RemainingBudgets::new(snapshot),
        moves: Vec::new(),
        verdicts,
    };
    pass.unhealthy(free.remove(&CommandReason::Unhealthy).unwrap_or_default());
    pass.inactive(free.remove(&CommandReason::Inactive).unwrap_or_default());
    pass.surplus(&eligibility);
    free.values_mut().for_each(|nodes| nodes.retain(|node| !pass.verdicts.contains_key(node)));
    for position in pass.empty(free.remove(&CommandReason::Empty).unwrap_or_default()) {
        // A node that the budget for empty nodes excludes may be removed for another reason.
        if let Some(reason) = eligibility.outdated(&snapshot.nodes[position]) {
            free.entry(reason).or_default().push(position);
        }
    }
    let DisruptionPass { budgets, mut moves, mut verdicts, .. } = pass;
    let mut resizes = restore_requests::restore_requests(snapshot, plan);
    let lowering = LowerRequests::new(snapshot, &eligibility, &resizes);
    let mut ahead = Lookahead::default();
    if !free.is_empty() {
        sort_candidates(&mut free, snapshot, &savings);
        let restless = restless_candidates(&free, snapshot, &eligibility);
        let all: Vec<Position> = free.values().flatten().chain(&restless).copied().collect();
        let mut soon = free.clone();
        soon.entry(CommandReason::Underutilized).or_default().extend(restless);
        sort_candidates(&mut soon, snapshot, &savings);
        let search = CommandSearch {
            simulation: &SimulatedCluster::new(snapshot, plan, &all, &resizes),
            savings: &savings,
            eligibility: &eligibility,
            budgets,
            free: &free,
            soon: &soon,
            gone: removed_nodes(&moves),
        };
        let (found, possible) = search.run(&lowering);
        let first = plan.launches.len();
        moves.extend(found.moves.into_iter().map(|it| it.counted_from(first)));
        plan.launches.extend(found.launches);
        verdicts.extend(found.verdicts);
        ahead = possible;
    }
    verdicts.extend(ahead.verdicts);
    let gone = removed_nodes(&moves);
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

/// Returns the balance of each NodePool for commands that save money; no balance where the savings are unknown.
#[must_use]
pub fn balances<'m>(snapshot: &Snapshot, moves: impl IntoIterator<Item = &'m PlannedCommand>) -> Vec<Balance> {
    let savings = SavingsRules::new(snapshot);
    let known: BTreeMap<&str, &Node> = snapshot.nodes.iter().map(|node| (node.name.as_str(), node.as_ref())).collect();
    let of_move = |planned: &PlannedCommand| {
        let nodes: Vec<&Node> =
            planned.nodes.iter().filter_map(|disrupted| known.get(disrupted.node.as_str()).copied()).collect();
        planned.saving.map_or_else(Vec::new, |saved| savings.balances(&nodes, saved.0))
    };
    moves.into_iter().flat_map(of_move).collect()
}

/// Nodes that are removed without a search for places.
struct DisruptionPass<'a> {
    snapshot: &'a Snapshot,
    savings: &'a SavingsRules<'a>,
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
        let saving = self.savings.price_of(node).map(MicroDollars);
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

    /// Removes nodes in the order in which they were due; independent of the order of the snapshot.
    fn unhealthy(&mut self, mut nodes: Vec<Position>) {
        let due = |node: &Node| node.unhealthy.as_ref().map(|it| it.due);
        nodes.sort_by_key(|position| (due(self.node(*position)), self.node(*position).name.as_str()));
        for position in nodes {
            let condition = self.node(position).unhealthy.as_ref().map(|it| it.condition.clone()).unwrap_or_default();
            self.remove(position, CommandReason::Unhealthy, CommandCause::Unhealthy { condition });
        }
    }

    fn inactive(&mut self, mut nodes: Vec<Position>) {
        nodes.sort_by_key(|position| self.node(*position).name.as_str());
        for position in nodes {
            self.remove(position, CommandReason::Inactive, CommandCause::OutsideActiveTimes);
        }
    }

    fn surplus(&mut self, eligibility: &EligibilityRules<'_>) {
        let goes = |position| matches!(self.verdicts.get(&position), Some(NodeVerdict::Remove(_)));
        for position in surplus::surplus_nodes(self.snapshot, eligibility, goes) {
            self.remove(position, CommandReason::Static, CommandCause::Surplus);
        }
    }

    /// Removes the most expensive nodes first while the budget lasts; returns the nodes beyond the budget.
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

fn removed_nodes(moves: &[PlannedCommand]) -> BTreeSet<&str> {
    moves.iter().flat_map(|it| &it.nodes).map(|disrupted| disrupted.node.as_str()).collect()
}

/// Candidates by reason, in the order of their evaluation.
type Candidates = BTreeMap<CommandReason, Vec<Position>>;

fn underutilized(candidates: &Candidates) -> &[Position] {
    candidates.get(&CommandReason::Underutilized).map_or(&[], Vec::as_slice)
}

/// Sorts the candidates of each reason in the order of their evaluation.
fn sort_candidates(free: &mut Candidates, snapshot: &Snapshot, savings: &SavingsRules<'_>) {
    let node = |position: Position| Arc::clone(&snapshot.nodes[position]);
    for (reason, nodes) in free.iter_mut() {
        match reason {
            CommandReason::Underutilized => consolidate::in_order(nodes, node, savings),
            reason => nodes.sort_by_key(|position| age(&snapshot.nodes[*position], *reason)),
        }
    }
}

/// Returns the nodes that become candidates of consolidation once they are quiet. Without a candidate nothing waits for them.
fn restless_candidates(free: &Candidates, snapshot: &Snapshot, eligibility: &EligibilityRules<'_>) -> Vec<Position> {
    if !free.contains_key(&CommandReason::Underutilized) {
        return Vec::new();
    }
    let nodes = snapshot.nodes.iter().enumerate().filter(|(_, node)| node.claim.is_some());
    nodes.filter(|(_, node)| eligibility.is_candidate_soon(node)).map(|(position, _)| position).collect()
}

/// Search for commands that need places for pods of candidates.
struct CommandSearch<'a> {
    simulation: &'a SimulatedCluster,
    savings: &'a SavingsRules<'a>,
    eligibility: &'a EligibilityRules<'a>,
    budgets: RemainingBudgets<'a>,
    /// Candidates by reason, in the order of their evaluation.
    free: &'a Candidates,
    /// The same candidates with the nodes that become candidates of consolidation once they are quiet.
    soon: &'a Candidates,
    /// Nodes that other commands remove.
    gone: BTreeSet<&'a str>,
}

impl CommandSearch<'_> {
    /// Returns the commands, and those that lowered requests would allow.
    fn run(&self, lowering: &LowerRequests<'_>) -> (PlannedCommands, Lookahead) {
        let mut foreseen = KnownDomains::default();
        let mut attempts = 0;
        loop {
            let later = self.removable_once_quiet(&foreseen);
            let postponed = self.postponed_removals(&later);
            let mut now = self.underutilized().to_vec();
            now.retain(|position| !postponed.contains_key(position));
            let ahead = lowering.look_ahead(|| self.draft(&foreseen), &now);
            let mut draft = self.draft(&foreseen);
            postponed.into_iter().for_each(|(position, verdict)| draft.set_verdict(position, verdict));
            let mut left = consolidate::delete_nodes(&mut draft, &now);
            left.retain(|(position, _)| !ahead.verdicts.contains_key(position));
            self.postpone_launches(&mut draft, &mut left, &later);
            consolidate::exchange(&mut draft, self.savings, left);
            let found = draft.finish();
            attempts += 1;
            if found.surprises == KnownDomains::default() {
                return (found, ahead);
            }
            if attempts == MOST_SURPRISES {
                return (found.forgone(), Lookahead::default());
            }
            foreseen.extend(found.surprises);
        }
    }

    fn node(&self, position: Position) -> &Node {
        &self.simulation.snapshot.nodes[position]
    }

    fn underutilized(&self) -> &[Position] {
        underutilized(self.free)
    }

    /// Returns the nodes whose pods would fit on other nodes if each node were quiet; none if no candidate waits for that.
    fn removable_once_quiet(&self, foreseen: &KnownDomains) -> BTreeSet<Position> {
        let waits = |position: &Position| self.eligibility.wait_for_others(self.node(*position)).is_some();
        let is_restless = |node: &Arc<Node>| is_no_place(self.eligibility, node);
        if !self.underutilized().iter().any(waits) || !self.simulation.snapshot.nodes.iter().any(is_restless) {
            return BTreeSet::new();
        }
        let mut later = self.draft_with_restless(foreseen, self.soon);
        later.apply_utilization_limits();
        consolidate::delete_nodes(&mut later, underutilized(self.soon));
        let is_removed = |(position, verdict)| matches!(verdict, NodeVerdict::Remove(_)).then_some(position);
        later.finish().verdicts.into_iter().filter_map(is_removed).collect()
    }

    /// Returns the removals to postpone while nodes of the same NodePool that are not quiet yet can be removed too: kube-scheduler
    /// binds evicted pods to the emptiest nodes, so many would be evicted again. A node waits for a limited time.
    fn postponed_removals(&self, later: &BTreeSet<Position>) -> BTreeMap<Position, NodeVerdict> {
        let restless =
            later.iter().map(|position| self.node(*position)).filter(|node| is_no_place(self.eligibility, node));
        let pools: BTreeSet<Option<&str>> = restless.map(|node| node.pool.as_deref()).collect();
        let postponed = |position: &Position| {
            let node = self.node(*position);
            let together = pools.contains(&node.pool.as_deref());
            let remaining = self.eligibility.wait_for_others(node).filter(|_| together)?;
            Some((*position, NodeVerdict::RemovedTogether { remaining }))
        };
        self.underutilized().iter().filter_map(postponed).collect()
    }

    /// Postpones launches while pods will soon have places on existing nodes: those that are not quiet yet. A launch would be in
    /// vain, and its pods would be evicted again. A node waits for a limited time.
    fn postpone_launches(&self, draft: &mut DisruptionPlan<'_>, left: &mut Remaining, later: &BTreeSet<Position>) {
        if !left.iter().any(|(position, _)| later.contains(position)) {
            return;
        }
        left.retain(|(position, _)| {
            let remaining = self.eligibility.wait_for_others(self.node(*position));
            if let Some(remaining) = remaining {
                draft.set_verdict(*position, NodeVerdict::RoomSoon { remaining });
            }
            remaining.is_none()
        });
    }

    /// Returns a plan that has replaced outdated nodes. Pods are placed on nodes that are no candidates, else on the last
    /// candidates.
    fn draft(&self, foreseen: &KnownDomains) -> DisruptionPlan<'_> {
        let mut draft = self.draft_with_restless(foreseen, self.free);
        draft.spare(|node| is_no_place(self.eligibility, node));
        draft.apply_utilization_limits();
        draft
    }

    /// Returns the same plan for these candidates, with the nodes that are not quiet yet and without limits of utilization.
    fn draft_with_restless(&self, foreseen: &KnownDomains, candidates: &Candidates) -> DisruptionPlan<'_> {
        let all = candidates.values().flatten().rev().map(|position| self.node(*position).name.as_str());
        let ranks: BTreeMap<&str, usize> = all.enumerate().map(|(turn, name)| (name, turn + 1)).collect();
        let rank = |node: &Node| ranks.get(node.name.as_str()).copied().unwrap_or(0);
        let mut draft = DisruptionPlan::new(self.simulation, self.savings, self.budgets.clone(), rank, foreseen);
        draft.retire(|node| self.gone.contains(node.name.as_str()));
        draft.close(|node| node.stage != Stage::Initialized);
        draft.scatter_promised();
        outdated(&mut draft, self.free, self.eligibility);
        draft
    }
}

/// Reports whether consolidation moves no pod to a node: a pod was there recently, or the node is too new for a quiet time.
/// Nodes of NodePools that never consolidate may receive pods.
fn is_no_place(eligibility: &EligibilityRules<'_>, node: &Node) -> bool {
    eligibility.pool(node).is_some_and(|pool| {
        matches!(eligibility.is_quiet(node, pool), Err(NodeVerdict::Quiet { .. } | NodeVerdict::NotInitialized))
    })
}

/// Returns the sort key: nodes without pods to move first, then those that drifted or expired the longest ago.
fn age(node: &Node, reason: CommandReason) -> (bool, i64, String) {
    let moves = node.pods.iter().any(|pod| pod.reschedulable);
    let since = match reason {
        CommandReason::Drifted => node.drifted.as_ref().map(|drifted| drifted.since),
        _ => node.expires,
    };
    (moves, since.unwrap_or_default().0, node.name.clone())
}

/// Reports whether a verdict limits the number of drifted nodes that are replaced, and says nothing about the node.
fn is_limit_of_drift(verdict: &NodeVerdict) -> bool {
    use NodeVerdict::{AwaitsCanary, Budget, CanaryUnhealthy};
    matches!(verdict, Budget { .. } | AwaitsCanary { .. } | CanaryUnhealthy { .. })
}

/// Replaces drifted nodes, then expired ones. A node that is both drifted and expired is tried as expired where its drift does
/// not suffice. Another budget applies then, and the drain of an expired node may end by force.
fn outdated(draft: &mut DisruptionPlan<'_>, free: &Candidates, eligibility: &EligibilityRules<'_>) {
    let of = |reason| free.get(&reason).into_iter().flatten().copied();
    let mut expired: Vec<Position> = of(CommandReason::Expired).collect();
    for position in of(CommandReason::Drifted) {
        let node = draft.node(position);
        let reason = node.drifted.as_ref().map(|drifted| drifted.reason.clone()).unwrap_or_default();
        let refused = draft.replace(position, CommandReason::Drifted, CommandCause::Drifted { reason }, false).err();
        let helps = |refused: &NodeVerdict| is_limit_of_drift(refused) || node.termination_grace.is_some();
        expired.extend(refused.filter(|it| eligibility.has_expired(node) && helps(it)).map(|_| position));
    }
    expired.sort_by_cached_key(|position| age(draft.node(*position), CommandReason::Expired));
    for position in expired {
        let force = draft.node(position).termination_grace.is_some();
        // The verdict is recorded already.
        let _ = draft.replace(position, CommandReason::Expired, CommandCause::Expired, force);
    }
}
