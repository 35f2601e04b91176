//! Instance settings in an EC2NodeClass: disks, network, metadata service and CPU.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::resources::schema_rules::cel_rule;
use crate::units::quantity::Quantity;

/// Pattern of volume sizes: 1 to 59000 Gi, 1 to 64000 G, 1 to 58 Ti, 1 to 64 T.
const VOLUME_SIZE: &str = "^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G|([1-9]|[1-4][0-9]|5[0-8])Ti|([1-9]|[1-5][0-9]|6[0-4])T)$";

/// Block device of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceMapping {
    /// Name of the device, for example `/dev/xvda`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// EBS volume of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebs: Option<BlockDevice>,
    /// True if kubelet's directory is on this device. At most one device may set it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub root_volume: bool,
}

/// EBS volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    cel_rule("has(self.snapshotID) || has(self.volumeSize)", "snapshotID or volumeSize must be defined"),
    cel_rule(
        "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
        "snapshotID must be set when volumeInitializationRate is set",
    ),
]))]
pub struct BlockDevice {
    /// True if the volume is deleted when the instance terminates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    /// True if the volume is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// I/O operations per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    /// KMS key of the encryption.
    #[serde(default, rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    /// Snapshot from which the volume is created.
    #[serde(default, rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Throughput in MiB per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    /// Rate in MiB per second at which the snapshot is copied into the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 100, "maximum" = 300))]
    pub volume_initialization_rate: Option<i32>,
    /// Size in Gi, G, Ti or T.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Quantity", extend("pattern" = VOLUME_SIZE))]
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
    /// Provisioned IOPS SSD.
    Io1,
    /// Provisioned IOPS SSD with higher durability.
    Io2,
    /// General purpose SSD, previous generation.
    Gp2,
    /// Cold HDD.
    Sc1,
    /// Throughput optimized HDD.
    St1,
    /// General purpose SSD.
    Gp3,
}

impl VolumeType {
    /// Returns the type's name in the API.
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

/// Network interface of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// Index of the network card.
    #[schemars(extend("minimum" = 0))]
    pub network_card_index: i32,
    /// Index of the device on its network card.
    #[schemars(extend("minimum" = 0))]
    pub device_index: i32,
    /// Type of the interface.
    pub interface_type: InterfaceType,
}

/// Type of a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceType {
    /// IP without EFA.
    Interface,
    /// EFA without IP.
    EfaOnly,
}

/// Policy for instance store disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum InstanceStorePolicy {
    /// The disks form one RAID 0 array for the files of kubelet and the container runtime.
    #[serde(rename = "RAID0")]
    Raid0,
}

/// Settings of the instance metadata service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataOptions {
    /// State of the service's HTTP endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_endpoint: Option<Toggle>,
    /// State of the service's IPv6 endpoint.
    #[serde(rename = "httpProtocolIPv6", skip_serializing_if = "Option::is_none")]
    pub http_protocol_ipv6: Option<Toggle>,
    /// Maximum number of network hops of a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 64))]
    pub http_put_response_hop_limit: Option<i64>,
    /// Policy for session tokens.
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

/// State of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Toggle {
    /// The option is on.
    Enabled,
    /// The option is off.
    Disabled,
}

impl Toggle {
    /// Returns the state's name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
        }
    }
}

/// Policy for session tokens of the instance metadata service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokensRequirement {
    /// Tokens are required: only version 2 of the service (IMDSv2).
    Required,
    /// Tokens are optional: version 1 too.
    Optional,
}

impl TokensRequirement {
    /// Returns the policy's name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Optional => "optional",
        }
    }
}

/// Timeouts of idle connections, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [cel_rule(
    "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
    "at least one of 'tcpEstablishedTimeout', 'udpStreamTimeout' and 'udpTimeout' must be set",
)]))]
pub struct ConnectionTracking {
    /// Timeout of established TCP connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 60, "maximum" = 432_000))]
    pub tcp_established_timeout: Option<i32>,
    /// Timeout of UDP flows with more than one request and response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 60, "maximum" = 180))]
    pub udp_stream_timeout: Option<i32>,
    /// Timeout of UDP flows with traffic in one direction or a single request and response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 30, "maximum" = 60))]
    pub udp_timeout: Option<i32>,
}

/// CPU options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuOptions {
    /// State of nested virtualization, with which an instance can run virtual machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nested_virtualization: Option<Toggle>,
}
