//! Where kube-scheduler puts pods that are moved: it knows nothing of the plan.
//!
//! A plan fills nodes up; kube-scheduler gives each pod to the node that is emptiest. So a pod may take the last room that was meant for a
//! greater one, and who comes last finds none and has a node bought, though all of them together would have fit. Here pods are put as
//! they will come: the greatest first, for so they are evicted, each where the most is left. Those that look at others keep to the zones
//! and the like that the plan has for them, for there their rules hold, and have their choice among the hosts in these. Pods with volumes
//! or ports of the host stay where the plan has them. What the moves of one plan do is added up.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::demand::Demand;
use super::dimensions::{Amounts, Dimensions, fits};
use super::moving::Before;
use super::room::Rooms;
use super::topology::Domain;
use super::{Mover, Place, Solver};
use crate::Resources;

/// Memory that goes with a thousandth of a core where sizes are compared, as pods are evicted.
const MEMORY_PER_MILLICORE: i64 = (4 << 30) / 1000;
/// How many of the emptiest nodes are compared for a pod. Which is emptiest with it differs little from which is without.
const ABREAST: usize = 32;

/// What rooms have left when kube-scheduler has had its way with the moves that were kept.
pub(super) struct Scatter {
    rooms: Vec<Venue>,
    /// Those that are open, the emptiest first.
    emptiest: BTreeSet<(Reverse<i64>, usize)>,
    /// The dimensions by which it compares nodes.
    compared: Vec<usize>,
    /// The dimensions of CPU and memory.
    sizes: [Option<usize>; 2],
}

#[derive(Clone)]
struct Venue {
    left: Amounts,
    whole: Amounts,
}

/// What the pods of one trial do to it.
#[derive(Default)]
pub(super) struct Scattered {
    left: BTreeMap<usize, Amounts>,
    /// Positions of pods that find no room.
    over: Vec<usize>,
}

impl Scatter {
    pub(super) fn of(rooms: &Rooms<'_>, dimensions: &Dimensions) -> Self {
        let venue = |room: usize| {
            let whole = dimensions.amounts(&rooms.list[room].node.allocatable);
            let left = rooms.left(room).map_or_else(|| vec![0; whole.len()].into(), Amounts::from);
            Venue { left, whole }
        };
        let sizes = [Resources::CPU, Resources::MEMORY].map(|name| dimensions.of_resource(name));
        let compared = sizes.into_iter().flatten().collect();
        let rooms: Vec<Venue> = (0..rooms.list.len()).map(venue).collect();
        let mut scatter = Self { rooms, emptiest: BTreeSet::new(), compared, sizes };
        scatter.emptiest = (0..scatter.rooms.len()).map(|room| scatter.rank(room)).collect();
        scatter
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
        (Reverse(self.emptiness(&self.rooms[room], None)), room)
    }

    /// How empty a node is, or would be with a pod: the share that is left of each dimension, in thousandths.
    fn emptiness(&self, venue: &Venue, requests: Option<&[i64]>) -> i64 {
        let share = |dimension: &usize| {
            let left = venue.left[*dimension] - requests.map_or(0, |requests| requests[*dimension]);
            left.saturating_mul(1000) / venue.whole[*dimension].max(1)
        };
        self.compared.iter().map(share).sum()
    }

    /// The same with a pod; `None` where it has no room.
    fn score(&self, venue: &Venue, requests: &[i64]) -> Option<i64> {
        fits(requests, &venue.left).then(|| self.emptiness(venue, Some(requests)))
    }

    fn size(&self, requests: &[i64]) -> i64 {
        let [cpu, memory] = self.sizes.map(|dimension| dimension.map_or(0, |it| requests[it]));
        cpu.max(memory / MEMORY_PER_MILLICORE)
    }
}

/// Nodes while the pods of a trial come.
struct Crowd<'s> {
    scatter: &'s Scatter,
    rooms: BTreeMap<usize, Venue>,
    /// The launches of the trial, and the number of its first.
    launches: Vec<Venue>,
    first: usize,
}

impl Crowd<'_> {
    fn venue(&self, place: Place) -> &Venue {
        match place {
            Place::Room(room) => self.rooms.get(&room).unwrap_or(&self.scatter.rooms[room]),
            Place::Claim(claim) => &self.launches[claim - self.first],
        }
    }

    fn put(&mut self, place: Place, requests: &[i64]) {
        let venue = match place {
            Place::Room(room) => self.rooms.entry(room).or_insert_with(|| self.scatter.rooms[room].clone()),
            Place::Claim(claim) => &mut self.launches[claim - self.first],
        };
        venue.left.iter_mut().zip(requests).for_each(|(left, asked)| *left -= asked);
    }

    fn claims(&self) -> impl Iterator<Item = Place> + use<> {
        (self.first..self.first + self.launches.len()).map(Place::Claim)
    }

    /// Puts equal pods one after another where the most is left; how many found room. `most` says how many of them may be at a place.
    fn pour(&mut self, count: usize, requests: &[i64], most: impl Fn(Place) -> usize) -> usize {
        let scatter = self.scatter;
        let score = |crowd: &Self, place: Place| Some((scatter.score(crowd.venue(place), requests)?, Reverse(place)));
        let offer = |crowd: &Self, place: Place| {
            score(crowd, place).map(|score| (score, most(place))).filter(|(_, more)| *more > 0)
        };
        let mut heap: BinaryHeap<_> = self.claims().filter_map(|claim| offer(self, claim)).collect();
        let mut rooms = scatter.emptiest.iter().map(|(_, room)| Place::Room(*room));
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

/// Pods of a trial that are alike for kube-scheduler: of one shape, and meant for the same domains.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flock {
    /// The greatest come first.
    size: Reverse<i64>,
    shape: usize,
    /// By the keys that the shape's rules are about; empty where it has none.
    domains: Vec<Option<Domain>>,
}

impl Mover<'_> {
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
        if let Some(known) = &before.scattered {
            return known.over.clone();
        }
        let scattered = self.put_all();
        let over = scattered.over.clone();
        if let Some(before) = &mut self.before {
            before.scattered = Some(scattered);
        }
        over
    }

    /// Lets the last trial stand.
    pub(super) fn keep_scattered(&mut self) {
        self.scatter_trial();
        let Some(before) = &mut self.before else { return };
        for (room, left) in before.scattered.take().unwrap_or_default().left {
            self.scatter.leave(room, left);
        }
        before.vacated.iter().for_each(|room| self.scatter.close(*room));
    }

    fn put_all(&self) -> Scattered {
        let Some(before) = &self.before else { return Scattered::default() };
        let solver = &self.solver;
        let launches = solver.claims.list[before.launches..].iter().map(|claim| {
            let whole = &solver.frames.candidate(claim.frame, claim.entry).room;
            Venue { left: whole.clone(), whole: whole.clone() }
        });
        let (scatter, rooms, first) = (&self.scatter, BTreeMap::new(), before.launches);
        let mut crowd = Crowd { scatter, rooms, launches: launches.collect(), first };
        let mut over = Vec::new();
        for (flock, members) in self.flocks(before, &mut crowd) {
            let mut planned: BTreeMap<Place, usize> = BTreeMap::new();
            members.iter().filter_map(|(_, place)| *place).for_each(|place| *planned.entry(place).or_default() += 1);
            let most = |place| match place {
                Place::Room(room) if before.vacated.contains(&room) => 0,
                place => solver.most_at(place, &flock, planned.get(&place).copied().unwrap_or(0)),
            };
            let poured = crowd.pour(members.len(), &solver.demands[flock.shape].requests, most);
            over.extend(members[poured..].iter().map(|(pod, _)| *pod));
        }
        let left = crowd.rooms.into_iter().map(|(room, venue)| (room, venue.left)).collect();
        Scattered { left, over }
    }

    /// The trial's pods that kube-scheduler has a choice for, those with rules with the places that the plan has for them. All others are put
    /// where the plan has them.
    fn flocks(&self, before: &Before<'_>, crowd: &mut Crowd<'_>) -> BTreeMap<Flock, Vec<(usize, Option<Place>)>> {
        let solver = &self.solver;
        let mut flocks: BTreeMap<Flock, Vec<(usize, Option<Place>)>> = BTreeMap::new();
        for pod in &solver.order[before.order..] {
            let shape = solver.demand_of[*pod];
            let demand = &solver.demands[shape];
            let place = if goes_anywhere(demand) { None } else { solver.place_of(*pod) };
            if is_tied(demand) {
                let is_its_own = |place: &Place| !matches!(place, Place::Claim(claim) if *claim < before.launches);
                place.filter(is_its_own).into_iter().for_each(|place| crowd.put(place, &demand.requests));
                continue;
            }
            let domains = place.map_or_else(Vec::new, |place| solver.domains_of(demand, place));
            let flock = Flock { size: Reverse(self.scatter.size(&demand.requests)), shape, domains };
            flocks.entry(flock).or_default().push((*pod, place));
        }
        flocks
    }
}

impl Solver<'_> {
    /// The domains of a place by the keys that a shape's rules are about.
    fn domains_of(&self, demand: &Demand<'_>, place: Place) -> Vec<Option<Domain>> {
        let keys = demand.levels.last().map_or(&[][..], |level| &level.keys);
        keys.iter().map(|key| self.topology.domain_at(*key, self.spot_of(place))).collect()
    }

    /// How many of a flock kube-scheduler might put at a place, where the plan has put some of them.
    fn most_at(&self, place: Place, flock: &Flock, planned: usize) -> usize {
        let demand = &self.demands[flock.shape];
        let Some(level) = demand.levels.last() else { return 0 };
        let suits = match place {
            Place::Room(room) => self.rooms.list[room].suits(self.wants.of_class(level.class), &self.wants),
            Place::Claim(claim) => self.frames.suits_as_it_is(self.claims.list[claim].frame, level.class, &self.wants),
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
