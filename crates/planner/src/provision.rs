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

mod capacity;
mod daemon_overhead;
mod demand;
mod existing_node;
mod fleet;
#[expect(
    clippy::float_arithmetic,
    reason = "values of a linear program; the module says why they are equal on every machine"
)]
mod fleet_optimizer;
mod new_node;
mod phases;
mod reasons;
mod relocation;
mod select_best;
mod topology;

pub use capacity::limits::highest_cost;

use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) use phases::bind::bindings;
pub(crate) use relocation::{Obstacle, RelocationOutcome, Relocator, STRATEGIES};
pub(crate) use topology::KnownDomains;

use crate::{Nomination, PlacementReason, Plan, Pod, PodVerdict, Resources, Snapshot};

use capacity::Capacity;
use capacity::node_template::{NodeTemplates, TemplateId};
use capacity::plan_input::PlanInput;
use capacity::pool_template;
use daemon_overhead::{DaemonOverhead, begin_daemons, note_limits};
use demand::bound_pods::BoundPods;
use demand::dimensions::Amounts;
use demand::requirement_sets::RequirementSets;
use demand::shared_claims::SharedClaims;
use demand::{Demand, DemandCompiler};
use existing_node::ExistingNodes;
use fleet::{PlannedFleets, planned_level};
use new_node::{NewNode, NewNodes};
use phases::current_domains::place_at_present;
use phases::even_hosts::open_even_hosts;
use phases::fill_existing::fill_existing_nodes;
use phases::finish::trim_launches;
use phases::join::{fill_slots, join_launch};
use phases::open_node::{open_node, price_alone, price_limit};
use phases::queue::{place_nominated, take_up};
use reasons::give_up;
use select_best::strategy::{ALWAYS, LoadRule, Strategy};
use topology::bound_counts::{add_bound_terms, count_bound, find_reachable};
use topology::host_minimum::pin_hosts;
use topology::leaving_pods::add_resident;
use topology::{CountedPods, Counts, Domain, Membership, Spot, Topology};

/// Places every pod of the snapshot or reports a reason: the best of several solutions, the first among equals. Pod groups that would
/// be incomplete get no place.
pub(crate) fn provision(snapshot: &Snapshot) -> Plan {
    select_best::pod_groups::with_complete_groups(snapshot, |snapshot| select_best::best(&PlanInput::new(snapshot)))
}

/// Shape (with the claims that its pods share, if any) at one of its preference levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Attempt {
    shape: usize,
    level: usize,
}

/// Kind of a pod: one that will run, or a virtual pod that only keeps capacity free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PodKind {
    Real,
    Virtual,
}

impl PodKind {
    fn from_pod(pod: &Pod) -> Self {
        if pod.holder.is_some() { Self::Virtual } else { Self::Real }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PodPlacement {
    Existing(usize),
    New(usize),
}

/// Pending pods of one shape, oldest first.
#[derive(Clone)]
struct PodRun {
    shape: usize,
    pods: Vec<usize>,
}

/// Pod on a node that disruption may remove.
#[derive(Clone, Copy)]
struct LeavingPod {
    pod: usize,
    site: Domain,
}

/// Compiled input of a solution, which does not change while pods are placed.
#[derive(Clone)]
struct Problem<'a> {
    input: PlanInput<'a>,
    requirement_sets: Arc<RequirementSets<'a>>,
    demands: Arc<[Demand<'a>]>,
    /// Position of each pod's demand.
    demand_of: Arc<[usize]>,
    soft_taints: bool,
    /// Pods on nodes that disruption may remove.
    residents: Vec<LeavingPod>,
}

/// Progress of a plan: pods that are not placed yet, and how the search proceeds.
#[derive(Clone)]
struct Progress {
    strategy: Strategy,
    /// Shapes that keep separate hosts where the strategy lets pods share hosts that prefer separate ones.
    separate: Arc<BTreeSet<usize>>,
    /// Kind of pods that the plan places now; `None` before it starts.
    kind: Option<PodKind>,
    /// Pending pods of this kind, in placement order.
    queue: Vec<PodRun>,
    /// Number of pods without a place, by shape.
    waiting: Vec<usize>,
    fleets: PlannedFleets,
    /// True if pods were placed by the present state of the nodes: a further launch could make their places wrong.
    is_closed: bool,
    /// True if hosts received their shares in zones, which only the rehearsal verifies.
    is_dealt: bool,
    /// True while each launch starts in the domain with the fewest pods, whatever it costs there.
    emptiest_first: bool,
    steps: u64,
}

/// Decisions of a plan so far.
#[derive(Clone)]
struct Outcome {
    verdicts: Vec<Option<PodVerdict>>,
    nominations: Vec<Nomination>,
    /// Placed pods, in the order of their placement.
    order: Vec<usize>,
}

/// Plan in the making.
#[derive(Clone)]
struct Solver<'a> {
    problem: Problem<'a>,
    topology: Topology<'a>,
    daemons: DaemonOverhead<'a>,
    capacity: Capacity<'a>,
    existing: ExistingNodes<'a>,
    new_nodes: NewNodes,
    progress: Progress,
    outcome: Outcome,
}

impl<'a> Problem<'a> {
    fn demand(&self, pod: usize) -> &Demand<'a> {
        &self.demands[self.demand_of[pod]]
    }

    /// Returns the actual requests of a launch's pods, without unused slots.
    fn requests_of(&self, claim: &NewNode) -> (Resources, Amounts) {
        let mut requests = Resources::default();
        let dimensions = &self.input.dimensions;
        let mut attachments: Amounts = dimensions.amounts(&Resources::default());
        for pod in &claim.pods {
            requests.add(&self.demands[self.input.snapshot.pods[*pod].shape].shape.requests);
        }
        for (driver, _) in &claim.attached {
            dimensions.add_attachments(&mut attachments, driver, 1);
        }
        let mut used = dimensions.amounts(&requests);
        used.iter_mut().zip(&attachments).for_each(|(used, more)| *used += more);
        (requests, used)
    }
}

impl Progress {
    fn new(shapes: usize) -> Self {
        Self {
            strategy: ALWAYS[0],
            separate: Arc::default(),
            kind: None,
            queue: Vec::new(),
            waiting: vec![0; shapes],
            fleets: PlannedFleets::default(),
            is_closed: false,
            is_dealt: false,
            emptiest_first: false,
            steps: 0,
        }
    }
}

impl Outcome {
    fn new(pods: usize) -> Self {
        Self { verdicts: vec![None; pods], nominations: Vec::new(), order: Vec::new() }
    }
}

impl<'a> Solver<'a> {
    fn new(input: &PlanInput<'a>, known: &KnownDomains) -> Self {
        let PlanInput { snapshot, dimensions, pool_templates, parts } = input;
        let soft_taints = pool_template::has_soft_taints(snapshot);
        let mut requirement_sets = RequirementSets::default();
        let mut topology = Topology::new(snapshot);
        let policy = snapshot.policy.preferences;
        let mut compiler = DemandCompiler {
            dimensions,
            requirement_sets: &mut requirement_sets,
            topology: &mut topology,
            policy,
            soft_taints,
        };
        let shared = SharedClaims::new(snapshot, dimensions, compiler.topology);
        let (mut demands, demand_of) = shared.demands(snapshot, parts, &mut compiler);
        let bound = BoundPods::new(snapshot);
        add_bound_terms(&mut topology, snapshot, &bound);
        demands.iter_mut().for_each(|demand| demand.join(&topology));
        count_bound(&mut topology, snapshot, &bound, &requirement_sets, &shared);
        let daemons = DaemonOverhead::new(snapshot, &mut topology);
        demands.iter_mut().for_each(|demand| demand.late = demand.refers_to(&known.joined));
        let mut templates = NodeTemplates::new(Arc::clone(pool_templates), &mut topology);
        find_reachable(&mut topology, &mut templates, &requirement_sets, known);
        pin_hosts(&mut topology, known);
        let mut solver = Self {
            existing: ExistingNodes::new(snapshot, dimensions, &daemons, &topology),
            new_nodes: NewNodes::default(),
            progress: Progress::new(demands.len()),
            outcome: Outcome::new(snapshot.pods.len()),
            problem: Problem {
                input: input.clone(),
                requirement_sets: Arc::new(requirement_sets),
                demands: demands.into(),
                demand_of: demand_of.into(),
                soft_taints,
                residents: Vec::new(),
            },
            topology,
            daemons,
            capacity: Capacity::new(snapshot, templates),
        };
        begin_daemons(&mut solver, known.strict);
        solver
    }

    fn next_site(&self) -> Domain {
        Domain::try_from(self.problem.input.snapshot.nodes.len() + self.new_nodes.list.len()).unwrap_or(Domain::MAX)
    }

    /// Reports whether the NodePool of a template launches no node for pods of the shape now.
    fn is_paused(&self, template: TemplateId, shape: usize) -> bool {
        let pool = self.capacity.templates.pool_template_of(template).pool;
        pool.is_inactive || self.problem.demands[shape].shape.pause_in(&pool.name).is_some()
    }

    /// Returns the place of a pod, if it has one.
    fn place_of(&self, pod: usize) -> Option<PodPlacement> {
        match self.outcome.verdicts[pod].as_ref()? {
            PodVerdict::Existing { node, .. } => self.existing.named(node).map(PodPlacement::Existing),
            PodVerdict::Launch { launch, .. } => Some(PodPlacement::New(*launch)),
            _ => None,
        }
    }

    /// Returns the site and the topology values of a place.
    fn spot_of(&self, place: PodPlacement) -> Spot<'_> {
        match place {
            PodPlacement::Existing(node) => self.existing.list[node].spot(),
            PodPlacement::New(launch) => {
                let claim = &self.new_nodes.list[launch];
                claim.spot(self.capacity.templates.get(claim.template))
            }
        }
    }

    /// Counts all pods that have not moved from nodes that disruption may remove.
    fn count_residents(&mut self) {
        for resident in &self.problem.residents {
            if self.outcome.verdicts[resident.pod] == Some(PodVerdict::Postponed) {
                let demand = self.problem.demand(resident.pod);
                let membership = Membership { counts: &demand.counts, holds: &demand.holds };
                if !demand.counts.is_empty() || !demand.holds.is_empty() {
                    add_resident(&mut self.topology, membership, resident.site);
                }
            }
        }
    }

    /// Places real pods first, then virtual pods once the places of real pods are fixed. Continues from the
    /// plan's current state.
    fn solve(&mut self) {
        if self.progress.kind.is_none() {
            place_nominated(self);
        }
        self.place_all();
        if self.progress.kind != Some(PodKind::Virtual) {
            take_up(self, PodKind::Virtual);
            self.place_all();
        }
        trim_launches(self);
    }

    /// Repeats rounds over the queue until a round places no pod: the place of one pod may make room for another.
    fn place_all(&mut self) {
        let mut queue = std::mem::take(&mut self.progress.queue);
        self.progress.fleets = PlannedFleets::default();
        queue.iter().for_each(|run| self.progress.waiting[run.shape] = run.pods.len());
        match self.progress.strategy.load {
            LoadRule::One | LoadRule::Fit | LoadRule::Own => {}
            LoadRule::Fleet | LoadRule::SharedFleet => fill_existing_nodes(self, &mut queue),
            LoadRule::Even | LoadRule::Shared | LoadRule::SharedByOwn => open_even_hosts(self, &mut queue),
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
                place_at_present(self, &mut queue);
                return give_up(self, &queue);
            }
            queue.iter().for_each(|run| self.new_nodes.forget(run.shape));
        }
    }

    /// Reports whether the search has reached its limit of steps.
    fn is_spent(&self) -> bool {
        self.progress.steps >= self.problem.input.snapshot.policy.max_steps
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
        for level in planned_level(self, shape)..self.problem.demands[shape].levels.len() {
            let attempt = Attempt { shape, level };
            if let Some((place, count, why)) = self.find_place(attempt, pods) {
                self.record(attempt, place, &pods[..count], why);
                return count;
            }
        }
        0
    }

    /// Returns the best place for the first of the pods, and how many of them it takes.
    fn find_place(&mut self, attempt: Attempt, pods: &[usize]) -> Option<(PodPlacement, usize, PlacementReason)> {
        if let Some((node, count)) = self.find_existing(attempt, pods) {
            return Some((PodPlacement::Existing(node), count, PlacementReason::Room));
        }
        if let Some((claim, count)) = fill_slots(self, attempt, pods) {
            return Some((PodPlacement::New(claim), count, PlacementReason::Joined));
        }
        let separate = price_alone(self, attempt);
        if !self.problem.demands[attempt.shape].attachments.is_empty() {
            self.new_nodes.forget(attempt.shape);
        }
        let limit = separate.map(|separate| price_limit(self.progress.strategy.load, separate));
        if let Some((claim, count)) = join_launch(self, attempt, pods, limit) {
            return Some((PodPlacement::New(claim), count, PlacementReason::Joined));
        }
        if !self.progress.is_closed
            && let Some((claim, count)) = open_node(self, attempt, pods)
        {
            return Some((PodPlacement::New(claim), count, PlacementReason::Opened));
        }
        // A launch that costs too much to join is better than no place.
        separate?;
        self.new_nodes.forget(attempt.shape);
        let (claim, count) = join_launch(self, attempt, pods, None)?;
        Some((PodPlacement::New(claim), count, PlacementReason::Joined))
    }

    /// Like `place_some`, on existing nodes only.
    fn place_some_on_nodes(&mut self, shape: usize, pods: &[usize]) -> usize {
        for level in 0..self.problem.demands[shape].levels.len() {
            let attempt = Attempt { shape, level };
            if let Some((node, count)) = self.find_existing(attempt, pods) {
                self.record(attempt, PodPlacement::Existing(node), &pods[..count], PlacementReason::Room);
                return count;
            }
        }
        0
    }

    fn find_existing(&mut self, attempt: Attempt, pods: &[usize]) -> Option<(usize, usize)> {
        let demand = &self.problem.demands[attempt.shape];
        let level = &demand.levels[attempt.level];
        let found = self.existing.find(
            attempt,
            demand,
            pods[0],
            &self.problem.requirement_sets,
            &self.topology,
            &mut self.progress.steps,
        )?;
        let site = self.existing.list[found].site;
        let most = if level.single { 1 } else { self.topology.host_slots(&level.rules, Some(site)) };
        let most = most.min(self.existing.times(found, demand)).clamp(1, pods.len());
        Some((found, self.existing.below_utilization_limit(found, &pods[..most]).max(1)))
    }

    /// Records the places of pods in verdicts, nominations, nodes and counts.
    fn record(&mut self, attempt: Attempt, place: PodPlacement, pods: &[usize], why: PlacementReason) {
        let demand = &self.problem.demands[attempt.shape];
        let level = &demand.levels[attempt.level];
        let dropped = demand.dropped(level, self.problem.input.snapshot.policy.preferences, self.problem.soft_taints);
        match place {
            PodPlacement::Existing(node) => {
                self.existing.take(node, demand, pods);
                let name = &self.existing.list[node].node.name;
                for pod in pods {
                    let dropped = dropped.iter().cloned().chain(self.problem.input.parts[*pod].dropped()).collect();
                    let verdict = PodVerdict::Existing { node: name.clone(), why, dropped };
                    self.outcome.verdicts[*pod] = Some(verdict);
                }
                let bound = pods.iter().filter(|pod| self.problem.input.snapshot.pods[**pod].holder.is_none());
                self.outcome.nominations.extend(bound.map(|pod| Nomination { pod: *pod, node: name.clone() }));
            }
            PodPlacement::New(claim) => {
                let template = self.new_nodes.list[claim].template;
                let is_static = self.capacity.templates.pool_template_of(template).pool.replicas.is_some();
                let why = if is_static { PlacementReason::Static } else { why };
                self.new_nodes.list[claim].pods.extend_from_slice(pods);
                for pod in pods {
                    let dropped = dropped.iter().cloned().chain(self.problem.input.parts[*pod].dropped()).collect();
                    self.outcome.verdicts[*pod] = Some(PodVerdict::Launch { launch: claim, why, dropped });
                }
            }
        }
        self.progress.waiting[attempt.shape] = self.progress.waiting[attempt.shape].saturating_sub(pods.len());
        self.count(attempt, place, pods.len());
        self.outcome.order.extend_from_slice(pods);
    }

    /// Counts placed pods in the topology groups that select them.
    fn count(&mut self, attempt: Attempt, place: PodPlacement, pods: usize) {
        note_limits(self, attempt, place);
        let demand = &self.problem.demands[attempt.shape];
        if demand.counts.is_empty() && demand.holds.is_empty() {
            return;
        }
        let membership = Membership { counts: &demand.counts, holds: &demand.holds };
        let pods = CountedPods { count: u32::try_from(pods).unwrap_or(u32::MAX), there: Counts::Surely };
        match place {
            PodPlacement::Existing(node) => {
                let spot = self.existing.list[node].spot();
                self.topology.record(membership, spot, pods, |_, _| Counts::Surely);
            }
            PodPlacement::New(claim) => {
                let claim = &self.new_nodes.list[claim];
                let spot = claim.spot(self.capacity.templates.get(claim.template));
                let suits = |id, spread: &_| {
                    self.capacity.templates.counts(claim.template, id, spread, &self.problem.requirement_sets)
                };
                self.topology.record(membership, spot, pods, suits);
            }
        }
    }
}
