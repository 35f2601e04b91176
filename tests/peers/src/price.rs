//! Cost of a plan, compared with a lower bound for any plan and with Karpenter's plan.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::bound::{self, Bound};
use crate::compare::{Answer, answer, checked, theirs};
use crate::fixture;
use crate::karpenter::Karpenter;
use crate::workloads::Workload;

/// Column headings for the lines of [`PricedWorkload`].
pub const HEADING: &str =
    "workload             bound $/h   kerf $/h  over   (at best)  nodes  plan ms  bound s  rounds  karpenter";

/// Line of one workload.
#[derive(Clone, Debug)]
pub struct PricedWorkload {
    /// Name of the workload.
    pub name: String,
    /// Description of the workload.
    pub about: String,
    /// Lower bound for the cost of any fleet.
    pub bound: Bound,
    /// Kerf's fleet.
    pub ours: Answer,
    /// Karpenter's fleet, if Karpenter was run.
    pub peer: Option<Answer>,
    /// Duration of the search for the bound.
    pub bounded: Duration,
}

/// Writes a workload, plans it and computes its bound; with `karpenter`, Karpenter plans it too.
///
/// # Errors
/// Returns an error if the fixture cannot be written or read, if a pod is unschedulable, or if Kerf's plan fails its validation.
pub fn compare_price(
    workload: &Workload,
    folder: &Path,
    karpenter: Option<&Karpenter>,
) -> anyhow::Result<PricedWorkload> {
    let (name, about) = (workload.name, workload.about);
    workload.write(folder)?;
    let snapshot = fixture::read(folder)?;
    let started = Instant::now();
    let plan = planner::plan(&snapshot);
    let ours = answer(&plan, started.elapsed());
    checked(name, &snapshot, &plan)?;
    let pods = snapshot.pods.len();
    ensure!(ours.scheduled == pods, "{name}: {} of {pods} pods have a place", ours.scheduled);
    let started = Instant::now();
    let bound = if workload.constrained { bound::of_constrained(&snapshot) } else { bound::of_snapshot(&snapshot) }?;
    let bounded = started.elapsed();
    let peer = karpenter.map(|karpenter| theirs(&karpenter.solve(folder)?)).transpose()?;
    Ok(PricedWorkload { name: name.to_owned(), about: about.to_owned(), bound, ours, peer, bounded })
}

impl PricedWorkload {
    /// Returns the cost divided by the proven bound.
    #[must_use]
    pub fn over(&self) -> f64 {
        self.ours.dollars / self.bound.dollars
    }

    /// Returns Karpenter's cost divided by the proven bound, if Karpenter was run and placed every pod.
    #[must_use]
    pub fn peer_over(&self) -> Option<f64> {
        let peer = self.peer.filter(|peer| peer.scheduled == self.ours.scheduled)?;
        Some(peer.dollars / self.bound.dollars)
    }
}

impl fmt::Display for PricedWorkload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:<18} {:>11.4} {:>10.4}  {:.4} ({:.4})  {:>6} {:>8.1} {:>8.1} {:>7}",
            self.name,
            self.bound.dollars,
            self.ours.dollars,
            self.over(),
            self.ours.dollars / self.bound.ceiling,
            self.ours.launched,
            self.ours.took.as_secs_f64() * 1e3,
            self.bounded.as_secs_f64(),
            self.bound.rounds,
        )?;
        self.peer_over().map_or(Ok(()), |over| write!(out, "    {over:.4}"))
    }
}
