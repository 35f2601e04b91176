//! `node.eks.aws/v1alpha1` NodeConfig: EKS's description of one instance. Fields and merge rules are those of nodeadm. Unlike
//! nodeadm, unknown fields are reported, and an error has its line and field.

mod merge;
mod read;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::quote::quote;

pub use merge::{merge_json, merge_toml};
pub(crate) use read::read_typed;
pub use read::{Parsed, parse, parse_strict};

/// `apiVersion` of a NodeConfig.
pub const API_VERSION: &str = "node.eks.aws/v1alpha1";
/// `kind` of a NodeConfig.
pub const KIND: &str = "NodeConfig";

/// Feature gate: the node is named after its instance id, not after its private DNS name.
pub const INSTANCE_ID_NODE_NAME: &str = "InstanceIdNodeName";
/// Feature gate: the SOCI snapshotter pulls images, with many layers in parallel.
pub const FAST_IMAGE_PULL: &str = "FastImagePull";

/// One NodeConfig document, or several merged ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfig {
    /// Always [`API_VERSION`].
    #[serde(default)]
    pub api_version: String,
    /// Always [`KIND`].
    #[serde(default)]
    pub kind: String,
    /// Object metadata; has no effect.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: Map<String, Value>,
    /// Desired configuration of the instance.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: NodeConfigSpec,
}

/// Desired configuration of the instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfigSpec {
    /// Cluster to join.
    #[serde(default, deserialize_with = "or_default")]
    pub cluster: Cluster,
    /// Container runtime.
    #[serde(default, deserialize_with = "or_default")]
    pub containerd: Containerd,
    /// Settings of the instance outside Kubernetes.
    #[serde(default, deserialize_with = "or_default")]
    pub instance: Instance,
    /// Settings of kubelet.
    #[serde(default, deserialize_with = "or_default")]
    pub kubelet: Kubelet,
    /// State of feature gates by name: [`INSTANCE_ID_NODE_NAME`], [`FAST_IMAGE_PULL`].
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
}

/// Cluster to join; the first four fields are required.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Name of the EKS cluster.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// URL of the API server.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub api_server_endpoint: String,
    /// CA bundle of the cluster: base64 of PEM.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub certificate_authority: String,
    /// Service CIDR, IPv4 or IPv6; defines the cluster DNS address and the IP family.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub cidr: String,
    /// Local cluster on an Outpost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_outpost: Option<bool>,
    /// Cluster id; required on an Outpost.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub id: String,
}

/// Container runtime.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Containerd {
    /// TOML text that is merged over the rendered configuration.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub config: String,
    /// Fields that are deep-merged over the OCI base runtime specification.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Map::is_empty")]
    pub base_runtime_spec: Map<String, Value>,
}

/// Settings of the instance outside Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Instance store disks.
    #[serde(default, deserialize_with = "or_default")]
    pub local_storage: LocalStorage,
    /// Environment variables by service name (or `default` for the whole instance).
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, BTreeMap<String, String>>,
    /// Name resolution.
    #[serde(default, deserialize_with = "or_default")]
    pub network: Network,
}

/// Instance store disks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalStorage {
    /// `RAID0`, `RAID10` or `Mount`; without a strategy the disks are not changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<LocalStorageStrategy>,
    /// Mount point of the disks.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub mount_path: String,
    /// Folders that are not moved to the array; no effect if each disk is mounted separately.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub disabled_mounts: Vec<DisabledMount>,
}

/// A folder that remains on the root disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DisabledMount {
    /// Images and containers of containerd.
    Containerd,
    /// Logs of pods.
    PodLogs,
    /// Layers of the SOCI snapshotter.
    #[serde(rename = "SOCI")]
    Soci,
}

/// Use of instance store disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LocalStorageStrategy {
    /// One striped array for kubelet, containerd and pod logs.
    #[serde(rename = "RAID0")]
    Raid0,
    /// One striped and mirrored array.
    #[serde(rename = "RAID10")]
    Raid10,
    /// Each disk mounted separately.
    Mount,
}

/// Name resolution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// Addresses of DNS servers.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<String>,
    /// Search domains.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
}

impl Network {
    /// Reports whether no setting is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

/// Settings of kubelet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kubelet {
    /// A `kubelet.config.k8s.io/v1beta1` KubeletConfiguration, merged over the generated one as a drop-in.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// Command line flags, appended after all others.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// CEL expression for the number of pods.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub max_pods_expression: String,
}

/// Deserializes a `null` value as the absence of the field, as Go does.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(input: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

/// Reason why a document is not a usable NodeConfig.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NodeConfigError {
    /// The document is not YAML, or a value has the wrong type.
    #[error("line {line}, column {column}{}: {problem}", in_field(field))]
    Unreadable {
        /// 1-based line.
        line: u64,
        /// 1-based column.
        column: u64,
        /// Dotted path of the field; empty if the document itself cannot be parsed.
        field: String,
        /// Message of the parser.
        problem: String,
    },
    /// An unknown field; an error only in strict mode.
    #[error("line {line}: {path} is not a NodeConfig field and has no effect; {hint}")]
    UnknownField {
        /// 1-based line.
        line: u64,
        /// Dotted path of the field.
        path: String,
        /// The similar known field, or all known fields.
        hint: String,
    },
    /// A text inside the document is not TOML.
    #[error("line {line}, {field}: invalid TOML in line {inner_line}: {problem}")]
    NotToml {
        /// 1-based line of the field.
        line: u64,
        /// Dotted path of the field.
        field: &'static str,
        /// 1-based line within the text.
        inner_line: usize,
        /// Message of the parser.
        problem: String,
    },
    /// The document is YAML of another kind.
    #[error("this is {found}, not a {API_VERSION} {KIND}; begin with `apiVersion: {API_VERSION}` and `kind: {KIND}`")]
    WrongKind {
        /// Kind of the document.
        found: String,
    },
    /// A required field is missing.
    #[error("{field} is missing; {cure}")]
    Missing {
        /// Dotted path of the field.
        field: &'static str,
        /// Fix.
        cure: &'static str,
    },
    /// A field has an invalid value.
    #[error("{field} is `{value}`; {cure}")]
    Invalid {
        /// Dotted path of the field.
        field: &'static str,
        /// The value, truncated.
        value: String,
        /// Fix.
        cure: &'static str,
    },
}

fn in_field(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!(", {field}") }
}

impl NodeConfig {
    /// Creates an empty document with the correct version and kind.
    #[must_use]
    pub fn new() -> Self {
        Self { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), ..Self::default() }
    }

    /// Reports whether a feature gate is on; gates are off by default.
    #[must_use]
    pub fn gate(&self, name: &str) -> bool {
        self.spec.feature_gates.get(name).copied().unwrap_or_default()
    }

    /// Validates the fields that an instance needs to join the cluster: the four cluster fields, and an id on an Outpost.
    ///
    /// # Errors
    /// Returns [`NodeConfigError::Missing`] or [`NodeConfigError::Invalid`] for the first unusable field.
    pub fn validate(&self) -> Result<(), NodeConfigError> {
        let cluster = &self.spec.cluster;
        let required = [
            ("spec.cluster.name", &cluster.name, "set it to the name of the EKS cluster"),
            ("spec.cluster.apiServerEndpoint", &cluster.api_server_endpoint, "set it to the URL of the API server"),
            ("spec.cluster.certificateAuthority", &cluster.certificate_authority, "set it to the CA bundle in base64"),
            ("spec.cluster.cidr", &cluster.cidr, "set it to the service CIDR, such as 10.100.0.0/16"),
        ];
        for (field, value, cure) in required {
            if value.is_empty() {
                return Err(NodeConfigError::Missing { field, cure });
            }
        }
        if cluster.on_outpost() && cluster.id.is_empty() {
            let cure = "set it to the id of the cluster, which Outposts require";
            return Err(NodeConfigError::Missing { field: "spec.cluster.id", cure });
        }
        cluster.ca_bundle()?;
        cluster.dns_ip().map(|_| ())
    }
}

impl Cluster {
    /// Reports whether this is a local cluster on an Outpost.
    #[must_use]
    pub fn on_outpost(&self) -> bool {
        self.enable_outpost == Some(true)
    }

    /// Returns the CA bundle as bytes of PEM.
    ///
    /// # Errors
    /// Returns [`NodeConfigError::Invalid`] if the field is not base64.
    pub fn ca_bundle(&self) -> Result<Vec<u8>, NodeConfigError> {
        let text: String = self.certificate_authority.split_ascii_whitespace().collect();
        STANDARD.decode(text).map_err(|_| NodeConfigError::Invalid {
            field: "spec.cluster.certificateAuthority",
            value: quote(&self.certificate_authority),
            cure: "write the CA bundle in base64",
        })
    }

    /// Returns the address of the cluster's DNS service: host 10 of an IPv4 service CIDR, host `a` of an IPv6 one.
    ///
    /// # Errors
    /// Returns [`NodeConfigError::Invalid`] if `cidr` is not an address and a prefix length.
    pub fn dns_ip(&self) -> Result<IpAddr, NodeConfigError> {
        dns_ip(&self.cidr).ok_or_else(|| NodeConfigError::Invalid {
            field: "spec.cluster.cidr",
            value: quote(&self.cidr),
            cure: "write the service CIDR of the cluster, such as 10.100.0.0/16",
        })
    }
}

fn dns_ip(cidr: &str) -> Option<IpAddr> {
    let (address, length) = cidr.split_once('/')?;
    let length: u8 = length.parse().ok()?;
    match address.parse().ok()? {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            (length <= 32).then(|| Ipv4Addr::new(a, b, c, 10).into())
        }
        IpAddr::V6(address) => {
            let prefix = u128::from(address) & !0xffff;
            (length <= 128).then(|| Ipv6Addr::from(prefix | 0xa).into())
        }
    }
}
