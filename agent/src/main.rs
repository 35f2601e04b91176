//! Entry point of the agent: arguments become settings, settings start the agent.

use std::process::ExitCode;

fn main() -> ExitCode {
    let settings = match agent::settings::Settings::from_process() {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    match agent::start(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kerf-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}
