//! The AWS API calls that Kerf makes, with EC2's names for types and fields, and their batching and rate limits.

mod answer_limit;
pub mod batcher;
mod cluster;
mod error;
pub mod guard;
mod launch;
mod placement;
mod profile;
mod queue;
pub mod rate_limiter;
mod status;
mod zonal_shift;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};

pub use answer_limit::AnswerLimit;
pub use cluster::ClusterDescription;
pub use error::{CloudError, ErrorKind};
pub use launch::{
    BlockDevice, ConnectionTracking, FleetAnswer, FleetConfig, FleetError, FleetInstance, FleetOverride, FleetRequest,
    InterfaceKind, LaunchTemplateRequest, MetadataOptions, NetworkInterface, Placement, ReservationSpecification,
    RunInstancesProbe,
};
pub use placement::{CapacityReservation, PlacementGroup, PlacementGroupQuery, ReservationFilter};
pub use profile::{InstanceProfile, InstanceProfileRequest};
pub use queue::QueueMessage;
pub use status::{InstanceStatus, StatusEvent};
pub use zonal_shift::ZonalShift;

/// Future of an API call. Boxed so that the SDK's code is generated in its leaf crate, not in every caller.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, CloudError>> + Send + 'a>>;

/// Tags by key.
pub type Tags = BTreeMap<String, String>;

/// The AWS APIs that Kerf uses. Implementations follow pagination: each result is complete.
pub trait Cloud: Send + Sync {
    /// Returns all hvm instance types of the region for x86_64 and arm64.
    fn instance_types(&self) -> Call<'_, Vec<InstanceTypeInfo>>;
    /// Returns the instance types that each zone offers.
    fn type_offerings(&self) -> Call<'_, Vec<TypeOffering>>;
    /// Returns the latest spot price of each Linux instance type in each zone.
    fn spot_prices(&self) -> Call<'_, Vec<SpotPrice>>;
    /// Returns the public on-demand price of each Linux instance type in the region. The currency is the one that AWS
    /// publishes: USD, or CNY in China.
    fn on_demand_prices(&self) -> Call<'_, Vec<OnDemandPrice>>;
    /// Returns the subnets that match the filter.
    fn subnets<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<Subnet>>;
    /// Returns the security groups that match the filter.
    fn security_groups<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<SecurityGroup>>;
    /// Returns the available images that match the filter, deprecated images included.
    fn images<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<Image>>;
    /// Returns the `active` capacity reservations that match the filter, capacity blocks included.
    fn capacity_reservations<'a>(&'a self, filter: &'a ReservationFilter) -> Call<'a, Vec<CapacityReservation>>;
    /// Returns one placement group in any state, or `None` if it does not exist.
    fn placement_group<'a>(&'a self, query: &'a PlacementGroupQuery) -> Call<'a, Option<PlacementGroup>>;
    /// Returns the value of an SSM parameter, or `None` if it does not exist.
    fn parameter<'a>(&'a self, name: &'a str) -> Call<'a, Option<String>>;
    /// Returns the launch templates that carry all these tags; the value `*` matches any value of the key.
    fn launch_templates<'a>(&'a self, tags: &'a Tags) -> Call<'a, Vec<LaunchTemplate>>;
    /// Creates a launch template. The error is `AlreadyExists` when the name is taken.
    fn create_launch_template<'a>(&'a self, request: &'a LaunchTemplateRequest) -> Call<'a, LaunchTemplate>;
    /// Deletes a launch template by name. The error is `NotFound` when it does not exist.
    fn delete_launch_template<'a>(&'a self, name: &'a str) -> Call<'a, ()>;
    /// Launches instances (CreateFleet of type instant). The answer has the launched instances and the errors of single pools.
    fn create_fleet<'a>(&'a self, request: &'a FleetRequest) -> Call<'a, FleetAnswer>;
    /// Checks the permission for [`Self::create_fleet`] without a launch. The error is `Unauthorized` without the permission.
    fn dry_run_create_fleet<'a>(&'a self, request: &'a FleetRequest) -> Call<'a, ()>;
    /// Checks the permission for RunInstances with a launch template, without a launch. The error is `Unauthorized` without the
    /// permission.
    fn dry_run_run_instances<'a>(&'a self, probe: &'a RunInstancesProbe) -> Call<'a, ()>;
    /// Returns the instances that carry all these tags and are pending, running, stopping, stopped or shutting down. The value
    /// `*` matches any value of the key.
    fn instances<'a>(&'a self, tags: &'a Tags) -> Call<'a, Vec<Instance>>;
    /// Returns instances by id, in any state. The result omits unknown ids.
    fn instances_by_id<'a>(&'a self, ids: &'a [String]) -> Call<'a, Vec<Instance>>;
    /// Returns DescribeInstanceStatus of the instances that fail a status check or have a scheduled event. Healthy instances
    /// are missing. Instances of other owners are included.
    fn instance_statuses(&self) -> Call<'_, Vec<InstanceStatus>>;
    /// Terminates instances. The error is `NotFound` when one of the ids is unknown.
    fn terminate_instances<'a>(&'a self, ids: &'a [String]) -> Call<'a, ()>;
    /// Adds tags to resources.
    fn create_tags<'a>(&'a self, ids: &'a [String], tags: &'a Tags) -> Call<'a, ()>;
    /// Returns an instance profile by name, or `None` if it does not exist in IAM.
    fn instance_profile<'a>(&'a self, name: &'a str) -> Call<'a, Option<InstanceProfile>>;
    /// Returns the instance profiles whose path begins with `path_prefix`, such as `/karpenter/us-west-2/prod/`. Their tags are
    /// empty, because IAM's list has no tags.
    fn instance_profiles<'a>(&'a self, path_prefix: &'a str) -> Call<'a, Vec<InstanceProfile>>;
    /// Creates an instance profile without a role. The error is `AlreadyExists` when the name is taken, on any path.
    fn create_instance_profile<'a>(&'a self, request: &'a InstanceProfileRequest) -> Call<'a, ()>;
    /// Adds a role, by its bare name, to an instance profile. The error is `NotFound` without such a role or profile (the
    /// message names which), and `Invalid` (`LimitExceeded`) when the profile has a role.
    fn add_role_to_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> Call<'a, ()>;
    /// Removes a role from an instance profile. The error is `NotFound` when the profile does not exist or does not have the
    /// role.
    fn remove_role_from_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> Call<'a, ()>;
    /// Deletes an instance profile. The error is `NotFound` when it does not exist, and `Invalid` (`DeleteConflict`) while it
    /// has a role.
    fn delete_instance_profile<'a>(&'a self, name: &'a str) -> Call<'a, ()>;
    /// Returns the description of an EKS cluster. The error is `NotFound` when this account and region have no such cluster.
    fn cluster<'a>(&'a self, name: &'a str) -> Call<'a, ClusterDescription>;
    /// Returns the zonal shifts and autoshifts of ARC for an EKS cluster, by the ARN of the cluster. The error is `NotFound` when
    /// zonal shift is not enabled for the cluster.
    fn zonal_shifts<'a>(&'a self, cluster_arn: &'a str) -> Call<'a, Vec<ZonalShift>>;
    /// Returns the URL of an SQS queue by name. The error is `NotFound` when the queue does not exist.
    fn queue_url<'a>(&'a self, name: &'a str) -> Call<'a, String>;
    /// Receives up to ten messages of a queue and waits up to 20 s for the first. SQS delivers a message again 20 s later
    /// unless it is deleted.
    fn receive_messages<'a>(&'a self, url: &'a str) -> Call<'a, Vec<QueueMessage>>;
    /// Deletes any number of messages by receipt. Returns the receipts of the messages that could not be deleted.
    fn delete_messages<'a>(&'a self, url: &'a str, receipts: &'a [String]) -> Call<'a, Vec<String>>;
}

/// An instance type of EC2: the fields of DescribeInstanceTypes that Kerf uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceTypeInfo {
    /// Name, such as `m7g.large`.
    pub name: String,
    /// Default vCPUs.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Architectures in EC2's spelling and order: `x86_64`, `arm64`, ...
    pub architectures: Vec<String>,
    /// Usage classes: `on-demand`, `spot`, `capacity-block`.
    pub usage_classes: Vec<String>,
    /// Hypervisor: `nitro`, `xen`, or empty for bare metal.
    pub hypervisor: String,
    /// True for bare metal.
    pub bare_metal: bool,
    /// Processor manufacturer in EC2's spelling (`Intel`, `AMD`, `AWS`).
    pub cpu_manufacturer: String,
    /// Sustained clock speed in MHz, 0 if EC2 lists none.
    pub clock_mhz: u32,
    /// Network interfaces of the default network card.
    pub max_interfaces: u32,
    /// IPv4 addresses per network interface.
    pub ipv4_per_interface: u32,
    /// EFA interfaces, 0 without EFA.
    pub max_efa: u32,
    /// True if traffic between instances is encrypted.
    pub encryption_in_transit: bool,
    /// EBS baseline-optimised bandwidth in Mbps (maximum), 0 unless EBS optimisation is on by default.
    pub ebs_mbps: u32,
    /// Number of EBS volumes that can be attached, 0 if EC2 lists none. A shared number is without the first network interface,
    /// instance store volumes and accelerators.
    pub ebs_attachments: u32,
    /// True if EBS volumes share their attachments with network interfaces.
    pub ebs_attachments_shared: bool,
    /// Instance storage in GB, 0 without instance storage.
    pub local_storage_gb: u64,
    /// True if the instance storage is NVMe.
    pub local_nvme: bool,
    /// GPUs with name, manufacturer, count and memory in MiB of each.
    pub gpus: Vec<Accelerator>,
    /// Neuron devices if EC2 lists them, else inference accelerators: EC2 lists Inferentia as both.
    pub accelerators: Vec<Accelerator>,
    /// Neuron cores per device (of the first device), 0 without Neuron devices.
    pub neuron_cores_per_device: u32,
    /// Network cards, the default card included, in EC2's order; empty if EC2 lists none.
    pub network_cards: Vec<NetworkCard>,
    /// True if the type has EC2's elastic network adapter (ENA).
    pub ena: bool,
    /// Supported strategies of placement groups (`cluster`, `partition`, `spread`).
    pub placement_strategies: Vec<String>,
    /// Optional processor features, such as `nested-virtualization`.
    pub processor_features: Vec<String>,
}

/// A network card of an instance type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkCard {
    /// Index of the card.
    pub index: u32,
    /// Maximum number of network interfaces.
    pub max_interfaces: u32,
}

/// GPUs or accelerators of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accelerator {
    /// Name, such as `A10G`.
    pub name: String,
    /// Manufacturer, such as `NVIDIA`.
    pub manufacturer: String,
    /// Number of devices.
    pub count: u32,
    /// Memory of one device in MiB.
    pub memory_mib: u64,
}

/// An instance type that is offered in a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TypeOffering {
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
}

/// A spot price.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpotPrice {
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// Millionths of a dollar per hour.
    pub micro_dollars: i64,
}

/// An on-demand price.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnDemandPrice {
    /// Instance type.
    pub instance_type: String,
    /// Millionths of a dollar (of a yuan in China) per hour.
    pub micro_dollars: i64,
}

/// A filter of Describe calls. All given fields must match; an empty list or map matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filter {
    /// Ids; one of them must match.
    pub ids: Vec<String>,
    /// Names (security group name, image name with wildcards); one of them must match.
    pub names: Vec<String>,
    /// Owners (images only): ids, `self` or `amazon`; one of them must match.
    pub owners: Vec<String>,
    /// Tags; all of them must match. The value `*` matches any value of the key.
    pub tags: Tags,
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    /// Id, `subnet-...`.
    pub id: String,
    /// Zone name.
    pub zone: String,
    /// Zone id, such as `usw2-az1`.
    pub zone_id: String,
    /// Free IPv4 addresses.
    pub free_addresses: u32,
    /// Tags.
    pub tags: Tags,
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroup {
    /// Id, `sg-...`.
    pub id: String,
    /// Group name, not the Name tag.
    pub name: String,
    /// Tags.
    pub tags: Tags,
}

/// A machine image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Id, `ami-...`.
    pub id: String,
    /// Name.
    pub name: String,
    /// Architecture: `x86_64` or `arm64`.
    pub architecture: String,
    /// Time of creation, RFC 3339.
    pub created: String,
    /// True if the deprecation time has passed.
    pub deprecated: bool,
    /// Owner account.
    pub owner: String,
    /// Tags.
    pub tags: Tags,
}

/// An existing launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchTemplate {
    /// Id, `lt-...`.
    pub id: String,
    /// Name.
    pub name: String,
    /// Tags.
    pub tags: Tags,
}

/// An instance as DescribeInstances returns it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Id, `i-...`.
    pub id: String,
    /// State: `pending`, `running`, `shutting-down`, `terminated`, `stopping`, `stopped`.
    pub state: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// Subnet.
    pub subnet_id: String,
    /// Image.
    pub image_id: String,
    /// True for a spot instance.
    pub spot: bool,
    /// Launch time, RFC 3339.
    pub launched: String,
    /// Private DNS name.
    pub private_dns_name: String,
    /// Private IPv4 address.
    pub private_ip: String,
    /// Security groups.
    pub security_group_ids: Vec<String>,
    /// Capacity reservation that the instance runs in.
    pub capacity_reservation_id: Option<String>,
    /// Capacity reservation preference of the launch: `open`, `none` or `capacity-reservations-only`.
    pub capacity_reservation_preference: Option<String>,
    /// Partition in a placement group with strategy `partition`; 1 is the first.
    pub placement_partition: Option<u32>,
    /// Tags.
    pub tags: Tags,
}

impl Instance {
    /// Returns the provider id of the instance, as in `spec.providerID` of its node.
    #[must_use]
    pub fn provider_id(&self) -> String {
        format!("aws:///{}/{}", self.zone, self.id)
    }

    /// Reports whether the instance is terminated or shutting down.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        matches!(self.state.as_str(), "shutting-down" | "terminated")
    }
}

/// Reports whether the zone of a provider id such as `aws:///us-west-2a/i-1` is one of these.
#[must_use]
pub fn is_in_zones(provider_id: Option<&str>, zones: &BTreeSet<String>) -> bool {
    let parts = provider_id.and_then(|id| id.strip_prefix("aws:///")?.split_once('/'));
    parts.is_some_and(|(zone, _)| zones.contains(zone))
}
