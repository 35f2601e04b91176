//! Karpenter's own scheduler on the same fixtures: `tests/peers/karpenter` is a Go program that links its library.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use go_programs::go_program;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Program that contains Karpenter's scheduler.
#[derive(Clone, Debug)]
pub struct Karpenter {
    program: PathBuf,
}

/// Karpenter's result for a fixture.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Solved {
    /// Number of pending pods.
    pub pods: usize,
    /// Number of scheduled pods.
    pub scheduled: usize,
    /// Number of nodes to launch.
    pub new_nodes: usize,
    /// Duration of its `Solve`, in nanoseconds.
    pub solve_nanos: u64,
    /// CPU time of all threads during `Solve`, in nanoseconds.
    pub solve_cpu_nanos: u64,
    /// Price of the cheapest offerings of the new nodes, in dollars per hour with six decimals.
    pub price_per_hour: String,
}

/// Karpenter's result for some nodes of a fixture, one at a time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Simulated {
    /// Number of nodes of the cluster.
    pub nodes: usize,
    /// Number of pods on them.
    pub pods: usize,
    /// Number of simulated candidates.
    pub candidates: usize,
    /// Number of candidates whose pods fit on the other nodes.
    pub need_no_other: usize,
    /// Total duration of `SimulateScheduling` for all candidates, in nanoseconds.
    pub simulate_nanos: u64,
}

impl Karpenter {
    /// Finds the program in the cache folder, or builds it there.
    ///
    /// # Errors
    /// Returns an error if the program is missing and cannot be built, for example without Go.
    pub fn find() -> Result<Self> {
        Ok(Self { program: go_program("peers/karpenter")? })
    }

    /// Writes the fixture that the folder is named after: one of Karpenter's benchmark, or one of this repository's additions.
    ///
    /// # Errors
    /// Returns an error if there is no fixture of that name, or if it cannot be written.
    pub fn write_fixture(&self, folder: &Path) -> Result<()> {
        self.run(&["fixture"], folder).map(drop)
    }

    /// Solves a fixture.
    ///
    /// # Errors
    /// Returns an error if the fixture cannot be read.
    pub fn solve(&self, folder: &Path) -> Result<Solved> {
        self.ask(&["solve"], folder)
    }

    /// Simulates the removal of `candidates` nodes of a fixture, one at a time.
    ///
    /// # Errors
    /// Returns an error if the fixture cannot be read, if it has fewer nodes, or if one of them is no candidate.
    pub fn simulate(&self, folder: &Path, candidates: usize) -> Result<Simulated> {
        self.ask(&["simulate", "--candidates", &candidates.to_string()], folder)
    }

    fn ask<T: DeserializeOwned>(&self, words: &[&str], folder: &Path) -> Result<T> {
        let output = self.run(words, folder)?;
        serde_json::from_slice(&output)
            .with_context(|| format!("{}: {}", folder.display(), String::from_utf8_lossy(&output)))
    }

    fn run(&self, words: &[&str], folder: &Path) -> Result<Vec<u8>> {
        let output = Command::new(&self.program)
            .args(words)
            .arg(folder)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let (program, words) = (self.program.display(), words.join(" "));
        ensure!(output.status.success(), "{program} {words} {} failed", folder.display());
        Ok(output.stdout)
    }
}

impl Simulated {
    /// Returns the average duration of `SimulateScheduling` for one node.
    #[must_use]
    pub fn each(&self) -> Duration {
        Duration::from_nanos(self.simulate_nanos / self.candidates.max(1) as u64)
    }
}

impl Solved {
    /// Returns the duration of `Solve`.
    #[must_use]
    pub fn took(&self) -> Duration {
        Duration::from_nanos(self.solve_nanos)
    }

    /// Returns the price of the new nodes in dollars per hour.
    ///
    /// # Errors
    /// Returns an error if the program printed no number.
    pub fn dollars(&self) -> Result<f64> {
        self.price_per_hour.parse().with_context(|| format!("{:?} is not a price", self.price_per_hour))
    }
}
