//! `node.eks.aws/v1alpha1` NodeConfig: what EKS calls the description of one machine. The fields and the merge rules
//! are nodeadm's; unlike nodeadm a misspelt field is named, and an error says its line and field.

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
pub use read::{Parsed, parse, parse_strict};
pub(crate) use read::{nearest, read_typed};

/// The `apiVersion` of a NodeConfig.
pub const API_VERSION: &str = "node.eks.aws/v1alpha1";
/// The `kind` of a NodeConfig.
pub const KIND: &str = "NodeConfig";

/// The feature gate that names a node after its instance, not after its private DNS name.
pub const INSTANCE_ID_NODE_NAME: &str = "InstanceIdNodeName";
/// The feature gate that has images pulled by the SOCI snapshotter, many layers at once.
pub const FAST_IMAGE_PULL: &str = "FastImagePull";

/// One NodeConfig document, or several merged.
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
    /// What the machine shall be.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: NodeConfigSpec,
}

/// What the machine shall be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfigSpec {
    /// The cluster to join.
    #[serde(default, deserialize_with = "or_default")]
    pub cluster: Cluster,
    /// The container runtime.
    #[serde(default, deserialize_with = "or_default")]
    pub containerd: Containerd,
    /// The machine below Kubernetes.
    #[serde(default, deserialize_with = "or_default")]
    pub instance: Instance,
    /// kubelet.
    #[serde(default, deserialize_with = "or_default")]
    pub kubelet: Kubelet,
    /// Gate name to state: [`INSTANCE_ID_NODE_NAME`], [`FAST_IMAGE_PULL`].
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
}

/// The cluster to join; the first four fields are required.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Name of the EKS cluster.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// URL of the API server.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub api_server_endpoint: String,
    /// The cluster's CA bundle: base64 of PEM.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub certificate_authority: String,
    /// Service CIDR, IPv4 or IPv6; gives the cluster DNS address and the IP family.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub cidr: String,
    /// Local cluster on an Outpost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_outpost: Option<bool>,
    /// Cluster id; required on an Outpost.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub id: String,
}

/// The container runtime.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Containerd {
    /// TOML text to lay over the rendered configuration.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub config: String,
    /// Deep-merged over the OCI base runtime specification.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Map::is_empty")]
    pub base_runtime_spec: Map<String, Value>,
}

/// The machine below Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Instance store disks.
    #[serde(default, deserialize_with = "or_default")]
    pub local_storage: LocalStorage,
    /// Service name (or `default` for the whole machine) to environment variables.
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
    /// `RAID0`, `RAID10` or `Mount`; absent leaves the disks alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<LocalStorageStrategy>,
    /// Where disks are mounted.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub mount_path: String,
    /// What is not moved onto the array; without effect where each disk is mounted by itself.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub disabled_mounts: Vec<DisabledMount>,
}

/// A folder that stays on the root disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DisabledMount {
    /// containerd's images and containers.
    Containerd,
    /// Logs of pods.
    PodLogs,
    /// The SOCI snapshotter's layers.
    #[serde(rename = "SOCI")]
    Soci,
}

/// What becomes of instance store disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LocalStorageStrategy {
    /// One striped array for kubelet, containerd and pod logs.
    #[serde(rename = "RAID0")]
    Raid0,
    /// One striped and mirrored array.
    #[serde(rename = "RAID10")]
    Raid10,
    /// Each disk mounted by itself.
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
    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

/// kubelet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kubelet {
    /// A `kubelet.config.k8s.io/v1beta1` KubeletConfiguration, laid over the generated one as a drop-in.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// Command line flags, put after all others.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// CEL expression for the number of pods.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub max_pods_expression: String,
}

/// A `null` where a value may stand is the same as the field's absence, as in Go.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(input: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

/// Why a document is no NodeConfig that a machine can follow.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NodeConfigError {
    /// Not YAML, or a value of the wrong type.
    #[error("line {line}, column {column}{}: {problem}", in_field(field))]
    Unreadable {
        /// 1-based line.
        line: u64,
        /// 1-based column.
        column: u64,
        /// Dotted path of the field; empty when the document itself cannot be read.
        field: String,
        /// What the reader says.
        problem: String,
    },
    /// A field that there is not; an error only where documents are read strictly.
    #[error("line {line}: {path} is not a NodeConfig field and has no effect; {hint}")]
    UnknownField {
        /// 1-based line.
        line: u64,
        /// Dotted path of the field.
        path: String,
        /// What it may have been meant to be, or what there is.
        hint: String,
    },
    /// A text inside the document that is no TOML.
    #[error("line {line}, {field}: invalid TOML in line {inner_line}: {problem}")]
    NotToml {
        /// 1-based line of the field.
        line: u64,
        /// Dotted path of the field.
        field: &'static str,
        /// 1-based line within the text.
        inner_line: usize,
        /// What the reader says.
        problem: String,
    },
    /// YAML, but of something else.
    #[error("this is {found}, not a {API_VERSION} {KIND}; begin with `apiVersion: {API_VERSION}` and `kind: {KIND}`")]
    WrongKind {
        /// What it is.
        found: String,
    },
    /// A required field is absent.
    #[error("{field} is missing; {cure}")]
    Missing {
        /// Dotted path of the field.
        field: &'static str,
        /// What to write.
        cure: &'static str,
    },
    /// A field has a value that cannot be used.
    #[error("{field} is `{value}`; {cure}")]
    Invalid {
        /// Dotted path of the field.
        field: &'static str,
        /// What it says, shortened.
        value: String,
        /// What to write instead.
        cure: &'static str,
    },
}

fn in_field(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!(", {field}") }
}

impl NodeConfig {
    /// An empty document of the right version and kind.
    #[must_use]
    pub fn new() -> Self {
        Self { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), ..Self::default() }
    }

    /// Whether a feature gate is on; gates are off by default.
    #[must_use]
    pub fn gate(&self, name: &str) -> bool {
        self.spec.feature_gates.get(name).copied().unwrap_or_default()
    }

    /// Checks what a machine needs to join: the four cluster fields, readable, and an id on an Outpost.
    ///
    /// # Errors
    /// [`NodeConfigError::Missing`] or [`NodeConfigError::Invalid`] for the first field that is not usable.
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
    /// Whether this is a local cluster on an Outpost.
    #[must_use]
    pub fn on_outpost(&self) -> bool {
        self.enable_outpost == Some(true)
    }

    /// The CA bundle as bytes of PEM.
    ///
    /// # Errors
    /// [`NodeConfigError::Invalid`] when the field is not base64.
    pub fn ca_bundle(&self) -> Result<Vec<u8>, NodeConfigError> {
        let text: String = self.certificate_authority.split_ascii_whitespace().collect();
        STANDARD.decode(text).map_err(|_| NodeConfigError::Invalid {
            field: "spec.cluster.certificateAuthority",
            value: quote(&self.certificate_authority),
            cure: "write the CA bundle in base64",
        })
    }

    /// The address of the cluster's DNS service: host 10 of an IPv4 service CIDR, host `a` of an IPv6 one.
    ///
    /// # Errors
    /// [`NodeConfigError::Invalid`] when `cidr` is not an address and a prefix length.
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
