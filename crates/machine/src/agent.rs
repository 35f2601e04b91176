//! The agent's own settings: the one document that is ours, in a MIME part beside the NodeConfigs or in a file of the image.
//! Each of the agent's duties has its section in a file of its own below; what is left out has a sensible default, and an
//! unknown field is an error that names it.

pub mod drain;
pub mod gates;
pub mod health;
pub mod mode;
pub mod notices;
pub mod span;
pub mod usage;

use serde::{Deserialize, Serialize};

use crate::nodeconfig::{self, NodeConfigError};
use drain::DrainSettings;
use gates::GateSettings;
use health::HealthSettings;
use mode::{Listen, Mode};
use notices::NoticeSettings;
use usage::UsageSettings;

/// Media type of the settings as a part of user data.
pub const MEDIA_TYPE: &str = "application/kerf.sh-agent+yaml";
/// Name of the Bottlerocket host container that runs the agent; its `user-data` is the settings in base64.
pub const HOST_CONTAINER: &str = "kerf-agent";

/// The agent's settings beside its NodeConfig.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentSettings {
    /// Who configures the machine.
    pub mode: Mode,
    /// Where metrics are served.
    pub metrics: Listen,
    /// systemd units that bootstrap restarts, in order, once their files are written.
    pub units: Vec<String>,
    /// What a node has to pass before it may serve.
    pub gates: GateSettings,
    /// What is watched while it serves.
    pub health: HealthSettings,
    /// What is announced of the machine's end.
    pub notices: NoticeSettings,
    /// How the node is emptied.
    pub drain: DrainSettings,
    /// What the machine really uses.
    pub usage: UsageSettings,
}

/// Reads a settings document, YAML or JSON.
///
/// # Errors
/// [`NodeConfigError`] with line and field.
pub fn parse(text: &str) -> Result<AgentSettings, NodeConfigError> {
    if text.trim().is_empty() {
        return Ok(AgentSettings::default());
    }
    nodeconfig::read_typed(text)
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            metrics: Listen::default(),
            units: vec!["containerd.service".to_owned(), "kubelet.service".to_owned()],
            gates: GateSettings::default(),
            health: HealthSettings::default(),
            notices: NoticeSettings::default(),
            drain: DrainSettings::default(),
            usage: UsageSettings::default(),
        }
    }
}
