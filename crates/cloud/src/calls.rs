//! The calls that Kerf makes to AWS, exactly those, in EC2's own terms.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};

use crate::error::CloudError;

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
    /// Subnets that match the filter.
    fn subnets<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<Subnet>>;
    /// Security groups that match the filter.
    fn security_groups<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<SecurityGroup>>;
    /// Available images that match the filter, deprecated ones included.
    fn images<'a>(&'a self, filter: &'a Filter) -> Call<'a, Vec<Image>>;
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
    /// Instances that carry all these tags and are pending, running, stopping, stopped or shutting down; `*` as value
    /// asks only for the key.
    fn instances<'a>(&'a self, tags: &'a Tags) -> Call<'a, Vec<Instance>>;
    /// One instance by id, whatever its state; `None` when EC2 does not know it.
    fn instance<'a>(&'a self, id: &'a str) -> Call<'a, Option<Instance>>;
    /// Terminates instances; ids that EC2 does not know are an error of kind `NotFound`.
    fn terminate_instances<'a>(&'a self, ids: &'a [String]) -> Call<'a, ()>;
    /// Adds tags to resources.
    fn create_tags<'a>(&'a self, ids: &'a [String], tags: &'a Tags) -> Call<'a, ()>;
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
    /// Public IPv4 address, when the class says so.
    pub associate_public_ip: Option<bool>,
    /// Detailed monitoring.
    pub detailed_monitoring: bool,
    /// Tags of the template itself and of the network interfaces.
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
}

/// IMDS options in EC2's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataOptions {
    /// `enabled` or `disabled`.
    pub http_endpoint: String,
    /// `enabled` or `disabled`.
    pub http_protocol_ipv6: String,
    /// 1 to 64.
    pub hop_limit: u32,
    /// `required` or `optional`.
    pub http_tokens: String,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            http_endpoint: "enabled".to_owned(),
            http_protocol_ipv6: "disabled".to_owned(),
            hop_limit: 1,
            http_tokens: "required".to_owned(),
        }
    }
}

/// A CreateFleet request of type instant (aws 4.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetRequest {
    /// Makes the call idempotent: the same token launches once.
    pub client_token: String,
    /// How many instances.
    pub target: u32,
    /// `spot` or `on-demand`.
    pub capacity_type: String,
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
