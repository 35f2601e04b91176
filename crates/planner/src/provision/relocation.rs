//! Simulation of disruption: trial removal of nodes, with other places for their pods.
//!
//! A trial vacates some nodes, as if they did not exist, and finds places for their pods: on other nodes, or also on new ones.
//! A trial is kept or reverted as a whole, and the next one continues from there. Kept trials must hold in any order of
//! execution: from then on, moved pods count both at their old and at their new places. No later trial is kept that takes one
//! of these places away.

pub(super) mod price_bound;
pub(super) mod scheduler_model;

use std::collections::{BTreeMap, BTreeSet};

use crate::utilization_limit::UtilizationLimit;
use crate::{Destination, Launch, Node, Overload, PodVerdict, Purpose, Resources, Size, Snapshot};

use super::capacity::Capacity;
use super::capacity::limits::Headroom;
use super::capacity::node_template::TemplateId;
use super::capacity::reservations::Reservations;
use super::daemon_overhead::DaemonOverhead;
use super::phases::finish::{to_launches, trim_launches};
use super::phases::host_minimum::{rely_on_no_pods, rely_on_present_pods};
use super::phases::queue::{keep_nominations, queue_key};
use super::phases::rehearsal::new_domains;
use super::phases::static_pools::open_replica;
use super::select_best::strategy::{ALWAYS, LoadRule, QueueOrder, Strategy};
use super::topology::leaving_pods::{
    count_both_ways, is_deserted, keeps_rule, remove_resident, restore_counts, saved_counts,
};
use super::topology::{CountsBefore, Domain, GroupId, KnownDomains, Membership, Topology};
use super::{Attempt, LeavingPod, PlanInput, PodKind, PodPlacement, PodRun, Problem, Solver};
use price_bound::cheapest_node;
use scheduler_model::{SchedulerModel, SimulatedPlacement};

/// Strategies for the replacements of a command: each is tried, and the cheapest result is used.
pub(crate) const STRATEGIES: [Strategy; 2] = [ALWAYS[0], Strategy { order: QueueOrder::Size, load: LoadRule::Fleet }];

/// Search for places for the pods of nodes that disruption may remove.
pub(crate) struct Relocator<'a> {
    pub(super) solver: Solver<'a>,
    pub(super) scheduler: SchedulerModel,
    /// By node, the positions of its pods that need another place when it is removed.
    pub(super) own: &'a [Vec<usize>],
    existing_of: BTreeMap<usize, usize>,
    /// Pods of kept trials with topology rules: by group of the rule, shapes and places, each with one such pod.
    placed_pods: BTreeMap<GroupId, BTreeMap<(usize, PodPlacement), usize>>,
    /// Groups that rules of the plan's pods count, and groups that count the plan's pods.
    watched: BTreeSet<GroupId>,
    watching: BTreeSet<GroupId>,
    /// Launches of kept trials, in the order of the solver's launches.
    launches: Vec<Launch>,
    /// True while trials leave the virtual pods of CapacityBuffers without a place.
    leaves_buffers: bool,
    pub(super) before: Option<Checkpoint<'a>>,
}

/// Reason why a trial failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The pod at this position has no place.
    Pod(usize),
    /// The pod fits only on nodes that it would overload: one of them and its overload.
    Busy {
        /// Position of the pod.
        pod: usize,
        /// Position of the node.
        node: usize,
        /// Resource that would exceed its limit.
        strain: Overload,
    },
    /// A static NodePool cannot launch another node in place of its own.
    Replica,
    /// The pod at this position would lose its place from a kept trial.
    Displaced(usize),
}

/// State before a trial, for its reversal.
pub(super) struct Checkpoint<'a> {
    counted: CountsBefore<'a>,
    headroom: Headroom,
    reservations: Reservations,
    daemon_overhead: DaemonOverhead<'a>,
    pub(super) launches: usize,
    pub(super) order: usize,
    nominations: usize,
    moved: Vec<usize>,
    /// Positions of the nodes that the trial removes.
    pub(super) vacated: Vec<usize>,
    /// Placement by kube-scheduler, once it is simulated.
    pub(super) simulated_placement: Option<SimulatedPlacement>,
}

/// Placement of all pods by a trial.
pub(crate) struct RelocationOutcome {
    /// Positions of the pods and their destinations, in an order in which kube-scheduler could bind them.
    pub(crate) places: Vec<(usize, Destination)>,
    /// Required launches; their numbers continue those of the launches kept before.
    pub(crate) launches: Vec<Launch>,
}

impl<'a> Relocator<'a> {
    /// Starts with every pod on its present node. `own` has, by node, the pods of the snapshot that run there; other pods have
    /// a nomination or no place. `uses` is the measured usage of each pod, and `ceiling` the utilization limit of a node. Nodes
    /// are tried in the order of `rank`.
    pub(crate) fn new<K: Ord>(
        snapshot: &'a Snapshot,
        own: &'a [Vec<usize>],
        uses: &'a [Size],
        rank: impl Fn(&Node) -> K,
        limit: impl Fn(&Node) -> Option<UtilizationLimit>,
        foreseen: &KnownDomains,
    ) -> Self {
        let mut solver = Solver::new(&PlanInput::new(snapshot), foreseen);
        solver.existing.reorder(|node| (node.stage != crate::Stage::Initialized, rank(node), node.name.clone()));
        solver.existing.track_utilization(uses, &solver.problem.demand_of, limit);
        for (site, pods) in (0..).zip(own) {
            solver.problem.residents.extend(pods.iter().map(|pod| LeavingPod { pod: *pod, site }));
            pods.iter().for_each(|pod| solver.outcome.verdicts[*pod] = Some(PodVerdict::Postponed));
        }
        solver.count_residents();
        rely_on_present_pods(&mut solver);
        keep_nominations(&mut solver, PodKind::Real);
        keep_nominations(&mut solver, PodKind::Virtual);
        // Trials may take pods from any host.
        rely_on_no_pods(&mut solver);
        let nodes = solver.existing.list.iter().enumerate();
        let existing_of = nodes.map(|(existing, own)| (own.site as usize, existing)).collect();
        let (watched, watching) = groups_of_plan(&solver.problem, own);
        let (placed_pods, launches) = (BTreeMap::new(), Vec::new());
        let scheduler = SchedulerModel::new(&solver.existing, &solver.problem.input.dimensions);
        let (leaves_buffers, before) = (false, None);
        Self { solver, scheduler, own, existing_of, placed_pods, watched, watching, launches, leaves_buffers, before }
    }

    /// Sets whether trials leave the virtual pods of CapacityBuffers without a place.
    pub(crate) fn leave_buffers(&mut self, leaves: bool) {
        self.leaves_buffers = leaves;
    }

    /// Reports whether kube-scheduler may place pods on a node that the plan assigns to future nodes.
    pub(crate) fn is_sought(&self, node: usize) -> bool {
        self.existing_of.get(&node).is_some_and(|existing| self.scheduler.is_sought(*existing))
    }

    /// Reports whether rules of the plan's pods count pods of a node, or the reverse: their places depend on each other until
    /// all are bound.
    pub(crate) fn is_entangled(&self, node: usize) -> bool {
        let demands = &self.solver.problem.demands;
        self.own[node].iter().map(|pod| &demands[self.solver.problem.demand_of[*pod]]).any(|demand| {
            let mut rules = demand.levels.iter().flat_map(|level| &level.rules);
            demand.counts.iter().any(|group| self.watched.contains(group))
                || rules.any(|rule| self.watching.contains(&rule.group))
        })
    }

    /// Excludes a node from the plan and from the model of kube-scheduler.
    pub(crate) fn close(&mut self, node: usize) {
        self.spare(node);
        if let Some(existing) = self.existing_of.get(&node) {
            self.scheduler.close(*existing);
        }
    }

    /// Excludes a node from the plan, although kube-scheduler may use it.
    pub(crate) fn spare(&mut self, node: usize) {
        if let Some(existing) = self.existing_of.get(&node) {
            self.solver.existing.close(*existing);
        }
    }

    /// Adds free capacity to a node that may take pods. Must run between two trials.
    pub(crate) fn widen(&mut self, node: usize, by: &Resources) {
        if let Some(existing) = self.existing_of.get(&node) {
            let by = self.solver.problem.input.dimensions.amounts(by);
            self.solver.existing.widen(*existing, &by);
            self.scheduler.widen(*existing, &by);
        }
    }

    /// Returns the free CPU and memory of a node, `i64::MAX` for a resource that no pod requests; `None` where the node takes
    /// no pods.
    pub(crate) fn left(&self, node: usize) -> Option<Size> {
        let left = self.solver.existing.left(*self.existing_of.get(&node)?)?;
        let of =
            |name| self.solver.problem.input.dimensions.of_resource(name).map_or(i64::MAX, |dimension| left[dimension]);
        Some(Size { cpu: of(Resources::CPU), memory: of(Resources::MEMORY) })
    }

    /// Removes a node with all its pods from the simulation for good.
    pub(crate) fn retire(&mut self, node: usize) {
        self.close(node);
        let Ok(site) = Domain::try_from(node) else { return };
        let solver = &mut self.solver;
        let object: &'a Node = &solver.problem.input.snapshot.nodes[node];
        if solver.topology.is_empty() || object.stage != crate::Stage::Initialized {
            return;
        }
        for pod in object.pods.iter().filter(|pod| !pod.ending) {
            let (counts, holds) = membership_of(&mut solver.topology, &pod.shape);
            remove_resident(&mut solver.topology, Membership { counts: &counts, holds: &holds }, site);
        }
    }

    /// Applies utilization limits from now on: no pod is placed where it would overload the node.
    pub(crate) fn apply_utilization_limits(&mut self) {
        self.solver.existing.apply_utilization_limits();
    }

    /// Returns the cost of the cheapest single node for all pods of some nodes, as far as sizes and labels decide.
    pub(crate) fn price_bound(&mut self, nodes: &[usize]) -> Option<i64> {
        let pods: Vec<usize> = nodes.iter().flat_map(|node| &self.own[*node]).copied().collect();
        cheapest_node(&mut self.solver, &pods)
    }

    /// Reports whether the search has reached its limit of steps.
    pub(crate) fn is_spent(&self) -> bool {
        self.solver.is_spent()
    }

    /// Finds places on other nodes for all pods of some nodes.
    pub(crate) fn try_existing_nodes(&mut self, nodes: &[usize]) -> Result<RelocationOutcome, Obstacle> {
        let mut queue = self.begin(nodes);
        if let Some(pod) = self.pod_without_anchor() {
            return Err(Obstacle::Pod(pod));
        }
        let mut left = self.pods_in(&queue);
        loop {
            for run in &mut queue {
                let placed = place_run_on_nodes(&mut self.solver, run);
                run.pods.drain(..placed);
            }
            queue.retain(|run| !run.pods.is_empty());
            let now = self.pods_in(&queue);
            if now == 0 || now == left {
                return self.end(&queue);
            }
            left = now;
        }
    }

    /// Finds places on other nodes and on new ones, launched by one of [`STRATEGIES`]. Each node of a static NodePool is
    /// replaced by another one.
    pub(crate) fn try_launches(&mut self, nodes: &[usize], strategy: Strategy) -> Result<RelocationOutcome, Obstacle> {
        let mut queue = self.begin(nodes);
        if let Some(pod) = self.pod_without_anchor() {
            return Err(Obstacle::Pod(pod));
        }
        self.solver.progress.strategy = strategy;
        let fixed: Vec<TemplateId> = nodes
            .iter()
            .filter_map(|node| {
                static_template_of(&self.solver.capacity, &self.solver.problem.input.snapshot.nodes[*node])
            })
            .collect();
        if !fixed.into_iter().all(|base| open_replica(&mut self.solver, base)) {
            return Err(Obstacle::Replica);
        }
        queue.iter().for_each(|run| self.solver.progress.waiting[run.shape] = run.pods.len());
        let shapes: Vec<usize> = queue.iter().map(|run| run.shape).collect();
        let mut left = self.pods_in(&queue);
        loop {
            for run in &mut queue {
                let placed = self.solver.place_run(run);
                run.pods.drain(..placed);
            }
            queue.retain(|run| !run.pods.is_empty());
            let now = self.pods_in(&queue);
            if now == 0 || now == left {
                shapes.iter().for_each(|shape| self.solver.progress.waiting[*shape] = 0);
                return self.end(&queue);
            }
            left = now;
            queue.iter().for_each(|run| self.solver.new_nodes.forget(run.shape));
        }
    }

    fn pods_in(&self, queue: &[PodRun]) -> usize {
        queue.iter().map(|run| run.pods.len()).sum()
    }

    /// Vacates nodes and queues their pods, those that are hard to place first.
    fn begin(&mut self, nodes: &[usize]) -> Vec<PodRun> {
        let solver = &mut self.solver;
        let pods = nodes.iter().flat_map(|node| self.own[*node].iter().copied());
        let stranded = |pod: &usize| self.leaves_buffers && solver.problem.input.snapshot.pods[*pod].holder.is_some();
        let moved: Vec<usize> = pods.filter(|pod| !stranded(pod)).collect();
        self.before = Some(Checkpoint {
            counted: saved_counts(&solver.topology),
            headroom: solver.capacity.headroom.clone(),
            reservations: solver.capacity.reservations.clone(),
            daemon_overhead: solver.daemons.clone(),
            launches: solver.new_nodes.list.len(),
            order: solver.outcome.order.len(),
            nominations: solver.outcome.nominations.len(),
            moved: moved.clone(),
            vacated: nodes.iter().filter_map(|node| self.existing_of.get(node)).copied().collect(),
            simulated_placement: None,
        });
        solver.existing.try_out();
        solver.new_nodes.seal();
        solver.progress.fleets = super::PlannedFleets::default();
        nodes.iter().for_each(|node| self.vacate(*node));
        let mut runs: BTreeMap<usize, PodRun> = BTreeMap::new();
        for pod in moved {
            let shape = self.solver.problem.demand_of[pod];
            runs.entry(shape).or_insert_with(|| PodRun { shape, pods: Vec::new() }).pods.push(pod);
        }
        let mut queue: Vec<PodRun> = runs.into_values().collect();
        let name =
            |run: &PodRun| run.pods.first().map(|pod| self.solver.problem.input.snapshot.pods[*pod].name.as_str());
        queue.sort_by_cached_key(|run| (queue_key(&self.solver, run), name(run)));
        queue
    }

    /// Returns a pod with affinity in a zone or similar domain, if the trial would move all pods of its group at once. Such
    /// pods leave one after another, so the first must find its place beside those that have not moved yet.
    fn pod_without_anchor(&self) -> Option<usize> {
        let moved = &self.before.as_ref()?.moved;
        let demand = |pod: &usize| &self.solver.problem.demands[self.solver.problem.demand_of[*pod]];
        let mut counts: BTreeMap<GroupId, usize> = BTreeMap::new();
        for group in moved.iter().flat_map(|pod| &demand(pod).counts) {
            *counts.entry(*group).or_default() += 1;
        }
        let several = |group: &GroupId| counts.get(group).is_some_and(|count| *count > 1);
        let loses_group = |pod: &&usize| {
            let mut rules = demand(pod).strict_rules().iter();
            rules.any(|rule| several(&rule.group) && is_deserted(&self.solver.topology, rule))
        };
        moved.iter().find(loses_group).copied()
    }

    fn vacate(&mut self, node: usize) {
        let Some(existing) = self.existing_of.get(&node) else { return };
        let solver = &mut self.solver;
        solver.existing.close(*existing);
        let site = solver.existing.list[*existing].site;
        for pod in &self.own[node] {
            let demand = &solver.problem.demands[solver.problem.demand_of[*pod]];
            remove_resident(&mut solver.topology, Membership { counts: &demand.counts, holds: &demand.holds }, site);
        }
        let object: &'a Node = &solver.problem.input.snapshot.nodes[node];
        if !solver.topology.is_empty() {
            for pod in object.pods.iter().filter(|pod| !pod.reschedulable && !pod.ending) {
                let (counts, holds) = membership_of(&mut solver.topology, &pod.shape);
                remove_resident(&mut solver.topology, Membership { counts: &counts, holds: &holds }, site);
            }
        }
        // The nodes of a static NodePool exist until their replacements do, so its limits must allow both.
        if static_template_of(&solver.capacity, object).is_none() {
            solver.capacity.release_limits(object);
        }
    }

    /// Returns the places of all pods, or the obstacle of the first pod without one.
    fn end(&mut self, queue: &[PodRun]) -> Result<RelocationOutcome, Obstacle> {
        if let Some(left) = queue.iter().find_map(|run| run.pods.first()) {
            return Err(obstacle(&self.solver, *left));
        }
        let from = self.before.as_ref().map_or(self.solver.new_nodes.list.len(), |before| before.launches);
        trim_launches(&mut self.solver);
        let claims: Vec<_> = self.solver.new_nodes.list[from..].to_vec();
        let (problem, capacity) = (&self.solver.problem, &mut self.solver.capacity);
        let launches = to_launches(problem, capacity, claims).into_iter();
        let launches = launches.map(|launch| Launch { pods: Vec::new(), purpose: Purpose::Replacement, ..launch });
        let launches = launches.collect();
        let order = &self.solver.outcome.order[self.before.as_ref().map_or(0, |before| before.order)..];
        let places = order.iter().filter_map(|pod| Some((*pod, self.destination(*pod)?))).collect();
        Ok(RelocationOutcome { places, launches })
    }

    fn destination(&self, pod: usize) -> Option<Destination> {
        match self.solver.outcome.verdicts[pod].as_ref()? {
            PodVerdict::Existing { node, .. } => Some(Destination::Node(node.clone())),
            PodVerdict::Launch { launch, .. } => Some(Destination::Launch(*launch)),
            _ => None,
        }
    }

    /// Keeps the last trial, with its launches as they were narrowed since. Reverts the trial instead if a pod of an earlier
    /// one would lose its place.
    pub(crate) fn keep(&mut self, launches: Vec<Launch>) -> Result<(), Obstacle> {
        let Some(before) = &self.before else { return Ok(()) };
        let changed = count_both_ways(&mut self.solver.topology, &before.counted);
        if let Some(pod) = self.displaced(&changed, before) {
            self.undo();
            return Err(Obstacle::Displaced(pod));
        }
        let from = before.order;
        self.record_placed(from);
        self.keep_scattered();
        self.before = None;
        self.solver.existing.keep();
        self.solver.new_nodes.seal();
        self.launches.extend(launches);
        Ok(())
    }

    /// Returns a pod of an earlier trial that loses its place by the last trial's changes of some groups.
    fn displaced(&self, changed: &[GroupId], before: &Checkpoint<'a>) -> Option<usize> {
        let solver = &self.solver;
        let stays = |(shape, place): &(usize, PodPlacement)| {
            let mut rules =
                solver.problem.demands[*shape].strict_rules().iter().filter(|rule| changed.contains(&rule.group));
            rules.all(|rule| keeps_rule(&solver.topology, rule, solver.spot_of(*place), &before.counted))
        };
        let mut placed_pods = changed.iter().filter_map(|group| self.placed_pods.get(group)).flatten();
        placed_pods.find(|(placed, _)| !stays(placed)).map(|(_, pod)| *pod)
    }

    /// Records placed pods with topology rules, from a position in the order on.
    fn record_placed(&mut self, from: usize) {
        let solver = &self.solver;
        for pod in &solver.outcome.order[from..] {
            let shape = solver.problem.demand_of[*pod];
            let rules = solver.problem.demands[shape].strict_rules();
            let Some(place) = Some(*pod).filter(|_| !rules.is_empty()).and_then(|pod| solver.place_of(pod)) else {
                continue;
            };
            for rule in rules {
                self.placed_pods.entry(rule.group).or_default().insert((shape, place), *pod);
            }
        }
    }

    /// Reverts the last trial.
    pub(crate) fn undo(&mut self) {
        let Some(before) = self.before.take() else { return };
        let solver = &mut self.solver;
        solver.existing.undo();
        restore_counts(&mut solver.topology, before.counted);
        solver.capacity.headroom.restore(before.headroom);
        solver.capacity.reservations.restore(before.reservations);
        solver.daemons = before.daemon_overhead;
        solver.new_nodes.list.truncate(before.launches);
        solver.new_nodes.seal();
        solver.outcome.order.truncate(before.order);
        solver.outcome.nominations.truncate(before.nominations);
        before.moved.iter().for_each(|pod| solver.outcome.verdicts[*pod] = Some(PodVerdict::Postponed));
    }

    /// Returns the launches of all kept trials, and the facts that the next attempt must know from its beginning if the trials
    /// conflict after all.
    pub(crate) fn finish(mut self) -> (Vec<Launch>, KnownDomains) {
        let surprises = new_domains(&mut self.solver);
        (self.launches, surprises)
    }
}

/// Returns groups that rules of placed pods count, and groups that count these pods.
fn groups_of_plan(problem: &Problem<'_>, own: &[Vec<usize>]) -> (BTreeSet<GroupId>, BTreeSet<GroupId>) {
    let residents: BTreeSet<usize> = own.iter().flatten().copied().collect();
    let pods = &problem.input.snapshot.pods;
    // A virtual pod without a nomination is bound, or has no place: nothing waits for it.
    let waits = |pod: &usize| pods[*pod].holder.is_none() || pods[*pod].nominated.is_some();
    let planned = (0..pods.len()).filter(|pod| !residents.contains(pod) && waits(pod));
    let shapes: BTreeSet<usize> = planned.map(|pod| problem.demand_of[pod]).collect();
    let demands = || shapes.iter().map(|shape| &problem.demands[*shape]);
    let rules = demands().flat_map(|demand| &demand.levels).flat_map(|level| &level.rules).map(|rule| rule.group);
    let counted = demands().flat_map(|demand| demand.counts.iter().copied());
    (rules.collect(), counted.collect())
}

fn membership_of<'a>(topology: &mut Topology<'a>, shape: &'a crate::PodShape) -> (Vec<GroupId>, Vec<GroupId>) {
    (topology.counting(shape), topology.holding(shape))
}

/// Places pods of the run on existing nodes and returns how many were placed, counted from the first.
fn place_run_on_nodes(solver: &mut Solver<'_>, run: &PodRun) -> usize {
    let mut placed = 0;
    while placed < run.pods.len() && !solver.is_spent() {
        match solver.place_some_on_nodes(run.shape, &run.pods[placed..]) {
            0 => break,
            count => placed += count,
        }
    }
    placed
}

/// Returns the template of the static NodePool that a node belongs to.
fn static_template_of(capacity: &Capacity<'_>, node: &Node) -> Option<TemplateId> {
    capacity.static_template(node.pool.as_deref()?)
}

/// Returns the obstacle to the placement of a pod: no place at all, or only overloaded nodes.
fn obstacle(solver: &Solver<'_>, position: usize) -> Obstacle {
    let shape = solver.problem.demand_of[position];
    let demand = &solver.problem.demands[shape];
    let busy = demand.levels.iter().enumerate().find_map(|(level, own)| {
        let node = solver.existing.first_overloaded(Attempt { shape, level })?;
        let strain = solver.existing.overload(node, position)?;
        let admits =
            solver.existing.admits(node, demand, own, position, &solver.problem.requirement_sets, &solver.topology);
        let node = usize::try_from(solver.existing.list[node].site).ok()?;
        admits.then_some(Obstacle::Busy { pod: position, node, strain })
    });
    busy.unwrap_or(Obstacle::Pod(position))
}
