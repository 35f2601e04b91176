//! The calls that Kerf makes to AWS, exactly those, in EC2's own terms.

mod cluster;
mod launch;
mod placement;
mod profile;
mod queue;
mod status;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};

use crate::error::CloudError;

pub use cluster::ClusterDescription;
pub use launch::{
    BlockDevice, ConnectionTracking, FleetAnswer, FleetConfig, FleetError, FleetInstance, FleetOverride, FleetRequest,
    InterfaceKind, LaunchTemplateRequest, MetadataOptions, NetworkInterface, Placement, ReservationSpecification,
    RunInstancesProbe,
};
pub use placement::{CapacityReservation, PlacementGroup, PlacementGroupQuery, ReservationFilter};
pub use profile::{InstanceProfile, InstanceProfileRequest};
pub use queue::QueueMessage;
pub use status::{InstanceStatus, StatusEvent};

/// A call in flight. Boxed so that the SDK's code is generated in its leaf crate, not in every caller.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, CloudError>> + Send + 'a>>;

/// Tags by key.
pub type Tags = BTreeMap<String, String>;

/// AWS as Kerf uses it. Paging is the implementation's business: answers are whole.
pub trait Cloud: Send + Sync {
    /// All hvm instance types of the region for x86_64 and arm64.
    fn instance_types(&self) -> Call<'_, Vec<InstanceTypeInfo>>;
    /// Which type is offered in which zone.
    fn type_offerings(&self) -> Call<'_, Vec<TypeOffering>>;
    /// The latest spot price of each Linux type and zone.
    fn spot_prices(&self) -> Call<'_, Vec<SpotPrice>>;
    /// The public on-demand price of each Linux type in the region, in the currency that AWS publishes (USD, CNY in China).
    fn on_demand_prices(&self) -> Call<'_, Vec<OnDemandPrice>>;
    /// Subnets that match the filter.
    fn subnets<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<Subnet>>;
    /// Security groups that match the filter.
    fn security_groups<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<SecurityGroup>>;
    /// Available images that match the filter, deprecated ones included.
    fn images<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<Image>>;
    /// Capacity reservations that match the filter and are `active`, capacity blocks included.
    fn capacity_reservations<'a>(&'a self, filter: &'a ReservationFilter) -> Call<'a, Vec<CapacityReservation>>;
    /// One placement group whatever its state, `None` when there is none.
    fn placement_group<'a>(&'a self, query: &'a PlacementGroupQuery) -> Call<'a, Option<PlacementGroup>>;
    /// The value of an SSM parameter, `None` when there is none.
    fn parameter<'a>(&'a self, name: &'a str) -> Call<'a, Option<String>>;
    /// Launch templates that carry all these tags; `*` as value asks only for the key.
    fn launch_templates<'a>(&'a self, tags: &'a Tags) -> Call<'a, Vec<LaunchTemplate>>;
    /// Creates a launch template; `AlreadyExists` when the name is taken.
    fn create_launch_template<'a>(&'a self, request: &'a LaunchTemplateRequest) -> Call<'a, LaunchTemplate>;
    /// Deletes a launch template by name; `NotFound` when it is gone.
    fn delete_launch_template<'a>(&'a self, name: &'a str) -> Call<'a, ()>;
    /// Launches instances (type instant). Errors of single pools come in the answer, next to what was launched.
    fn create_fleet<'a>(&'a self, request: &'a FleetRequest) -> Call<'a, FleetAnswer>;
    /// Asks whether [`Self::create_fleet`] would be allowed; launches nothing. `Unauthorized` when it would not be.
    fn dry_run_create_fleet<'a>(&'a self, request: &'a FleetRequest) -> Call<'a, ()>;
    /// Asks whether RunInstances would be allowed with a launch template; launches nothing. `Unauthorized` when it would
    /// not be.
    fn dry_run_run_instances<'a>(&'a self, probe: &'a RunInstancesProbe) -> Call<'a, ()>;
    /// Instances that carry all these tags and are pending, running, stopping, stopped or shutting down; `*` as value
    /// asks only for the key.
    fn instances<'a>(&'a self, tags: &'a Tags) -> Call<'a, Vec<Instance>>;
    /// Instances by id, whatever their state; those that EC2 does not know are not in the answer.
    fn instances_by_id<'a>(&'a self, ids: &'a [String]) -> Call<'a, Vec<Instance>>;
    /// What DescribeInstanceStatus says of instances that fail a status check or have an event ahead (aws 6.4); healthy
    /// instances are not in the answer, those of other owners are.
    fn instance_statuses(&self) -> Call<'_, Vec<InstanceStatus>>;
    /// Terminates instances; ids that EC2 does not know are an error of kind `NotFound`.
    fn terminate_instances<'a>(&'a self, ids: &'a [String]) -> Call<'a, ()>;
    /// Adds tags to resources.
    fn create_tags<'a>(&'a self, ids: &'a [String], tags: &'a Tags) -> Call<'a, ()>;
    /// One instance profile by name, `None` when IAM does not know it.
    fn instance_profile<'a>(&'a self, name: &'a str) -> Call<'a, Option<InstanceProfile>>;
    /// Instance profiles whose path begins with `path_prefix`, such as `/karpenter/us-west-2/prod/`. IAM lists no tags: they
    /// are empty here.
    fn instance_profiles<'a>(&'a self, path_prefix: &'a str) -> Call<'a, Vec<InstanceProfile>>;
    /// Creates an instance profile without a role; `AlreadyExists` when the name is taken, whatever its path.
    fn create_instance_profile<'a>(&'a self, request: &'a InstanceProfileRequest) -> Call<'a, ()>;
    /// Puts a role, by its bare name, into a profile. `NotFound` when there is no such role or profile (the message says
    /// which), `Invalid` (`LimitExceeded`) when the profile has a role.
    fn add_role_to_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> Call<'a, ()>;
    /// Takes a role out of a profile; `NotFound` when it is not in it, or there is no such profile.
    fn remove_role_from_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> Call<'a, ()>;
    /// Deletes an instance profile; `NotFound` when it is gone, `Invalid` (`DeleteConflict`) while it has a role.
    fn delete_instance_profile<'a>(&'a self, name: &'a str) -> Call<'a, ()>;
    /// What EKS says of a cluster; `NotFound` when it is none of this account and region.
    fn cluster<'a>(&'a self, name: &'a str) -> Call<'a, ClusterDescription>;
    /// The address of an SQS queue by name; `NotFound` when there is none.
    fn queue_url<'a>(&'a self, name: &'a str) -> Call<'a, String>;
    /// Up to ten messages of a queue, waiting up to 20 s for the first. A message that is not deleted comes again 20 s later.
    fn receive_messages<'a>(&'a self, url: &'a str) -> Call<'a, Vec<QueueMessage>>;
    /// Deletes messages by receipt, any number of them. The answer has the receipts of those that are still there.
    fn delete_messages<'a>(&'a self, url: &'a str, receipts: &'a [String]) -> Call<'a, Vec<String>>;
}

/// What EC2 says about an instance type (the parts of DescribeInstanceTypes that we use).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceTypeInfo {
    /// Such as `m7g.large`.
    pub name: String,
    /// Default vCPUs.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// `x86_64`, `arm64`, ... as EC2 says them, in its order.
    pub architectures: Vec<String>,
    /// `on-demand`, `spot`, `capacity-block`.
    pub usage_classes: Vec<String>,
    /// `nitro`, `xen`, or empty for bare metal.
    pub hypervisor: String,
    /// Whether it is bare metal.
    pub bare_metal: bool,
    /// Processor manufacturer as EC2 says it (`Intel`, `AMD`, `AWS`).
    pub cpu_manufacturer: String,
    /// Sustained clock speed in MHz, 0 when EC2 does not say.
    pub clock_mhz: u32,
    /// Network interfaces of the default network card.
    pub max_interfaces: u32,
    /// IPv4 addresses an interface.
    pub ipv4_per_interface: u32,
    /// EFA interfaces, 0 without EFA.
    pub max_efa: u32,
    /// Whether traffic between instances is encrypted.
    pub encryption_in_transit: bool,
    /// EBS baseline-optimised bandwidth in Mbps (maximum), 0 unless EBS optimisation is on by default.
    pub ebs_mbps: u32,
    /// Instance storage in GB, 0 without.
    pub local_storage_gb: u64,
    /// Whether the instance storage is NVMe.
    pub local_nvme: bool,
    /// GPUs: name, manufacturer, count, memory in MiB each.
    pub gpus: Vec<Accelerator>,
    /// Neuron devices where EC2 lists them, else inference accelerators: it lists Inferentia as both.
    pub accelerators: Vec<Accelerator>,
    /// Neuron cores a device (first device), 0 without.
    pub neuron_cores_per_device: u32,
    /// Network cards, the default one included, in EC2's order; empty where EC2 lists none.
    pub network_cards: Vec<NetworkCard>,
    /// Whether it has EC2's elastic network adapter.
    pub ena: bool,
    /// Strategies of placement groups that it can be in (`cluster`, `partition`, `spread`).
    pub placement_strategies: Vec<String>,
    /// Features of the processor that can be turned on, such as `nested-virtualization`.
    pub processor_features: Vec<String>,
}

/// A network card of an instance type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkCard {
    /// Its index.
    pub index: u32,
    /// Network interfaces that it carries.
    pub max_interfaces: u32,
}

/// GPUs or accelerators of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accelerator {
    /// Such as `A10G`.
    pub name: String,
    /// Such as `NVIDIA`.
    pub manufacturer: String,
    /// How many.
    pub count: u32,
    /// Memory of one in MiB.
    pub memory_mib: u64,
}

/// A type that is offered in a zone.
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

/// What to look for: all given fields must match; empty lists and maps ask for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filter {
    /// Ids, any of them.
    pub ids: Vec<String>,
    /// Names (security group name, image name with wildcards), any of them.
    pub names: Vec<String>,
    /// Owners (images only), any of them; ids, `self` or `amazon`.
    pub owners: Vec<String>,
    /// Tags, all of them; `*` as value asks only for the key.
    pub tags: Tags,
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    /// `subnet-...`.
    pub id: String,
    /// Zone name.
    pub zone: String,
    /// Zone id, such as `usw2-az1`.
    pub zone_id: String,
    /// Free IPv4 addresses.
    pub free_addresses: u32,
    /// Its tags.
    pub tags: Tags,
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroup {
    /// `sg-...`.
    pub id: String,
    /// The group name, not the Name tag.
    pub name: String,
    /// Its tags.
    pub tags: Tags,
}

/// A machine image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// `ami-...`.
    pub id: String,
    /// The image's name.
    pub name: String,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    /// RFC 3339.
    pub created: String,
    /// Whether its deprecation time has passed.
    pub deprecated: bool,
    /// Owner account.
    pub owner: String,
    /// Its tags.
    pub tags: Tags,
}

/// A launch template that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchTemplate {
    /// `lt-...`.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its tags.
    pub tags: Tags,
}

/// An instance as DescribeInstances shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// `i-...`.
    pub id: String,
    /// `pending`, `running`, `shutting-down`, `terminated`, `stopping`, `stopped`.
    pub state: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// Subnet.
    pub subnet_id: String,
    /// Image.
    pub image_id: String,
    /// Whether it is a spot instance.
    pub spot: bool,
    /// RFC 3339.
    pub launched: String,
    /// Private DNS name.
    pub private_dns_name: String,
    /// Private IPv4 address.
    pub private_ip: String,
    /// Security groups.
    pub security_group_ids: Vec<String>,
    /// The capacity reservation that it runs in.
    pub capacity_reservation_id: Option<String>,
    /// What its launch said of reservations: `open`, `none` or `capacity-reservations-only`.
    pub capacity_reservation_preference: Option<String>,
    /// Its partition, in a placement group of strategy `partition`; 1 is the first.
    pub placement_partition: Option<u32>,
    /// Its tags.
    pub tags: Tags,
}

impl Instance {
    /// Kubernetes' name for the instance.
    #[must_use]
    pub fn provider_id(&self) -> String {
        format!("aws:///{}/{}", self.zone, self.id)
    }

    /// Whether it is gone or on its way out.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        matches!(self.state.as_str(), "shutting-down" | "terminated")
    }
}
