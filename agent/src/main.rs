//! The handshake: arguments become settings, settings start the agent.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let settings = agent::settings::Settings::parse();
    match agent::start(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kerf-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}
