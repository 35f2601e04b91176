//! Kerf's controller with its hands replaced: the translator and the planner are the shipped ones; what it writes goes into the
//! simulated cluster, one step at a time, and it may die between any two. What it has to know after that, the cluster tells.

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

/// The planner is asked at least so often, and at most once a second.
const LOOK_AGAIN: i64 = 10 * SECOND;
const LEAST_PAUSE: i64 = SECOND;
/// From a change to the plan that answers it.
const BATCH: i64 = 200;
/// A promise holds so long.
const PROMISE: i64 = 20 * SECOND;
/// A shortage is remembered so long.
const SHORT: i64 = 3 * MINUTE;

/// It has died: the rest of what it was about to do does not happen.
#[derive(Debug)]
pub struct Died;

/// Everything that the controller works on.
pub struct Hands<'a> {
    /// The cluster.
    pub world: &'a mut World,
    /// Machines that come and go.
    pub machines: &'a mut Machines,
    /// The judge.
    pub audit: &'a mut Audit,
    /// What is told afterwards.
    pub record: &'a mut Record,
}

/// The controller.
#[derive(Default)]
pub struct Controller {
    memory: SnapshotCache,
    /// Karpenter's rules in place of ours.
    peer: Option<Peer>,
    noted: Validation,
    /// The last plan, while there was nothing to do and nothing has changed.
    rest: Option<(PlanCache, Plan)>,
    /// Pods by UID: the node that was promised, until when, and the promise's number.
    promises: BTreeMap<String, (String, Moment, u64)>,
    numbers: u64,
    shortages: BTreeMap<Shelf, Moment>,
    catalogue: Option<Arc<Catalogue>>,
    drains: BTreeMap<String, (Moment, Draining)>,
    /// Launches that are on their way, by claim: when EC2 answers.
    launches: BTreeMap<String, Moment>,
    /// Machines that EC2 takes and whose agents are dead; the queue keeps them over a restart.
    warned: Vec<String>,
    due: Moment,
    asked: bool,
    planned: Moment,
    seed: u64,
    down_until: Option<Moment>,
    /// The API server does not answer.
    paused_until: Moment,
    /// It dies after so many steps more.
    fuse: Option<usize>,
}

impl Controller {
    /// A controller that takes nodes away by Karpenter's rules.
    #[must_use]
    pub fn by_rules_of(peer: Peer) -> Self {
        Self { peer: Some(peer), ..Self::default() }
    }

    /// It will die after so many steps more, and be back after `pause`.
    pub fn light(&mut self, steps: usize) {
        self.fuse = Some(steps);
    }

    /// It is gone with all that it knew.
    pub fn die(&mut self, until: Moment) {
        let (warned, peer) = (std::mem::take(&mut self.warned), self.peer.take().map(|peer| Peer::new(peer.each)));
        *self = Self { down_until: Some(until), seed: self.seed, warned, peer, ..Self::default() };
    }

    /// EC2 says in its queue that it takes a machine, and no agent has said so on the Node.
    pub fn warn(&mut self, instance: &str) {
        self.warned.push(instance.to_owned());
    }

    /// Somebody asks for a plan.
    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// When it does something by itself.
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

    /// Does what is to be done now.
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

    /// A step counts; the fuse may end here.
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
                    // As in the controller: such a plan is not carried out, and the next look comes soon.
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

    /// As in the controller: a cluster at rest is not planned anew.
    fn kerfs_plan(&mut self, built: &SnapshotResult, hands: &mut Hands<'_>, now: Moment) -> Option<Plan> {
        if let Some((_, plan)) = self.rest.as_ref().filter(|(rest, _)| rest.is_valid(&built.snapshot)) {
            return Some(plan.clone());
        }
        hands.record.plans += 1;
        let plan = sound_plan(built, hands, now)?;
        self.rest = PlanCache::new(&built.snapshot, &plan).map(|rest| (rest, plan.clone()));
        Some(plan)
    }

    /// The planner's picture of the cluster.
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

    /// Goes on with the drains whose time has come; ends machines that are empty.
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

/// Whether a problem is one of the cluster's own life, such as an agent that is silent, and not of what was written into it.
fn comes_and_goes(problem: &Problem) -> bool {
    let machines = matches!(problem, Problem::Usage { .. } | Problem::Unclaimed { .. });
    machines || matches!(problem, Problem::SelectsNothing { .. } | Problem::NeverEvicted { .. })
}

/// The plan, or what is sound of it, as judged by code that shares nothing with the planner. What it finds is counted, with the first
/// as evidence.
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
