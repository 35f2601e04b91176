//! What a launch says to EC2 and what it answers: launch templates and fleets of type instant.

use serde::{Deserialize, Serialize};

use super::Tags;

/// A launch template to create (aws 4.4).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchTemplateRequest {
    /// Its name; carries a hash of the rest.
    pub name: String,
    /// The image.
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
    /// Public IPv4 address of the primary interface, when the class says so; of no effect beside `network_interfaces`.
    pub associate_public_ip: Option<bool>,
    /// Detailed monitoring.
    pub detailed_monitoring: bool,
    /// Network interfaces, each with the security groups above. Empty is one plain primary interface.
    pub network_interfaces: Vec<NetworkInterface>,
    /// How long idle connections are tracked, on all interfaces but those of kind `efa-only`.
    pub connection_tracking: Option<ConnectionTracking>,
    /// Where the machine may stand.
    pub placement: Placement,
    /// Virtual machines inside the instance, switched on or off; `None` leaves it to EC2.
    pub nested_virtualization: Option<bool>,
    /// Nitro Enclaves.
    pub enclave: bool,
    /// What the launch says of capacity reservations; `None` leaves it to EC2, which is `open`.
    pub capacity_reservation: Option<ReservationSpecification>,
    /// `capacity-block` or `interruptible-capacity-reservation` where such a reservation is bought; never `spot`, which is
    /// the fleet's to say.
    pub market_type: Option<String>,
    /// Whether spot is launched with it: the request for it wants the tags too.
    pub spot: bool,
    /// Tags of the template itself and of the network interfaces.
    pub tags: Tags,
}

/// A network interface of a launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkInterface {
    /// Network card, 0 is the first.
    pub card: u32,
    /// Device on its card, 0 is the primary interface on card 0.
    pub device: u32,
    /// What it carries.
    pub kind: InterfaceKind,
    /// Public IPv4 address.
    pub associate_public_ip: Option<bool>,
    /// IPv4 prefixes (/28).
    pub ipv4_prefixes: Option<u32>,
    /// IPv6 prefixes (/80).
    pub ipv6_prefixes: Option<u32>,
    /// IPv6 addresses.
    pub ipv6_addresses: Option<u32>,
    /// Whether its first IPv6 address stays for the life of the instance.
    pub primary_ipv6: Option<bool>,
}

/// What a network interface carries.
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
    /// EC2's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interface => "interface",
            Self::Efa => "efa",
            Self::EfaOnly => "efa-only",
        }
    }
}

/// How long idle connections are tracked, in seconds; `None` leaves it to EC2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionTracking {
    /// 60 to 432,000.
    pub tcp_established: Option<u32>,
    /// UDP with answers, 60 to 180.
    pub udp_stream: Option<u32>,
    /// UDP one way, 30 to 60.
    pub udp: Option<u32>,
}

/// Where a machine may stand; `None` leaves it to EC2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// `default` or `dedicated`.
    pub tenancy: Option<String>,
    /// `pg-...`.
    pub group_id: Option<String>,
    /// Partition of the group, 1 is the first.
    pub partition: Option<u32>,
}

/// What a launch says of capacity reservations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationSpecification {
    /// `capacity-reservations-only`, `open` or `none`.
    pub preference: String,
    /// The one reservation to use, `cr-...`.
    pub id: Option<String>,
}

/// A RunInstances that is only asked about: one instance of the template, with these changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInstancesProbe {
    /// Name of the launch template; the version is `$Latest`.
    pub launch_template: String,
    /// Instance type.
    pub instance_type: String,
    /// Subnet.
    pub subnet_id: String,
    /// Tags of the instance and its volumes; those of the interfaces are the template's.
    pub tags: Tags,
}

/// A volume of a launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockDevice {
    /// Such as `/dev/xvda`.
    pub device: String,
    /// Size in GiB.
    pub size_gib: Option<u32>,
    /// Such as `gp3`.
    pub volume_type: Option<String>,
    /// Encrypted at rest.
    pub encrypted: Option<bool>,
    /// Provisioned IOPS.
    pub iops: Option<u32>,
    /// MiB/s.
    pub throughput: Option<u32>,
    /// Customer key.
    pub kms_key_id: Option<String>,
    /// Source snapshot.
    pub snapshot_id: Option<String>,
    /// Deleted with the instance.
    pub delete_on_termination: Option<bool>,
    /// MiB/s at which the blocks of the snapshot are fetched, 100 to 300.
    pub initialization_rate: Option<u32>,
}

/// IMDS options in EC2's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataOptions {
    /// `enabled` or `disabled`.
    pub http_endpoint: String,
    /// `enabled` or `disabled`; `None` where the region's EC2 does not know it.
    pub http_protocol_ipv6: Option<String>,
    /// 1 to 64.
    pub hop_limit: u32,
    /// `required` or `optional`.
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

/// A CreateFleet request of type instant (aws 4.3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetRequest {
    /// Makes the call idempotent: the same token launches once.
    pub client_token: String,
    /// How many instances.
    pub target: u32,
    /// `spot` or `on-demand`: says which allocation strategy the request has.
    pub capacity_type: String,
    /// EC2's DefaultTargetCapacityType where it is another word than `capacity_type`: `capacity-block` or
    /// `reserved-capacity`. No allocation strategy is sent beside it.
    pub default_target_capacity_type: Option<String>,
    /// The kinds of reservation that `reserved-capacity` may use, such as `interruptible-capacity-reservation`.
    pub reserved_capacity_types: Vec<String>,
    /// Launch templates with their overrides.
    pub configs: Vec<FleetConfig>,
    /// Tags of instances, volumes and the fleet.
    pub tags: Tags,
    /// The class's opaque context.
    pub context: Option<String>,
    /// Whether the priorities of the overrides decide, not EC2's own prices.
    pub prioritized: bool,
}

/// One launch template of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetConfig {
    /// Its name; the version is `$Latest`.
    pub launch_template: String,
    /// The pools to choose from.
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
    /// The image.
    pub image_id: String,
    /// The offering's price in millionths of a dollar: EC2's `Priority`, where lower goes first.
    pub priority: i64,
}

/// What CreateFleet answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetAnswer {
    /// The fleet's id.
    pub fleet_id: String,
    /// What was launched.
    pub instances: Vec<FleetInstance>,
    /// Pools that could not be used, and why.
    pub errors: Vec<FleetError>,
}

/// An instance that a fleet launched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetInstance {
    /// `i-...`.
    pub id: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// Subnet.
    pub subnet_id: String,
    /// Image.
    pub image_id: String,
    /// `spot` or `on-demand`.
    pub lifecycle: String,
}

/// A pool that a fleet could not use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetError {
    /// EC2's code, such as `InsufficientInstanceCapacity`.
    pub code: String,
    /// EC2's message.
    pub message: String,
    /// Instance type of the override.
    pub instance_type: String,
    /// Zone name of the override.
    pub zone: String,
    /// Subnet of the override.
    pub subnet_id: String,
    /// `spot` or `on-demand`.
    pub lifecycle: String,
}
