//! The command line: which comparison, and what is printed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;

use crate::{price, workloads};

const USAGE: &str =
    "usage: peers bound [WORKLOAD...]     cost of Kerf's plans over the lower bound, one line a workload";

/// Runs the command line. Exit code 1 says that a comparison could not be made, or that a plan breaks its own rules.
pub fn run(arguments: impl Iterator<Item = String>) -> ExitCode {
    match carry_out(&arguments.collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(arguments: &[String]) -> anyhow::Result<()> {
    match arguments.first().map(String::as_str) {
        Some("bound") => bound(&arguments[1..]),
        _ => bail!("{USAGE}"),
    }
}

fn bound(names: &[String]) -> anyhow::Result<()> {
    println!("{}", price::HEADING);
    for workload in workloads::all().iter().filter(|it| names.is_empty() || names.iter().any(|name| *name == it.name)) {
        let folder = fixtures().join(workload.name);
        workload.write(&folder)?;
        println!("{}", price::judge(workload.name, &folder)?);
    }
    Ok(())
}

/// Where fixtures and results lie: `target/peers` of the checkout, wherever cargo builds.
fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers")
}

fn fixtures() -> PathBuf {
    results().join("fixtures")
}
