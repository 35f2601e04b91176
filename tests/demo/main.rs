//! Demo: the whole life of a pending pod and its node, on real components. `make demo` starts it.

mod look;
mod story;
mod teller;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    story::tell(std::env::var("KEEP").is_ok_and(|keep| keep == "1")).await
}
