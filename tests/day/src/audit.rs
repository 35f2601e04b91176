//! Invariants that hold after every step, checked on the cluster state without any code that makes decisions.

mod budgets;
mod churn;
mod sight;

use std::collections::{BTreeMap, BTreeSet};

use api::objects::Node;
use api::status::Conditioned;
use api::{NodeClaim, condition, label, quantity, taint};
use planner::Size;
use simulator::surroundings::GPU;

use crate::app::{App, CONTAINER};
use crate::budget::Budget;
use crate::clock::{MINUTE, Moment, SECOND, timestamp};
use crate::cluster_state::{ClusterState, Running};
pub use churn::Churn;
use sight::Blind;

/// Longest time for which an instance may exist without a NodeClaim, or a NodeClaim without an instance. The time covers a
/// crash, a restart and two reconciles.
const LOST: i64 = 8 * MINUTE;
/// Longest time that a pod may be pending. Kerf deletes an instance that never registers after 15 minutes.
const WAITS: i64 = 25 * MINUTE;
/// Longest time that a pod may be pending while no node is in flight. The time covers a crash, a stall, insufficient capacity
/// shown by one call, and two reconciles.
const FORGOTTEN: i64 = 4 * MINUTE;
/// Longest time that a pod may run without its original requests while its node is under pressure and has free capacity. The
/// time covers a crash, a stall and two reconciles.
const CRAMPED: i64 = 4 * MINUTE;
/// Least share that remains of each request, in percent: the default of `kerf.sh/pack-floor`.
const FLOOR: i64 = 50;
/// Most breaches that are recorded; further ones add no information.
const MOST: usize = 20;

/// Cause of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Consolidation that saves money.
    Saving,
    /// Another decision of Kerf: drift, expiration, or an instance that never registers.
    Voluntary,
    /// Interruption or loss of the instance.
    Notice,
}

impl Cause {
    /// Returns the cause for which a pod leaves its node.
    fn of(cluster_state: &ClusterState, pod: &str) -> Self {
        let node = cluster_state.pods.get(pod).and_then(|pod| pod.node.as_deref());
        let instance = node.and_then(|node| cluster_state.market.instances.get(node));
        match instance.filter(|it| !it.noticed && !it.ending) {
            None => Self::Notice,
            Some(it) if cluster_state.claims.get(&it.claim).is_some_and(|claim| churn::saves(claim)) => Self::Saving,
            Some(_) => Self::Voluntary,
        }
    }
}

/// Checker of the invariants.
#[derive(Debug, Default)]
pub struct Audit {
    /// Breaches, each with the moment at which it was found.
    pub breaches: Vec<(Moment, String)>,
    /// First finding of plan validation, and the snapshot as JSON. A plan depends only on its snapshot.
    pub evidence: Option<(String, String)>,
    /// Disruption budgets by NodePool.
    pub budgets: BTreeMap<String, Vec<Budget>>,
    /// Longest time between a change and the step that shows it, in milliseconds.
    grain: i64,
    /// Largest difference between the clock of a replica and the cluster's clock, in milliseconds.
    skew: i64,
    /// True if the cost is limited, so that pods may wait for any time.
    is_limited: bool,
    /// Moment since which a watch of the leader delivers nothing.
    pub blind_since: Option<Moment>,
    /// Times without a view of a kind, in the order of their start.
    blind: Vec<Blind>,
    /// Number of checked steps.
    pub steps: usize,
    /// Longest time that a pod was pending, in milliseconds.
    pub longest_wait: i64,
    /// Number of pods that were deleted without an eviction.
    pub forced: usize,
    /// Counters of repeated moves and short-lived replacements.
    pub churn: Churn,
    /// NodeClaims whose nodes Kerf disrupted at the last step.
    going: BTreeSet<String>,
    strays: BTreeMap<String, Moment>,
    /// Last moment at which a false label made each pending pod wait.
    misled: BTreeMap<String, Moment>,
    /// Moment since which pods are pending and no node is in flight.
    forgotten: Option<Moment>,
    /// Pods with lowered requests on nodes with pressure and enough free capacity for the original requests, with the start of
    /// that state.
    cramped: BTreeMap<String, Moment>,
}

impl Audit {
    /// Creates a checker for NodePools with these budgets, whose steps show changes at most `grain` milliseconds later. Clocks of
    /// replicas differ by at most `skew` milliseconds from the cluster's clock.
    #[must_use]
    pub fn new(budgets: BTreeMap<String, Vec<Budget>>, grain: i64, skew: i64) -> Self {
        Self { budgets, grain, skew, ..Self::default() }
    }

    /// Lets pods wait, for money, if the cost is limited.
    #[must_use]
    pub fn limited(self, is_limited: bool) -> Self {
        Self { is_limited, ..self }
    }

    /// Records a breach unless `holds`.
    pub fn expect(&mut self, holds: bool, now: Moment, breach: impl FnOnce() -> String) {
        if !holds && self.breaches.len() < MOST {
            self.breaches.push((now, breach()));
        }
    }

    /// Checks the cluster after a step.
    pub fn step(&mut self, cluster_state: &ClusterState) {
        self.steps += 1;
        self.single(cluster_state);
        self.strays(cluster_state);
        self.waits(cluster_state);
        self.requests(cluster_state);
        self.churn(cluster_state);
        self.budgets(cluster_state);
    }

    /// Checks the eviction or deletion of a pod just before it happens.
    pub fn leaves(&mut self, cluster_state: &ClusterState, pod: &str, forced: bool) {
        self.leaves_because(cluster_state, pod, Cause::of(cluster_state, pod), forced);
    }

    /// Checks an eviction or deletion with this cause.
    pub fn leaves_because(&mut self, cluster_state: &ClusterState, pod: &str, cause: Cause, forced: bool) {
        let now = cluster_state.now;
        let Some(app) = cluster_state.pods.get(pod).and_then(|pod| cluster_state.apps.get(&pod.app)) else { return };
        if cluster_state.pods.get(pod).is_some_and(|pod| cluster_state.is_on_false_node(pod)) {
            return;
        }
        self.forced += usize::from(forced);
        self.expect(!forced || cause == Cause::Notice, now, || {
            format!("pod {pod} is forced to go, and nothing presses")
        });
        let healthy = cluster_state.healthy(&app.name);
        let counts = cluster_state.pods.get(pod).is_some_and(|it| it.ready.is_some() && it.ending.is_none());
        let after = healthy - usize::from(counts);
        let keeps = forced || !counts || after >= app.least_healthy();
        self.expect(keeps, now, || format!("pod {pod} goes and leaves {after} of {}, budget or not", app.name));
        let started = cluster_state.pods.get(pod).and_then(|it| it.ready);
        // A leader does not know when a pod started while it sees no pods.
        let rest = |started| now - started + self.skew + self.blind_time(started, now, true);
        let (rests, rested) = (app.rests.unwrap_or_default(), started.map_or(i64::MAX, rest));
        self.expect(cause != Cause::Saving || rested >= rests, now, || {
            format!(
                "pod {pod} is moved again {} s after it started, and rests for {} s: {}",
                rested / SECOND,
                rests / SECOND,
                circumstances(cluster_state, pod)
            )
        });
        if cause == Cause::Saving {
            self.moved(cluster_state, pod);
        }
    }

    /// Checks the termination of an instance by Kerf just before it happens.
    pub fn ends(&mut self, cluster_state: &ClusterState, node: &str) {
        let left = cluster_state.pods_on(node).filter(|(_, pod)| pod.ending.is_none()).count();
        self.ended(cluster_state.now, node, left);
    }

    /// Checks that no pods were left on the node of an instance that Kerf has terminated.
    pub fn ended(&mut self, now: Moment, node: &str, left: usize) {
        self.expect(left == 0, now, || format!("{node} is ended while {left} pods run there"));
    }

    /// Checks that no NodeClaim has two instances.
    fn single(&mut self, cluster_state: &ClusterState) {
        let mut seen = BTreeSet::new();
        let live =
            cluster_state.market.instances.values().filter(|instance| !instance.ending && !instance.claim.is_empty());
        let twice = live.filter(|instance| !seen.insert(&instance.claim)).map(|instance| instance.claim.clone()).next();
        self.expect(twice.is_none(), cluster_state.now, || {
            format!("claim {} has two machines", twice.unwrap_or_default())
        });
    }

    /// Checks that an instance without a NodeClaim, or a NodeClaim without an instance, disappears within `LOST`.
    fn strays(&mut self, cluster_state: &ClusterState) {
        let bought = cluster_state.market.instances.values();
        let machines =
            bought.filter(|it| !it.ending && !cluster_state.claims.contains_key(&it.claim)).map(|it| it.id.clone());
        let launched = cluster_state.claims.values().filter(|claim| claim.is_true(condition::LAUNCHED));
        let claims = launched.map(|claim| name(claim)).filter(|claim| cluster_state.instance_of(claim).is_none());
        // The Node of an ended instance may keep its NodeClaim with a finalizer of its own.
        let claims = claims.filter(|claim| !cluster_state.has_false_node(claim));
        let strays: BTreeSet<String> = machines.chain(claims).collect();
        self.strays.retain(|stray, _| strays.contains(stray));
        for stray in strays {
            let since = *self.strays.entry(stray.clone()).or_insert(cluster_state.now);
            let blind = self.blind_time(since, cluster_state.now, false);
            self.expect(cluster_state.now - since - blind <= LOST, cluster_state.now, || {
                format!("{stray} has had no other half for minutes")
            });
        }
    }

    /// Checks that no request is below its floor, that the original requests are stored, and that no node is overcommitted.
    fn requests(&mut self, cluster_state: &ClusterState) {
        let mut cramped = BTreeSet::new();
        let honest = cluster_state.nodes.keys().filter(|node| !cluster_state.is_false(node));
        for (node, instance) in honest.filter_map(|node| Some((node, cluster_state.market.instances.get(node)?))) {
            let there_is = Size::from_resources(&instance.kind.allocatable);
            let takes = cluster_state.pods_on(node).fold(Size::default(), |sum, (_, pod)| sum.plus(pod.takes()));
            self.expect(takes.is_within(there_is), cluster_state.now, || {
                format!("{node} keeps {takes:?} of {there_is:?}")
            });
            let gpus: i64 = cluster_state.pods_on(node).map(|(_, pod)| pod.gpus).sum();
            let there_are = instance.kind.allocatable.get(GPU);
            self.expect(gpus <= there_are, cluster_state.now, || {
                format!("{node} has pods with {gpus} of {there_are} GPUs")
            });
            let pressed = is_pressed(cluster_state, node);
            for (name, pod) in cluster_state.pods_on(node).filter(|(_, pod)| pod.ending.is_none()) {
                let Some(full) = cluster_state.apps.get(&pod.app).map(App::size) else { continue };
                if pod.asks == full {
                    continue;
                }
                self.expect(may_ask(pod, full), cluster_state.now, || {
                    format!("pod {name} requests {:?} of {full:?}", pod.asks)
                });
                if pressed && full.minus(pod.takes()).is_within(there_is.minus(takes)) {
                    cramped.insert(name.clone());
                }
            }
        }
        self.cramped.retain(|pod, _| cramped.contains(pod));
        for pod in cramped {
            let since = *self.cramped.entry(pod.clone()).or_insert(cluster_state.now);
            let blind = self.blind_time(since, cluster_state.now, false);
            self.expect(cluster_state.now - since - blind <= CRAMPED, cluster_state.now, || {
                format!(
                    "pod {pod} has not got its requests back for minutes, though something is short and there is room"
                )
            });
        }
    }

    /// Keeps the last moment at which a false label made each pending pod wait.
    fn follow_misled(&mut self, cluster_state: &ClusterState) {
        self.misled.retain(|name, _| cluster_state.pods.get(name).is_some_and(is_pending));
        let misled = cluster_state.pods.iter().filter(|(_, pod)| is_pending(pod) && is_misled(cluster_state, pod));
        self.misled.extend(misled.map(|(name, _)| (name.clone(), cluster_state.now)));
    }

    /// Checks how long pods are pending, and how long they are pending while no node is in flight.
    fn waits(&mut self, cluster_state: &ClusterState) {
        self.follow_misled(cluster_state);
        let pending = cluster_state.pods.iter().filter(|(_, pod)| is_pending(pod));
        let since = |(name, pod): (_, &Running)| (name, self.misled.get(name).copied().unwrap_or(pod.created));
        let is_misled_now = |name: &String| self.misled.get(name) == Some(&cluster_state.now);
        let waiting = pending.map(since).filter(|(name, _)| !is_misled_now(name));
        let Some((name, since)) = waiting.min_by_key(|(_, since)| *since) else {
            self.forgotten = None;
            return;
        };
        let wait = cluster_state.now - since;
        self.longest_wait = self.longest_wait.max(wait);
        if self.is_limited {
            return;
        }
        let comes = cluster_state.claims.values().any(|claim| !claim.is_true(condition::INITIALIZED));
        self.forgotten = if comes { None } else { self.forgotten.or(Some(cluster_state.now)) };
        let unseen = |at: Moment| cluster_state.now - at - self.blind_time(at, cluster_state.now, true);
        // Another pod, which has its node by now, may have waited at the beginning.
        let forgotten = self.forgotten.map_or(0, |at| unseen(at.max(since)));
        self.expect(forgotten <= FORGOTTEN, cluster_state.now, || {
            format!("pod {name} waits, and no machine is on its way for {} s", forgotten / SECOND)
        });
        let seen = wait - self.blind_time(since, cluster_state.now, true);
        self.expect(seen <= WAITS, cluster_state.now, || format!("pod {name} has waited for {} min", wait / MINUTE));
    }
}

/// Reports whether a current report of its agent shows pressure on a node that is not being disrupted.
fn is_pressed(cluster_state: &ClusterState, node: &str) -> bool {
    let stays = cluster_state.nodes.get(node).is_some_and(|node| !node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE));
    let now = timestamp(cluster_state.now);
    stays && cluster_state.reports.get(node).is_some_and(|it| it.usage.is_current(now) && it.usage.is_pressed())
}

fn is_pending(pod: &Running) -> bool {
    pod.node.is_none() && pod.ending.is_none()
}

/// Reports whether the spread of a pod over zones counts a zone that only a false label has.
fn is_misled(cluster_state: &ClusterState, pod: &Running) -> bool {
    let spread = cluster_state.apps.get(&pod.app).is_some_and(|app| app.spread);
    let zones = || cluster_state.market.prices.keys().map(|pool| pool.zone.as_str());
    let is_invented = |node: &Node| node.label(label::ZONE).is_some_and(|zone| !zones().any(|known| known == zone));
    let all = || cluster_state.nodes.iter().filter(|(name, _)| cluster_state.is_false(name));
    spread && all().any(|(_, node)| is_invented(node))
}

/// Reports whether the requests of a pod are permitted, and whether the pod stores the requests of its template.
fn may_ask(pod: &Running, full: Size) -> bool {
    let floor = full.with(full, |full, _| full * FLOOR / 100);
    let own =
        |name, amount: i64| pod.object.requested().ok()??.amount(CONTAINER, name).filter(|known| *known == amount);
    let remembers = own(quantity::CPU, full.cpu).is_some() && own(quantity::MEMORY, full.memory).is_some();
    floor.is_within(pod.asks) && pod.asks.is_within(full) && remembers
}

/// Returns what the API server shows about the move of a pod: its start, and the stages of its node's end.
fn circumstances(cluster_state: &ClusterState, pod: &str) -> String {
    let Some(found) = cluster_state.pods.get(pod) else { return "the pod is gone".to_owned() };
    let started = found.object.status.start_time.as_ref().map(|at| at.0.to_string());
    let node = found.node.as_deref().unwrap_or_default();
    let instance = cluster_state.market.instances.get(node);
    let claim = instance.and_then(|instance| cluster_state.claims.get(&instance.claim));
    let reason = claim.and_then(|claim| api::status::find(claim.conditions(), condition::DISRUPTION_REASON));
    let begun = reason.map(|reason| format!("{} since {}", reason.reason, reason.last_transition_time.0));
    let deleted = claim.and_then(|claim| claim.metadata.deletion_timestamp.as_ref()).map(|at| at.0.to_string());
    format!("started {started:?}, node {node}, disrupted {begun:?}, NodeClaim deleted {deleted:?}")
}

fn name(claim: &NodeClaim) -> String {
    claim.metadata.name.clone().unwrap_or_default()
}
