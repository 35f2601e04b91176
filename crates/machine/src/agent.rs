//! The agent's own settings: the one document that is ours, in a MIME part beside the NodeConfigs or in a file of the image.
//! Each of the agent's duties has its section in a file of its own below; what is left out has a sensible default, and an
//! unknown field is an error that names it.

use serde::{Deserialize, Serialize};

/// Media type of the settings as a part of user data.
pub const MEDIA_TYPE: &str = "application/kerf.sh-agent+yaml";

/// What an agent is told beside its NodeConfig.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentSettings {
    /// systemd units that bootstrap restarts, in order, once their files are written.
    pub units: Vec<String>,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self { units: vec!["containerd.service".to_owned(), "kubelet.service".to_owned()] }
    }
}
