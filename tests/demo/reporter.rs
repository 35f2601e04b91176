//! Output of the demo, one line per check: what is checked, its time, and the logs after a failure.

use std::future::Future;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

/// Output and counters of the demo.
pub struct Reporter {
    started: Instant,
    passed: u32,
    failed: u32,
    figures: Vec<(&'static str, String)>,
    left_out: Vec<String>,
}

impl Reporter {
    /// Creates the output and starts its clock.
    pub fn new() -> Self {
        Self { started: Instant::now(), passed: 0, failed: 0, figures: Vec::new(), left_out: Vec::new() }
    }

    /// Prints a heading.
    pub fn section(&self, title: &str) {
        println!("\n{title}");
    }

    /// Runs a check and prints its line. Later checks depend on earlier ones, so a failed check ends the demo.
    pub async fn line<T>(&mut self, text: &str, check: impl Future<Output = Result<T>>) -> Result<T> {
        let result = check.await;
        let at = self.started.elapsed().as_secs_f64();
        match &result {
            Ok(_) => {
                self.passed += 1;
                println!("{at:7.1} s ok   {text}");
            }
            Err(error) => {
                self.failed += 1;
                println!("{at:7.1} s FAIL {text}\n          {error:#}");
            }
        }
        result
    }

    /// Prints a detail below the last line, without a check.
    pub fn note(&self, text: &str) {
        println!("{:15}{text}", "");
    }

    /// Records a part of the demo that cannot run on this machine, with the reason.
    pub fn left_out(&mut self, what: &str) {
        self.note(&format!("skipped: {what}"));
        self.left_out.push(what.to_owned());
    }

    /// Stores a measured value for the end.
    pub fn figure(&mut self, name: &'static str, value: Duration) {
        self.figures.push((name, format!("{} ms", value.as_millis())));
    }

    /// Prints the summary and returns the exit code. `result` is an error even if the cluster could not be started.
    pub fn end(self, result: &Result<()>, logs: &Path) -> ExitCode {
        if !self.figures.is_empty() {
            println!("\nMeasured (this machine, this run)");
            for (name, value) in &self.figures {
                println!("  {name:<44} {value:>9}");
            }
        }
        let mut failed = self.failed;
        if let Err(error) = result {
            if failed == 0 {
                failed = 1;
                println!("\nThe demo stopped: {error:#}");
            }
            println!("\nLogs: {} (one per program, one folder per node)", logs.display());
        }
        println!();
        for what in &self.left_out {
            println!("skipped   {what}");
        }
        println!("demo: {} passed, {failed} failed, {} skipped", self.passed, self.left_out.len());
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
