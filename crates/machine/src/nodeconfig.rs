//! `node.eks.aws/v1alpha1` NodeConfig: EKS's description of one instance. Fields and merge rules are those of nodeadm. Unlike
//! nodeadm, unknown fields are reported, and an error has its line and field.

mod instance;
pub mod labels;
mod merge;
mod read;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use api::endpoint;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::quote::quote;

pub use instance::{DisabledMount, EbsStorage, EbsVolume, Instance, LocalStorage, LocalStorageStrategy, Network};
pub use merge::{merge_json, merge_toml};
pub(crate) use read::read_typed;
pub use read::{Parsed, check_syntax, is_mapping, is_node_config, parse, parse_strict};

/// `apiVersion` of a NodeConfig.
pub const API_VERSION: &str = "node.eks.aws/v1alpha1";
/// Begin of `apiVersion` in any version of the API.
const GROUP: &str = "node.eks.aws/";
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
    #[serde(default, deserialize_with = "or_defaults", skip_serializing_if = "BTreeMap::is_empty")]
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

/// Settings of kubelet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kubelet {
    /// A `kubelet.config.k8s.io/v1beta1` KubeletConfiguration, merged over the generated one as a drop-in.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// Command line flags, appended after all others.
    #[serde(default, deserialize_with = "texts", skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// CEL expression for the number of pods.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub max_pods_expression: String,
}

/// Deserializes a `null` value as the absence of the field, as Go does.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(input: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

/// Deserializes a map in which a `null` value is the default of its type.
fn or_defaults<'de, D, T>(input: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    let all: BTreeMap<String, Option<T>> = or_default(input)?;
    Ok(all.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect())
}

/// Deserializes a list in which a `null` value is an empty text.
fn texts<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    let all: Vec<Option<String>> = or_default(input)?;
    Ok(all.into_iter().map(Option::unwrap_or_default).collect())
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
    /// A value without a meaning; an error only in strict mode.
    #[error("line {line}: {path} is `{value}`, which has no effect; write one of {}", known.join(", "))]
    UnknownValue {
        /// 1-based line.
        line: u64,
        /// Dotted path of the field.
        path: String,
        /// The value, truncated.
        value: String,
        /// Values with a meaning.
        known: &'static [&'static str],
    },
    /// A key that is repeated; an error only in strict mode.
    #[error("line {line}: {path} has no effect, because line {by} sets it again; merge them")]
    Repeated {
        /// 1-based line of the ignored key.
        line: u64,
        /// Dotted path of the key.
        path: String,
        /// 1-based line of the key that counts.
        by: u64,
    },
    /// A document after the first one; an error only in strict mode.
    #[error("line {line}: the document that begins here has no effect; write each document as a MIME part of its own")]
    LaterDocument {
        /// 1-based line.
        line: u64,
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

impl NodeConfigError {
    /// Reports whether content is ignored that nodeadm would use elsewhere.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Repeated { .. } | Self::LaterDocument { .. } | Self::UnknownValue { .. })
    }
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
        if endpoint::is_plain_remote(&cluster.api_server_endpoint) {
            let value = quote(&cluster.api_server_endpoint);
            return Err(NodeConfigError::Invalid {
                field: "spec.cluster.apiServerEndpoint",
                value,
                cure: endpoint::CURE,
            });
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
