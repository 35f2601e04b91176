//! Cache between two runs of `init`: the NodeConfig and the facts about the machine. With the cache the second of two phases
//! sends no requests and makes the same decisions.

use std::path::Path;

use machine::nodeconfig::{API_VERSION, KIND, NodeConfig, NodeConfigSpec};
use serde::{Deserialize, Serialize};

use crate::bootstrap::plan::containerd::SANDBOX_IMAGE;
use crate::host::{Host, HostError, put};

/// A NodeConfig with the facts about the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Enriched {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Always [`KIND`].
    pub kind: String,
    /// Desired configuration of the machine.
    pub spec: NodeConfigSpec,
    /// Facts about the machine.
    pub status: Status,
}

/// Facts about the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The EC2 instance.
    pub instance: Instance,
    /// Values that users cannot set.
    #[serde(default)]
    pub default: Defaults,
    /// Version of kubelet on the machine, such as `v1.36.0`.
    pub kubelet_version: String,
}

/// The EC2 instance, as IMDS and EC2 describe it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Instance id, such as `i-0123456789abcdef0`.
    pub id: String,
    /// Region, such as `us-west-2`.
    pub region: String,
    /// Instance type, such as `m5.large`.
    #[serde(rename = "type")]
    pub instance_type: String,
    /// Zone, such as `us-west-2a`.
    pub availability_zone: String,
    /// Hardware address of the primary interface.
    pub mac: String,
    /// EC2's private DNS name; empty where the node is named by its instance id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub private_dns_name: String,
}

/// Values that users cannot set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Defaults {
    /// Image of pod sandboxes.
    pub sandbox_image: String,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { sandbox_image: SANDBOX_IMAGE.to_owned() }
    }
}

impl Enriched {
    /// Combines `config` with the machine of `status`.
    #[must_use]
    pub fn new(config: NodeConfig, status: Status) -> Self {
        Self { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), spec: config.spec, status }
    }

    /// Returns the NodeConfig alone.
    #[must_use]
    pub fn config(&self) -> NodeConfig {
        NodeConfig { spec: self.spec.clone(), ..NodeConfig::new() }
    }

    /// Reads the cache at `path`; `None` where it does not exist or, with a warning, is invalid: its facts can be gathered
    /// again.
    #[must_use]
    pub fn load(host: &Host, path: &Path) -> Option<Self> {
        let content = match std::fs::read(host.locate(path)) {
            Ok(content) => content,
            Err(error) => {
                log::debug!(path:% = path.display(), error:% = error; "cannot write the cache");
                return None;
            }
        };
        let parsed = machine::document::read_json(&content);
        parsed
            .inspect_err(
                |error| log::warn!(path:% = path.display(), error:% = error; "invalid cache, writing it again"),
            )
            .ok()
    }

    /// Writes the cache to `path`.
    ///
    /// # Errors
    /// [`HostError::File`].
    pub fn save(&self, host: &Host, path: &Path) -> Result<(), HostError> {
        let content = serde_json::to_vec_pretty(self).unwrap_or_default();
        put(&host.locate(path), &content, 0o644).map(|_| ())
    }
}
