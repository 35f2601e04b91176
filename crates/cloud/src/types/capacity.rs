//! How much a machine has, and how much of it pods get (aws 3.2, 3.3). Integers only; pods and kubelet's reservations
//! are crate `machine`'s formulas, so that the node computes the same.

use machine::pods;
use planner::Resources;

use super::ClassSettings;
use crate::calls::InstanceTypeInfo;
use crate::data::Facts;
use crate::settings::Settings;

const MIB: i64 = 1 << 20;
/// Memory that arm64 kernels keep for contiguous allocations and never show, MiB.
const ARM_RESERVED_MIB: u64 = 64;

/// What the machine has.
#[must_use]
pub fn capacity(info: &InstanceTypeInfo, facts: &Facts, class: &ClassSettings, settings: &Settings) -> Resources {
    let mut all = Resources::default();
    all.set(Resources::CPU, i64::from(info.vcpus) * 1000);
    all.set(Resources::MEMORY, bytes(memory_mib(info, settings)));
    all.set(Resources::PODS, i64::from(max_pods(info, class, settings)));
    all.set(Resources::EPHEMERAL_STORAGE, disk(info, class));
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
    if class.efa {
        device("vpc.amazonaws.com/efa", info.max_efa);
    }
    all
}

/// What pods may request: the capacity less kubelet's and the system's reservations and the eviction threshold.
#[must_use]
pub fn allocatable(info: &InstanceTypeInfo, capacity: &Resources, class: &ClassSettings) -> Resources {
    let mut left = capacity.clone();
    left.subtract(&kube_reserved(info, capacity, class));
    left.subtract(&known(capacity, class.system_reserved.iter().map(|(name, amount)| (name.as_str(), *amount))));
    left.subtract(&known(
        capacity,
        [
            (Resources::MEMORY, class.memory_threshold.of(capacity.get(Resources::MEMORY))),
            (Resources::EPHEMERAL_STORAGE, class.disk_threshold.of(capacity.get(Resources::EPHEMERAL_STORAGE))),
        ],
    ));
    let floor: Vec<(String, i64)> = left.iter().map(|(name, amount)| (name.to_owned(), amount.max(0))).collect();
    floor.into_iter().collect()
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
    let said = |name: &str| class.kube_reserved.get(name).copied();
    known(capacity, defaults.map(|(name, amount)| (name, said(name).unwrap_or(amount))))
}

/// Only the resources that the machine has: a reservation of another (`pid`) leaves nothing to subtract from.
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
    let limited = (!class.family.is_windows())
        .then(|| pods::eni_limited_pods(info.max_interfaces, info.ipv4_per_interface, settings.reserved_enis));
    let per_core = class.pods_per_core.filter(|_| class.family != api::nodeclass::AmiFamily::Bottlerocket);
    pods::max_pods(class.max_pods, limited, per_core, info.vcpus)
}

fn disk(info: &InstanceTypeInfo, class: &ClassSettings) -> i64 {
    if class.raid0 && info.local_storage_gb > 0 {
        return i64::try_from(info.local_storage_gb).unwrap_or(i64::MAX).saturating_mul(1_000_000_000);
    }
    class.disk_bytes
}

fn bytes(mib: u64) -> i64 {
    i64::try_from(mib).unwrap_or(i64::MAX).saturating_mul(MIB)
}
