//! Model of kube-scheduler's placement of moved pods: kube-scheduler does not know the plan.
//!
//! A plan fills nodes; kube-scheduler binds each pod to the emptiest node. A pod may therefore use the capacity meant for a
//! larger one. The last pod then finds no capacity and causes a launch, although all pods together would have fit. The model
//! places pods in a likely order, each where the most capacity is free. One order starts with the greatest pod, as evictions
//! do; another proceeds shape by shape, because Deployments create replacements independently. The worse result counts.
//!
//! Pods with topology rules remain in the domains that the plan chose, where their rules hold, and may use any host in them.
//! Pods with volumes or host ports remain at the places of the plan. The effects of a plan's commands add up, on top of earlier
//! commands that are still in progress. A node that is not up yet takes only the pods that the plan assigned to it. A pod
//! assigned to such a node may still be bound elsewhere: while thousands of pods arrive, kube-scheduler fills the nodes that
//! are up. A node with capacity for such pods may therefore not remain free.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::{Resources, Stage};

use super::Relocator;
use super::price_bound::cheapest_node;
use crate::provision::demand::Demand;
use crate::provision::demand::dimensions::{Amounts, Dimensions, fits};
use crate::provision::existing_node::ExistingNodes;
use crate::provision::topology::Domain;
use crate::provision::{PodPlacement, Solver};

/// Memory per millicore in comparisons of sizes, as in the order of evictions.
const MEMORY_PER_MILLICORE: i64 = (4 << 30) / 1000;
/// Number of emptiest nodes that are compared for a pod. The order of nodes hardly changes with the pod.
const ABREAST: usize = 32;

/// Free capacity of nodes after kube-scheduler's placement for all kept commands.
pub(in crate::provision) struct SchedulerModel {
    nodes: Vec<NodeCapacity>,
    /// Open nodes, the emptiest first.
    emptiest: BTreeSet<(Reverse<i64>, usize)>,
    sizes: ComparedSizes,
    /// Nodes where kube-scheduler may place pods that the plan assigned to future nodes.
    sought: BTreeSet<usize>,
}

#[derive(Clone)]
struct NodeCapacity {
    left: Amounts,
    whole: Amounts,
    /// Free shares of CPU and memory, in thousandths: a trial reads them far more often than it changes them.
    shares: [i64; 2],
}

/// Dimensions of CPU and memory, by which nodes are compared.
#[derive(Clone, Copy)]
struct ComparedSizes([Option<usize>; 2]);

impl ComparedSizes {
    /// Returns the free shares of CPU and memory, in thousandths.
    fn shares(self, left: impl Fn(usize) -> i64, whole: &[i64]) -> [i64; 2] {
        self.0.map(|dimension| {
            dimension.map_or(0, |dimension| left(dimension).saturating_mul(1000) / whole[dimension].max(1))
        })
    }

    fn capacity(self, left: Amounts, whole: Amounts) -> NodeCapacity {
        let shares = self.shares(|dimension| left[dimension], &whole);
        NodeCapacity { left, whole, shares }
    }
}

impl NodeCapacity {
    /// Returns the free share, in thousandths.
    fn emptiness(&self) -> i64 {
        self.shares.iter().sum::<i64>() / 2
    }

    /// Sets each free amount to the result of `change` for it and the request of the same dimension.
    fn change(&mut self, sizes: ComparedSizes, requests: &[i64], change: impl Fn(i64, i64) -> i64) {
        self.left.iter_mut().zip(requests).for_each(|(left, asked)| *left = change(*left, *asked));
        self.shares = sizes.shares(|dimension| self.left[dimension], &self.whole);
    }
}

/// Effects of the pods of one trial.
#[derive(Default)]
pub(in crate::provision) struct SimulatedPlacement {
    left: BTreeMap<usize, Amounts>,
    /// Positions of pods without capacity.
    over: Vec<usize>,
}

impl SchedulerModel {
    pub(in crate::provision) fn new(existing: &ExistingNodes<'_>, dimensions: &Dimensions) -> Self {
        let sizes = ComparedSizes([Resources::CPU, Resources::MEMORY].map(|name| dimensions.of_resource(name)));
        let capacity = |node: usize| {
            let whole = dimensions.amounts(&existing.list[node].node.allocatable);
            let left = existing.left(node).map_or_else(|| vec![0; whole.len()].into(), Amounts::from);
            sizes.capacity(left, whole)
        };
        let nodes: Vec<NodeCapacity> = (0..existing.list.len()).map(capacity).collect();
        let mut scheduler = Self { nodes, emptiest: BTreeSet::new(), sizes, sought: BTreeSet::new() };
        let is_up = |node: &usize| existing.list[*node].node.stage == Stage::Initialized;
        scheduler.emptiest = (0..scheduler.nodes.len()).filter(is_up).map(|node| scheduler.rank(node)).collect();
        scheduler
    }

    /// Reports whether kube-scheduler may place pods there that the plan assigned to future nodes.
    pub(in crate::provision) fn is_sought(&self, node: usize) -> bool {
        self.sought.contains(&node)
    }

    fn is_open(&self, node: usize) -> bool {
        self.emptiest.contains(&self.rank(node))
    }

    /// Excludes a node from kube-scheduler's placement.
    pub(in crate::provision) fn close(&mut self, node: usize) {
        self.emptiest.remove(&self.rank(node));
    }

    pub(in crate::provision) fn widen(&mut self, node: usize, by: &[i64]) {
        let left = self.nodes[node].left.iter().zip(by).map(|(left, by)| left + by).collect();
        self.leave(node, left);
    }

    /// Sets the free capacity of a node.
    fn leave(&mut self, node: usize, left: Amounts) {
        let open = self.emptiest.remove(&self.rank(node));
        let capacity = &mut self.nodes[node];
        capacity.change(self.sizes, &left, |_, left| left);
        if open {
            self.emptiest.insert(self.rank(node));
        }
    }

    fn rank(&self, node: usize) -> (Reverse<i64>, usize) {
        (Reverse(self.nodes[node].emptiness()), node)
    }

    /// Returns kube-scheduler's score of a node for a pod: free share with the pod, and improvement of the balance of CPU and
    /// memory. Returns `None` where the pod does not fit.
    fn score(&self, capacity: &NodeCapacity, requests: &[i64]) -> Option<i64> {
        if !fits(requests, &capacity.left) {
            return None;
        }
        let unevenness = |[cpu, memory]: [i64; 2]| (cpu - memory).abs() / 2;
        let after = self.sizes.shares(|dimension| capacity.left[dimension] - requests[dimension], &capacity.whole);
        let evener = unevenness(capacity.shares) - unevenness(after);
        Some(after.iter().sum::<i64>() / 2 + evener / 2)
    }

    fn size(&self, requests: &[i64]) -> i64 {
        let [cpu, memory] = self.sizes.0.map(|dimension| dimension.map_or(0, |it| requests[it]));
        cpu.max(memory / MEMORY_PER_MILLICORE)
    }
}

/// Nodes while the pods of a trial arrive.
#[derive(Clone)]
struct SimulatedNodes<'s> {
    scheduler: &'s SchedulerModel,
    nodes: BTreeMap<usize, NodeCapacity>,
    /// Launches of the trial, and the number of the first.
    launches: Vec<NodeCapacity>,
    first: usize,
}

impl<'s> SimulatedNodes<'s> {
    fn new(scheduler: &'s SchedulerModel, first: usize, launches: Vec<NodeCapacity>) -> Self {
        Self { scheduler, nodes: BTreeMap::new(), launches, first }
    }

    /// Returns the free capacity of nodes that received pods.
    fn left(self) -> BTreeMap<usize, Amounts> {
        self.nodes.into_iter().map(|(node, capacity)| (node, capacity.left)).collect()
    }

    fn capacity(&self, place: PodPlacement) -> &NodeCapacity {
        match place {
            PodPlacement::Existing(node) => self.nodes.get(&node).unwrap_or(&self.scheduler.nodes[node]),
            PodPlacement::New(claim) => &self.launches[claim - self.first],
        }
    }

    fn capacity_mut(&mut self, place: PodPlacement) -> &mut NodeCapacity {
        match place {
            PodPlacement::Existing(node) => {
                self.nodes.entry(node).or_insert_with(|| self.scheduler.nodes[node].clone())
            }
            PodPlacement::New(claim) => &mut self.launches[claim - self.first],
        }
    }

    fn put(&mut self, place: PodPlacement, requests: &[i64]) {
        let sizes = self.scheduler.sizes;
        self.capacity_mut(place).change(sizes, requests, |left, asked| left - asked);
    }

    /// Removes a pod.
    fn free(&mut self, place: PodPlacement, requests: &[i64]) {
        let sizes = self.scheduler.sizes;
        self.capacity_mut(place).change(sizes, requests, |left, asked| left + asked);
    }

    fn claims(&self) -> impl Iterator<Item = PodPlacement> + use<> {
        (self.first..self.first + self.launches.len()).map(PodPlacement::New)
    }

    /// Places equal pods one after another where the most capacity is free; returns how many fit. `most` returns how many of
    /// them a place may take.
    fn distribute(&mut self, count: usize, requests: &[i64], most: impl Fn(PodPlacement) -> usize) -> usize {
        let scheduler = self.scheduler;
        let score = |simulated: &Self, place: PodPlacement| {
            Some((scheduler.score(simulated.capacity(place), requests)?, Reverse(place)))
        };
        let offer = |simulated: &Self, place: PodPlacement| {
            score(simulated, place).map(|score| (score, most(place))).filter(|(_, more)| *more > 0)
        };
        let mut heap: BinaryHeap<_> = self.claims().filter_map(|claim| offer(self, claim)).collect();
        let mut nodes = scheduler.emptiest.iter().map(|(_, node)| PodPlacement::Existing(*node));
        let mut placed = 0;
        while placed < count {
            while heap.len() < ABREAST
                && let Some(node) = nodes.next()
            {
                heap.extend(offer(self, node));
            }
            let Some(((_, Reverse(place)), more)) = heap.pop() else { break };
            self.put(place, requests);
            placed += 1;
            heap.extend(score(self, place).map(|score| (score, more - 1)).filter(|(_, more)| *more > 0));
        }
        placed
    }
}

/// Order in which pods arrive.
#[derive(Clone, Copy)]
enum ArrivalOrder {
    Greatest,
    ByShape,
}

/// Pods of a trial that are equal for kube-scheduler: of one shape, and in the same domains by the plan.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PodGroup {
    shape: usize,
    /// Domains by the keys of the shape's rules; empty where it has none.
    domains: Vec<Option<Domain>>,
}

/// Pods with their places in the plan.
type Placed = Vec<(usize, Option<PodPlacement>)>;

/// Pods of a group.
#[derive(Default)]
struct GroupMembers {
    pods: Vec<usize>,
    /// Number of pods per place in the plan, if they have rules.
    planned: BTreeMap<PodPlacement, usize>,
}

impl Relocator<'_> {
    /// Returns the number of the last trial's pods without capacity after kube-scheduler's placement, and the price of further
    /// nodes for them. The price is `None` where no node is available for them.
    pub(crate) fn left_over(&mut self) -> (usize, Option<i64>) {
        let over = self.scatter_trial();
        let together = cheapest_node(&mut self.solver, &over);
        let price = together.or_else(|| over.iter().map(|pod| cheapest_node(&mut self.solver, &[*pod])).sum());
        (over.len(), if over.is_empty() { Some(0) } else { price })
    }

    /// Returns the pods of the last trial that find no capacity.
    fn scatter_trial(&mut self) -> Vec<usize> {
        let Some(before) = &self.before else { return Vec::new() };
        if let Some(known) = &before.simulated_placement {
            return known.over.clone();
        }
        let simulated_placement = self.put_all();
        let over = simulated_placement.over.clone();
        if let Some(before) = &mut self.before {
            before.simulated_placement = Some(simulated_placement);
        }
        over
    }

    /// Keeps the last trial.
    pub(in crate::provision) fn keep_scattered(&mut self) {
        self.scatter_trial();
        let Some(before) = &mut self.before else { return };
        for (node, left) in before.simulated_placement.take().unwrap_or_default().left {
            self.scheduler.leave(node, left);
        }
        before.vacated.iter().for_each(|node| self.scheduler.close(*node));
    }

    fn put_all(&self) -> SimulatedPlacement {
        let Some(before) = &self.before else { return SimulatedPlacement::default() };
        let solver = &self.solver;
        let launches = solver.new_nodes.list[before.launches..].iter().map(|claim| {
            let whole = &solver.capacity.templates.candidate(claim.template, claim.entry).free;
            self.scheduler.sizes.capacity(whole.clone(), whole.clone())
        });
        let mut simulated = SimulatedNodes::new(&self.scheduler, before.launches, launches.collect());
        let mut free = Vec::new();
        for pod in &solver.outcome.order[before.order..] {
            match solver.place_of(*pod) {
                Some(PodPlacement::New(claim)) if claim < before.launches => {}
                Some(place) if has_volumes_or_ports(solver.problem.demand(*pod)) => {
                    simulated.put(place, &solver.problem.demand(*pod).requests)
                }
                place => free.push((*pod, place)),
            }
        }
        let groups = pod_groups(solver, free);
        let worse = [ArrivalOrder::Greatest, ArrivalOrder::ByShape].map(|coming| {
            let mut simulated = simulated.clone();
            let over = simulate(solver, &groups, coming, &before.vacated, &mut simulated);
            SimulatedPlacement { left: simulated.left(), over }
        });
        worse.into_iter().max_by_key(|simulated_placement| simulated_placement.over.len()).unwrap_or_default()
    }

    /// Places pods with nominations that are not bound yet as kube-scheduler would: those of earlier commands still in
    /// progress, and pending ones. Must run before the first trial.
    pub(crate) fn scatter_promised(&mut self) {
        let (here, to_come) = self.nominated();
        let mut simulated = SimulatedNodes::new(&self.scheduler, 0, Vec::new());
        for (pod, place) in &here {
            place.iter().for_each(|place| simulated.free(*place, &self.solver.problem.demand(*pod).requests));
        }
        simulate(&self.solver, &pod_groups(&self.solver, here), ArrivalOrder::Greatest, &[], &mut simulated);
        simulated.left().into_iter().for_each(|(node, left)| self.scheduler.leave(node, left));
        let mut simulated = SimulatedNodes::new(&self.scheduler, 0, Vec::new());
        simulate(&self.solver, &pod_groups(&self.solver, to_come), ArrivalOrder::Greatest, &[], &mut simulated);
        for (node, left) in simulated.left() {
            self.scheduler.leave(node, left);
            self.scheduler.sought.insert(node);
        }
    }

    /// Returns pods with a nomination to an open node, and pending pods with another nomination.
    fn nominated(&self) -> (Placed, Placed) {
        let solver = &self.solver;
        let (mut here, mut to_come) = (Vec::new(), Vec::new());
        for pod in solver.outcome.order.iter().filter(|pod| !has_volumes_or_ports(solver.problem.demand(**pod))) {
            let (place, object) = (solver.place_of(*pod), &solver.problem.input.snapshot.pods[*pod]);
            match place {
                Some(PodPlacement::Existing(node)) if self.scheduler.is_open(node) => here.push((*pod, place)),
                Some(PodPlacement::Existing(_)) if object.leaving_node.is_none() && object.holder.is_none() => {
                    to_come.push((*pod, place))
                }
                _ => {}
            }
        }
        (here, to_come)
    }
}

/// Groups pods with their planned places by the properties that kube-scheduler distinguishes.
fn pod_groups(solver: &Solver<'_>, pods: Placed) -> BTreeMap<PodGroup, GroupMembers> {
    let mut groups: BTreeMap<PodGroup, GroupMembers> = BTreeMap::new();
    for (pod, place) in pods {
        let demand = solver.problem.demand(pod);
        let place = place.filter(|_| !goes_anywhere(demand));
        let domains = place.map_or_else(Vec::new, |place| domains_of(solver, demand, place));
        let members = groups.entry(PodGroup { shape: solver.problem.demand_of[pod], domains }).or_default();
        members.pods.push(pod);
        place.into_iter().for_each(|place| *members.planned.entry(place).or_default() += 1);
    }
    groups
}

/// Places pods as kube-scheduler would, the greatest first or in the given order; returns those that find no capacity.
fn simulate(
    solver: &Solver<'_>,
    groups: &BTreeMap<PodGroup, GroupMembers>,
    coming: ArrivalOrder,
    vacated: &[usize],
    simulated: &mut SimulatedNodes<'_>,
) -> Vec<usize> {
    let requests = |group: &PodGroup| &solver.problem.demands[group.shape].requests;
    let mut queue: Vec<(&PodGroup, &GroupMembers)> = groups.iter().collect();
    if matches!(coming, ArrivalOrder::Greatest) {
        queue.sort_by_key(|(group, _)| Reverse(simulated.scheduler.size(requests(group))));
    }
    let mut over = Vec::new();
    for (group, GroupMembers { pods, planned }) in queue {
        let most = |place| match place {
            PodPlacement::Existing(node) if vacated.contains(&node) => 0,
            place => most_at(solver, place, group, planned.get(&place).copied().unwrap_or(0)),
        };
        let placed = simulated.distribute(pods.len(), requests(group), most);
        over.extend_from_slice(&pods[placed..]);
    }
    over
}

/// Returns the domains of a place by the keys of a shape's rules.
fn domains_of(solver: &Solver<'_>, demand: &Demand<'_>, place: PodPlacement) -> Vec<Option<Domain>> {
    let keys = demand.levels.last().map_or(&[][..], |level| &level.keys);
    keys.iter().map(|key| solver.topology.domain_at(*key, solver.spot_of(place))).collect()
}

/// Returns how many pods of a group kube-scheduler may put at a place, where the plan has put `planned` of them.
fn most_at(solver: &Solver<'_>, place: PodPlacement, group: &PodGroup, planned: usize) -> usize {
    let demand = &solver.problem.demands[group.shape];
    let Some(level) = demand.levels.last() else { return 0 };
    let suits = match place {
        PodPlacement::Existing(node) => solver.existing.list[node]
            .suits(solver.problem.requirement_sets.of_class(level.class), &solver.problem.requirement_sets),
        PodPlacement::New(claim) => solver.capacity.templates.suits_as_it_is(
            solver.new_nodes.list[claim].template,
            level.class,
            &solver.problem.requirement_sets,
        ),
    };
    if !suits {
        return 0;
    }
    if goes_anywhere(demand) {
        return usize::MAX;
    }
    if domains_of(solver, demand, place) != group.domains {
        return 0;
    }
    let (rules, site) = (demand.strict_rules(), solver.spot_of(place).site);
    let free = solver.topology.allows_host(rules, &demand.excluded_by, site);
    let more = if free { solver.topology.host_slots(rules, site) } else { 0 };
    more.saturating_add(planned)
}

/// Reports whether only size, labels and taints decide where a pod fits.
fn goes_anywhere(demand: &Demand<'_>) -> bool {
    demand.strict_rules().is_empty() && demand.excluded_by.is_empty() && !has_volumes_or_ports(demand)
}

/// Reports whether a pod has volumes or host ports, which few hosts satisfy.
fn has_volumes_or_ports(demand: &Demand<'_>) -> bool {
    !demand.shape.ports.is_empty() || !demand.attachments.is_empty()
}
