//! The fields of an EC2NodeClass that determine the capacity of its instances, parsed once into integers.

use std::collections::BTreeMap;

use api::nodeclass::{AmiFamily, BlockDeviceMapping, EC2NodeClassSpec, InstanceStorePolicy, NetworkInterface, Toggle};
use api::{EC2NodeClass, label};
use thiserror::Error;

use super::Measured;
use crate::calls::{BlockDevice, InstanceTypeInfo};
use crate::data::scaled;
use crate::launch::block_devices;
use crate::nodeclass::{ResolvedClass, Zone};

const GIB: i64 = 1 << 30;

/// A field of the EC2NodeClass that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("EC2NodeClass {class}: {field} is {value:?}, which {problem}; correct it in the class")]
pub struct ClassError {
    /// Name of the EC2NodeClass.
    pub class: String,
    /// Path of the field below the object.
    pub field: String,
    /// Value of the field.
    pub value: String,
    /// Description of the error.
    pub problem: &'static str,
}

/// An eviction threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// Amount in bytes.
    Bytes(i64),
    /// Thousandths of a percent of the capacity; 100 % and more disables the threshold.
    Share(i64),
}

impl Threshold {
    /// Returns the threshold in bytes for this capacity, rounded up. Kubelet stores a percentage in 32 bits, which may be
    /// greater by one part in 2^23.
    #[must_use]
    pub fn amount_of(self, capacity: i64) -> i64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) if share >= 100_000 => 0,
            Self::Share(share) => {
                let exact = i128::from(capacity) * i128::from(share);
                let bytes = (exact + (exact >> 23) + 99_999) / 100_000;
                i64::try_from(bytes).unwrap_or(i64::MAX)
            }
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('%') {
            Some(percent) => scaled(percent, 3).map(Self::Share),
            None => api::quantity::units(text).ok().map(Self::Bytes),
        }
    }
}

/// Settings of an EC2NodeClass that determine the capacity of its instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSettings {
    /// Name of the EC2NodeClass.
    pub name: String,
    /// Resolved AMI family.
    pub family: AmiFamily,
    /// `kubelet.maxPods`.
    pub max_pods: Option<u32>,
    /// `kubelet.podsPerCore`; 0 is unset.
    pub pods_per_core: Option<u32>,
    /// `kubelet.kubeReserved` by resource, in the planner's units.
    pub kube_reserved: BTreeMap<String, i64>,
    /// `kubelet.systemReserved` by resource, in the planner's units.
    pub system_reserved: BTreeMap<String, i64>,
    /// `kubelet.evictionHard` for `memory.available`.
    pub memory_threshold: Threshold,
    /// `kubelet.evictionHard` for `nodefs.available`.
    pub disk_threshold: Threshold,
    /// Size in bytes of the volume for pod data.
    pub disk_bytes: i64,
    /// True if instance storage, where it exists, holds the pod data.
    pub raid0: bool,
    /// `networkInterfaces`; `None` differs from an empty list.
    pub network_interfaces: Option<Vec<NetworkInterface>>,
    /// True if instances must support nested virtualization.
    pub nested_virtualization: bool,
    /// True if the EC2NodeClass sets `connectionTracking`.
    pub connection_tracking: bool,
    /// Strategy of the resolved placement group.
    pub placement_strategy: Option<String>,
    /// Number of volumes that a node of the EC2NodeClass starts with.
    pub volumes: u32,
    /// EBS volumes of the launch template.
    pub block_devices: Vec<BlockDevice>,
    /// True if the EC2NodeClass requests a public IPv4 address.
    pub public_ipv4: bool,
    /// Amounts by instance type, as nodes of the EC2NodeClass reported them.
    pub measured: BTreeMap<String, Measured>,
    /// Zones with a subnet of the EC2NodeClass.
    pub zones: BTreeMap<String, Zone>,
}

impl ClassSettings {
    /// Parses the EC2NodeClass. `zones` are those of its resolved subnets.
    ///
    /// # Errors
    /// When a quantity or a threshold cannot be parsed.
    pub fn new(class: &EC2NodeClass, zones: BTreeMap<String, Zone>) -> Result<Self, ClassError> {
        let name = class.metadata.name.clone().unwrap_or_default();
        let spec = &class.spec;
        let family = spec.resolved_ami_family();
        let kubelet = spec.kubelet.clone().unwrap_or_default();
        let error = |field: String, value: &str, problem| ClassError {
            class: name.clone(),
            field,
            value: value.to_owned(),
            problem,
        };
        let amounts = |field: &str, map: Option<BTreeMap<String, api::Quantity>>| {
            let each = |(key, quantity): (String, api::Quantity)| match quantity.amount(&key) {
                Ok(amount) => Ok((key, amount)),
                Err(_) => Err(error(format!("spec.kubelet.{field}[{key}]"), &quantity.0, "is not a quantity")),
            };
            map.unwrap_or_default().into_iter().map(each).collect::<Result<BTreeMap<_, _>, _>>()
        };
        let hard = kubelet.eviction_hard.unwrap_or_default();
        let threshold = |signal: &str, default: Threshold| match hard.get(signal) {
            None => Ok(default),
            Some(text) => Threshold::parse(text).ok_or_else(|| {
                error(format!("spec.kubelet.evictionHard[{signal}]"), text, "is neither a quantity nor a percentage")
            }),
        };
        let size = disk_size(spec, family);
        let disk_bytes = match size {
            None => default_disk(family),
            Some(size) => {
                size.units().map_err(|_| error("spec.blockDeviceMappings".to_owned(), &size.0, "is not a size"))?
            }
        };
        Ok(Self {
            family,
            max_pods: kubelet.max_pods.and_then(|pods| u32::try_from(pods).ok()),
            pods_per_core: kubelet.pods_per_core.and_then(|pods| u32::try_from(pods).ok()),
            kube_reserved: amounts("kubeReserved", kubelet.kube_reserved)?,
            system_reserved: amounts("systemReserved", kubelet.system_reserved)?,
            memory_threshold: threshold("memory.available", Threshold::Bytes(100 << 20))?,
            disk_threshold: threshold("nodefs.available", Threshold::Share(10_000))?,
            disk_bytes,
            raid0: spec.instance_store_policy == Some(InstanceStorePolicy::Raid0),
            network_interfaces: spec.network_interfaces.clone(),
            nested_virtualization: nested(spec),
            connection_tracking: spec.connection_tracking.is_some(),
            placement_strategy: None,
            volumes: volumes(spec, family),
            block_devices: block_devices(spec, family),
            public_ipv4: spec.associate_public_ip_address == Some(true),
            measured: BTreeMap::new(),
            zones,
            name,
        })
    }

    /// Parses the EC2NodeClass with the zones and the placement group of its resolution.
    ///
    /// # Errors
    /// When a quantity or a threshold cannot be parsed.
    pub fn from_resolved(class: &EC2NodeClass, resolved: &ResolvedClass) -> Result<Self, ClassError> {
        let placement_strategy = resolved.placement_group.as_ref().map(|group| group.strategy.clone());
        Ok(Self { placement_strategy, ..Self::new(class, resolved.zones())? })
    }

    /// Returns the labels that depend on the operating system. Windows does not exist for arm64, so the label then has no
    /// value.
    #[must_use]
    pub(super) fn system_labels(&self, info: &InstanceTypeInfo) -> BTreeMap<String, Vec<String>> {
        let Some(build) = windows_build(self.family) else { return BTreeMap::new() };
        let runs = super::labels::arch(info) == label::ARCH_AMD64;
        let system = runs.then(|| label::OS_WINDOWS.to_owned()).into_iter().collect();
        [(label::OS.to_owned(), system), (label::WINDOWS_BUILD.to_owned(), vec![build.to_owned()])].into()
    }

    /// Reports whether kubelet's memory reservation follows from interface-limited pods even if the user sets maxPods.
    #[must_use]
    pub fn reserves_by_interfaces(&self) -> bool {
        matches!(self.family, AmiFamily::Al2 | AmiFamily::Al2023 | AmiFamily::Custom)
    }
}

impl Default for ClassSettings {
    /// Returns the settings of an AL2023 class without further fields.
    fn default() -> Self {
        Self {
            name: String::new(),
            family: AmiFamily::Al2023,
            max_pods: None,
            pods_per_core: None,
            kube_reserved: BTreeMap::new(),
            system_reserved: BTreeMap::new(),
            memory_threshold: Threshold::Bytes(100 << 20),
            disk_threshold: Threshold::Share(10_000),
            disk_bytes: default_disk(AmiFamily::Al2023),
            raid0: false,
            network_interfaces: None,
            nested_virtualization: false,
            connection_tracking: false,
            placement_strategy: None,
            volumes: 1,
            block_devices: block_devices(&EC2NodeClassSpec::default(), AmiFamily::Al2023),
            public_ipv4: false,
            measured: BTreeMap::new(),
            zones: BTreeMap::new(),
        }
    }
}

fn nested(spec: &EC2NodeClassSpec) -> bool {
    let options = spec.cpu_options.as_ref();
    options.and_then(|options| options.nested_virtualization) == Some(Toggle::Enabled)
}

/// Returns the build of Windows Server as in kubelet's node label; `None` for Linux.
fn windows_build(family: AmiFamily) -> Option<&'static str> {
    match family {
        AmiFamily::Windows2019 => Some("10.0.17763"),
        AmiFamily::Windows2022 => Some("10.0.20348"),
        AmiFamily::Windows2025 => Some("10.0.26100"),
        AmiFamily::Al2 | AmiFamily::Al2023 | AmiFamily::Bottlerocket | AmiFamily::Custom => None,
    }
}

/// Returns the size of the volume for pod data, if the EC2NodeClass sets one: of the root volume, else of the family's device.
fn disk_size(spec: &EC2NodeClassSpec, family: AmiFamily) -> Option<&api::Quantity> {
    let mappings = &spec.block_device_mappings;
    let by_device = |device: &str| mappings.iter().find(|one| one.device_name.as_deref() == Some(device));
    let chosen: Option<&BlockDeviceMapping> = mappings.iter().find(|one| one.root_volume).or_else(|| match family {
        AmiFamily::Custom => mappings.last(),
        AmiFamily::Al2 | AmiFamily::Al2023 => by_device("/dev/xvda"),
        AmiFamily::Bottlerocket => by_device("/dev/xvdb"),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => by_device("/dev/sda1"),
    });
    chosen?.ebs.as_ref()?.volume_size.as_ref()
}

/// Returns the number of volumes that a node starts with.
fn volumes(spec: &EC2NodeClassSpec, family: AmiFamily) -> u32 {
    let default = if family == AmiFamily::Bottlerocket { 2 } else { 1 };
    let listed = spec.block_device_mappings.len();
    if listed == 0 { default } else { u32::try_from(listed).unwrap_or(u32::MAX) }
}

fn default_disk(family: AmiFamily) -> i64 {
    if family.is_windows() { 50 * GIB } else { 20 * GIB }
}
