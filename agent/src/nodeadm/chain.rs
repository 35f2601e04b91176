//! Merge of all sources, and the choice between their current content and the cache.

use machine::nodeconfig::NodeConfig;
use thiserror::Error;

use super::Machine;
use super::cache::Enriched;
use super::source::{Source, SourceContent};

/// Merged content of all sources.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MergedConfig {
    /// Merge of all NodeConfigs; `None` when no source has one.
    pub config: Option<NodeConfig>,
    /// Ignored input, one sentence each.
    pub warnings: Vec<String>,
    /// Reasons why sources have no NodeConfig, one sentence for each such source.
    pub nothing: Vec<String>,
}

/// Reads all sources in order; later ones override earlier ones.
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

    /// Returns the merge of all NodeConfigs.
    ///
    /// # Errors
    /// [`NoConfig`] when no source has one.
    pub fn into_config(self) -> Result<NodeConfig, NoConfig> {
        self.config.ok_or(NoConfig { reasons: self.nothing.join("; ") })
    }
}

/// Error: neither the sources nor the cache have a NodeConfig.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no NodeConfig found, and none in the cache; add one to a source ({reasons})")]
pub struct NoConfig {
    /// Reason of each source.
    pub reasons: String,
}

/// The NodeConfig to use.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// The cache. The sources are unchanged or empty, so no request for facts is needed.
    Kept(Enriched),
    /// The sources. Their content is new or has changed.
    Fresh {
        /// Merged NodeConfig of the sources.
        config: NodeConfig,
        /// Set where the NodeConfig replaces an earlier one, so that files must be written even if that phase is skipped.
        replaces: bool,
    },
}

/// Chooses between the sources and the cache.
///
/// # Errors
/// [`NoConfig`] when both are empty.
pub fn choose(gathered: MergedConfig, kept: Option<Enriched>) -> Result<Choice, NoConfig> {
    match kept {
        None => Ok(Choice::Fresh { config: gathered.into_config()?, replaces: false }),
        Some(kept) => Ok(match gathered.config {
            Some(config) if config.spec != kept.spec => Choice::Fresh { config, replaces: true },
            _ => Choice::Kept(kept),
        }),
    }
}
