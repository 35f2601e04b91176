//! What a class says about a machine's disks, network, metadata service and processor.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// One disk of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceMapping {
    /// Name of the device, for example `/dev/xvda`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The EBS volume behind the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebs: Option<BlockDevice>,
    /// Whether kubelet's folder is on this disk; at most one disk says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub root_volume: bool,
}

/// An EBS volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDevice {
    /// Whether the volume ends with the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    /// Whether the volume is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// Operations a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    /// Key that the volume is encrypted with.
    #[serde(default, rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    /// Snapshot that the volume is made from.
    #[serde(default, rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// MiB a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    /// MiB a second at which the snapshot is copied into the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_initialization_rate: Option<i32>,
    /// Size in Gi, G, Ti or T.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_size: Option<Quantity>,
    /// Type of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<VolumeType>,
}

/// Type of an EBS volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VolumeType {
    /// Magnetic, previous generation.
    Standard,
    /// Provisioned operations.
    Io1,
    /// Provisioned operations, more durable.
    Io2,
    /// General purpose, previous generation.
    Gp2,
    /// Cold magnetic.
    Sc1,
    /// Throughput magnetic.
    St1,
    /// General purpose.
    Gp3,
}

impl VolumeType {
    /// The wire form.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Io1 => "io1",
            Self::Io2 => "io2",
            Self::Gp2 => "gp2",
            Self::Sc1 => "sc1",
            Self::St1 => "st1",
            Self::Gp3 => "gp3",
        }
    }
}

/// One network interface of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// Card that the interface is on.
    pub network_card_index: i32,
    /// Index of the interface on its card.
    pub device_index: i32,
    /// What the interface can do.
    pub interface_type: InterfaceType,
}

/// What a network interface can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceType {
    /// IP, without EFA.
    Interface,
    /// EFA, without IP.
    EfaOnly,
}

/// What becomes of a machine's own disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum InstanceStorePolicy {
    /// They are striped into one that holds kubelet's and the container runtime's files.
    #[serde(rename = "RAID0")]
    Raid0,
}

/// How the instance metadata service answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataOptions {
    /// Whether the service answers over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_endpoint: Option<Toggle>,
    /// Whether the service answers over IPv6.
    #[serde(rename = "httpProtocolIPv6", skip_serializing_if = "Option::is_none")]
    pub http_protocol_ipv6: Option<Toggle>,
    /// How many hops an answer may travel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_put_response_hop_limit: Option<i64>,
    /// Whether a session token is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_tokens: Option<TokensRequirement>,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            http_endpoint: Some(Toggle::Enabled),
            http_protocol_ipv6: Some(Toggle::Disabled),
            http_put_response_hop_limit: Some(1),
            http_tokens: Some(TokensRequirement::Required),
        }
    }
}

/// Something that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Toggle {
    /// On.
    Enabled,
    /// Off.
    Disabled,
}

impl Toggle {
    /// The wire form.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
        }
    }
}

/// Whether a session token is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokensRequirement {
    /// Version 2 of the service only.
    Required,
    /// Version 1 as well.
    Optional,
}

impl TokensRequirement {
    /// The wire form.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Optional => "optional",
        }
    }
}

/// How long idle connections are tracked, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionTracking {
    /// Established TCP connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_established_timeout: Option<i32>,
    /// UDP flows that have seen more than one request and answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_stream_timeout: Option<i32>,
    /// UDP flows that have seen traffic one way or one transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_timeout: Option<i32>,
}

/// Settings of the processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuOptions {
    /// Whether the machine can run virtual machines itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nested_virtualization: Option<Toggle>,
}
