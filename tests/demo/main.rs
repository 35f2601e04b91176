//! The demo: the whole story of a pod that cannot run, told on real parts. `make demo` starts it.

mod look;
mod story;
mod teller;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    story::tell(std::env::var("KEEP").is_ok_and(|keep| keep == "1")).await
}
