//! Entry point of the controller: settings, log, run.

use std::time::Duration;

use clap::Parser;

/// Time for work in progress to end. A plan in progress cannot be cancelled.
const SHUTDOWN: Duration = Duration::from_millis(500);

fn main() -> anyhow::Result<()> {
    let settings = controller::settings::Args::parse().settings();
    controller::run::log::install(settings.log_format, settings.log_level).map_err(anyhow::Error::msg)?;
    controller::state::panics::install_hook();
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(controller::run::run(settings));
    runtime.shutdown_timeout(SHUTDOWN);
    outcome
}
