//! Disruption compared with Karpenter's rules: the time until a cluster has converged, and the cost of a day.

use day::app::App;
use day::budget::Allowed;
use day::clock::{HOUR, MINUTE, SECOND, START};
use day::setup::{Pool, Setup};
use day::simulation::Simulation;
use day::trace::{Event, Size, day};
use day::verdict;
use replay::KarpenterRules;

/// Values of `kerf.sh/utilization`.
pub const POLICIES: [&str; 3] = ["ignore", "observe", "pack"];

/// Time that a pod of these clusters takes to stop.
const STOPS: i64 = 20 * SECOND;
/// Shortest boot of an instance: 18 s until registration, 8 s for kubelet.
const BOOTS: i64 = 26 * SECOND;
/// Remaining share of the decrease in cost, in thousandths, at which a cluster counts as consolidated.
const CLOSE: i64 = 20;

/// Time until a cluster has converged, in simulated seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Number of nodes before the change.
    pub before: usize,
    /// Number of nodes at the end, by Kerf's rules.
    pub after: usize,
    /// Number of nodes at the end, by Karpenter's rules.
    pub peer_after: usize,
    /// Time by Kerf's rules.
    pub ours: f64,
    /// Time by Karpenter's rules; `None` if the simulated time was not sufficient.
    pub peer: Option<f64>,
    /// Lower bound: the time that budgets and drains alone take.
    pub bound: f64,
}

/// Cost of a day.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// `kerf.sh/utilization` of the NodePools.
    pub policy: &'static str,
    /// Cost in dollars.
    pub dollars: f64,
    /// Cost of the same day by Karpenter's rules for disruption.
    pub peer: Option<f64>,
    /// Number of evicted pods.
    pub evicted: usize,
    /// Number of commands that began.
    pub moves: usize,
}

/// Simulates nodes of four CPUs with seven pods each. Half of the pods are removed, spread over the nodes, and the free
/// capacity is consolidated.
///
/// # Errors
/// Returns an error if a cluster cannot be generated, or if an invariant of the simulation is broken.
pub fn give_back(nodes: usize) -> anyhow::Result<Span> {
    // One pod per workload: replicas of one workload are placed together, so scaling it to half would leave empty nodes.
    let apps = apps(nodes * 7, 1, 500);
    let simulate = |peer| {
        // Nodes are filled one after the other, so the removal of every second workload would leave every second node empty.
        let leaves = |(number, app): (usize, &App)| {
            let turn = number / nodes;
            (number + turn).is_multiple_of(2).then(|| Event::Scale(app.name.clone(), 0))
        };
        let half = apps.iter().enumerate().filter_map(leaves).collect();
        Played::new("xlarge", &apps, half, peer, HOUR)
    };
    let (ours, peer) = (simulate(false)?, simulate(true)?);
    // A tenth of the remaining nodes at a time, each for as long as its pods take to stop, until the cluster counts as
    // consolidated.
    let mut left = ours.before;
    let mut waves = 0;
    let close = i64::try_from(ours.before.saturating_sub(ours.after))? * CLOSE / 1_000;
    while left > ours.after + usize::try_from(close)? && waves < 1_000 {
        left -= left.div_ceil(10).min(left - ours.after);
        waves += 1;
    }
    Ok(span(&ours, &peer, waves * STOPS))
}

/// Simulates nodes with one pod each, all of which drift at once.
///
/// # Errors
/// Returns the errors of [`give_back`].
pub fn drift(nodes: usize) -> anyhow::Result<Span> {
    let apps = apps(40, nodes / 40, 1_500);
    let simulate = |peer| Played::new("large", &apps, vec![Event::Drift(1)], peer, 3 * HOUR);
    let (ours, peer) = (simulate(false)?, simulate(true)?);
    // A tenth of all nodes at a time; initialized replacements count as well.
    let waves = i64::try_from(ours.before.div_ceil(ours.before.div_ceil(9).max(1)))?;
    Ok(span(&ours, &peer, waves * (BOOTS + STOPS)))
}

/// Simulates the day under one policy, and by Karpenter's rules if `beside` is set.
///
/// # Errors
/// Returns the errors of [`give_back`].
pub fn cost(policy: &'static str, size: Size, beside: bool) -> anyhow::Result<Cost> {
    let ours = whole_day(policy, size, false)?;
    let peer = beside.then(|| whole_day(policy, size, true)).transpose()?;
    Ok(Cost {
        policy,
        dollars: ours.record.spending.dollars(),
        peer: peer.map(|peer| peer.record.spending.dollars()),
        evicted: ours.cluster_state.evicted,
        moves: ours.record.moves.len(),
    })
}

/// Simulates a whole day.
///
/// # Errors
/// Returns an error if an object cannot be generated, or if an invariant is broken under Kerf's rules.
pub fn whole_day(policy: &'static str, size: Size, peer: bool) -> anyhow::Result<Simulation> {
    let setup = Setup { utilization: policy, ..Setup::default() };
    let mut simulation = Simulation::new(&setup)?;
    if peer {
        simulation.ruled_by(Some(untimed_peer()));
    }
    day(setup.seed, size, START).into_iter().for_each(|(at, event)| simulation.at(at, event));
    simulation.run(START + size.hours * HOUR);
    let broken = if peer { Vec::new() } else { verdict::broken(&simulation) };
    anyhow::ensure!(broken.is_empty(), "the day with policy {policy} violated invariants:\n  {}", broken.join("\n  "));
    Ok(simulation)
}

/// Returns Karpenter's rules with simulations that take no time. Only the number of commands and their moments remain as a
/// difference.
pub(crate) fn untimed_peer() -> KarpenterRules {
    KarpenterRules::new(0)
}

fn apps(count: usize, wanted: usize, cpu: i64) -> Vec<App> {
    let app = |number: usize| App {
        name: format!("service-{number:04}"),
        wanted,
        cpu,
        memory: 1 << 29,
        stops: STOPS,
        ..App::default()
    };
    (0..count).map(app).collect()
}

fn span(ours: &Played, peer: &Played, bound: i64) -> Span {
    Span {
        before: ours.before,
        after: ours.after,
        peer_after: peer.after,
        ours: ours.took.unwrap_or(f64::INFINITY),
        peer: peer.took,
        bound: bound as f64 / SECOND as f64,
    }
}

/// Cluster that was settled and then changed, with its result.
struct Played {
    before: usize,
    after: usize,
    /// Seconds until the cluster converged; `None` if it never did.
    took: Option<f64>,
}

impl Played {
    fn new(size: &'static str, apps: &[App], change: Vec<Event>, peer: bool, lasts: i64) -> anyhow::Result<Self> {
        let setup = Setup {
            duds: 0,
            pools: vec![Pool::fixed(Allowed::Percent(10))],
            after: "0s",
            sizes: vec![size],
            grain: SECOND,
            ..Setup::default()
        };
        let mut simulation = Simulation::new(&setup)?;
        if peer {
            simulation.ruled_by(Some(untimed_peer()));
        }
        apps.iter().for_each(|app| simulation.at(START, Event::Come(app.clone())));
        let changed = START + 10 * MINUTE;
        simulation.run(changed);
        let before = simulation.cluster_state.market.instances.len();
        let drifts = matches!(change.first(), Some(Event::Drift(_)));
        change.into_iter().for_each(|event| simulation.at(changed, event));
        let mut history = vec![(changed, simulation.cluster_state.market.cost())];
        let mut took = None;
        for at in (changed + SECOND..changed + lasts).step_by(1_000) {
            simulation.run(at);
            history.push((at, simulation.cluster_state.market.cost()));
            let old = simulation.cluster_state.market.instances.values().filter(|it| it.bought < changed).count();
            if drifts && old == 0 {
                took = Some((at - changed) as f64 / SECOND as f64);
                break;
            }
        }
        if let Some((at, breach)) = simulation.audit.breaches.first().filter(|_| !peer) {
            anyhow::bail!("{} s into the simulation: {breach}", (at - START) / SECOND);
        }
        let took = if drifts { took } else { fallen(&history).map(|at| (at - changed) as f64 / SECOND as f64) };
        Ok(Self { before, after: simulation.cluster_state.market.instances.len(), took })
    }
}

/// Returns the moment at which the cost was within `CLOSE` of its final value.
fn fallen(history: &[(i64, i64)]) -> Option<i64> {
    let (first, last) = (history.first()?.1, history.last()?.1);
    let close = last + (first - last) * CLOSE / 1_000;
    history.iter().find(|(_, cost)| *cost <= close).map(|(at, _)| *at)
}
