//! Disruption commands while they are collected: trials in the simulation, accepted commands, and the verdict of every node.

mod planned_commands;
mod rejected_exchange;
mod replacement_permits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::provision::{KnownDomains, Obstacle, RelocationOutcome, Relocator, STRATEGIES};
use crate::utilization_limit::UtilizationLimit;
use crate::{
    BoundPod, CommandCause, CommandReason, Destination, DisruptedNode, Launch, MicroDollars, Millis, Node, NodeVerdict,
    PlannedCommand, Relocation, Size,
};

pub(super) use planned_commands::PlannedCommands;
use rejected_exchange::{RejectedExchange, SeparateParts, is_too_expensive};
use replacement_permits::ReplacementPermits;

use super::independent_parts::{self, IndependentPart};
use super::remaining_budgets::RemainingBudgets;
use super::replacement_types::{ReplacementRules, narrow};
use super::savings::{Savings, SavingsRules, cost_of};
use super::simulation::{Position, SimulatedCluster};
use super::split_balance::is_spot;

/// Commands of one simulation.
pub(super) struct DisruptionPlan<'a> {
    simulation: &'a SimulatedCluster,
    savings: &'a SavingsRules<'a>,
    relocator: Relocator<'a>,
    budgets: RemainingBudgets<'a>,
    permits: ReplacementPermits<'a>,
    moves: Vec<PlannedCommand>,
    verdicts: BTreeMap<Position, NodeVerdict>,
    /// Nodes to which commands move pods.
    expecting: BTreeSet<String>,
    /// Workloads with a minimum interval between disruptions that are disrupted now.
    disturbed: BTreeSet<Arc<str>>,
}

impl<'a> DisruptionPlan<'a> {
    /// Creates an empty plan. Pods are placed on nodes in the order of `rank`; `budgets` is the rest after the removal of empty
    /// nodes.
    pub(super) fn new<K: Ord>(
        simulation: &'a SimulatedCluster,
        savings: &'a SavingsRules<'a>,
        budgets: RemainingBudgets<'a>,
        rank: impl Fn(&Node) -> K,
        foreseen: &KnownDomains,
    ) -> Self {
        let limit =
            |node: &Node| UtilizationLimit::new(node).filter(|_| savings.uses_utilization(node.pool.as_deref()));
        let relocator = Relocator::new(&simulation.snapshot, &simulation.own, &simulation.uses, rank, limit, foreseen);
        let (moves, verdicts, expecting) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        let leaving = simulation.snapshot.nodes.iter().filter(|node| node.leaving.is_some());
        let disturbed =
            leaving.flat_map(|node| protected_workloads(node)).map(|(_, workload)| Arc::clone(workload)).collect();
        let permits = ReplacementPermits::new(&simulation.snapshot);
        Self { simulation, savings, relocator, budgets, permits, moves, verdicts, expecting, disturbed }
    }

    pub(super) fn node(&self, position: Position) -> &'a Node {
        &self.simulation.snapshot.nodes[position]
    }

    /// Returns the time of the plan.
    pub(super) fn now(&self) -> Millis {
        self.simulation.snapshot.now
    }

    /// Excludes nodes of this kind from the plan and from the model of kube-scheduler.
    pub(super) fn close(&mut self, is_closed: impl Fn(&Node) -> bool) {
        self.each(is_closed, Relocator::close);
    }

    /// Excludes nodes of this kind from the plan, although kube-scheduler may use them.
    pub(super) fn spare(&mut self, is_spared: impl Fn(&Node) -> bool) {
        self.each(is_spared, Relocator::spare);
    }

    /// Excludes pods from nodes that their measured usage would overload.
    pub(super) fn apply_utilization_limits(&mut self) {
        self.relocator.apply_utilization_limits();
    }

    /// Simulates kube-scheduler's placement of pods with nominations. Must run before the first command.
    pub(super) fn scatter_promised(&mut self) {
        self.relocator.scatter_promised();
    }

    fn each(&mut self, is_selected: impl Fn(&Node) -> bool, mut does: impl FnMut(&mut Relocator<'a>, Position)) {
        for (position, node) in self.simulation.snapshot.nodes.iter().enumerate() {
            if is_selected(node) {
                does(&mut self.relocator, position);
            }
        }
    }

    /// Removes nodes that are removed anyway from the simulation, with all their pods.
    pub(super) fn retire(&mut self, gone: impl Fn(&Node) -> bool) {
        for node in self.simulation.snapshot.nodes.iter().filter(|node| gone(node)) {
            self.disturb(node);
        }
        self.each(gone, Relocator::retire);
    }

    fn disturb(&mut self, node: &Node) {
        self.disturbed.extend(protected_workloads(node).map(|(_, workload)| Arc::clone(workload)));
    }

    /// Returns the verdict against the disruption of some nodes' pods, if another pod of a protected workload moves already.
    fn workload_conflict(&self, nodes: &[&Node]) -> Option<NodeVerdict> {
        let mut all = nodes.iter().flat_map(|node| protected_workloads(node));
        let (pod, workload) = all.find(|(_, workload)| self.disturbed.contains(*workload))?;
        Some(NodeVerdict::Disturbed { pod: pod.name.clone(), workload: workload.to_string() })
    }

    /// Returns the verdict that prevents a search for other places for a node's pods now, if any.
    pub(super) fn blocker(&self, nodes: &[Position], reason: CommandReason) -> Option<NodeVerdict> {
        let objects: Vec<&Node> = nodes.iter().map(|node| self.node(*node)).collect();
        if objects.iter().any(|node| self.expecting.contains(&node.name)) {
            return Some(NodeVerdict::Nominated);
        }
        if reason == CommandReason::Underutilized && nodes.iter().any(|node| self.relocator.is_sought(*node)) {
            return Some(NodeVerdict::Nominated);
        }
        if nodes.iter().any(|node| self.relocator.is_entangled(*node)) {
            return Some(NodeVerdict::Watched);
        }
        if let Some(workload_conflict) =
            self.workload_conflict(&objects).filter(|_| reason == CommandReason::Underutilized)
        {
            return Some(workload_conflict);
        }
        if self.relocator.is_spent() {
            return Some(NodeVerdict::Postponed);
        }
        self.budgets.refusal(&objects, reason)
    }

    /// Replaces a node at any price; records and returns the verdict if that is impossible. `force` removes the node although
    /// its pods have no place.
    pub(super) fn replace(
        &mut self,
        position: Position,
        reason: CommandReason,
        why: CommandCause,
        force: bool,
    ) -> Result<(), NodeVerdict> {
        let replaced = self.try_replace(position, reason, why, force);
        replaced.inspect_err(|verdict| drop(self.verdicts.insert(position, verdict.clone())))
    }

    fn try_replace(
        &mut self,
        position: Position,
        reason: CommandReason,
        why: CommandCause,
        force: bool,
    ) -> Result<(), NodeVerdict> {
        if let Some(blocker) = self.blocker(&[position], reason) {
            return Err(blocker);
        }
        match self.search(&[position]).or_else(|verdict| self.search_without_buffers(position).ok_or(verdict)) {
            Ok(outcome) => {
                let saved = self.saved(&[position], &outcome.launches);
                self.keep(&[position], reason, why, outcome, saved)
            }
            Err(_) if force => {
                let nothing = RelocationOutcome { places: Vec::new(), launches: Vec::new() };
                let saved = self.saved(&[position], &[]);
                self.note(&[position], reason, why, nothing, saved);
                self.relocator.close(position);
                Ok(())
            }
            Err(verdict) => Err(verdict),
        }
    }

    /// Finds places for all pods of a node, on existing nodes or on the cheapest new ones.
    fn search(&mut self, nodes: &[Position]) -> Result<RelocationOutcome, NodeVerdict> {
        let mut verdict = NodeVerdict::Postponed;
        for strategy in STRATEGIES {
            match self.relocator.try_launches(nodes, strategy) {
                Ok(outcome) => return Ok(outcome),
                Err(obstacle) => verdict = self.refusal(obstacle),
            }
            self.relocator.undo();
        }
        Err(verdict)
    }

    /// Finds places for the pods of a node without the virtual pods of CapacityBuffers, if it has such pods. A buffer that has no
    /// other place now keeps no outdated node.
    fn search_without_buffers(&mut self, position: Position) -> Option<RelocationOutcome> {
        if self.node(position).pods.iter().all(|pod| pod.holder.is_none()) {
            return None;
        }
        self.relocator.leave_buffers(true);
        let outcome = self.search(&[position]);
        self.relocator.leave_buffers(false);
        outcome.ok()
    }

    fn refusal(&self, obstacle: Obstacle) -> NodeVerdict {
        let pod = |position: usize| &self.simulation.snapshot.pods[position];
        match obstacle {
            Obstacle::Pod(position) => NodeVerdict::NoPlace { pod: pod(position).name.clone() },
            Obstacle::Busy { pod: position, node, strain } => NodeVerdict::AboveCeiling {
                pod: pod(position).name.clone(),
                node: self.node(node).name.clone(),
                strain,
            },
            Obstacle::Replica => NodeVerdict::NoReplica,
            Obstacle::Displaced(position) => {
                NodeVerdict::AfterMove { node: pod(position).leaving_node.clone().unwrap_or_default() }
            }
        }
    }

    /// Removes a node whose pods all fit on other nodes, if that saves enough.
    pub(super) fn delete_node(&mut self, position: Position) -> Result<(), NodeVerdict> {
        let nodes = [position];
        match self.relocator.try_existing_nodes(&nodes) {
            Ok(outcome) => self.settle(&nodes, outcome, CommandCause::RoomElsewhere),
            Err(obstacle) => {
                self.relocator.undo();
                Err(self.refusal(obstacle))
            }
        }
    }

    /// Replaces nodes by cheaper ones, if that saves enough and the exchange does not consist of independent parts.
    pub(super) fn exchange(&mut self, nodes: &[Position]) -> Result<(), RejectedExchange> {
        let mut refused =
            RejectedExchange { verdict: NodeVerdict::Postponed, parts: Vec::new(), is_too_expensive: true };
        let least = nodes.iter().map(|node| self.savings.required_savings(&[self.node(*node)], &[])).min().unwrap_or(0);
        for strategy in STRATEGIES {
            refused.verdict = match self.relocator.try_launches(nodes, strategy) {
                Ok(outcome) => match self.parts(nodes, &outcome) {
                    None => match self.cheaper(nodes, outcome) {
                        Ok(outcome) => {
                            let settled = self.settle(nodes, outcome, CommandCause::Cheaper);
                            let rejected = |verdict| RejectedExchange { verdict, is_too_expensive: false, ..refused };
                            return settled.map_err(rejected);
                        }
                        Err(verdict) => verdict,
                    },
                    Some(SeparateParts { worthy, missed }) => {
                        refused.parts.extend(worthy);
                        let nodes: Vec<&Node> = nodes.iter().map(|node| self.node(*node)).collect();
                        self.savings.not_worth_it(&nodes, Savings { saved: missed, asked: least })
                    }
                },
                Err(obstacle) => self.refusal(obstacle),
            };
            refused.is_too_expensive &= is_too_expensive(&refused.verdict, least);
            self.relocator.undo();
        }
        Err(refused)
    }

    /// Returns the parts of an exchange of independent parts of which not every one saves enough.
    fn parts(&self, nodes: &[Position], outcome: &RelocationOutcome) -> Option<SeparateParts> {
        if nodes.len() < 2 {
            return None;
        }
        let first = self.replacements();
        let of_pod: BTreeMap<usize, Position> =
            nodes.iter().flat_map(|node| self.simulation.own[*node].iter().map(|pod| (*pod, *node))).collect();
        let sent = outcome.places.iter().filter_map(|(pod, to)| match to {
            Destination::Launch(launch) => Some((*of_pod.get(pod)?, launch.checked_sub(first)?)),
            Destination::Node(_) => None,
        });
        let (mut worthy, mut missed) = (Vec::new(), None);
        for part in independent_parts::parts(nodes, sent) {
            let Savings { saved, asked } = self.savings_of(&part, outcome);
            if saved < asked {
                missed = missed.max(Some(saved));
            } else if part.nodes.len() > 1 {
                worthy.push(part.nodes);
            }
        }
        missed.map(|missed| SeparateParts { worthy, missed })
    }

    fn savings_of(&self, part: &IndependentPart, outcome: &RelocationOutcome) -> Savings {
        let nodes: Vec<&Node> = part.nodes.iter().map(|node| self.node(*node)).collect();
        let launches = part.launches.iter().filter_map(|launch| outcome.launches.get(*launch).cloned());
        let launches: Vec<Launch> = launches.collect();
        let saved = self.price(&nodes).map(|price| price - self.savings.price_of_launches(&launches));
        // Nodes without a known price save nothing.
        Savings { saved: saved.unwrap_or(0), asked: self.savings.required_savings(&nodes, &launches) }
    }

    /// Returns the number of launches that the commands so far need.
    fn replacements(&self) -> usize {
        self.moves.iter().map(|it| it.replacements.len()).sum()
    }

    /// Returns the result with launches that are certainly cheaper.
    fn cheaper(&self, nodes: &[Position], outcome: RelocationOutcome) -> Result<RelocationOutcome, NodeVerdict> {
        let objects: Vec<&Node> = nodes.iter().map(|node| self.node(*node)).collect();
        let before = self.price(&objects).ok_or(NodeVerdict::UnknownPrice)?;
        let asked = self.savings.required_savings(&objects, &outcome.launches);
        let now = self.savings.price_of_launches(&outcome.launches);
        if before - now < asked {
            return Err(self.savings.not_worth_it(&objects, Savings { saved: before - now, asked }));
        }
        let spare = before - asked - now;
        let from_spot = objects.iter().all(|node| is_spot(node));
        let single = nodes.len() == 1 && outcome.launches.len() == 1;
        let used = self.seen_on_launches(&outcome);
        let narrowed = outcome.launches.iter().zip(used).map(|(launch, used)| {
            let most = launch.price.0 + part(spare, launch.price.0, now);
            narrow(&self.simulation.snapshot, launch, ReplacementRules { most, from_spot, single, used })
        });
        Ok(RelocationOutcome { launches: narrowed.collect::<Result<_, _>>()?, ..outcome })
    }

    /// Returns the measured usage of pods that the last trial places on each of its launches, where utilization applies.
    /// Unmeasured pods do not count: requests without a measurement indicate nothing about the usage of a new node.
    fn seen_on_launches(&self, outcome: &RelocationOutcome) -> Vec<Size> {
        let first = self.replacements();
        let mut sums = vec![Size::default(); outcome.launches.len()];
        for (pod, to) in &outcome.places {
            let Destination::Launch(launch) = to else { continue };
            let own = launch.checked_sub(first).and_then(|own| Some((outcome.launches.get(own)?, sums.get_mut(own)?)));
            if let Some((launch, sum)) = own
                && self.savings.uses_utilization(Some(&launch.pool))
            {
                *sum = sum.plus(self.simulation.seen[*pod]);
            }
        }
        sums
    }

    /// Keeps the last trial if it saves enough, else reverts it.
    fn settle(&mut self, nodes: &[Position], outcome: RelocationOutcome, why: CommandCause) -> Result<(), NodeVerdict> {
        let objects: Vec<&Node> = nodes.iter().map(|node| self.node(*node)).collect();
        let asked = self.savings.required_savings(&objects, &outcome.launches);
        let saved = self.saved(nodes, &outcome.launches);
        let objection = match saved {
            None => Some(NodeVerdict::UnknownPrice),
            Some(saved) => {
                let objection = self.savings.rejection(&objects, Savings { saved, asked });
                objection.or_else(|| self.simulated_placement(&objects, Savings { saved, asked }))
            }
        };
        match objection {
            None => self.keep(nodes, CommandReason::Underutilized, why, outcome, saved),
            Some(objection) => {
                self.relocator.undo();
                Err(objection)
            }
        }
    }

    /// Rejects a command that would no longer save enough after further launches for pods without capacity, as kube-scheduler
    /// places them.
    fn simulated_placement(&mut self, nodes: &[&Node], Savings { saved, asked }: Savings) -> Option<NodeVerdict> {
        let (pods, price) = self.relocator.left_over();
        let saved = saved.saturating_sub(price.unwrap_or(i64::MAX));
        let objection = (pods > 0).then(|| self.savings.rejection(nodes, Savings { saved, asked })).flatten();
        objection.map(|_| NodeVerdict::Scattered { pods })
    }

    fn price(&self, nodes: &[&Node]) -> Option<i64> {
        nodes.iter().map(|node| self.savings.price_of(node)).sum()
    }

    fn saved(&self, nodes: &[Position], launches: &[Launch]) -> Option<i64> {
        let objects: Vec<&Node> = nodes.iter().map(|node| self.node(*node)).collect();
        Some(self.price(&objects)? - self.savings.price_of_launches(launches))
    }

    /// Keeps the last trial, unless it conflicts with an earlier command.
    fn keep(
        &mut self,
        nodes: &[Position],
        reason: CommandReason,
        why: CommandCause,
        outcome: RelocationOutcome,
        saved: Option<i64>,
    ) -> Result<(), NodeVerdict> {
        if let Some(refusal) = self.permits.refusal(&outcome.launches) {
            self.relocator.undo();
            return Err(refusal);
        }
        let kept = self.relocator.keep(outcome.launches.clone());
        kept.map_err(|obstacle| self.refusal(obstacle))?;
        self.note(nodes, reason, why, outcome, saved);
        Ok(())
    }

    fn note(
        &mut self,
        nodes: &[Position],
        reason: CommandReason,
        why: CommandCause,
        outcome: RelocationOutcome,
        saved: Option<i64>,
    ) {
        let objects: Vec<&Node> = nodes.iter().map(|node| self.node(*node)).collect();
        self.budgets.spend(&objects);
        self.permits.spend(&outcome.launches);
        objects.iter().for_each(|node| self.disturb(node));
        for (_, to) in &outcome.places {
            if let Destination::Node(name) = to {
                self.expecting.insert(name.clone());
            }
        }
        nodes.iter().for_each(|node| {
            self.verdicts.insert(*node, NodeVerdict::Remove(reason));
        });
        let pods = outcome.places.into_iter().map(|(pod, to)| self.relocation(pod, to)).collect();
        let first = self.replacements();
        self.moves.push(PlannedCommand {
            reason,
            nodes: objects.iter().map(|node| disrupted_node(node)).collect(),
            replacements: (first..first + outcome.launches.len()).collect(),
            pods,
            saving: saved.map(MicroDollars),
            cost: objects.iter().map(|node| cost_of(node)).sum(),
            why,
        });
    }

    fn relocation(&self, pod: usize, to: Destination) -> Relocation {
        let pod = &self.simulation.snapshot.pods[pod];
        let from = pod.leaving_node.clone().unwrap_or_default();
        Relocation {
            uid: pod.uid.clone(),
            pod: pod.name.clone(),
            from,
            to,
            surge: self.simulation.surging.contains(&pod.uid),
        }
    }

    /// Returns the price of the cheapest single node for all pods of some nodes, as far as their sizes and labels decide.
    pub(super) fn price_bound(&mut self, nodes: &[Position]) -> Option<i64> {
        self.relocator.price_bound(nodes)
    }

    /// Returns the number of commands.
    pub(super) fn count(&self) -> usize {
        self.moves.len()
    }

    /// Adds free capacity to a node that may take pods.
    pub(super) fn widen(&mut self, position: Position, by: Size) {
        self.relocator.widen(position, &by.resources());
    }

    /// Returns the free CPU and memory of a node; `None` where it takes no pods.
    pub(super) fn left(&self, position: Position) -> Option<Size> {
        self.relocator.left(position)
    }

    /// Removes and returns the commands after the first `count`. No further search for places is possible.
    pub(super) fn withdraw(&mut self, count: usize) -> Vec<PlannedCommand> {
        self.moves.split_off(count)
    }

    /// Sets the final verdict of a node.
    pub(super) fn set_verdict(&mut self, position: Position, verdict: NodeVerdict) {
        self.verdicts.insert(position, verdict);
    }

    pub(super) fn finish(self) -> PlannedCommands {
        let (launches, surprises) = self.relocator.finish();
        PlannedCommands { moves: self.moves, launches, verdicts: self.verdicts, surprises }
    }
}

/// Returns pods of a node that would need another place, of workloads with a minimum interval between disruptions.
fn protected_workloads(node: &Node) -> impl Iterator<Item = (&BoundPod, &Arc<str>)> {
    node.pods.iter().filter(|pod| pod.reschedulable).filter_map(|pod| Some((pod, pod.workload.as_ref()?)))
}

pub(super) fn disrupted_node(node: &Node) -> DisruptedNode {
    DisruptedNode { node: node.name.clone(), claim: node.claim.clone().unwrap_or_default() }
}

/// Returns the share of an amount for one of several.
fn part(amount: i64, one: i64, whole: i64) -> i64 {
    if whole <= 0 {
        return amount;
    }
    i64::try_from(i128::from(amount) * i128::from(one) / i128::from(whole)).unwrap_or(i64::MAX)
}
