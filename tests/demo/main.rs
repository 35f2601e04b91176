//! Demo: the whole lifecycle of a pending pod and its node, on real components. `make demo` starts it.

mod cluster;
mod reporter;
mod sections;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    sections::run(std::env::var("KEEP").is_ok_and(|keep| keep == "1")).await
}
