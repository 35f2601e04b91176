//! Where pending pods go: on nodes that exist or are on their way, else on as few and as cheap new ones as fit.
//!
//! The algorithm in prose. Pods queue by CPU, memory, age and UID, the largest first. A pod goes
//! 1. where a recent plan promised it a place, if it still fits there;
//! 2. on the first node that takes it, initialized ones before those on their way, by name;
//! 3. into the first open launch of this plan that takes it, *if* that costs no more than a launch of its own
//!    would: the cheapest type that then fits all must not cost more than the present one and a separate one
//!    together, so that a plan is never dearer than one node a pod;
//! 4. into a new launch from the pool with the greatest weight that can take it; among equal weights the
//!    cheapest, then the last by name. It keeps seats for as many of the equal pods that are left as make each of
//!    them cheapest, all at once: the first step to a larger type may cost more than it brings before the next
//!    pods pay for it.
//!
//! `PreferNoSchedule` taints are honoured in a first attempt over all four and overlooked in a second one, so pools and
//! nodes without them are preferred. A launch stays open with every type that still fits; under pool limits it
//! reserves only its cheapest type, and what room the limits leave in the end is spent on listing further types,
//! reserved by their maximum, so that no choice of EC2 can overshoot a limit.

mod demand;
mod launch;
mod limits;
mod overhead;
mod room;
mod template;

use std::collections::BTreeMap;

use demand::{Demand, Tolerance};
use launch::{Fresh, Open};
use limits::Headroom;
use room::Room;
use template::Template;

use crate::{Nomination, Plan, PodVerdict, PoolMiss, Report, Resources, Snapshot};

/// Places every pod of the snapshot, or says why not.
pub(crate) fn provision(snapshot: &Snapshot) -> Plan {
    let mut solver = Solver::new(snapshot);
    solver.keep_promises();
    solver.place_all();
    solver.finish()
}

fn pods_by_shape(snapshot: &Snapshot) -> Vec<usize> {
    let mut counts = vec![0; snapshot.shapes.len()];
    for pod in &snapshot.pods {
        counts[pod.shape] += 1;
    }
    counts
}

/// A pod's turn ended here.
enum Outcome {
    Placed(Place),
    Refused(Vec<PoolMiss>),
}

#[derive(Clone, Copy)]
enum Place {
    Node(usize),
    Launch(usize),
}

/// The best launch of its own for a shape, as of a state of the limits.
struct Alone {
    generation: u64,
    best: Result<Fresh, Vec<PoolMiss>>,
}

struct Solver<'a> {
    snapshot: &'a Snapshot,
    demands: Vec<Demand<'a>>,
    tolerances: &'static [Tolerance],
    templates: Vec<Template<'a>>,
    headroom: Headroom,
    rooms: Vec<Room<'a>>,
    open: Vec<Open>,
    alone: BTreeMap<(usize, Tolerance), Alone>,
    /// The first node that has not refused the shape yet: rooms only fill up, so a refusal is for good.
    next_room: BTreeMap<(usize, Tolerance), usize>,
    /// The same for open launches, apart for pods that have no alternative and thus do not mind the price.
    next_open: BTreeMap<(usize, Tolerance, bool), usize>,
    /// How many pods of each shape have no place yet.
    left: Vec<usize>,
    verdicts: Vec<Option<PodVerdict>>,
    nominations: Vec<Nomination>,
    steps: u64,
}

impl<'a> Solver<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let templates = template::in_order(snapshot);
        let soft = template::has_soft_taints(snapshot);
        Self {
            demands: snapshot.shapes.iter().map(|shape| Demand::of(shape)).collect(),
            tolerances: if soft { &[Tolerance::Strict, Tolerance::Lenient] } else { &[Tolerance::Strict] },
            headroom: Headroom::of(&templates),
            rooms: room::in_order(snapshot),
            templates,
            open: Vec::new(),
            alone: BTreeMap::new(),
            next_room: BTreeMap::new(),
            next_open: BTreeMap::new(),
            left: pods_by_shape(snapshot),
            verdicts: vec![None; snapshot.pods.len()],
            nominations: Vec::new(),
            steps: 0,
            snapshot,
        }
    }

    /// Pods in the order of their turns: the largest first, then the oldest, then by UID.
    fn queue(&self) -> Vec<usize> {
        let mut queue: Vec<usize> = (0..self.snapshot.pods.len()).filter(|pod| self.verdicts[*pod].is_none()).collect();
        queue.sort_by_key(|pod| {
            let pod = &self.snapshot.pods[*pod];
            let requests = &self.snapshot.shapes[pod.shape].requests;
            (-requests.get(Resources::CPU), -requests.get(Resources::MEMORY), pod.created, pod.uid.as_str())
        });
        queue
    }

    fn keep_promises(&mut self) {
        let by_name: BTreeMap<&str, usize> =
            self.rooms.iter().enumerate().map(|(position, room)| (room.node.name.as_str(), position)).collect();
        for pod in self.queue() {
            let shape = self.snapshot.pods[pod].shape;
            let promised = self.snapshot.pods[pod].nominated.as_deref().and_then(|node| by_name.get(node));
            if let Some(&room) = promised
                && self.rooms[room].takes(&self.demands[shape], Tolerance::Lenient)
            {
                self.record(pod, Place::Node(room));
            }
        }
    }

    /// Goes round the queue until a whole round places nobody: what one launch gives back to a limit may serve another.
    fn place_all(&mut self) {
        let mut queue = self.queue();
        loop {
            let before = queue.len();
            queue.retain(|pod| !self.turn(*pod));
            if queue.is_empty() || queue.len() == before {
                return;
            }
        }
    }

    /// Whether the pod found its place.
    fn turn(&mut self, pod: usize) -> bool {
        if self.steps >= self.snapshot.policy.max_steps {
            self.verdicts[pod] = Some(PodVerdict::Postponed);
            return false;
        }
        match self.search(self.snapshot.pods[pod].shape) {
            Outcome::Placed(place) => {
                self.record(pod, place);
                true
            }
            Outcome::Refused(pools) => {
                self.verdicts[pod] = Some(PodVerdict::Unschedulable { pools });
                false
            }
        }
    }

    fn search(&mut self, shape: usize) -> Outcome {
        let mut misses = Vec::new();
        for tolerance in self.tolerances {
            if let Some(room) = self.find_room(shape, *tolerance) {
                return Outcome::Placed(Place::Node(room));
            }
            self.refresh_alone(shape, *tolerance);
            if let Some(open) = self.find_open(shape, *tolerance) {
                return Outcome::Placed(Place::Launch(open));
            }
            match self.launch(shape, *tolerance) {
                Ok(open) => return Outcome::Placed(Place::Launch(open)),
                Err(refused) => misses = refused,
            }
        }
        Outcome::Refused(misses)
    }

    fn find_room(&mut self, shape: usize, tolerance: Tolerance) -> Option<usize> {
        let start = self.next_room.get(&(shape, tolerance)).copied().unwrap_or(0);
        let found = (start..self.rooms.len()).find(|room| self.rooms[*room].takes(&self.demands[shape], tolerance));
        let next = found.unwrap_or(self.rooms.len());
        self.steps += (next - start) as u64 + 1;
        self.next_room.insert((shape, tolerance), next);
        found
    }

    /// Works out the best launch of its own for the shape, unless that is known for the present state of the limits.
    fn refresh_alone(&mut self, shape: usize, tolerance: Tolerance) {
        let generation = self.headroom.generation();
        let known = self.alone.get(&(shape, tolerance));
        if known.is_some_and(|alone| alone.generation == generation) {
            return;
        }
        let best = Fresh::best(&self.templates, &self.demands[shape], tolerance, &self.headroom, &mut self.steps);
        self.alone.insert((shape, tolerance), Alone { generation, best });
    }

    fn find_open(&mut self, shape: usize, tolerance: Tolerance) -> Option<usize> {
        let alone = self.alone.get(&(shape, tolerance)).and_then(|alone| alone.best.as_ref().ok().map(Fresh::price));
        let key = (shape, tolerance, alone.is_some());
        let start = self.next_open.get(&key).copied().unwrap_or(0);
        for position in start..self.open.len() {
            self.next_open.insert(key, position);
            let open = &mut self.open[position];
            let template = &self.templates[open.template];
            let demand = &self.demands[shape];
            if open.seat(shape) || open.join(template, demand, tolerance, alone, &mut self.headroom, &mut self.steps) {
                return Some(position);
            }
        }
        self.next_open.insert(key, self.open.len());
        None
    }

    fn launch(&mut self, shape: usize, tolerance: Tolerance) -> Result<usize, Vec<PoolMiss>> {
        let fresh = match self.alone.get(&(shape, tolerance)) {
            Some(Alone { best: Ok(fresh), .. }) => fresh.clone(),
            Some(Alone { best: Err(misses), .. }) => return Err(misses.clone()),
            None => return Err(Vec::new()),
        };
        let wanted = (shape, self.left[shape]);
        self.open.push(Open::new(fresh, wanted, &self.demands[shape], &self.templates, &mut self.headroom));
        Ok(self.open.len() - 1)
    }

    fn record(&mut self, pod: usize, place: Place) {
        let shape = self.snapshot.pods[pod].shape;
        self.left[shape] -= 1;
        self.verdicts[pod] = Some(match place {
            Place::Node(room) => {
                self.rooms[room].take(&self.demands[shape]);
                let node = self.rooms[room].node.name.clone();
                self.nominations.push(Nomination { pod, node: node.clone() });
                PodVerdict::Existing { node }
            }
            Place::Launch(launch) => {
                self.open[launch].pods.push(pod);
                PodVerdict::Launch { launch }
            }
        });
    }

    fn finish(mut self) -> Plan {
        let mut launches = Vec::with_capacity(self.open.len());
        for open in self.open {
            let template = &self.templates[open.template];
            let mut seated = Resources::default();
            for pod in &open.pods {
                seated.add(self.demands[self.snapshot.pods[*pod].shape].requests);
            }
            launches.push(open.close(template, seated, &mut self.headroom));
        }
        let verdicts = self.verdicts.into_iter().map(|verdict| verdict.unwrap_or(PodVerdict::Postponed));
        let nominated = self.nominations.iter().map(|nomination| nomination.pod);
        let order = nominated.chain(launches.iter().flat_map(|launch| launch.pods.iter().copied())).collect();
        Plan {
            launches,
            nominations: self.nominations,
            removals: Vec::new(),
            report: Report { pods: verdicts.collect(), nodes: Vec::new(), order, steps: self.steps },
        }
    }
}
