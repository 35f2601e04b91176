//! `peers`: Kerf's planner beside its peers; what it measures stands in docs/performance.md.

use std::process::ExitCode;

fn main() -> ExitCode {
    peers::run::run(std::env::args().skip(1))
}
