//! Pod density and kubelet's own reservations. The controller promises allocatable resources before a machine exists
//! and the agent computes them on it: if the two used two formulas, pods would be bound to nodes that refuse them.

use std::collections::BTreeMap;

/// Pods of a node whose instance type has no known interface limits, and of families without an interface limit.
pub const DEFAULT_MAX_PODS: u32 = 110;

/// Ephemeral storage that kubelet keeps for itself, MiB.
pub const KUBE_RESERVED_EPHEMERAL_STORAGE_MIB: u64 = 1024;

/// Network limits of one instance type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceLimits {
    /// Interfaces of the default network card, the primary one included.
    pub interfaces: u32,
    /// IPv4 addresses of each interface, its own primary one included.
    pub ipv4_per_interface: u32,
}

/// Pods that fit when each takes one IPv4 address of an interface: the first address of each interface is its own,
/// and two host-network pods (the network plugin and kube-proxy) need none.
///
/// `reserved_interfaces` are not for pods: the setting `reserved-enis` plus interfaces used only for EFA on the
/// default card. No interface left means no pods, never a negative number.
#[must_use]
pub fn eni_limited_pods(interfaces: u32, ipv4_per_interface: u32, reserved_interfaces: u32) -> u32 {
    let usable = interfaces.saturating_sub(reserved_interfaces);
    if usable == 0 {
        return 0;
    }
    usable.saturating_mul(ipv4_per_interface.saturating_sub(1)).saturating_add(2)
}

/// CPU that kubelet keeps for itself, millicores: 6 % of the first core, 1 % of the second, 0.5 % of the third and
/// fourth, 0.25 % of each further one; each band is rounded down.
#[must_use]
pub fn kube_reserved_cpu_millicores(vcpus: u32) -> u64 {
    let band = |from: u32, to: u32| u64::from(vcpus.clamp(from, to) - from);
    band(0, 1) * 60 + band(1, 2) * 10 + band(2, 4) * 5 + band(4, u32::MAX) * 25 / 10
}

/// Memory that kubelet keeps for itself, MiB.
///
/// `max_pods` is the interface-limited density of the instance type, also where the user asked kubelet for another
/// number of pods: that is what the node's bootstrap has always done, and what schedulers rely on.
#[must_use]
pub fn kube_reserved_memory_mib(max_pods: u32) -> u64 {
    u64::from(max_pods) * 11 + 255
}

/// The number of pods that a node will admit: the user's `max_pods`, else what its interfaces carry, else
/// [`DEFAULT_MAX_PODS`]; then no more than `pods_per_core` x `vcpus` where that is set and not zero.
#[must_use]
pub fn max_pods(user: Option<u32>, eni_limited: Option<u32>, pods_per_core: Option<u32>, vcpus: u32) -> u32 {
    let density = user.or(eni_limited).unwrap_or(DEFAULT_MAX_PODS);
    match pods_per_core {
        Some(per_core) if per_core > 0 => density.min(per_core.saturating_mul(vcpus)),
        _ => density,
    }
}

/// Network limits of `instance_type`, from the table that the crate carries (`data/interfaces.csv`: EC2's
/// DescribeInstanceTypes, and the VPC network plugin's limits for single-card types that it lacks).
///
/// For the node, which may not call EC2. A line that cannot be read counts as absent; a test reads them all.
#[must_use]
pub fn interface_limits(instance_type: &str) -> Option<InterfaceLimits> {
    table().get(instance_type).copied()
}

/// Every instance type of the table with its limits, by name.
#[must_use]
pub fn table() -> BTreeMap<&'static str, InterfaceLimits> {
    include_str!("../data/interfaces.csv").lines().skip(1).filter_map(row).collect()
}

fn row(line: &'static str) -> Option<(&'static str, InterfaceLimits)> {
    let mut fields = line.split(',');
    let name = fields.next()?;
    let interfaces = fields.next()?.parse().ok()?;
    let ipv4_per_interface = fields.next()?.parse().ok()?;
    let limits = InterfaceLimits { interfaces, ipv4_per_interface };
    fields.next().is_none().then_some((name, limits))
}
