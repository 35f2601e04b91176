//! What must hold at every moment, judged from the cluster itself and by nothing that decides.

use std::collections::{BTreeMap, BTreeSet};

use api::status::Conditioned;
use api::{NodeClaim, annotation, condition, label, taint};
use planner::MoveReason;

use crate::app::App;
use crate::clock::{MINUTE, Moment};
use crate::draining::Cause;
use crate::world::World;

/// A machine without a claim, or a claim without a machine, may be there for so long: a crash, its restart, and two looks.
const LOST: i64 = 8 * MINUTE;
/// A pod may wait for so long, whatever happens: a machine that never comes up is given up after a quarter of an hour.
const WAITS: i64 = 25 * MINUTE;
/// More breaches than these say nothing new.
const MOST: usize = 20;

/// What a pool's budget is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// So many nodes.
    Nodes(usize),
    /// So many percent of the initialized nodes, rounded up.
    Percent(usize),
}

/// The judge.
#[derive(Debug, Default)]
pub struct Audit {
    /// What was broken, with the moment.
    pub breaches: Vec<(Moment, String)>,
    /// How the first plan that broke its own rules did so, and its snapshot as JSON: a plan depends on nothing else.
    pub evidence: Option<(String, String)>,
    /// Budgets by pool.
    pub budgets: BTreeMap<String, Allowed>,
    /// Steps that were judged.
    pub steps: usize,
    /// The longest that a pod has waited, in milliseconds.
    pub longest_wait: i64,
    strays: BTreeMap<String, Moment>,
}

impl Audit {
    /// A judge of pools with these budgets.
    #[must_use]
    pub fn new(budgets: BTreeMap<String, Allowed>) -> Self {
        Self { budgets, ..Self::default() }
    }

    /// Notes a breach unless `holds`.
    pub fn expect(&mut self, holds: bool, now: Moment, breach: impl FnOnce() -> String) {
        if !holds && self.breaches.len() < MOST {
            self.breaches.push((now, breach()));
        }
    }

    /// Judges the cluster after a step.
    pub fn step(&mut self, world: &World) {
        self.steps += 1;
        self.single(world);
        self.strays(world);
        self.waits(world);
    }

    /// A pod is about to be asked to go.
    pub fn leaves(&mut self, world: &World, pod: &str, app: &App, cause: Cause, forced: bool) {
        let now = world.now;
        self.expect(!forced || cause == Cause::Notice, now, || {
            format!("pod {pod} is forced to go, and nothing presses")
        });
        let healthy = world.healthy(&app.name);
        let counts = world.pods.get(pod).is_some_and(|it| it.ready.is_some() && it.ending.is_none());
        let after = healthy - usize::from(counts);
        let keeps = forced || !counts || after >= app.least_healthy();
        self.expect(keeps, now, || format!("pod {pod} goes and leaves {after} of {}, budget or not", app.name));
        let started = world.pods.get(pod).and_then(|it| it.ready);
        let rested = app.rests.zip(started).is_none_or(|(rests, started)| now - started >= rests);
        self.expect(cause != Cause::Saving || rested, now, || format!("pod {pod} is moved again before its time"));
    }

    /// A move has begun: its nodes are closed.
    pub fn began(&mut self, world: &World, reason: MoveReason, claims: &[String]) {
        for (pool, allowed) in self.budgets.clone() {
            let of_pool = |claim: &&NodeClaim| {
                claim.metadata.labels.as_ref().and_then(|all| all.get(label::NODEPOOL)) == Some(&pool)
            };
            let settled = |claim: &&NodeClaim| {
                claim.is_true(condition::INITIALIZED) && !claim.is_true(condition::INSTANCE_TERMINATING)
            };
            let all: Vec<&NodeClaim> =
                world.claims.values().map(AsRef::as_ref).filter(of_pool).filter(settled).collect();
            if !all.iter().any(|claim| claims.contains(&name(claim))) {
                continue;
            }
            let disturbed = all.iter().filter(|claim| is_disturbed(world, claim)).count();
            let most = match allowed {
                Allowed::Nodes(most) => most,
                Allowed::Percent(percent) => (all.len() * percent).div_ceil(100),
            };
            let say = || {
                format!("{disturbed} of {} nodes of {pool} are disturbed after {reason:?}, {most} may be", all.len())
            };
            self.expect(disturbed <= most, world.now, say);
        }
    }

    /// A machine is about to be ended because we say so.
    pub fn ends(&mut self, world: &World, node: &str) {
        let left = world.pods_on(node).filter(|(_, pod)| pod.ending.is_none()).count();
        self.expect(left == 0, world.now, || format!("{node} is ended while {left} pods run there"));
    }

    /// No claim has two machines.
    fn single(&mut self, world: &World) {
        let mut seen = BTreeSet::new();
        let live = world.market.instances.values().filter(|instance| !instance.ending);
        let twice = live.filter(|instance| !seen.insert(&instance.claim)).map(|instance| instance.claim.clone()).next();
        self.expect(twice.is_none(), world.now, || format!("claim {} has two machines", twice.unwrap_or_default()));
    }

    /// Machines and claims that have no other half, except for a while.
    fn strays(&mut self, world: &World) {
        let bought = world.market.instances.values();
        let machines = bought.filter(|it| !it.ending && !world.claims.contains_key(&it.claim)).map(|it| it.id.clone());
        let launched = world.claims.values().filter(|claim| claim.is_true(condition::LAUNCHED));
        let claims = launched.map(|claim| name(claim)).filter(|claim| world.instance_of(claim).is_none());
        let strays: BTreeSet<String> = machines.chain(claims).collect();
        self.strays.retain(|stray, _| strays.contains(stray));
        for stray in strays {
            let since = *self.strays.entry(stray.clone()).or_insert(world.now);
            self.expect(world.now - since <= LOST, world.now, || format!("{stray} has had no other half for minutes"));
        }
    }

    fn waits(&mut self, world: &World) {
        let waiting = world.pods.iter().filter(|(_, pod)| pod.node.is_none() && pod.ending.is_none());
        let Some((name, since)) = waiting.map(|(name, pod)| (name, pod.created)).min_by_key(|(_, since)| *since) else {
            return;
        };
        let wait = world.now - since;
        self.longest_wait = self.longest_wait.max(wait);
        self.expect(wait <= WAITS, world.now, || format!("pod {name} has waited for {} min", wait / MINUTE));
    }
}

fn name(claim: &NodeClaim) -> String {
    claim.metadata.name.clone().unwrap_or_default()
}

fn is_disturbed(world: &World, claim: &NodeClaim) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    let marked = annotations.is_some_and(|all| all.contains_key(annotation::REPLACED_BY));
    let says = claim.is_true(condition::DISRUPTION_REASON) || claim.metadata.deletion_timestamp.is_some();
    let node = world.instance_of(&name(claim)).and_then(|instance| world.nodes.get(&instance.id));
    let off = node.is_some_and(|node| {
        let interrupted = node.condition(condition::INTERRUPTED).is_some_and(|said| said.status == condition::TRUE);
        !node.is_ready() || interrupted || node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE)
    });
    marked || says || off
}
