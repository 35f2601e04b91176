//! What a plan costs beside what any plan would cost at least.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use planner::{Plan, Snapshot};

use crate::bound::{self, Bound};
use crate::fixture;

/// The names of what a [`Judged`] prints.
pub const HEADING: &str =
    "workload             bound $/h   kerf $/h  over   (at best)  nodes  plan ms  bound s  rounds";

/// One workload's line.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The workload.
    pub name: String,
    /// What any fleet costs at least.
    pub bound: Bound,
    /// What Kerf's fleet costs, dollars per hour.
    pub dollars: f64,
    /// Machines of Kerf's fleet.
    pub nodes: usize,
    /// How long the plan took.
    pub planned: Duration,
    /// How long the bound took.
    pub bounded: Duration,
}

/// Plans a fixture and bounds it.
///
/// # Errors
/// When the fixture cannot be read, when a pod finds no place, or when the plan breaks its own rules.
pub fn judge(name: &str, folder: &Path) -> anyhow::Result<Judged> {
    let snapshot = fixture::read(folder)?;
    let started = Instant::now();
    let plan = planner::plan(&snapshot);
    let planned = started.elapsed();
    let dollars = cost(name, &snapshot, &plan)?;
    let started = Instant::now();
    let bound = bound::of_snapshot(&snapshot)?;
    let bounded = started.elapsed();
    Ok(Judged { name: name.to_owned(), bound, dollars, nodes: plan.launches.len(), planned, bounded })
}

/// What a plan's launches cost, if it is a plan.
fn cost(name: &str, snapshot: &Snapshot, plan: &Plan) -> anyhow::Result<f64> {
    if let Some(finding) = planner::check(snapshot, plan).first() {
        bail!("{name}: the plan breaks its own rules: {finding}");
    }
    if plan.report.order.len() != snapshot.pods.len() {
        bail!("{name}: {} of {} pods have a place", plan.report.order.len(), snapshot.pods.len());
    }
    Ok(plan.launches.iter().map(|launch| launch.price.0).sum::<i64>() as f64 / 1e6)
}

impl Judged {
    /// Cost over the proven bound.
    #[must_use]
    pub fn over(&self) -> f64 {
        self.dollars / self.bound.dollars
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:<18} {:>11.4} {:>10.4}  {:.4} ({:.4})  {:>6} {:>8.1} {:>8.1} {:>7}",
            self.name,
            self.bound.dollars,
            self.dollars,
            self.over(),
            self.dollars / self.bound.ceiling,
            self.nodes,
            self.planned.as_secs_f64() * 1e3,
            self.bounded.as_secs_f64(),
            self.bound.rounds,
        )
    }
}
