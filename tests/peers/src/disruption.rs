//! Taking nodes away, beside Karpenter's rules: how long a cluster takes to be what it should be, and what a day costs.

use day::app::App;
use day::budget::Allowed;
use day::clock::{HOUR, MINUTE, SECOND, START};
use day::controller::{Controller, Peer};
use day::setup::{Pool, Setup};
use day::simulation::Simulation;
use day::trace::{Event, Size, day};
use day::verdict;

/// The values of `kerf.sh/utilization`.
pub const POLICIES: [&str; 3] = ["ignore", "observe", "pack"];

/// How long a pod of these clusters takes to stop.
const STOPS: i64 = 20 * SECOND;
/// The quickest boot of a machine: 18 s until it has registered, 8 s for kubelet.
const BOOTS: i64 = 26 * SECOND;
/// A cluster has given back what it can when its cost is so close to its last, in thousandths of the fall.
const CLOSE: i64 = 20;

/// How long a cluster takes until it is what it should be, in simulated seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Nodes before.
    pub before: usize,
    /// Nodes after, by Kerf's rules.
    pub after: usize,
    /// Nodes after, by Karpenter's.
    pub peer_after: usize,
    /// Kerf.
    pub ours: f64,
    /// By Karpenter's rules; `None` where the time that was played did not do.
    pub peer: Option<f64>,
    /// What budgets and drains alone take.
    pub bound: f64,
}

/// What a day cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// `kerf.sh/utilization` of the pools.
    pub policy: &'static str,
    /// Dollars.
    pub dollars: f64,
    /// The same day by Karpenter's rules of taking nodes away.
    pub peer: Option<f64>,
    /// Pods that were evicted.
    pub evicted: usize,
    /// Moves that were begun.
    pub moves: usize,
}

/// Machines of four CPUs with room for seven pods each; half of the pods leave, here and there, and what they leave is given back.
///
/// # Errors
/// When a cluster cannot be made, or an invariant of the simulation is broken.
pub fn give_back(nodes: usize) -> anyhow::Result<Span> {
    // One pod each: replicas of one workload lie side by side, so that where half of them leave, nodes are empty by themselves.
    let apps = apps(nodes * 7, 1, 500);
    let play = |peer| {
        // Nodes are filled in turns, so every second workload would leave every second node empty.
        let leaves = |(number, app): (usize, &App)| {
            let turn = number / nodes;
            (number + turn).is_multiple_of(2).then(|| Event::Scale(app.name.clone(), 0))
        };
        let half = apps.iter().enumerate().filter_map(leaves).collect();
        Played::new("xlarge", &apps, half, peer, HOUR)
    };
    let (ours, peer) = (play(false)?, play(true)?);
    // A tenth of what is left at a time, each as long as its pods take to stop, until what is left is as close as counts.
    let mut left = ours.before;
    let mut waves = 0;
    let close = i64::try_from(ours.before.saturating_sub(ours.after))? * CLOSE / 1_000;
    while left > ours.after + usize::try_from(close)? && waves < 1_000 {
        left -= left.div_ceil(10).min(left - ours.after);
        waves += 1;
    }
    Ok(span(&ours, &peer, waves * STOPS))
}

/// Machines with one pod each, all of which drift at once.
///
/// # Errors
/// As [`give_back`].
pub fn drift(nodes: usize) -> anyhow::Result<Span> {
    let apps = apps(40, nodes / 40, 1_500);
    let play = |peer| Played::new("large", &apps, vec![Event::Drift(1)], peer, 3 * HOUR);
    let (ours, peer) = (play(false)?, play(true)?);
    // A tenth of all nodes at a time, and those that take another's place count as well once they are up.
    let waves = i64::try_from(ours.before.div_ceil(ours.before.div_ceil(9).max(1)))?;
    Ok(span(&ours, &peer, waves * (BOOTS + STOPS)))
}

/// The simulated day under one policy, and by Karpenter's rules where it is asked for.
///
/// # Errors
/// As [`give_back`].
pub fn cost(policy: &'static str, size: Size, beside: bool) -> anyhow::Result<Cost> {
    let ours = whole_day(policy, size, false)?;
    let peer = beside.then(|| whole_day(policy, size, true)).transpose()?;
    Ok(Cost {
        policy,
        dollars: ours.record.dollars(),
        peer: peer.map(|peer| peer.record.dollars()),
        evicted: ours.world.evicted,
        moves: ours.record.moves.len(),
    })
}

/// A simulated day to its end.
///
/// # Errors
/// When something cannot be made, or with Kerf's own rules an invariant is broken.
pub fn whole_day(policy: &'static str, size: Size, peer: bool) -> anyhow::Result<Simulation> {
    let setup = Setup { utilization: policy, ..Setup::default() };
    let mut simulation = Simulation::new(&setup)?;
    if peer {
        simulation.controller = by_rules_of_peer();
    }
    day(setup.seed, size, START).into_iter().for_each(|(at, event)| simulation.at(at, event));
    simulation.run(START + size.hours * HOUR)?;
    let broken = if peer { Vec::new() } else { verdict::broken(&simulation) };
    anyhow::ensure!(broken.is_empty(), "with {policy} the day broke what must hold:\n  {}", broken.join("\n  "));
    Ok(simulation)
}

/// Karpenter's rules as if its simulations took no time at all: what is left is how many commands it gives, and when.
fn by_rules_of_peer() -> Controller {
    Controller::by_rules_of(Peer::new(0))
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

/// A cluster that was settled, then changed, and what became of it.
struct Played {
    before: usize,
    after: usize,
    /// Seconds until it was what it should be; `None` when it never was.
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
            simulation.controller = by_rules_of_peer();
        }
        apps.iter().for_each(|app| simulation.at(START, Event::Come(app.clone())));
        let changed = START + 10 * MINUTE;
        simulation.run(changed)?;
        let before = simulation.world.market.instances.len();
        let drifts = matches!(change.first(), Some(Event::Drift(_)));
        change.into_iter().for_each(|event| simulation.at(changed, event));
        let mut history = vec![(changed, simulation.world.market.cost())];
        let mut took = None;
        for at in (changed + SECOND..changed + lasts).step_by(1_000) {
            simulation.run(at)?;
            history.push((at, simulation.world.market.cost()));
            let old = simulation.world.market.instances.values().filter(|it| it.bought < changed).count();
            if drifts && old == 0 {
                took = Some((at - changed) as f64 / SECOND as f64);
                break;
            }
        }
        if let Some((at, breach)) = simulation.audit.breaches.first().filter(|_| !peer) {
            anyhow::bail!("{} s into the simulation: {breach}", (at - START) / SECOND);
        }
        let took = if drifts { took } else { fallen(&history).map(|at| (at - changed) as f64 / SECOND as f64) };
        Ok(Self { before, after: simulation.world.market.instances.len(), took })
    }
}

/// When the cost had come as close to its last as counts.
fn fallen(history: &[(i64, i64)]) -> Option<i64> {
    let (first, last) = (history.first()?.1, history.last()?.1);
    let close = last + (first - last) * CLOSE / 1_000;
    history.iter().find(|(_, cost)| *cost <= close).map(|(at, _)| *at)
}
