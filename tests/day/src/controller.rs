//! Kerf's controller with simulated writes: the snapshot builder and the planner are the shipped ones. Each write changes the
//! simulated cluster in one step, and the controller may crash between any two steps. After a crash, the controller reads all
//! that it needs from the cluster.

mod launch;
mod moves;
mod peer;
mod resizes;

use std::collections::BTreeMap;
use std::sync::Arc;

use planner::{Catalogue, Destination, Plan, PlanCache, PodVerdict, Purpose, Validation};
use snapshot::{Input, Problem, SnapshotCache, SnapshotResult};

use crate::audit::Audit;
use crate::clock::{MINUTE, Moment, SECOND, timestamp};
use crate::draining::Draining;
use crate::machines::Machines;
use crate::market::Shelf;
use crate::record::Record;
use crate::world::World;
pub use peer::Peer;

/// Longest time between two plans; `LEAST_PAUSE` is the shortest.
const LOOK_AGAIN: i64 = 10 * SECOND;
const LEAST_PAUSE: i64 = SECOND;
/// Time from a change to the plan that includes it.
const BATCH: i64 = 200;
/// Lifetime of a nomination.
const PROMISE: i64 = 20 * SECOND;
/// Lifetime of an unavailable offering.
const SHORT: i64 = 3 * MINUTE;

/// Error after a crash: the remaining steps do not happen.
#[derive(Debug)]
pub struct Died;

/// State that the controller reads and changes.
pub struct Hands<'a> {
    /// Simulated cluster.
    pub world: &'a mut World,
    /// Instances that start and end.
    pub machines: &'a mut Machines,
    /// Checker of the invariants.
    pub audit: &'a mut Audit,
    /// Record for the report.
    pub record: &'a mut Record,
}

/// Simulated controller.
#[derive(Default)]
pub struct Controller {
    memory: SnapshotCache,
    /// Karpenter's rules, if they replace Kerf's.
    peer: Option<Peer>,
    noted: Validation,
    /// Last plan, while it has no work and nothing has changed.
    rest: Option<(PlanCache, Plan)>,
    /// Nominations by pod UID: node, expiry and sequence number.
    promises: BTreeMap<String, (String, Moment, u64)>,
    numbers: u64,
    shortages: BTreeMap<Shelf, Moment>,
    catalogue: Option<Arc<Catalogue>>,
    drains: BTreeMap<String, (Moment, Draining)>,
    /// Launches in flight, by NodeClaim: the moment of EC2's response.
    launches: BTreeMap<String, Moment>,
    /// Interrupted instances whose agents do not run. The queue keeps them over a restart.
    warned: Vec<String>,
    due: Moment,
    asked: bool,
    planned: Moment,
    seed: u64,
    down_until: Option<Moment>,
    /// End of an API server outage.
    paused_until: Moment,
    /// Number of steps before the next crash.
    fuse: Option<usize>,
}

impl Controller {
    /// Creates a controller that disrupts nodes by Karpenter's rules.
    #[must_use]
    pub fn by_rules_of(peer: Peer) -> Self {
        Self { peer: Some(peer), ..Self::default() }
    }

    /// Schedules a crash after `steps` more steps.
    pub fn light(&mut self, steps: usize) {
        self.fuse = Some(steps);
    }

    /// Crashes the controller: it loses its state and is down until `until`.
    pub fn die(&mut self, until: Moment) {
        let (warned, peer) = (std::mem::take(&mut self.warned), self.peer.take().map(|peer| Peer::new(peer.each)));
        *self = Self { down_until: Some(until), seed: self.seed, warned, peer, ..Self::default() };
    }

    /// Adds an interruption message of EC2's queue for an instance whose agent has not reported it on the Node.
    pub fn warn(&mut self, instance: &str) {
        self.warned.push(instance.to_owned());
    }

    /// Requests a plan.
    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// Returns the moment of the next activity.
    #[must_use]
    pub fn next(&self) -> Moment {
        if let Some(until) = self.down_until {
            return until;
        }
        let asked = self.asked.then_some(self.planned + LEAST_PAUSE);
        let drains = self.drains.values().map(|(at, _)| *at);
        let all = drains.chain(self.launches.values().copied()).chain(asked).chain([self.due]);
        all.min().unwrap_or(self.due).max(self.paused_until)
    }

    /// Does all work that is due.
    pub fn work(&mut self, hands: &mut Hands<'_>) {
        let now = hands.world.now;
        match self.down_until {
            Some(until) if until > now => return,
            Some(_) => (self.down_until, self.due) = (None, now + BATCH),
            None => {}
        }
        if hands.world.is_stalled() {
            self.paused_until = now + SECOND;
            self.drive(hands);
            return;
        }
        if self.labour(hands).is_err() {
            let pause = 5 * SECOND + i64::try_from(self.seed % 40).unwrap_or(0) * SECOND;
            hands.record.deaths += 1;
            self.die(now + pause);
        }
    }

    fn labour(&mut self, hands: &mut Hands<'_>) -> Result<(), Died> {
        self.look(hands)?;
        self.drive(hands);
        let now = hands.world.now;
        if now >= self.due || self.asked && now >= self.planned + LEAST_PAUSE {
            return self.plan(hands);
        }
        Ok(())
    }

    /// Counts a step; returns an error when the scheduled crash is due.
    fn step(&mut self) -> Result<(), Died> {
        match &mut self.fuse {
            Some(0) => Err(Died),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn plan(&mut self, hands: &mut Hands<'_>) -> Result<(), Died> {
        let now = hands.world.now;
        (self.asked, self.planned) = (false, now);
        let built = self.built(hands.world);
        let (plan, begin, next) = match &mut self.peer {
            Some(peer) => {
                hands.record.plans += 1;
                let plan = peer.plan(&built.snapshot, now);
                let begin = (0..plan.moves.len()).collect();
                (plan, begin, Some(peer.next()))
            }
            None => {
                let Some(plan) = self.kerfs_plan(&built, hands, now) else {
                    // As in the controller, an invalid plan is not carried out, and the next plan follows soon.
                    self.due = now + LOOK_AGAIN;
                    return Ok(());
                };
                let ripe = self.noted.update(&built.snapshot, &plan);
                let next = ripe.next.and_then(|next| i64::try_from(next.as_millis()).ok());
                (plan, ripe.begin, next.map(|next| now + next))
            }
        };
        self.due = next.unwrap_or(Moment::MAX).clamp(now + LEAST_PAUSE, now + LOOK_AGAIN);
        self.carry_out(hands, &built, &plan, &begin)
    }

    /// Returns Kerf's plan. As in the controller, an unchanged cluster is not planned again.
    fn kerfs_plan(&mut self, built: &SnapshotResult, hands: &mut Hands<'_>, now: Moment) -> Option<Plan> {
        if let Some((_, plan)) = self.rest.as_ref().filter(|(rest, _)| rest.is_valid(&built.snapshot)) {
            return Some(plan.clone());
        }
        hands.record.plans += 1;
        let plan = sound_plan(built, hands, now)?;
        self.rest = PlanCache::new(&built.snapshot, &plan).map(|rest| (rest, plan.clone()));
        Some(plan)
    }

    /// Builds the planner's snapshot of the cluster.
    pub fn built(&mut self, world: &World) -> SnapshotResult {
        let now = world.now;
        self.promises.retain(|_, (_, until, _)| *until > now);
        let before = self.shortages.len();
        self.shortages.retain(|_, until| *until > now);
        if self.catalogue.is_none() || self.shortages.len() != before {
            self.catalogue = Some(world.market.without(&self.shortages));
        }
        let mut promised: Vec<(&String, &(String, Moment, u64))> = self.promises.iter().collect();
        promised.sort_by_key(|(_, (_, _, number))| *number);
        let mut nominated_until = BTreeMap::new();
        for (_, (node, until, _)) in &promised {
            let latest = nominated_until.entry(node.clone()).or_insert(timestamp(*until));
            *latest = (*latest).max(timestamp(*until));
        }
        self.seed += 1;
        self.memory.build(&Input {
            seed: self.seed,
            pods: world.pods.values().map(|pod| &pod.object).collect(),
            nodes: world.nodes.values().collect(),
            claims: world.claims.values().collect(),
            pools: world.pools.iter().collect(),
            budgets: world.budgets.values().collect(),
            usages: world.reports.values().collect(),
            catalogues: self.catalogue.iter().map(|it| ("default".to_owned(), Arc::clone(it))).collect(),
            nominations: promised.iter().map(|(pod, (node, _, _))| ((*pod).clone(), node.clone())).collect(),
            nominated_until,
            ..Input::at(timestamp(now))
        })
    }

    fn carry_out(
        &mut self,
        hands: &mut Hands<'_>,
        built: &SnapshotResult,
        plan: &Plan,
        begin: &[usize],
    ) -> Result<(), Died> {
        let now = hands.world.now;
        let mut claims: BTreeMap<usize, api::NodeClaim> = BTreeMap::new();
        for (position, planned) in plan.launches.iter().enumerate() {
            let name = format!("{}-{}-{position}", planned.pool, built.snapshot.seed);
            let lives = launch::expire_after(hands.world, &planned.pool);
            claims.insert(position, launch::claim(planned, &name, &built.snapshot.policy.well_known, lives, now));
        }
        let name_of = |launch: &usize| format!("{}-{}-{launch}", plan.launches[*launch].pool, built.snapshot.seed);
        for pod in &plan.report.order {
            let place = match &plan.report.pods[*pod] {
                PodVerdict::Existing { node, .. } => node.clone(),
                PodVerdict::Launch { launch, .. } => name_of(launch),
                PodVerdict::Unschedulable { .. } | PodVerdict::Postponed => continue,
            };
            self.promise(&built.snapshot.pods[*pod].uid, place, now);
        }
        for (_, claim) in claims.extract_if(.., |position, _| plan.launches[*position].purpose != Purpose::Replacement)
        {
            self.create(hands, claim)?;
        }
        if self.peer.is_none() {
            self.resize(hands, &plan.resizes)?;
        }
        for planned in begin.iter().map(|position| &plan.moves[*position]) {
            let place = |to: &Destination| match to {
                Destination::Node(node) => node.clone(),
                Destination::Launch(launch) => name_of(launch),
            };
            planned.pods.iter().for_each(|it| self.promise(&it.uid, place(&it.to), now));
            let replacements = planned.replacements.iter().filter_map(|launch| claims.remove(launch)).collect();
            self.begin(hands, planned, replacements)?;
        }
        self.reopen(hands)
    }

    fn promise(&mut self, pod: &str, node: String, now: Moment) {
        self.numbers += 1;
        self.promises.insert(pod.to_owned(), (node, now + PROMISE, self.numbers));
    }

    /// Continues the drains that are due.
    fn drive(&mut self, hands: &mut Hands<'_>) {
        let now = hands.world.now;
        self.drains.retain(|node, _| hands.world.nodes.contains_key(node));
        for (node, (at, draining)) in &mut self.drains {
            if *at <= now {
                *at = draining.drive(hands.world, node, hands.audit);
            }
        }
    }
}

/// Reports whether a problem belongs to normal operation, such as an agent without reports, and not to a written object.
fn comes_and_goes(problem: &Problem) -> bool {
    let machines = matches!(problem, Problem::Usage { .. } | Problem::Unclaimed { .. });
    machines || matches!(problem, Problem::SelectsNothing { .. } | Problem::NeverEvicted { .. })
}

/// Returns the plan, or its valid part, after validation by code that shares nothing with the planner. Findings are counted,
/// and the first one is kept as evidence.
fn sound_plan(built: &SnapshotResult, hands: &mut Hands<'_>, now: Moment) -> Option<Plan> {
    for problem in built.problems.iter().filter(|problem| !comes_and_goes(problem)) {
        hands.audit.expect(false, now, || format!("the translator complains: {problem}"));
    }
    let checked = planner::checked(&built.snapshot, planner::plan(&built.snapshot));
    if let Some(first) = checked.findings.first() {
        hands.record.refused += 1;
        let snapshot = || serde_json::to_string(&built.snapshot).ok();
        hands.audit.evidence.get_or_insert_with(|| (first.to_string(), snapshot().unwrap_or_default()));
    }
    checked.sound
}
