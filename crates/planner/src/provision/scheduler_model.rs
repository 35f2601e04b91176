//! Where kube-scheduler puts pods that are moved: it knows nothing of the plan.
//!
//! A plan fills nodes up; kube-scheduler gives each pod to the node that is emptiest. So a pod may take the last room that was meant for a
//! greater one, and who comes last finds none and has a node bought, though all of them together would have fit. Here pods are put as
//! they may come, each where the most is left: the greatest first, for so they are evicted, and once shape by shape, for Deployments make
//! successors each at its own pace; what is worse counts. Those that look at others keep to the zones and the like that the plan has for
//! them, for there their rules hold, and have their choice among the hosts in these. Pods with volumes or ports of the host stay where the
//! plan has them. What the moves of one plan do is added up, on top of what those before it that are still being carried out will do; and
//! a node that is not up yet takes nobody but whom it is meant for. Who waits for such a node does not have to: while thousands of pods
//! come, kube-scheduler fills whatever is up with those whose turn it is, so a node with room for them is not what it looks like.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::demand::Demand;
use super::dimensions::{Amounts, Dimensions, fits};
use super::existing_node::ExistingNodes;
use super::topology::Domain;
use super::{PodPlacement, Relocator, Solver};
use crate::{Resources, Stage};

/// Memory that goes with a thousandth of a core where sizes are compared, as pods are evicted.
const MEMORY_PER_MILLICORE: i64 = (4 << 30) / 1000;
/// How many of the emptiest nodes are compared for a pod. Which is emptiest with it differs little from which is without.
const ABREAST: usize = 32;

/// What rooms have left when kube-scheduler has had its way with the moves that were kept.
pub(super) struct SchedulerModel {
    rooms: Vec<NodeCapacity>,
    /// Those that are open, the emptiest first.
    emptiest: BTreeSet<(Reverse<i64>, usize)>,
    /// The dimensions of CPU and memory, by which it compares nodes.
    sizes: [Option<usize>; 2],
    /// Rooms where it may put pods that were meant for nodes to come.
    sought: BTreeSet<usize>,
}

#[derive(Clone)]
struct NodeCapacity {
    left: Amounts,
    whole: Amounts,
}

/// What the pods of one trial do to it.
#[derive(Default)]
pub(super) struct SimulatedPlacement {
    left: BTreeMap<usize, Amounts>,
    /// Positions of pods that find no room.
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

    /// Whether it may put pods there that were meant for nodes to come.
    pub(super) fn is_sought(&self, room: usize) -> bool {
        self.sought.contains(&room)
    }

    fn is_open(&self, room: usize) -> bool {
        self.emptiest.contains(&self.rank(room))
    }

    /// Lets kube-scheduler put nobody there any more.
    pub(super) fn close(&mut self, room: usize) {
        self.emptiest.remove(&self.rank(room));
    }

    pub(super) fn widen(&mut self, room: usize, by: &[i64]) {
        let left = self.rooms[room].left.iter().zip(by).map(|(left, by)| left + by).collect();
        self.leave(room, left);
    }

    /// Leaves so much in a room.
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

    /// How empty a node is, in thousandths of a node.
    fn emptiness(&self, venue: &NodeCapacity) -> i64 {
        self.shares(venue, None).iter().sum::<i64>() / 2
    }

    /// How much kube-scheduler likes a node for a pod: how empty it is then, and how much more even in CPU and memory. `None` where the
    /// pod has no room.
    fn score(&self, venue: &NodeCapacity, requests: &[i64]) -> Option<i64> {
        let unevenness = |[cpu, memory]: [i64; 2]| (cpu - memory).abs() / 2;
        let (before, after) = (self.shares(venue, None), self.shares(venue, Some(requests)));
        let evener = unevenness(before) - unevenness(after);
        fits(requests, &venue.left).then(|| after.iter().sum::<i64>() / 2 + evener / 2)
    }

    /// The shares of CPU and memory that a node has left, or would have left with a pod, in thousandths.
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

/// Nodes while the pods of a trial come.
#[derive(Clone)]
struct SimulatedNodes<'s> {
    scatter: &'s SchedulerModel,
    rooms: BTreeMap<usize, NodeCapacity>,
    /// The launches of the trial, and the number of its first.
    launches: Vec<NodeCapacity>,
    first: usize,
}

impl<'s> SimulatedNodes<'s> {
    fn new(scatter: &'s SchedulerModel, first: usize, launches: Vec<NodeCapacity>) -> Self {
        Self { scatter, rooms: BTreeMap::new(), launches, first }
    }

    /// What rooms have left where someone was put.
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

    /// Takes a pod away again.
    fn free(&mut self, place: PodPlacement, requests: &[i64]) {
        self.venue_mut(place).left.iter_mut().zip(requests).for_each(|(left, asked)| *left += asked);
    }

    fn claims(&self) -> impl Iterator<Item = PodPlacement> + use<> {
        (self.first..self.first + self.launches.len()).map(PodPlacement::Claim)
    }

    /// Puts equal pods one after another where the most is left; how many found room. `most` says how many of them may be at a place.
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

/// In which order pods come.
#[derive(Clone, Copy)]
enum ArrivalOrder {
    Greatest,
    ByShape,
}

/// Pods of a trial that are alike for kube-scheduler: of one shape, and meant for the same domains.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PodGroup {
    shape: usize,
    /// By the keys that the shape's rules are about; empty where it has none.
    domains: Vec<Option<Domain>>,
}

/// Pods with where the plan has them.
type Placed = Vec<(usize, Option<PodPlacement>)>;

/// The pods of a flock.
#[derive(Default)]
struct GroupMembers {
    pods: Vec<usize>,
    /// Where the plan has how many of them, if they have rules.
    planned: BTreeMap<PodPlacement, usize>,
}

impl Relocator<'_> {
    /// What one more node, or several, would cost for those pods of the last trial that find no room as kube-scheduler puts them, and how
    /// many they are. `None` where nothing can be had for them.
    pub(crate) fn left_over(&mut self) -> (usize, Option<i64>) {
        let over = self.scatter_trial();
        let together = self.cheapest_node(&over);
        let price = together.or_else(|| over.iter().map(|pod| self.cheapest_node(&[*pod])).sum());
        (over.len(), if over.is_empty() { Some(0) } else { price })
    }

    /// Those of the last trial's pods that find no room.
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

    /// Lets the last trial stand.
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

    /// Puts pods that were promised a room and are not bound yet where kube-scheduler would: those of moves before these, that are still
    /// being carried out, and those that wait. Before the first trial.
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

    /// Pods that were promised a room that is open, and those that wait and were promised another.
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

    /// Pods, with where the plan has them, by what kube-scheduler cannot tell apart.
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

    /// Puts pods where kube-scheduler would, the greatest first or as they are; those that find no room.
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

    /// The domains of a place by the keys that a shape's rules are about.
    fn domains_of(&self, demand: &Demand<'_>, place: PodPlacement) -> Vec<Option<Domain>> {
        let keys = demand.levels.last().map_or(&[][..], |level| &level.keys);
        keys.iter().map(|key| self.topology.domain_at(*key, self.spot_of(place))).collect()
    }

    /// How many of a flock kube-scheduler might put at a place, where the plan has put some of them.
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

/// Whether nothing but its size, labels and taints says where a pod may go.
fn goes_anywhere(demand: &Demand<'_>) -> bool {
    demand.strict_rules().is_empty() && demand.shunned.is_empty() && !is_tied(demand)
}

/// Whether a pod has volumes or ports, for which few hosts will do.
fn is_tied(demand: &Demand<'_>) -> bool {
    !demand.shape.ports.is_empty() || !demand.attachments.is_empty()
}
