//! Requests and answers of launches: launch templates and fleets of type instant.

use serde::{Deserialize, Serialize};

use super::Tags;

/// A launch template to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchTemplateRequest {
    /// Name, with a hash of the other fields.
    pub name: String,
    /// Image id.
    pub image_id: String,
    /// Instance profile name.
    pub instance_profile: String,
    /// Security groups of the primary interface.
    pub security_group_ids: Vec<String>,
    /// Base64 of the user data.
    pub user_data: String,
    /// Volumes.
    pub block_devices: Vec<BlockDevice>,
    /// IMDS options.
    pub metadata: MetadataOptions,
    /// Public IPv4 address of the primary interface, if the EC2NodeClass sets it; ignored if `network_interfaces` is not empty.
    pub associate_public_ip: Option<bool>,
    /// Detailed monitoring.
    pub detailed_monitoring: bool,
    /// Network interfaces, each with the security groups above. An empty list means one plain primary interface.
    pub network_interfaces: Vec<NetworkInterface>,
    /// Idle timeouts of tracked connections, on all interfaces except those of kind `efa-only`.
    pub connection_tracking: Option<ConnectionTracking>,
    /// Tenancy and placement group.
    pub placement: Placement,
    /// Nested virtualization, on or off; `None` leaves the choice to EC2.
    pub nested_virtualization: Option<bool>,
    /// Nitro Enclaves, on or off.
    pub enclave: bool,
    /// Capacity reservations of the launch; `None` leaves the choice to EC2, which uses `open`.
    pub capacity_reservation: Option<ReservationSpecification>,
    /// Market type: `capacity-block` or `interruptible-capacity-reservation` for such a reservation. Never `spot`, because the
    /// fleet request sets it.
    pub market_type: Option<String>,
    /// True for spot launches: the template must also tag the spot instance request.
    pub spot: bool,
    /// Tags of the template itself and of the network interfaces.
    pub tags: Tags,
}

/// A network interface of a launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkInterface {
    /// Index of the network card; 0 is the first.
    pub card: u32,
    /// Device index on the card; device 0 of card 0 is the primary interface.
    pub device: u32,
    /// Traffic of the interface.
    pub kind: InterfaceKind,
    /// Public IPv4 address.
    pub associate_public_ip: Option<bool>,
    /// Number of IPv4 prefixes (/28).
    pub ipv4_prefixes: Option<u32>,
    /// Number of IPv6 prefixes (/80).
    pub ipv6_prefixes: Option<u32>,
    /// Number of IPv6 addresses.
    pub ipv6_addresses: Option<u32>,
    /// True if the first IPv6 address is the primary address, which never changes during the life of the instance.
    pub primary_ipv6: Option<bool>,
}

/// Traffic of a network interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceKind {
    /// IP.
    #[default]
    Interface,
    /// IP and EFA.
    Efa,
    /// EFA without IP.
    EfaOnly,
}

impl InterfaceKind {
    /// Returns EC2's value of `InterfaceType`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interface => "interface",
            Self::Efa => "efa",
            Self::EfaOnly => "efa-only",
        }
    }
}

/// Idle timeouts of tracked connections in seconds; `None` leaves the value to EC2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionTracking {
    /// Established TCP connections, 60 to 432,000.
    pub tcp_established: Option<u32>,
    /// UDP flows with replies, 60 to 180.
    pub udp_stream: Option<u32>,
    /// UDP flows in one direction, 30 to 60.
    pub udp: Option<u32>,
}

/// Tenancy and placement group of an instance; `None` leaves the value to EC2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Tenancy: `default` or `dedicated`.
    pub tenancy: Option<String>,
    /// Id of the placement group, `pg-...`.
    pub group_id: Option<String>,
    /// Partition of the placement group; 1 is the first.
    pub partition: Option<u32>,
}

/// Capacity reservations of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationSpecification {
    /// Preference: `capacity-reservations-only`, `open` or `none`.
    pub preference: String,
    /// Id of the one reservation to use, `cr-...`.
    pub id: Option<String>,
}

/// A dry run of RunInstances: one instance of the launch template, with these changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInstancesProbe {
    /// Name of the launch template; the version is `$Latest`.
    pub launch_template: String,
    /// Instance type.
    pub instance_type: String,
    /// Subnet.
    pub subnet_id: String,
    /// Tags of the instance and its volumes; the interfaces have the tags of the template.
    pub tags: Tags,
}

/// A volume of a launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockDevice {
    /// Device name, such as `/dev/xvda`.
    pub device: String,
    /// Size in GiB.
    pub size_gib: Option<u32>,
    /// Volume type, such as `gp3`.
    pub volume_type: Option<String>,
    /// Encryption at rest.
    pub encrypted: Option<bool>,
    /// Provisioned IOPS.
    pub iops: Option<u32>,
    /// Throughput in MiB/s.
    pub throughput: Option<u32>,
    /// Customer managed KMS key.
    pub kms_key_id: Option<String>,
    /// Source snapshot.
    pub snapshot_id: Option<String>,
    /// Deletion with the instance.
    pub delete_on_termination: Option<bool>,
    /// Initialization rate of the snapshot's blocks in MiB/s, 100 to 300.
    pub initialization_rate: Option<u32>,
}

/// IMDS options with EC2's values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataOptions {
    /// IMDS endpoint: `enabled` or `disabled`.
    pub http_endpoint: String,
    /// IPv6 endpoint: `enabled` or `disabled`; `None` where EC2 in the region does not support it.
    pub http_protocol_ipv6: Option<String>,
    /// Hop limit, 1 to 64.
    pub hop_limit: u32,
    /// IMDSv2 tokens: `required` or `optional`.
    pub http_tokens: String,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            http_endpoint: "enabled".to_owned(),
            http_protocol_ipv6: Some("disabled".to_owned()),
            hop_limit: 1,
            http_tokens: "required".to_owned(),
        }
    }
}

/// A CreateFleet request of type instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetRequest {
    /// Idempotency key: the same token launches once.
    pub client_token: String,
    /// Number of instances.
    pub target: u32,
    /// Capacity type, `spot` or `on-demand`; selects the allocation strategy.
    pub capacity_type: String,
    /// EC2's DefaultTargetCapacityType where it differs from `capacity_type`: `capacity-block` or `reserved-capacity`. The
    /// request then has no allocation strategy.
    pub default_target_capacity_type: Option<String>,
    /// Kinds of reservation that `reserved-capacity` may use, such as `interruptible-capacity-reservation`.
    pub reserved_capacity_types: Vec<String>,
    /// Launch templates with their overrides.
    pub configs: Vec<FleetConfig>,
    /// Tags of instances, volumes and the fleet.
    pub tags: Tags,
    /// Opaque `context` of the EC2NodeClass.
    pub context: Option<String>,
    /// True if the priorities of the overrides select the pool, instead of EC2's prices.
    pub prioritized: bool,
}

/// One launch template of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetConfig {
    /// Name of the template; the version is `$Latest`.
    pub launch_template: String,
    /// Candidate pools.
    pub overrides: Vec<FleetOverride>,
}

/// One pool (type and zone) of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetOverride {
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// Subnet in that zone.
    pub subnet_id: String,
    /// Image id.
    pub image_id: String,
    /// Price of the offering in millionths of a dollar. EC2 receives it as `Priority`, where the lowest value is first.
    pub priority: i64,
}

/// The answer to CreateFleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetAnswer {
    /// Id of the fleet.
    pub fleet_id: String,
    /// Launched instances.
    pub instances: Vec<FleetInstance>,
    /// Pools without a launch, each with its error.
    pub errors: Vec<FleetError>,
}

/// An instance that a fleet launched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetInstance {
    /// Id, `i-...`.
    pub id: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// Subnet.
    pub subnet_id: String,
    /// Image.
    pub image_id: String,
    /// Lifecycle: `spot` or `on-demand`.
    pub lifecycle: String,
}

/// A pool that a fleet could not use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetError {
    /// EC2's error code, such as `InsufficientInstanceCapacity`.
    pub code: String,
    /// EC2's error message.
    pub message: String,
    /// Instance type of the override.
    pub instance_type: String,
    /// Zone name of the override.
    pub zone: String,
    /// Subnet of the override.
    pub subnet_id: String,
    /// Lifecycle: `spot` or `on-demand`.
    pub lifecycle: String,
}
