//! Settings of the agent: a document of Kerf's own, in a MIME part next to the NodeConfigs or in a file of the image. Each duty
//! of the agent has its own section, in one of the modules below. Omitted fields have a default, and an unknown field is an
//! error with its name.

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

/// Settings of the agent in addition to its NodeConfig.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentSettings {
    /// Program that configures the instance.
    pub mode: Mode,
    /// Address of the metrics server.
    pub metrics: Listen,
    /// systemd units that bootstrap restarts, in order, after their files are written.
    pub units: Vec<String>,
    /// Gates that a node must pass before it may run pods.
    pub gates: GateSettings,
    /// Health conditions during operation.
    pub health: HealthSettings,
    /// Notices about the end of the instance.
    pub notices: NoticeSettings,
    /// Rules of drains.
    pub drain: DrainSettings,
    /// Measurement of the instance's utilization.
    pub usage: UsageSettings,
}

/// Parses a settings document, YAML or JSON.
///
/// # Errors
/// Returns a [`NodeConfigError`] with line and field.
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
