//! The parts of an EC2NodeClass that decide how large its machines are, read once into integers.

use std::collections::BTreeMap;

use api::nodeclass::{AmiFamily, BlockDeviceMapping, EC2NodeClassSpec, InstanceStorePolicy, NetworkInterface, Toggle};
use api::{EC2NodeClass, label};
use thiserror::Error;

use crate::calls::InstanceTypeInfo;
use crate::data::scaled;

const GIB: i64 = 1 << 30;

/// A setting of the class that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("EC2NodeClass {class}: {field} is {value:?}, which {problem}; correct it in the class")]
pub struct ClassError {
    /// The class's name.
    pub class: String,
    /// Path below the object.
    pub field: String,
    /// What stands there.
    pub value: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// An eviction threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// Bytes.
    Bytes(i64),
    /// Thousandths of a percent of the capacity; 100 % and more is no threshold.
    Share(i64),
}

impl Threshold {
    /// The threshold in bytes for this capacity, rounded up.
    #[must_use]
    pub fn amount_of(self, capacity: i64) -> i64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) if share >= 100_000 => 0,
            Self::Share(share) => {
                let bytes = (i128::from(capacity) * i128::from(share) + 99_999) / 100_000;
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

/// What of a class the size of a machine depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSettings {
    /// The class's name.
    pub name: String,
    /// The resolved image family.
    pub family: AmiFamily,
    /// `kubelet.maxPods`.
    pub max_pods: Option<u32>,
    /// `kubelet.podsPerCore`; 0 is unset.
    pub pods_per_core: Option<u32>,
    /// `kubelet.kubeReserved` in Kerf's units, by resource.
    pub kube_reserved: BTreeMap<String, i64>,
    /// `kubelet.systemReserved` in Kerf's units, by resource.
    pub system_reserved: BTreeMap<String, i64>,
    /// `kubelet.evictionHard` of memory.
    pub memory_threshold: Threshold,
    /// `kubelet.evictionHard` of the node's file system.
    pub disk_threshold: Threshold,
    /// Size of the volume that holds pods' files, bytes.
    pub disk_bytes: i64,
    /// Whether instance storage holds pods' files where there is any.
    pub raid0: bool,
    /// `networkInterfaces`; none is not the same as an empty list.
    pub network_interfaces: Option<Vec<NetworkInterface>>,
    /// Whether machines must be able to run virtual machines themselves.
    pub nested_virtualization: bool,
    /// Whether the class says how long connections are tracked.
    pub connection_tracking: bool,
    /// Strategy of the placement group that the class's selector resolved to.
    pub placement_strategy: Option<String>,
    /// Real memory of machines with the class's images as their nodes reported it, bytes by instance type.
    pub learned_memory: BTreeMap<String, i64>,
    /// Zones with a subnet of the class.
    pub zones: BTreeMap<String, Zone>,
}

/// A zone as a class sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// Its id, such as `usw2-az1`.
    pub id: String,
    /// Ids of the class's subnets there that have free addresses.
    pub subnets: Vec<String>,
}

impl ClassSettings {
    /// Reads the class. `zones` are those of its resolved subnets.
    ///
    /// # Errors
    /// When a quantity or a threshold cannot be read.
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
            learned_memory: BTreeMap::new(),
            zones,
            name,
        })
    }

    /// The labels that depend on the operating system. There is no Windows for arm64: the label has no value that a pod
    /// could ask for.
    #[must_use]
    pub(super) fn system_labels(&self, info: &InstanceTypeInfo) -> BTreeMap<String, Vec<String>> {
        let Some(build) = windows_build(self.family) else { return BTreeMap::new() };
        let runs = super::labels::arch(info) == label::ARCH_AMD64;
        let system = runs.then(|| label::OS_WINDOWS.to_owned()).into_iter().collect();
        [(label::OS.to_owned(), system), (label::WINDOWS_BUILD.to_owned(), vec![build.to_owned()])].into()
    }

    /// Whether kubelet's memory reservation is computed from interface-limited pods even when the user sets maxPods.
    #[must_use]
    pub fn reserves_by_interfaces(&self) -> bool {
        matches!(self.family, AmiFamily::Al2 | AmiFamily::Al2023 | AmiFamily::Custom)
    }
}

impl Default for ClassSettings {
    /// A class of the family AL2023 that says nothing else.
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
            learned_memory: BTreeMap::new(),
            zones: BTreeMap::new(),
        }
    }
}

fn nested(spec: &EC2NodeClassSpec) -> bool {
    let options = spec.cpu_options.as_ref();
    options.and_then(|options| options.nested_virtualization) == Some(Toggle::Enabled)
}

/// The build of Windows Server, as kubelet labels its nodes; `None` for Linux.
fn windows_build(family: AmiFamily) -> Option<&'static str> {
    match family {
        AmiFamily::Windows2019 => Some("10.0.17763"),
        AmiFamily::Windows2022 => Some("10.0.20348"),
        AmiFamily::Windows2025 => Some("10.0.26100"),
        AmiFamily::Al2 | AmiFamily::Al2023 | AmiFamily::Bottlerocket | AmiFamily::Custom => None,
    }
}

/// The size of the volume with pods' files, where the class names one: the root volume, else the family's device.
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

fn default_disk(family: AmiFamily) -> i64 {
    if family.is_windows() { 50 * GIB } else { 20 * GIB }
}
