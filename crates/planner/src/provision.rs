//! Placement of pending pods: on existing and in-flight nodes, else on new nodes, at the lowest cost.
//!
//! The queue orders pods by priority, CPU, memory and age, the greatest first. Pods of one shape are placed together, because a
//! decision about one holds for all. The planner tries a shape with all its preferences first, then drops one preference after
//! the other (`demand`). Its pods are placed at each of these levels in this order:
//! 1. on the nodes of their nominations, if they still fit there, in the order of the nominations;
//! 2. on the first existing node that can take them, initialized nodes before in-flight ones, by name (`existing_node`);
//! 3. in the first launch of this plan that keeps a slot for them, or that takes them for no more than a separate launch costs
//!    (`join`). Launches of static NodePools exist from the beginning (`static_pools`);
//! 4. in a new launch from the NodePool with the greatest weight; among equal weights the cheapest (`open_node`).
//!
//! A pod that counts for affinity, anti-affinity or spread (`topology`) is placed where the domain is known: its launch is
//! pinned to one zone (`pin_zone`). Pods without a place are tried again as long as other pods find one. A launch keeps every
//! type that still fits. Under limits a launch reserves only its cheapest type, and the remaining limits are spent on further
//! types (`finish`). An unschedulable pod receives the nearest miss of every NodePool (`reasons`).

mod bound_pods;
mod capacity_split;
mod current_domains;
mod daemon_overhead;
mod demand;
mod dimensions;
mod existing_node;
mod fill_existing;
mod finish;
mod fleet;
#[expect(
    clippy::float_arithmetic,
    reason = "worths of a linear program; the room says why they are the same everywhere"
)]
mod fleet_optimizer;
mod free_capacity;
mod join;
mod limits;
mod new_node;
mod node_template;
mod open_node;
mod pin_zone;
mod pool_template;
mod price_bound;
mod reasons;
mod rehearsal;
mod relocation;
mod requirement_sets;
mod reservations;
mod scheduler_model;
mod select_best;
mod shared_claims;
mod static_pools;
mod strategy;
mod topology;
mod type_filter;
mod utilization;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bound_pods::BoundPods;
use capacity_split::SplitPart;
use daemon_overhead::DaemonOverhead;
use demand::{Demand, DemandCompiler};
use dimensions::Dimensions;
use existing_node::ExistingNodes;
use finish::TypeList;
use fleet::PlannedFleets;
use limits::Headroom;
use new_node::NewNodes;
use node_template::{NodeTemplates, TemplateId};
use open_node::SingleNodePrices;
use requirement_sets::{RequirementSetId, RequirementSets};
use reservations::Reservations;
use shared_claims::SharedClaims;
use strategy::{ALWAYS, LoadRule, Strategy};
use topology::{CountedPods, Counts, Membership, Topology};
use type_filter::TypeFilter;

use relocation::LeavingPod;
pub(crate) use relocation::{Obstacle, RelocationOutcome, Relocator, STRATEGIES};
pub(crate) use topology::KnownDomains;

use crate::{Nomination, PlacementReason, Plan, Pod, PodVerdict, Resources, Snapshot};

/// Places every pod of the snapshot or reports a reason: the best of several solutions, the first among equals.
pub(crate) fn provision(snapshot: &Snapshot) -> Plan {
    select_best::best(snapshot)
}

/// Shape (with the claims that its pods share, if any) at one of its preference levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Attempt {
    shape: usize,
    level: usize,
}

/// Kind of a pod: one that will run, or a CapacityBuffer's pod that only keeps capacity free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PodKind {
    Real,
    Buffer,
}

impl PodKind {
    fn from_pod(pod: &Pod) -> Self {
        if pod.buffer.is_some() { Self::Buffer } else { Self::Real }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PodPlacement {
    Room(usize),
    Claim(usize),
}

/// Pending pods of one shape, oldest first.
#[derive(Clone)]
struct PodRun {
    shape: usize,
    pods: Vec<usize>,
}

#[derive(Clone)]
struct Solver<'a> {
    snapshot: &'a Snapshot,
    dimensions: Arc<Dimensions>,
    wants: Arc<RequirementSets<'a>>,
    topology: Topology<'a>,
    demands: Arc<[Demand<'a>]>,
    /// Position of each pod's demand.
    demand_of: Arc<[usize]>,
    /// Each pod's part in the capacity split of its workload.
    parts: Arc<[SplitPart]>,
    daemon_overhead: DaemonOverhead<'a>,
    frames: NodeTemplates<'a>,
    headroom: Headroom,
    reservations: Reservations,
    rooms: ExistingNodes<'a>,
    claims: NewNodes,
    fleets: PlannedFleets,
    alone: BTreeMap<Attempt, SingleNodePrices>,
    /// Cost of one pod as its share of a full node, by template and shape.
    shares: RefCell<BTreeMap<(TemplateId, usize), i64>>,
    soft_taints: bool,
    verdicts: Vec<Option<PodVerdict>>,
    nominations: Vec<Nomination>,
    order: Vec<usize>,
    lists: BTreeMap<(TemplateId, Vec<usize>), TypeList>,
    /// Type filter by template and requirements.
    outlooks: BTreeMap<(usize, RequirementSetId), Arc<TypeFilter>>,
    strategy: Strategy,
    /// Kind of pods that the plan places now; `None` before it starts.
    at: Option<PodKind>,
    /// Pending pods of this kind, in placement order.
    queue: Vec<PodRun>,
    /// Number of pods without a place, by shape.
    waiting: Vec<usize>,
    /// Whether pods were placed by the present state of the nodes: a further launch could make their places wrong.
    closed: bool,
    /// Pods on nodes that disruption may remove.
    residents: Vec<LeavingPod>,
    steps: u64,
}

impl<'a> Solver<'a> {
    fn new(snapshot: &'a Snapshot, parts: &Arc<[SplitPart]>, foreseen: &KnownDomains) -> Self {
        let dimensions = Dimensions::new(snapshot);
        let soft_taints = pool_template::has_soft_taints(snapshot);
        let mut wants = RequirementSets::default();
        let mut topology = Topology::new(snapshot);
        let policy = snapshot.policy.preferences;
        let mut compiler =
            DemandCompiler { dimensions: &dimensions, wants: &mut wants, topology: &mut topology, policy, soft_taints };
        let shared = SharedClaims::new(snapshot, compiler.topology);
        let (mut demands, demand_of) = shared.demands(snapshot, parts, &mut compiler);
        let bound = BoundPods::new(snapshot);
        topology.add_bound_terms(snapshot, &bound);
        demands.iter_mut().for_each(|demand| demand.join(&topology));
        topology.count_bound(snapshot, &bound, &wants, &shared);
        let daemon_overhead = DaemonOverhead::new(snapshot, &mut topology);
        demands.iter_mut().for_each(|demand| demand.late = demand.looks_at(&foreseen.joined));
        let mut frames = NodeTemplates::new(pool_template::in_order(snapshot, &dimensions), &mut topology);
        topology.find_reachable(&mut frames, &wants, foreseen);
        let mut solver = Self {
            headroom: Headroom::new(frames.templates.iter().map(|template| template.pool)),
            reservations: Reservations::new(snapshot),
            rooms: ExistingNodes::of(snapshot, &dimensions, &daemon_overhead, &topology),
            claims: NewNodes::default(),
            fleets: PlannedFleets::default(),
            alone: BTreeMap::new(),
            shares: RefCell::default(),
            verdicts: vec![None; snapshot.pods.len()],
            nominations: Vec::new(),
            order: Vec::new(),
            lists: BTreeMap::new(),
            outlooks: BTreeMap::new(),
            strategy: ALWAYS[0],
            at: None,
            queue: Vec::new(),
            waiting: vec![0; demands.len()],
            closed: false,
            residents: Vec::new(),
            steps: 0,
            snapshot,
            dimensions: Arc::new(dimensions),
            wants: Arc::new(wants),
            topology,
            demands: demands.into(),
            demand_of: demand_of.into(),
            parts: Arc::clone(parts),
            daemon_overhead,
            frames,
            soft_taints,
        };
        solver.begin_daemons(foreseen.strict);
        solver
    }

    /// Places real pods first, then the pods of CapacityBuffers once the places of real pods are fixed. Continues from the
    /// plan's current state.
    fn solve(&mut self) {
        if self.at.is_none() {
            self.place_nominated();
        }
        self.place_all();
        if self.at != Some(PodKind::Buffer) {
            self.take_up(PodKind::Buffer);
            self.place_all();
        }
        self.trim();
    }

    fn place_nominated(&mut self) {
        self.keep_static_pools();
        self.take_up(PodKind::Real);
    }

    /// Keeps the nominations of pods of one kind and queues the others.
    fn take_up(&mut self, kind: PodKind) {
        self.keep_nominations(kind);
        self.queue = self.queue(kind);
        self.at = Some(kind);
    }

    /// Returns domains that the plan's launches open and that a spread did not count. If pods have no place, also returns
    /// groups to which the launches would have added more pods than the plan allows. Consumes the plan, because it is
    /// rehearsed.
    fn new_domains(&mut self) -> KnownDomains {
        let mut frames: Vec<TemplateId> = self.claims.list.iter().map(|claim| claim.frame).collect();
        frames.sort_unstable();
        frames.dedup();
        let domains =
            frames.into_iter().flat_map(|it| self.topology.new_domains(it, &self.frames, &self.wants)).collect();
        let complete = self.order.len() == self.snapshot.pods.len();
        KnownDomains {
            domains,
            joined: if complete { BTreeSet::new() } else { self.daemon_overhead.unborne() },
            strict: !self.rehearse(),
        }
    }

    /// Returns pods without a place by shape, in placement order: priority, CPU and memory, the greatest first; then the shape
    /// with the older oldest pod. Shapes that depend on the launches of others come last.
    fn queue(&self, kind: PodKind) -> Vec<PodRun> {
        let pods = &self.snapshot.pods;
        let mut runs: Vec<PodRun> = (0..self.demands.len()).map(|shape| PodRun { shape, pods: Vec::new() }).collect();
        let waiting = |pod: &usize| self.verdicts[*pod].is_none() && PodKind::from_pod(&pods[*pod]) == kind;
        (0..pods.len()).filter(waiting).for_each(|pod| runs[self.demand_of[pod]].pods.push(pod));
        runs.retain(|run| !run.pods.is_empty());
        let age = |pod: usize| (pods[pod].created, pods[pod].uid.as_str());
        for run in &mut runs {
            run.pods.sort_by_key(|pod| age(*pod));
        }
        runs.sort_by_cached_key(|run| (self.queue_key(run), run.pods.first().map(|pod| age(*pod))));
        runs
    }

    fn queue_key(&self, run: &PodRun) -> (bool, Reverse<i32>, Reverse<usize>, i64, i64) {
        let Demand { shape, late, .. } = &self.demands[run.shape];
        let hosts = self.hosts_needed(run.shape, run.pods.len());
        let (cpu, memory) = (shape.requests.get(Resources::CPU), shape.requests.get(Resources::MEMORY));
        (*late, Reverse(shape.priority), hosts, -cpu, -memory)
    }

    fn keep_nominations(&mut self, kind: PodKind) {
        if self.snapshot.pods.iter().all(|pod| pod.nominated.is_none()) {
            return;
        }
        let mut promised: Vec<(usize, usize)> = self
            .queue(kind)
            .into_iter()
            .flat_map(|run| run.pods)
            .filter_map(|pod| Some((pod, self.rooms.named(self.snapshot.pods[pod].nominated.as_deref()?)?)))
            .collect();
        // Of simultaneous nominations, those of pods with topology rules come first: other pods count for them, but not the
        // reverse.
        let lax = |pod: usize| self.demands[self.demand_of[pod]].levels.iter().any(|level| level.rules.is_empty());
        promised.sort_by_key(|(pod, _)| (self.snapshot.pods[*pod].nominated_after, lax(*pod)));
        // One nomination may satisfy what another requires: none is dropped before all others are kept.
        let mut before = usize::MAX;
        while promised.len() < before {
            before = promised.len();
            promised.retain(|(pod, room)| !self.keep_nomination(*pod, *room));
        }
    }

    /// Places a pod on its nominated node if it still fits there; reports whether it does.
    fn keep_nomination(&mut self, pod: usize, room: usize) -> bool {
        let shape = self.demand_of[pod];
        let demand = &self.demands[shape];
        let admits = |level: &usize| {
            let (level, pod) = (&demand.levels[*level], &self.snapshot.pods[pod]);
            self.rooms.admits(room, demand, level, pod, &self.wants, &self.topology)
        };
        let level = (0..demand.levels.len()).find(admits);
        if let Some(level) = level {
            self.record(Attempt { shape, level }, PodPlacement::Room(room), &[pod], PlacementReason::Promised);
        }
        level.is_some()
    }

    /// Repeats rounds over the queue until a round places no pod: the place of one pod may make room for another.
    fn place_all(&mut self) {
        let mut queue = std::mem::take(&mut self.queue);
        self.fleets = PlannedFleets::default();
        queue.iter().for_each(|run| self.waiting[run.shape] = run.pods.len());
        if self.strategy.load == LoadRule::Fleet {
            self.fill_existing_nodes(&mut queue);
        }
        loop {
            let before: usize = queue.iter().map(|run| run.pods.len()).sum();
            for run in &mut queue {
                let placed = self.place_run(run);
                run.pods.drain(..placed);
            }
            queue.retain(|run| !run.pods.is_empty());
            let after: usize = queue.iter().map(|run| run.pods.len()).sum();
            if after == before || after == 0 || self.is_spent() {
                self.place_at_present(&mut queue);
                return self.give_up(&queue);
            }
            queue.iter().for_each(|run| self.claims.forget(run.shape));
        }
    }

    /// Reports whether the search has reached its limit of steps.
    fn is_spent(&self) -> bool {
        self.steps >= self.snapshot.policy.max_steps
    }

    /// Places pods of the run in order and returns how many were placed, counted from the first.
    fn place_run(&mut self, run: &PodRun) -> usize {
        let mut placed = 0;
        while placed < run.pods.len() && !self.is_spent() {
            match self.place_some(run.shape, &run.pods[placed..]) {
                0 => break,
                count => placed += count,
            }
        }
        placed
    }

    /// Places at least one of the pods, and more where one decision covers them; returns 0 when there is no place.
    fn place_some(&mut self, shape: usize, pods: &[usize]) -> usize {
        for level in 0..self.demands[shape].levels.len() {
            let turn = Attempt { shape, level };
            if let Some((place, count, why)) = self.find_place(turn, pods) {
                self.record(turn, place, &pods[..count], why);
                return count;
            }
        }
        0
    }

    /// Returns the best place for the first of the pods, and how many of them it takes.
    fn find_place(&mut self, turn: Attempt, pods: &[usize]) -> Option<(PodPlacement, usize, PlacementReason)> {
        if let Some((room, count)) = self.find_room(turn, pods) {
            return Some((PodPlacement::Room(room), count, PlacementReason::Room));
        }
        if let Some((claim, count)) = self.sit(turn, pods) {
            return Some((PodPlacement::Claim(claim), count, PlacementReason::Joined));
        }
        let alone = self.price_alone(turn);
        if !self.demands[turn.shape].attachments.is_empty() {
            self.claims.forget(turn.shape);
        }
        let bearable = alone.map(|alone| self.bearable_price(alone));
        if let Some((claim, count)) = self.join(turn, pods, bearable) {
            return Some((PodPlacement::Claim(claim), count, PlacementReason::Joined));
        }
        if !self.closed
            && let Some((claim, count)) = self.open(turn, pods)
        {
            return Some((PodPlacement::Claim(claim), count, PlacementReason::Opened));
        }
        // A launch that costs too much to join is better than no place.
        alone?;
        self.claims.forget(turn.shape);
        let (claim, count) = self.join(turn, pods, None)?;
        Some((PodPlacement::Claim(claim), count, PlacementReason::Joined))
    }

    /// Like `place_some`, on existing nodes only.
    fn place_some_on_nodes(&mut self, shape: usize, pods: &[usize]) -> usize {
        for level in 0..self.demands[shape].levels.len() {
            let turn = Attempt { shape, level };
            if let Some((room, count)) = self.find_room(turn, pods) {
                self.record(turn, PodPlacement::Room(room), &pods[..count], PlacementReason::Room);
                return count;
            }
        }
        0
    }

    fn find_room(&mut self, turn: Attempt, pods: &[usize]) -> Option<(usize, usize)> {
        let demand = &self.demands[turn.shape];
        let level = &demand.levels[turn.level];
        let first = (pods[0], &self.snapshot.pods[pods[0]]);
        let found = self.rooms.find(turn, demand, first, &self.wants, &self.topology, &mut self.steps)?;
        let site = self.rooms.list[found].site;
        let most = if level.single { 1 } else { self.topology.host_room(&level.rules, Some(site)) };
        let most = most.min(self.rooms.times(found, demand)).clamp(1, pods.len());
        Some((found, self.rooms.below_utilization_limit(found, &pods[..most]).max(1)))
    }

    /// Records the places of pods in verdicts, nominations, nodes and counts.
    fn record(&mut self, turn: Attempt, place: PodPlacement, pods: &[usize], why: PlacementReason) {
        let demand = &self.demands[turn.shape];
        let level = &demand.levels[turn.level];
        let dropped = demand.dropped(level, self.snapshot.policy.preferences, self.soft_taints);
        match place {
            PodPlacement::Room(room) => {
                self.rooms.take(room, demand, pods, &self.snapshot.pods);
                let node = &self.rooms.list[room].node.name;
                for pod in pods {
                    let dropped = dropped.iter().cloned().chain(self.parts[*pod].dropped()).collect();
                    let verdict = PodVerdict::Existing { node: node.clone(), why, dropped };
                    self.verdicts[*pod] = Some(verdict);
                }
                let bound = pods.iter().filter(|pod| self.snapshot.pods[**pod].buffer.is_none());
                self.nominations.extend(bound.map(|pod| Nomination { pod: *pod, node: node.clone() }));
            }
            PodPlacement::Claim(claim) => {
                let frame = self.claims.list[claim].frame;
                let is_static = self.frames.template_of(frame).pool.replicas.is_some();
                let why = if is_static { PlacementReason::Static } else { why };
                self.claims.list[claim].pods.extend_from_slice(pods);
                for pod in pods {
                    let dropped = dropped.iter().cloned().chain(self.parts[*pod].dropped()).collect();
                    self.verdicts[*pod] = Some(PodVerdict::Launch { launch: claim, why, dropped });
                }
            }
        }
        self.waiting[turn.shape] = self.waiting[turn.shape].saturating_sub(pods.len());
        self.count(turn, place, pods.len());
        self.order.extend_from_slice(pods);
    }

    /// Counts placed pods in the topology groups that select them.
    fn count(&mut self, turn: Attempt, place: PodPlacement, pods: usize) {
        self.note_limits(turn, place);
        let demand = &self.demands[turn.shape];
        if demand.counts.is_empty() && demand.holds.is_empty() {
            return;
        }
        let membership = Membership { counts: &demand.counts, holds: &demand.holds };
        let pods = CountedPods { count: u32::try_from(pods).unwrap_or(u32::MAX), there: Counts::Surely };
        match place {
            PodPlacement::Room(room) => {
                let spot = self.rooms.list[room].spot();
                self.topology.record(membership, spot, pods, |_, _| Counts::Surely);
            }
            PodPlacement::Claim(claim) => {
                let claim = &self.claims.list[claim];
                let spot = claim.spot(self.frames.get(claim.frame));
                let suits = |id, spread: &_| self.frames.counts(claim.frame, id, spread, &self.wants);
                self.topology.record(membership, spot, pods, suits);
            }
        }
    }

    /// Records the reason for each shape that has no place.
    fn give_up(&mut self, queue: &[PodRun]) {
        for run in queue {
            let verdict = if self.is_spent() {
                PodVerdict::Postponed
            } else {
                PodVerdict::Unschedulable { pools: self.misses(run.shape) }
            };
            for pod in &run.pods {
                self.verdicts[*pod] = Some(verdict.clone());
            }
        }
    }
}
