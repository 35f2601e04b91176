//! One fixture, both planners, one after the other and never at the same time.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use planner::{Plan, Snapshot};

use crate::fixture;
use crate::karpenter::{Karpenter, Solved};

/// Our runs; the fastest counts, as what else the machine does can only slow a run down. Karpenter has one: it takes minutes.
const RUNS: usize = 3;

/// What both make of a fixture.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The fixture.
    pub name: String,
    /// Nodes that exist already.
    pub nodes: usize,
    /// Pods that need a place.
    pub pods: usize,
    /// Distinct shapes among them.
    pub shapes: usize,
    /// Kerf's answer.
    pub ours: Answer,
    /// Karpenter's answer.
    pub peer: Answer,
}

/// What one planner says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// How long it took.
    pub took: Duration,
    /// Pods that found a place.
    pub scheduled: usize,
    /// Machines that it would launch.
    pub launched: usize,
    /// What they cost, dollars per hour.
    pub dollars: f64,
}

impl Compared {
    /// How many times faster ours is.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.peer.took.as_secs_f64() / self.ours.took.as_secs_f64().max(1e-9)
    }
}

/// Has both plan a fixture, which is written first.
///
/// # Errors
/// When the fixture cannot be written or read, when they do not count the same pods, or when our plan breaks its own rules.
pub fn compare(name: &str, folder: &Path, karpenter: &Karpenter) -> anyhow::Result<Compared> {
    karpenter.write_fixture(folder)?;
    let snapshot = fixture::read(folder)?;
    let (plan, took) = fastest(|| planner::plan(&snapshot));
    checked(name, &snapshot, &plan)?;
    let ours = answer(&plan, took);
    let (pods, shapes, nodes) = (snapshot.pods.len(), snapshot.shapes.len(), snapshot.nodes.len());
    drop((snapshot, plan));
    let solved = karpenter.solve(folder)?;
    ensure!(solved.pods == pods, "{name}: Karpenter reads {} pods and Kerf {pods}", solved.pods);
    Ok(Compared { name: name.to_owned(), nodes, pods, shapes, ours, peer: theirs(&solved)? })
}

/// Has the plan judged by code that shares nothing with the planner.
pub(crate) fn checked(name: &str, snapshot: &Snapshot, plan: &Plan) -> anyhow::Result<()> {
    match planner::check(snapshot, plan).first() {
        Some(finding) => anyhow::bail!("{name}: plan validation failed: {finding}"),
        None => Ok(()),
    }
}

/// The last of a few runs, and the time of the fastest.
pub(crate) fn fastest<T>(run: impl Fn() -> T) -> (T, Duration) {
    let timed = || {
        let started = Instant::now();
        let result = run();
        (result, started.elapsed())
    };
    let first = timed();
    (1..RUNS).fold(first, |(_, best), _| {
        let (result, took) = timed();
        (result, best.min(took))
    })
}

pub(crate) fn answer(plan: &Plan, took: Duration) -> Answer {
    let cost: i64 = plan.launches.iter().map(|launch| launch.price.0).sum();
    Answer { took, scheduled: plan.report.order.len(), launched: plan.launches.len(), dollars: cost as f64 / 1e6 }
}

pub(crate) fn theirs(solved: &Solved) -> anyhow::Result<Answer> {
    Ok(Answer {
        took: solved.took(),
        scheduled: solved.scheduled,
        launched: solved.new_nodes,
        dollars: solved.dollars()?,
    })
}
