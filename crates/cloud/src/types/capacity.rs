//! Capacity of instances, and the allocatable part of it. All amounts are integers. The formulas for pods and kubelet
//! reservations are those of crate `machine`, so that the node computes the same.

use machine::pods;
use planner::Resources;

use super::measured::HUGE_PAGES;
use super::{ClassSettings, compatibility, measured_bounds, storage};
use crate::calls::InstanceTypeInfo;
use crate::data::Facts;
use crate::settings::Settings;

/// Resource name of EFA interfaces.
pub const EFA: &str = "vpc.amazonaws.com/efa";
const MIB: i64 = 1 << 20;
/// Index of the network card with the primary interface.
const DEFAULT_CARD: i32 = 0;
/// Memory in MiB that arm64 kernels reserve for contiguous allocations and never report.
const ARM_RESERVED_MIB: u64 = 64;

/// Returns the capacity of an instance.
#[must_use]
pub fn capacity(info: &InstanceTypeInfo, facts: &Facts, class: &ClassSettings, settings: &Settings) -> Resources {
    let mut all = Resources::default();
    all.set(Resources::CPU, i64::from(info.vcpus) * 1000);
    all.set(Resources::MEMORY, bytes(memory_mib(info, settings)));
    all.set(Resources::PODS, i64::from(max_pods(info, class, settings)));
    all.set(Resources::EPHEMERAL_STORAGE, storage::file_system_bytes(info, class));
    let mut device = |name: &str, count: u32| {
        if count > 0 {
            all.set(name, i64::from(count));
        }
    };
    device("vpc.amazonaws.com/pod-eni", facts.branch_interfaces.get(&info.name).copied().unwrap_or(0));
    for (name, manufacturer) in [("nvidia.com/gpu", "NVIDIA"), ("amd.com/gpu", "AMD"), ("habana.ai/gaudi", "Habana")] {
        let ours = info.gpus.iter().filter(|gpu| gpu.manufacturer == manufacturer);
        device(name, ours.map(|gpu| gpu.count).sum());
    }
    if info.neuron_cores_per_device > 0 {
        device("aws.amazon.com/neuron", info.accelerators.iter().map(|one| one.count).sum());
        let first = info.accelerators.first().map_or(0, |one| one.count);
        device("aws.amazon.com/neuroncore", first * info.neuron_cores_per_device);
    }
    device(EFA, efa(info, class));
    if class.family.is_windows() {
        let listed = facts.ipv4_per_interface.get(&info.name).copied().unwrap_or(0);
        device("vpc.amazonaws.com/PrivateIPv4Address", listed.saturating_sub(1));
    }
    all
}

/// Returns the capacity and the allocatable resources of an instance.
///
/// Reported memory of existing nodes replaces the estimate. The kubelet reservations still follow from the estimate, because
/// the node's settings were computed from it. No allocatable amount is above what existing nodes reported, within
/// [`measured_bounds`]. Their disk space replaces the estimate, which has a margin for unknown file systems.
pub(super) fn sizes(
    info: &InstanceTypeInfo,
    facts: &Facts,
    class: &ClassSettings,
    settings: &Settings,
) -> (Resources, Resources) {
    let mut capacity = capacity(info, facts, class, settings);
    let kept = overhead(info, &capacity, class);
    let measured = class.measured.get(&info.name);
    let estimate = capacity.get(Resources::MEMORY);
    if let Some(memory) = measured.and_then(|it| measured_bounds::memory(it, estimate)) {
        capacity.set(Resources::MEMORY, memory);
    }
    let mut allocatable = less(&capacity, &kept);
    // A device that EC2 does not list for the type has no estimate.
    let listed = |name: &str, capacity: &Resources| capacity.names(name) && !HUGE_PAGES.contains(&name);
    for (measured, name) in measured.into_iter().flat_map(|it| it.allocatable.iter().map(move |(name, _)| (it, name))) {
        if listed(name, &capacity) {
            let estimate = allocatable.get(name);
            allocatable.set(name, measured_bounds::allocatable(measured, class.family, name, estimate));
            capacity.set(name, capacity.get(name).max(allocatable.get(name)));
        }
    }
    let mut others = 0;
    for name in HUGE_PAGES {
        let reported = measured.map_or(0, |it| it.allocatable.get(name));
        let amount = measured_bounds::huge_pages(reported, &capacity, &allocatable, others);
        if amount > 0 {
            capacity.set(name, amount);
            allocatable.set(name, amount);
            others += amount;
        }
    }
    (capacity, allocatable)
}

/// Returns the number of EFA interfaces: those that the EC2NodeClass lists, else the type's maximum, which instances get on
/// request.
fn efa(info: &InstanceTypeInfo, class: &ClassSettings) -> u32 {
    let listed = class.network_interfaces.as_deref();
    listed.map_or(info.max_efa, |listed| compatibility::efa_only(listed, |_| true))
}

/// Returns the resources for pods: the capacity less kubelet's and the system's reservations and the eviction threshold.
#[must_use]
pub fn allocatable(info: &InstanceTypeInfo, capacity: &Resources, class: &ClassSettings) -> Resources {
    less(capacity, &overhead(info, capacity, class))
}

/// Returns the part of the capacity that pods cannot use.
fn overhead(info: &InstanceTypeInfo, capacity: &Resources, class: &ClassSettings) -> Resources {
    let mut kept = kube_reserved(info, capacity, class);
    kept.add(&known(capacity, class.system_reserved.iter().map(|(name, amount)| (name.as_str(), *amount))));
    kept.add(&known(
        capacity,
        [
            (Resources::MEMORY, class.memory_threshold.amount_of(capacity.get(Resources::MEMORY))),
            (Resources::EPHEMERAL_STORAGE, class.disk_threshold.amount_of(capacity.get(Resources::EPHEMERAL_STORAGE))),
        ],
    ));
    kept
}

/// Subtracts the reserved resources from the capacity, with zero as minimum.
fn less(capacity: &Resources, kept: &Resources) -> Resources {
    let left = |(name, amount): (&str, i64)| (name.to_owned(), amount.saturating_sub(kept.get(name)).max(0));
    capacity.iter().map(left).collect()
}

fn kube_reserved(info: &InstanceTypeInfo, capacity: &Resources, class: &ClassSettings) -> Resources {
    let density = if class.reserves_by_interfaces() {
        pods::eni_limited_pods(info.max_interfaces, info.ipv4_per_interface, 0)
    } else {
        u32::try_from(capacity.get(Resources::PODS)).unwrap_or(0)
    };
    let cpu = i64::try_from(pods::kube_reserved_cpu_millicores(info.vcpus)).unwrap_or(i64::MAX);
    let defaults = [
        (Resources::CPU, cpu),
        (Resources::MEMORY, bytes(pods::kube_reserved_memory_mib(density))),
        (Resources::EPHEMERAL_STORAGE, bytes(pods::KUBE_RESERVED_EPHEMERAL_STORAGE_MIB)),
    ];
    let configured = |name: &str| class.kube_reserved.get(name).copied();
    known(capacity, defaults.map(|(name, amount)| (name, configured(name).unwrap_or(amount))))
}

/// Filters the amounts by the resources of the capacity. A reservation of another resource (`pid`) is ignored.
fn known<'a>(capacity: &Resources, amounts: impl IntoIterator<Item = (&'a str, i64)>) -> Resources {
    amounts.into_iter().filter(|(name, _)| capacity.names(name)).collect()
}

fn memory_mib(info: &InstanceTypeInfo, settings: &Settings) -> u64 {
    let arm = info.architectures.first().is_some_and(|arch| arch == "arm64");
    let seen = info.memory_mib.saturating_sub(if arm { ARM_RESERVED_MIB } else { 0 });
    let overhead = (seen * u64::from(settings.memory_overhead_thousandths)).div_ceil(1000);
    seen.saturating_sub(overhead)
}

fn max_pods(info: &InstanceTypeInfo, class: &ClassSettings, settings: &Settings) -> u32 {
    let limited = (!class.family.is_windows()).then(|| {
        pods::eni_limited_pods(info.max_interfaces, info.ipv4_per_interface, reserved_interfaces(class, settings))
    });
    let per_core = class.pods_per_core.filter(|_| class.family != api::nodeclass::AmiFamily::Bottlerocket);
    pods::max_pods(class.max_pods, limited, per_core, info.vcpus)
}

/// Returns the number of interfaces of the default card that have no addresses for pods.
fn reserved_interfaces(class: &ClassSettings, settings: &Settings) -> u32 {
    let listed = class.network_interfaces.as_deref().unwrap_or_default();
    settings.reserved_enis.saturating_add(compatibility::efa_only(listed, |card| card == DEFAULT_CARD))
}

fn bytes(mib: u64) -> i64 {
    i64::try_from(mib).unwrap_or(i64::MAX).saturating_mul(MIB)
}
