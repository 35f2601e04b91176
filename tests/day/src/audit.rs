//! What must hold at every moment, judged from the cluster itself and by nothing that decides.

mod budgets;
mod churn;

use std::collections::{BTreeMap, BTreeSet};

use api::status::Conditioned;
use api::{NodeClaim, condition, quantity, taint};
use planner::Size;

use crate::app::{App, CONTAINER};
use crate::budget::Budget;
use crate::clock::{MINUTE, Moment, timestamp};
use crate::draining::Cause;
use crate::world::{Running, World};
pub use churn::Churn;

/// A machine without a claim, or a claim without a machine, may be there for so long: a crash, its restart, and two looks.
const LOST: i64 = 8 * MINUTE;
/// A pod may wait for so long, whatever happens: a machine that never comes up is given up after a quarter of an hour.
const WAITS: i64 = 25 * MINUTE;
/// A pod may wait so long while nothing is on its way: a crash, a stall, a shortage that one call has shown, and two looks.
const FORGOTTEN: i64 = 4 * MINUTE;
/// A pod may go so long without what it requested first where something is short and its node has room: a crash, a stall, and two looks.
const CRAMPED: i64 = 4 * MINUTE;
/// What is left of each request at least, in percent: the usual `kerf.sh/pack-floor`.
const FLOOR: i64 = 50;
/// More breaches than these say nothing new.
const MOST: usize = 20;

/// The judge.
#[derive(Debug, Default)]
pub struct Audit {
    /// What was broken, with the moment.
    pub breaches: Vec<(Moment, String)>,
    /// How the first plan that broke its own rules did so, and its snapshot as JSON: a plan depends on nothing else.
    pub evidence: Option<(String, String)>,
    /// Budgets by pool.
    pub budgets: BTreeMap<String, Vec<Budget>>,
    /// Steps that were judged.
    pub steps: usize,
    /// The longest that a pod has waited, in milliseconds.
    pub longest_wait: i64,
    /// Pods that were forced to go.
    pub forced: usize,
    /// How much is moved to and fro.
    pub churn: Churn,
    /// Claims whose nodes Kerf was taking away at the last step.
    going: BTreeSet<String>,
    strays: BTreeMap<String, Moment>,
    /// Since when pods have waited and no machine has been on its way.
    forgotten: Option<Moment>,
    /// Lowered pods on nodes where something is short and there is room for all that they requested, since when.
    cramped: BTreeMap<String, Moment>,
}

impl Audit {
    /// A judge of pools with these budgets.
    #[must_use]
    pub fn new(budgets: BTreeMap<String, Vec<Budget>>) -> Self {
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
        self.requests(world);
        self.churn(world);
        self.budgets(world);
    }

    /// A pod is about to be asked to go.
    pub fn leaves(&mut self, world: &World, pod: &str, app: &App, cause: Cause, forced: bool) {
        let now = world.now;
        self.forced += usize::from(forced);
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
        if cause == Cause::Saving {
            self.moved(world, pod);
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

    /// Requests are lowered no further than they may be, nobody forgets what they were, and no node keeps more than it has.
    fn requests(&mut self, world: &World) {
        let mut cramped = BTreeSet::new();
        for (node, instance) in world.nodes.keys().filter_map(|node| Some((node, world.market.instances.get(node)?))) {
            let there_is = Size::from_resources(&world.market.kind(instance).allocatable);
            let takes = world.pods_on(node).fold(Size::default(), |sum, (_, pod)| sum.plus(pod.takes()));
            self.expect(takes.is_within(there_is), world.now, || format!("{node} keeps {takes:?} of {there_is:?}"));
            let pressed = is_pressed(world, node);
            for (name, pod) in world.pods_on(node).filter(|(_, pod)| pod.ending.is_none()) {
                let Some(full) = world.apps.get(&pod.app).map(App::size) else { continue };
                if pod.asks == full {
                    continue;
                }
                self.expect(may_ask(pod, full), world.now, || {
                    format!("pod {name} requests {:?} of {full:?}", pod.asks)
                });
                if pressed && full.minus(pod.takes()).is_within(there_is.minus(takes)) {
                    cramped.insert(name.clone());
                }
            }
        }
        self.cramped.retain(|pod, _| cramped.contains(pod));
        for pod in cramped {
            let since = *self.cramped.entry(pod.clone()).or_insert(world.now);
            self.expect(world.now - since <= CRAMPED, world.now, || {
                format!(
                    "pod {pod} has not got its requests back for minutes, though something is short and there is room"
                )
            });
        }
    }

    /// No pod waits for long, and none while no machine is on its way but for moments.
    fn waits(&mut self, world: &World) {
        let waiting = world.pods.iter().filter(|(_, pod)| pod.node.is_none() && pod.ending.is_none());
        let Some((name, since)) = waiting.map(|(name, pod)| (name, pod.created)).min_by_key(|(_, since)| *since) else {
            self.forgotten = None;
            return;
        };
        let comes = world.claims.values().any(|claim| !claim.is_true(condition::INITIALIZED));
        self.forgotten = if comes { None } else { self.forgotten.or(Some(world.now)) };
        let forgotten = self.forgotten.is_some_and(|at| world.now - at > FORGOTTEN);
        self.expect(!forgotten, world.now, || format!("pod {name} waits, and no machine is on its way for minutes"));
        let wait = world.now - since;
        self.longest_wait = self.longest_wait.max(wait);
        self.expect(wait <= WAITS, world.now, || format!("pod {name} has waited for {} min", wait / MINUTE));
    }
}

/// Whether something is short on a node that stays, as its agent has said not long ago.
fn is_pressed(world: &World, node: &str) -> bool {
    let stays = world.nodes.get(node).is_some_and(|node| !node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE));
    let now = timestamp(world.now);
    stays && world.reports.get(node).is_some_and(|it| it.usage.is_current(now) && it.usage.is_pressed())
}

/// Whether a pod may request what it does now, and remembers what its template requests.
fn may_ask(pod: &Running, full: Size) -> bool {
    let floor = full.with(full, |full, _| full * FLOOR / 100);
    let own =
        |name, amount: i64| pod.object.requested().ok()??.amount(CONTAINER, name).filter(|known| *known == amount);
    let remembers = own(quantity::CPU, full.cpu).is_some() && own(quantity::MEMORY, full.memory).is_some();
    floor.is_within(pod.asks) && pod.asks.is_within(full) && remembers
}

fn name(claim: &NodeClaim) -> String {
    claim.metadata.name.clone().unwrap_or_default()
}
