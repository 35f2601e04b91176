//! What one start of `init` keeps for the next: the NodeConfig and what was found out about the machine, so that the
//! second of two phases neither asks again nor decides otherwise.

use std::path::Path;

use machine::nodeconfig::{API_VERSION, KIND, NodeConfig, NodeConfigSpec};
use serde::{Deserialize, Serialize};

use crate::bootstrap::containerd::SANDBOX_IMAGE;
use crate::host::{Host, HostError, put};

/// A NodeConfig with what was found out about the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Enriched {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Always [`KIND`].
    pub kind: String,
    /// What the machine shall be.
    pub spec: NodeConfigSpec,
    /// What the machine is.
    pub status: Status,
}

/// What the machine is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The EC2 instance.
    pub instance: Instance,
    /// Values that users may not choose.
    #[serde(default)]
    pub default: Defaults,
    /// Version of the kubelet on the machine, such as `v1.36.0`.
    pub kubelet_version: String,
}

/// The EC2 instance, as metadata and EC2 describe it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Such as `i-0123456789abcdef0`.
    pub id: String,
    /// Such as `us-west-2`.
    pub region: String,
    /// Such as `m5.large`.
    #[serde(rename = "type")]
    pub instance_type: String,
    /// Such as `us-west-2a`.
    pub availability_zone: String,
    /// Hardware address of the primary interface.
    pub mac: String,
    /// EC2's private DNS name; empty where the node is named by its instance id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub private_dns_name: String,
}

/// Values that users may not choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Defaults {
    /// The image of pod sandboxes.
    pub sandbox_image: String,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { sandbox_image: SANDBOX_IMAGE.to_owned() }
    }
}

impl Enriched {
    /// `config` on the machine that `status` describes.
    #[must_use]
    pub fn new(config: NodeConfig, status: Status) -> Self {
        Self { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), spec: config.spec, status }
    }

    /// The NodeConfig alone.
    #[must_use]
    pub fn config(&self) -> NodeConfig {
        NodeConfig { spec: self.spec.clone(), ..NodeConfig::new() }
    }

    /// Reads what was kept at `path`; `None` where nothing was, and, with a warning, where it cannot be understood:
    /// what it holds can be found out again.
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

    /// Keeps this at `path`.
    ///
    /// # Errors
    /// [`HostError::File`].
    pub fn save(&self, host: &Host, path: &Path) -> Result<(), HostError> {
        let content = serde_json::to_vec_pretty(self).unwrap_or_default();
        put(&host.locate(path), &content, 0o644).map(|_| ())
    }
}
