//! `peers`: compares Kerf's planner with its peers; docs/performance.md has the results.

use std::process::ExitCode;

fn main() -> ExitCode {
    peers::run::run(std::env::args().skip(1))
}
