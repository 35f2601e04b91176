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

use super::demand::Demand;
use super::dimensions::{Amounts, Dimensions, fits};
use super::existing_node::ExistingNodes;
use super::topology::Domain;
use super::{PodPlacement, Relocator, Solver};
use crate::{Resources, Stage};

/// Memory per millicore in comparisons of sizes, as in the order of evictions.
const MEMORY_PER_MILLICORE: i64 = (4 << 30) / 1000;
/// Number of emptiest nodes that are compared for a pod. The order of nodes hardly changes with the pod.
const ABREAST: usize = 32;

/// Free capacity of nodes after kube-scheduler's placement for all kept commands.
pub(super) struct SchedulerModel {
    rooms: Vec<NodeCapacity>,
    /// Open nodes, the emptiest first.
    emptiest: BTreeSet<(Reverse<i64>, usize)>,
    /// Dimensions of CPU and memory, by which nodes are compared.
    sizes: [Option<usize>; 2],
    /// Nodes where kube-scheduler may place pods that the plan assigned to future nodes.
    sought: BTreeSet<usize>,
}

#[derive(Clone)]
struct NodeCapacity {
    left: Amounts,
    whole: Amounts,
}

/// Effects of the pods of one trial.
#[derive(Default)]
pub(super) struct SimulatedPlacement {
    left: BTreeMap<usize, Amounts>,
    /// Positions of pods without capacity.
    over: Vec<usize>,
}

impl SchedulerModel {
    pub(super) fn new(rooms: &ExistingNodes<'_>, dimensions: &Dimensions) -> Self {
        let venue = |room: usize| {
            let whole = dimensions.amounts(&rooms.list[room].node.allocatable);
            let left = rooms.left(room).map_or_else(|| vec![0; whole.len()].into(), Amounts::from);
            NodeCapacity { left, whole }
        };
        let sizes = [Resources::CPU, Resources::MEMORY].map(|name| dimensions.of_resource(name));
        let venues: Vec<NodeCapacity> = (0..rooms.list.len()).map(venue).collect();
        let mut scatter = Self { rooms: venues, emptiest: BTreeSet::new(), sizes, sought: BTreeSet::new() };
        let is_up = |room: &usize| rooms.list[*room].node.stage == Stage::Initialized;
        scatter.emptiest = (0..scatter.rooms.len()).filter(is_up).map(|room| scatter.rank(room)).collect();
        scatter
    }

    /// Reports whether kube-scheduler may place pods there that the plan assigned to future nodes.
    pub(super) fn is_sought(&self, room: usize) -> bool {
        self.sought.contains(&room)
    }

    fn is_open(&self, room: usize) -> bool {
        self.emptiest.contains(&self.rank(room))
    }

    /// Excludes a node from kube-scheduler's placement.
    pub(super) fn close(&mut self, room: usize) {
        self.emptiest.remove(&self.rank(room));
    }

    pub(super) fn widen(&mut self, room: usize, by: &[i64]) {
        let left = self.rooms[room].left.iter().zip(by).map(|(left, by)| left + by).collect();
        self.leave(room, left);
    }

    /// Sets the free capacity of a node.
    fn leave(&mut self, room: usize, left: Amounts) {
        let open = self.emptiest.remove(&self.rank(room));
        self.rooms[room].left = left;
        if open {
            self.emptiest.insert(self.rank(room));
        }
    }

    fn rank(&self, room: usize) -> (Reverse<i64>, usize) {
        (Reverse(self.emptiness(&self.rooms[room])), room)
    }

    /// Returns the free share of a node, in thousandths.
    fn emptiness(&self, venue: &NodeCapacity) -> i64 {
        self.shares(venue, None).iter().sum::<i64>() / 2
    }

    /// Returns kube-scheduler's score of a node for a pod: free share with the pod, and improvement of the balance of CPU and
    /// memory. Returns `None` where the pod does not fit.
    fn score(&self, venue: &NodeCapacity, requests: &[i64]) -> Option<i64> {
        let unevenness = |[cpu, memory]: [i64; 2]| (cpu - memory).abs() / 2;
        let (before, after) = (self.shares(venue, None), self.shares(venue, Some(requests)));
        let evener = unevenness(before) - unevenness(after);
        fits(requests, &venue.left).then(|| after.iter().sum::<i64>() / 2 + evener / 2)
    }

    /// Returns the free shares of CPU and memory, without or with a pod, in thousandths.
    fn shares(&self, venue: &NodeCapacity, requests: Option<&[i64]>) -> [i64; 2] {
        self.sizes.map(|dimension| {
            let Some(dimension) = dimension else { return 0 };
            let left = venue.left[dimension] - requests.map_or(0, |requests| requests[dimension]);
            left.saturating_mul(1000) / venue.whole[dimension].max(1)
        })
    }

    fn size(&self, requests: &[i64]) -> i64 {
        let [cpu, memory] = self.sizes.map(|dimension| dimension.map_or(0, |it| requests[it]));
        cpu.max(memory / MEMORY_PER_MILLICORE)
    }
}

/// Nodes while the pods of a trial arrive.
#[derive(Clone)]
struct SimulatedNodes<'s> {
    scatter: &'s SchedulerModel,
    rooms: BTreeMap<usize, NodeCapacity>,
    /// Launches of the trial, and the number of the first.
    launches: Vec<NodeCapacity>,
    first: usize,
}

impl<'s> SimulatedNodes<'s> {
    fn new(scatter: &'s SchedulerModel, first: usize, launches: Vec<NodeCapacity>) -> Self {
        Self { scatter, rooms: BTreeMap::new(), launches, first }
    }

    /// Returns the free capacity of nodes that received pods.
    fn left(self) -> BTreeMap<usize, Amounts> {
        self.rooms.into_iter().map(|(room, venue)| (room, venue.left)).collect()
    }

    fn venue(&self, place: PodPlacement) -> &NodeCapacity {
        match place {
            PodPlacement::Room(room) => self.rooms.get(&room).unwrap_or(&self.scatter.rooms[room]),
            PodPlacement::Claim(claim) => &self.launches[claim - self.first],
        }
    }

    fn venue_mut(&mut self, place: PodPlacement) -> &mut NodeCapacity {
        match place {
            PodPlacement::Room(room) => self.rooms.entry(room).or_insert_with(|| self.scatter.rooms[room].clone()),
            PodPlacement::Claim(claim) => &mut self.launches[claim - self.first],
        }
    }

    fn put(&mut self, place: PodPlacement, requests: &[i64]) {
        self.venue_mut(place).left.iter_mut().zip(requests).for_each(|(left, asked)| *left -= asked);
    }

    /// Removes a pod.
    fn free(&mut self, place: PodPlacement, requests: &[i64]) {
        self.venue_mut(place).left.iter_mut().zip(requests).for_each(|(left, asked)| *left += asked);
    }

    fn claims(&self) -> impl Iterator<Item = PodPlacement> + use<> {
        (self.first..self.first + self.launches.len()).map(PodPlacement::Claim)
    }

    /// Places equal pods one after another where the most capacity is free; returns how many fit. `most` returns how many of
    /// them a place may take.
    fn distribute(&mut self, count: usize, requests: &[i64], most: impl Fn(PodPlacement) -> usize) -> usize {
        let scatter = self.scatter;
        let score =
            |crowd: &Self, place: PodPlacement| Some((scatter.score(crowd.venue(place), requests)?, Reverse(place)));
        let offer = |crowd: &Self, place: PodPlacement| {
            score(crowd, place).map(|score| (score, most(place))).filter(|(_, more)| *more > 0)
        };
        let mut heap: BinaryHeap<_> = self.claims().filter_map(|claim| offer(self, claim)).collect();
        let mut rooms = scatter.emptiest.iter().map(|(_, room)| PodPlacement::Room(*room));
        let mut poured = 0;
        while poured < count {
            while heap.len() < ABREAST
                && let Some(room) = rooms.next()
            {
                heap.extend(offer(self, room));
            }
            let Some(((_, Reverse(place)), more)) = heap.pop() else { break };
            self.put(place, requests);
            poured += 1;
            heap.extend(score(self, place).map(|score| (score, more - 1)).filter(|(_, more)| *more > 0));
        }
        poured
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
        let together = self.cheapest_node(&over);
        let price = together.or_else(|| over.iter().map(|pod| self.cheapest_node(&[*pod])).sum());
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
    pub(super) fn keep_scattered(&mut self) {
        self.scatter_trial();
        let Some(before) = &mut self.before else { return };
        for (room, left) in before.simulated_placement.take().unwrap_or_default().left {
            self.scatter.leave(room, left);
        }
        before.vacated.iter().for_each(|room| self.scatter.close(*room));
    }

    fn put_all(&self) -> SimulatedPlacement {
        let Some(before) = &self.before else { return SimulatedPlacement::default() };
        let solver = &self.solver;
        let launches = solver.claims.list[before.launches..].iter().map(|claim| {
            let whole = &solver.frames.candidate(claim.frame, claim.entry).room;
            NodeCapacity { left: whole.clone(), whole: whole.clone() }
        });
        let mut crowd = SimulatedNodes::new(&self.scatter, before.launches, launches.collect());
        let mut free = Vec::new();
        for pod in &solver.order[before.order..] {
            match solver.place_of(*pod) {
                Some(PodPlacement::Claim(claim)) if claim < before.launches => {}
                Some(place) if is_tied(solver.demand(*pod)) => crowd.put(place, &solver.demand(*pod).requests),
                place => free.push((*pod, place)),
            }
        }
        let flocks = solver.pod_groups(free);
        let worse = [ArrivalOrder::Greatest, ArrivalOrder::ByShape].map(|coming| {
            let mut crowd = crowd.clone();
            let over = solver.scatter(&flocks, coming, &before.vacated, &mut crowd);
            SimulatedPlacement { left: crowd.left(), over }
        });
        worse.into_iter().max_by_key(|simulated_placement| simulated_placement.over.len()).unwrap_or_default()
    }

    /// Places pods with nominations that are not bound yet as kube-scheduler would: those of earlier commands still in
    /// progress, and pending ones. Must run before the first trial.
    pub(crate) fn scatter_promised(&mut self) {
        let (here, to_come) = self.promised();
        let mut crowd = SimulatedNodes::new(&self.scatter, 0, Vec::new());
        for (pod, place) in &here {
            place.iter().for_each(|place| crowd.free(*place, &self.solver.demand(*pod).requests));
        }
        self.solver.scatter(&self.solver.pod_groups(here), ArrivalOrder::Greatest, &[], &mut crowd);
        crowd.left().into_iter().for_each(|(room, left)| self.scatter.leave(room, left));
        let mut crowd = SimulatedNodes::new(&self.scatter, 0, Vec::new());
        self.solver.scatter(&self.solver.pod_groups(to_come), ArrivalOrder::Greatest, &[], &mut crowd);
        for (room, left) in crowd.left() {
            self.scatter.leave(room, left);
            self.scatter.sought.insert(room);
        }
    }

    /// Returns pods with a nomination to an open node, and pending pods with another nomination.
    fn promised(&self) -> (Placed, Placed) {
        let solver = &self.solver;
        let (mut here, mut to_come) = (Vec::new(), Vec::new());
        for pod in solver.order.iter().filter(|pod| !is_tied(solver.demand(**pod))) {
            let (place, object) = (solver.place_of(*pod), &solver.snapshot.pods[*pod]);
            match place {
                Some(PodPlacement::Room(room)) if self.scatter.is_open(room) => here.push((*pod, place)),
                Some(PodPlacement::Room(_)) if object.leaving_node.is_none() && object.buffer.is_none() => {
                    to_come.push((*pod, place))
                }
                _ => {}
            }
        }
        (here, to_come)
    }
}

impl<'a> Solver<'a> {
    fn demand(&self, pod: usize) -> &Demand<'a> {
        &self.demands[self.demand_of[pod]]
    }

    /// Groups pods with their planned places by the properties that kube-scheduler distinguishes.
    fn pod_groups(&self, pods: Placed) -> BTreeMap<PodGroup, GroupMembers> {
        let mut flocks: BTreeMap<PodGroup, GroupMembers> = BTreeMap::new();
        for (pod, place) in pods {
            let demand = self.demand(pod);
            let place = place.filter(|_| !goes_anywhere(demand));
            let domains = place.map_or_else(Vec::new, |place| self.domains_of(demand, place));
            let members = flocks.entry(PodGroup { shape: self.demand_of[pod], domains }).or_default();
            members.pods.push(pod);
            place.into_iter().for_each(|place| *members.planned.entry(place).or_default() += 1);
        }
        flocks
    }

    /// Places pods as kube-scheduler would, the greatest first or in the given order; returns those that find no capacity.
    fn scatter(
        &self,
        flocks: &BTreeMap<PodGroup, GroupMembers>,
        coming: ArrivalOrder,
        vacated: &[usize],
        crowd: &mut SimulatedNodes<'_>,
    ) -> Vec<usize> {
        let requests = |flock: &PodGroup| &self.demands[flock.shape].requests;
        let mut queue: Vec<(&PodGroup, &GroupMembers)> = flocks.iter().collect();
        if matches!(coming, ArrivalOrder::Greatest) {
            queue.sort_by_key(|(flock, _)| Reverse(crowd.scatter.size(requests(flock))));
        }
        let mut over = Vec::new();
        for (flock, GroupMembers { pods, planned }) in queue {
            let most = |place| match place {
                PodPlacement::Room(room) if vacated.contains(&room) => 0,
                place => self.most_at(place, flock, planned.get(&place).copied().unwrap_or(0)),
            };
            let poured = crowd.distribute(pods.len(), requests(flock), most);
            over.extend_from_slice(&pods[poured..]);
        }
        over
    }

    /// Returns the domains of a place by the keys of a shape's rules.
    fn domains_of(&self, demand: &Demand<'_>, place: PodPlacement) -> Vec<Option<Domain>> {
        let keys = demand.levels.last().map_or(&[][..], |level| &level.keys);
        keys.iter().map(|key| self.topology.domain_at(*key, self.spot_of(place))).collect()
    }

    /// Returns how many pods of a group kube-scheduler may put at a place, where the plan has put `planned` of them.
    fn most_at(&self, place: PodPlacement, flock: &PodGroup, planned: usize) -> usize {
        let demand = &self.demands[flock.shape];
        let Some(level) = demand.levels.last() else { return 0 };
        let suits = match place {
            PodPlacement::Room(room) => self.rooms.list[room].suits(self.wants.of_class(level.class), &self.wants),
            PodPlacement::Claim(claim) => {
                self.frames.suits_as_it_is(self.claims.list[claim].frame, level.class, &self.wants)
            }
        };
        if !suits {
            return 0;
        }
        if goes_anywhere(demand) {
            return usize::MAX;
        }
        if self.domains_of(demand, place) != flock.domains {
            return 0;
        }
        let (rules, site) = (demand.strict_rules(), self.spot_of(place).site);
        let free = self.topology.allows_host(rules, &demand.shunned, site);
        let more = if free { self.topology.host_room(rules, site) } else { 0 };
        more.saturating_add(planned)
    }
}

/// Reports whether only size, labels and taints decide where a pod fits.
fn goes_anywhere(demand: &Demand<'_>) -> bool {
    demand.strict_rules().is_empty() && demand.shunned.is_empty() && !is_tied(demand)
}

/// Reports whether a pod has volumes or host ports, which few hosts satisfy.
fn is_tied(demand: &Demand<'_>) -> bool {
    !demand.shape.ports.is_empty() || !demand.attachments.is_empty()
}
