//! `nodeadm init`: from a NodeConfig to a node, in two phases that a boot runs separately.

use anyhow::Context as _;

use super::cache::Enriched;
use super::chain::{self, Choice, MergedConfig, choose};
use super::command::{Init, Phase};
use super::phases::Phases;
use super::{Machine, enrich};
use crate::bootstrap::facts;
use crate::host::environment::Environment;

pub(super) async fn run(machine: &Machine, options: &Init) -> anyhow::Result<()> {
    let kept = options.config_cache.as_ref().and_then(|path| Enriched::load(&machine.host, path));
    let mut gathered = chain::gather(&options.sources.sources, machine).await?;
    gathered.config.iter_mut().for_each(|config| facts::add_default_gates(&machine.host, config));
    log_config(&gathered);
    let choice = choose(gathered, kept)?;
    let replaces = matches!(choice, Choice::Fresh { replaces: true, .. });
    let (environment, enriched) = follow(machine, choice).await?;
    enriched.config().validate().context("invalid NodeConfig")?;
    if let Some(path) = &options.config_cache {
        enriched.save(&machine.host, path)?;
    }
    let phases = Phases { machine, environment: &environment, enriched: &enriched, daemons: &options.daemons };
    if replaces || !options.skips(Phase::Config) {
        phases.config().await?;
    }
    if !options.skips(Phase::Run) {
        phases.run().await?;
    }
    Ok(())
}

fn log_config(gathered: &MergedConfig) {
    for warning in &gathered.warnings {
        log::warn!("{warning}");
    }
    for nothing in &gathered.nothing {
        log::warn!("no NodeConfig in {nothing}");
    }
}

/// Returns the NodeConfig with its facts, and the environment of the NodeConfig. The facts are gathered in this environment.
async fn follow(machine: &Machine, choice: Choice) -> anyhow::Result<(Environment, Enriched)> {
    match choice {
        Choice::Kept(enriched) => Ok((machine.environment.of_node(&enriched.config()), enriched)),
        Choice::Fresh { config, .. } => {
            let environment = machine.environment.of_node(&config);
            let enriched = enrich::enrich(machine, &environment, config).await?;
            Ok((environment, enriched))
        }
    }
}
