//! All sources together, and the choice between what they say now and what was kept from the last time.

use machine::nodeconfig::NodeConfig;
use thiserror::Error;

use super::Machine;
use super::cache::Enriched;
use super::source::{Source, SourceContent};

/// What all sources together say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MergedConfig {
    /// The sum of all NodeConfigs; `None` when no source holds one.
    pub config: Option<NodeConfig>,
    /// What was read over, one sentence each.
    pub warnings: Vec<String>,
    /// Why sources hold no NodeConfig, one sentence for each of those.
    pub nothing: Vec<String>,
}

/// Reads all sources in order; later ones are laid over earlier ones.
///
/// # Errors
/// The first source that is unusable, as opposed to empty.
pub async fn gather(sources: &[Source], machine: &Machine) -> anyhow::Result<MergedConfig> {
    let mut gathered = MergedConfig::default();
    for source in sources {
        gathered.add(source, source.read(machine).await?);
    }
    Ok(gathered)
}

impl MergedConfig {
    fn add(&mut self, source: &Source, found: SourceContent) {
        match found {
            SourceContent::Nothing(reason) => self.nothing.push(format!("{source}: {reason}")),
            SourceContent::Config { config, warnings } => {
                self.config.get_or_insert_with(NodeConfig::new).merge(*config);
                self.warnings.extend(warnings.into_iter().map(|warning| format!("{source}: {warning}")));
            }
        }
    }

    /// The sum of all NodeConfigs.
    ///
    /// # Errors
    /// [`NoConfig`] when no source holds one.
    pub fn into_config(self) -> Result<NodeConfig, NoConfig> {
        self.config.ok_or(NoConfig { reasons: self.nothing.join("; ") })
    }
}

/// No source holds a NodeConfig and none was kept.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no NodeConfig found, and none in the cache; add one to a source ({reasons})")]
pub struct NoConfig {
    /// Why each source holds none.
    pub reasons: String,
}

/// The NodeConfig to follow.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// What was kept is still what the sources say, or they say nothing: the machine need not be asked again.
    Kept(Enriched),
    /// The sources say something else than before, or something for the first time.
    Fresh {
        /// What they say.
        config: NodeConfig,
        /// Whether it replaces something that was followed, so that files must be written even if that is skipped.
        replaces: bool,
    },
}

/// Chooses between what the sources say and what was kept.
///
/// # Errors
/// [`NoConfig`] when there is neither.
pub fn choose(gathered: MergedConfig, kept: Option<Enriched>) -> Result<Choice, NoConfig> {
    match kept {
        None => Ok(Choice::Fresh { config: gathered.into_config()?, replaces: false }),
        Some(kept) => Ok(match gathered.config {
            Some(config) if config.spec != kept.spec => Choice::Fresh { config, replaces: true },
            _ => Choice::Kept(kept),
        }),
    }
}
