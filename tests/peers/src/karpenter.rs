//! Karpenter's own scheduler on the same fixtures: `tests/peers/karpenter` is a Go program around its library.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use go_programs::go_program;
use serde::Deserialize;

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

impl Karpenter {
    /// Finds the program in the cache folder, or builds it there.
    ///
    /// # Errors
    /// When it is not there and cannot be built, because Go is missing for example.
    pub fn find() -> Result<Self> {
        Ok(Self { program: go_program("peers/karpenter")? })
    }

    /// Writes the fixtures of Karpenter's benchmark, one folder a workload.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write_fixtures(&self, folder: &Path) -> Result<()> {
        self.run("fixtures", folder).map(drop)
    }

    /// Solves a fixture.
    ///
    /// # Errors
    /// When the fixture cannot be read.
    pub fn solve(&self, folder: &Path) -> Result<Solved> {
        let output = self.run("solve", folder)?;
        serde_json::from_slice(&output)
            .with_context(|| format!("{}: {}", folder.display(), String::from_utf8_lossy(&output)))
    }

    fn run(&self, verb: &str, folder: &Path) -> Result<Vec<u8>> {
        let output = Command::new(&self.program)
            .arg(verb)
            .arg(folder)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        ensure!(output.status.success(), "{} {verb} {} failed", self.program.display(), folder.display());
        Ok(output.stdout)
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
