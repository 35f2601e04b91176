//! Entry point of the controller: settings, log, run.

use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let settings = controller::settings::Args::parse().settings();
    controller::run::log::install(settings.log_format, settings.log_level).map_err(anyhow::Error::msg)?;
    controller::run::run(settings).await
}
