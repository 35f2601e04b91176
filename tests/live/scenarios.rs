//! Scenarios: the pods, and the change once they run.

use anyhow::Result;

use crate::WHOLE;
use crate::subject::Fixtures;
use crate::workload::Workload;

/// One scenario.
pub struct Scenario {
    /// First part of the names of its measurements.
    pub name: &'static str,
    pub workload: Workload,
    /// Existence of all pods before the controller starts.
    pub backlog: bool,
    /// Change once all pods run.
    pub then: Change,
    /// True with a part of the pods only.
    pub is_sample: bool,
}

/// Change of the workload or the NodePool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// No change.
    None,
    /// Scale-in of every Deployment to [`STAYING`] percent.
    ScaleIn,
    /// Change of the NodePool's template: all nodes are drifted.
    Drift,
}

/// Percentage of pods after the scale-in: 350 of 500.
pub const STAYING: usize = 70;
/// Number of pods in the backlog, in thousands.
const BACKLOG: usize = 10;
/// Number of nodes that drift.
const DRIFTED: usize = 200;

/// Returns all scenarios, with `percent` percent of their pods.
pub fn all(fixtures: &Fixtures, percent: usize) -> Result<Vec<Scenario>> {
    let small_and_large = Workload::of_fixture(&fixtures.folder("small-and-large"))?.scaled(percent);
    let wide = Workload::of_fixture(&fixtures.folder("wide"))?.scaled(percent);
    let backlog = small_and_large.scaled(BACKLOG * 100);
    let lonely = Workload::one_a_node(DRIFTED).scaled(percent);
    let is_sample = percent != WHOLE;
    let usual = |name, workload, then| Scenario { name, workload, backlog: false, then, is_sample };
    Ok(vec![
        usual("small-and-large", small_and_large, Change::ScaleIn),
        usual("wide", wide, Change::ScaleIn),
        Scenario { backlog: true, ..usual("backlog-10000", backlog, Change::None) },
        usual("drift-200", lonely, Change::Drift),
    ])
}
