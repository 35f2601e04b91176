//! What is played: which pods come, and what happens to them when they run.

use anyhow::Result;

use crate::subject::Fixtures;
use crate::workload::Workload;

/// One scenario.
pub struct Scenario {
    /// The first part of its figures' names.
    pub name: &'static str,
    pub workload: Workload,
    /// Whether all pods wait already when the controller starts.
    pub backlog: bool,
    /// What happens when all pods run.
    pub then: Change,
}

/// A change of what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// [`STAYING`] percent of every Deployment's pods stay.
    ScaleIn,
    /// The pool's template changes: all nodes have drifted.
    Drift,
}

/// Of 500 pods 350.
pub const STAYING: usize = 70;
/// The backlog, as a multiple of a thousand pods.
const BACKLOG: usize = 10;
/// Nodes that drift.
const DRIFTED: usize = 200;

/// All of them, with so many percent of their pods.
pub fn all(fixtures: &Fixtures, percent: usize) -> Result<Vec<Scenario>> {
    let small_and_large = Workload::of_fixture(&fixtures.folder("small-and-large"))?.scaled(percent);
    let wide = Workload::of_fixture(&fixtures.folder("wide"))?.scaled(percent);
    let backlog = small_and_large.scaled(BACKLOG * 100);
    let lonely = Workload::one_a_node(DRIFTED).scaled(percent);
    let usual = |name, workload, then| Scenario { name, workload, backlog: false, then };
    Ok(vec![
        usual("small-and-large", small_and_large, Change::ScaleIn),
        usual("wide", wide, Change::ScaleIn),
        Scenario { name: "backlog-10000", workload: backlog, backlog: true, then: Change::None },
        usual("drift-200", lonely, Change::Drift),
    ])
}
