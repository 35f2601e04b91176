//! Where kube-scheduler puts pods that are moved: it knows nothing of the plan.
//!
//! A plan fills nodes up; kube-scheduler gives each pod to the node that is emptiest. So a pod may take the last room that was meant for a
//! greater one, and who comes last finds none and has a node bought, though all of them together would have fit. Here pods are put as
//! they will come: the greatest first, for so they are evicted, each where the most is left. Pods with rules or volumes stay where the
//! plan has them: these leave little choice. What the moves of one plan do is added up.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::demand::Demand;
use super::dimensions::{Amounts, Dimensions, fits};
use super::room::Rooms;
use super::{Mover, Place};
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
    launches: Vec<Venue>,
}

/// A room, or a launch of the trial.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Spot {
    Room(usize),
    Launch(usize),
}

impl Crowd<'_> {
    fn venue(&self, spot: Spot) -> &Venue {
        match spot {
            Spot::Room(room) => self.rooms.get(&room).unwrap_or(&self.scatter.rooms[room]),
            Spot::Launch(launch) => &self.launches[launch],
        }
    }

    fn put(&mut self, spot: Spot, requests: &[i64]) {
        let venue = match spot {
            Spot::Room(room) => self.rooms.entry(room).or_insert_with(|| self.scatter.rooms[room].clone()),
            Spot::Launch(launch) => &mut self.launches[launch],
        };
        venue.left.iter_mut().zip(requests).for_each(|(left, asked)| *left -= asked);
    }

    /// Puts equal pods one after another where the most is left, on launches or in rooms that suit them; how many found room.
    fn pour(&mut self, count: usize, requests: &[i64], launches: &[Spot], suits: impl Fn(usize) -> bool) -> usize {
        let scatter = self.scatter;
        let score = |crowd: &Self, spot: Spot| Some((scatter.score(crowd.venue(spot), requests)?, Reverse(spot)));
        let mut heap: BinaryHeap<_> = launches.iter().filter_map(|spot| score(self, *spot)).collect();
        let mut rooms = scatter.emptiest.iter().map(|(_, room)| *room);
        let mut poured = 0;
        while poured < count {
            while heap.len() < ABREAST
                && let Some(room) = rooms.next()
            {
                heap.extend(score(self, Spot::Room(room)).filter(|_| suits(room)));
            }
            let Some((_, Reverse(spot))) = heap.pop() else { break };
            self.put(spot, requests);
            poured += 1;
            heap.extend(score(self, spot));
        }
        poured
    }
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
        let (solver, first) = (&self.solver, before.launches);
        let launches = solver.claims.list[first..].iter().map(|claim| {
            let whole = &solver.frames.candidate(claim.frame, claim.entry).room;
            Venue { left: whole.clone(), whole: whole.clone() }
        });
        let mut crowd = Crowd { scatter: &self.scatter, rooms: BTreeMap::new(), launches: launches.collect() };
        let mut runs: BTreeMap<(Reverse<i64>, usize), Vec<usize>> = BTreeMap::new();
        for pod in &solver.order[before.order..] {
            let shape = solver.demand_of[*pod];
            let demand = &solver.demands[shape];
            if goes_anywhere(demand) {
                runs.entry((Reverse(self.scatter.size(&demand.requests)), shape)).or_default().push(*pod);
                continue;
            }
            match solver.place_of(*pod) {
                Some(Place::Room(room)) => crowd.put(Spot::Room(room), &demand.requests),
                Some(Place::Claim(claim)) if claim >= first => crowd.put(Spot::Launch(claim - first), &demand.requests),
                _ => {}
            }
        }
        let mut over = Vec::new();
        for ((_, shape), pods) in runs {
            let demand = &solver.demands[shape];
            let Some(level) = demand.levels.last() else { continue };
            let class = solver.wants.of_class(level.class);
            let suits =
                |room: usize| !before.vacated.contains(&room) && solver.rooms.list[room].suits(class, &solver.wants);
            let claims = solver.claims.list[first..].iter().enumerate();
            let joins =
                claims.filter(|(_, claim)| solver.frames.suits_as_it_is(claim.frame, level.class, &solver.wants));
            let launches: Vec<Spot> = joins.map(|(launch, _)| Spot::Launch(launch)).collect();
            let poured = crowd.pour(pods.len(), &demand.requests, &launches, suits);
            over.extend_from_slice(&pods[poured..]);
        }
        let left = crowd.rooms.into_iter().map(|(room, venue)| (room, venue.left)).collect();
        Scattered { left, over }
    }
}

/// Whether nothing but its size, labels and taints says where a pod may go.
fn goes_anywhere(demand: &Demand<'_>) -> bool {
    let rules = !demand.strict_rules().is_empty() || !demand.shunned.is_empty();
    !rules && demand.shape.ports.is_empty() && demand.attachments.is_empty()
}
