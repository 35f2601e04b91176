//! `nodeadm config`: validates or prints the sources, without a change of the machine.

use std::io::Write as _;

use anyhow::Context as _;
use machine::yaml;

use super::Machine;
use super::chain::{self, MergedConfig};
use super::command::{Config, Sources};

pub(super) async fn run(machine: &Machine, command: &Config) -> anyhow::Result<()> {
    match command {
        Config::Check(sources) => check(gather(machine, sources).await?),
        Config::Dump(sources) => dump(gather(machine, sources).await?),
    }
}

async fn gather(machine: &Machine, sources: &Sources) -> anyhow::Result<MergedConfig> {
    chain::gather(&sources.sources, machine).await
}

/// Validates more strictly than `init`: an ignored field is most likely misspelt.
fn check(gathered: MergedConfig) -> anyhow::Result<()> {
    let ignored = gathered.warnings.join("; ");
    gathered.into_config()?.validate().context("invalid NodeConfig")?;
    anyhow::ensure!(ignored.is_empty(), "ignored content in the NodeConfig: {ignored}");
    Ok(())
}

fn dump(gathered: MergedConfig) -> anyhow::Result<()> {
    for warning in &gathered.warnings {
        log::warn!("{warning}");
    }
    let config = serde_json::to_value(gathered.into_config()?).context("cannot write the NodeConfig as YAML")?;
    std::io::stdout().write_all(yaml::text(&config).as_bytes()).context("cannot print the NodeConfig")
}
