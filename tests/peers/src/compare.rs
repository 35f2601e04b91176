//! Comparison of both planners on one fixture; they run one after the other, never at the same time.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use planner::{Plan, Snapshot};

use crate::fixture;
use crate::karpenter::{Karpenter, Solved};

/// Number of runs of Kerf. The fastest counts, because other load on the machine can only slow a run down. Karpenter runs once,
/// because a run takes minutes.
const RUNS: usize = 3;

/// Results of both planners for a fixture.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Name of the fixture.
    pub name: String,
    /// Number of existing nodes.
    pub nodes: usize,
    /// Number of pending pods.
    pub pods: usize,
    /// Number of distinct pod shapes.
    pub shapes: usize,
    /// Result of Kerf.
    pub ours: Answer,
    /// Result of Karpenter.
    pub peer: Answer,
}

/// Result of one planner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// Planning time.
    pub took: Duration,
    /// Number of scheduled pods.
    pub scheduled: usize,
    /// Number of launched nodes.
    pub launched: usize,
    /// Price of the launched nodes in dollars per hour.
    pub dollars: f64,
}

impl Compared {
    /// Returns how many times faster Kerf is.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.peer.took.as_secs_f64() / self.ours.took.as_secs_f64().max(1e-9)
    }
}

/// Writes a fixture and plans it with both planners.
///
/// # Errors
/// Returns an error if the fixture cannot be written or read, if the planners count different pods, or if Kerf's plan fails its
/// validation.
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

/// Validates the plan by code that shares nothing with the planner.
pub(crate) fn checked(name: &str, snapshot: &Snapshot, plan: &Plan) -> anyhow::Result<()> {
    match planner::check(snapshot, plan).first() {
        Some(finding) => anyhow::bail!("{name}: plan validation failed: {finding}"),
        None => Ok(()),
    }
}

/// Returns the result of the last of several runs, and the time of the fastest run.
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
