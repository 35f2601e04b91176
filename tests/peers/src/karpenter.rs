//! Karpenter's own scheduler on the same fixtures: `tests/peers/karpenter` is a Go program around its library.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use go_programs::go_program;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The program that holds Karpenter's scheduler.
#[derive(Clone, Debug)]
pub struct Karpenter {
    program: PathBuf,
}

/// What Karpenter makes of a fixture.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Solved {
    /// Pods that needed a place.
    pub pods: usize,
    /// Pods that found one.
    pub scheduled: usize,
    /// Machines that it would launch.
    pub new_nodes: usize,
    /// How long its `Solve` took, nanoseconds.
    pub solve_nanos: u64,
    /// Processor time of all threads meanwhile, nanoseconds.
    pub solve_cpu_nanos: u64,
    /// The cheapest offerings of what it would launch, dollars with six decimals.
    pub price_per_hour: String,
}

/// What Karpenter makes of some nodes of a fixture, each by itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Simulated {
    /// All nodes of the cluster.
    pub nodes: usize,
    /// Pods on them.
    pub pods: usize,
    /// Nodes that were looked at.
    pub candidates: usize,
    /// Those of them whose pods have room on the other nodes.
    pub need_no_other: usize,
    /// How long its `SimulateScheduling` took for all of them together, nanoseconds.
    pub simulate_nanos: u64,
}

impl Karpenter {
    /// Finds the program in the cache folder, or builds it there.
    ///
    /// # Errors
    /// When it is not there and cannot be built, because Go is missing for example.
    pub fn find() -> Result<Self> {
        Ok(Self { program: go_program("peers/karpenter")? })
    }

    /// Writes the fixture that the folder is named after: one of Karpenter's benchmark, or of those that stand beside them.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be written.
    pub fn write_fixture(&self, folder: &Path) -> Result<()> {
        self.run(&["fixture"], folder).map(drop)
    }

    /// Solves a fixture.
    ///
    /// # Errors
    /// When the fixture cannot be read.
    pub fn solve(&self, folder: &Path) -> Result<Solved> {
        self.ask(&["solve"], folder)
    }

    /// Simulates for so many nodes of a fixture, each by itself, where their pods could go.
    ///
    /// # Errors
    /// When the fixture cannot be read, has fewer nodes, or one of them is no candidate.
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
    /// How long `SimulateScheduling` took for one node, on average.
    #[must_use]
    pub fn each(&self) -> Duration {
        Duration::from_nanos(self.simulate_nanos / self.candidates.max(1) as u64)
    }
}

impl Solved {
    /// How long its `Solve` took.
    #[must_use]
    pub fn took(&self) -> Duration {
        Duration::from_nanos(self.solve_nanos)
    }

    /// What it would launch costs, dollars per hour.
    ///
    /// # Errors
    /// When the program printed no number.
    pub fn dollars(&self) -> Result<f64> {
        self.price_per_hour.parse().with_context(|| format!("{:?} is not a price", self.price_per_hour))
    }
}
