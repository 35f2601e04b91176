//! Maximum number of pods, and kubelet's reservations. The controller computes allocatable resources before an instance exists,
//! and the agent computes them on it. With two different formulas, pods would be bound to nodes that reject them.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::expression::{Expression, ExpressionError};
use crate::quote::problem;

/// Number of pods for instance types with unknown interface limits, and for families without an interface limit.
pub const DEFAULT_MAX_PODS: u32 = 110;

/// Ephemeral storage that kubelet reserves, in MiB.
pub const KUBE_RESERVED_EPHEMERAL_STORAGE_MIB: u64 = 1024;

/// Network limits of one instance type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceLimits {
    /// Interfaces of the default network card, including the primary one.
    pub interfaces: u32,
    /// IPv4 addresses of each interface, including its own primary one.
    pub ipv4_per_interface: u32,
}

/// Returns the number of pods if each uses one IPv4 address of an interface. The first address of each interface is its own,
/// and two host-network pods (the network plugin and kube-proxy) need none.
///
/// `reserved_interfaces` are unavailable for pods: the setting `reserved-enis` plus interfaces used only for EFA on the default
/// card. Without a usable interface the result is 0, never negative.
#[must_use]
pub fn eni_limited_pods(interfaces: u32, ipv4_per_interface: u32, reserved_interfaces: u32) -> u32 {
    let usable = interfaces.saturating_sub(reserved_interfaces);
    if usable == 0 {
        return 0;
    }
    usable.saturating_mul(ipv4_per_interface.saturating_sub(1)).saturating_add(2)
}

/// Returns the CPU that kubelet reserves, in millicores. Each band is rounded down:
///
/// - 6 % of the first core
/// - 1 % of the second core
/// - 0.5 % of the third and fourth core
/// - 0.25 % of each further core
#[must_use]
pub fn kube_reserved_cpu_millicores(vcpus: u32) -> u64 {
    let band = |from: u32, to: u32| u64::from(vcpus.clamp(from, to) - from);
    band(0, 1) * 60 + band(1, 2) * 10 + band(2, 4) * 5 + band(4, u32::MAX) * 25 / 10
}

/// Returns the memory that kubelet reserves, in MiB.
///
/// `max_pods` is the interface-limited number of pods of the instance type, even if the user configured another number for
/// kubelet. EKS's bootstrap has always done this, and schedulers depend on it.
#[must_use]
pub fn kube_reserved_memory_mib(max_pods: u32) -> u64 {
    u64::from(max_pods) * 11 + 255
}

/// Returns the maximum number of pods of a node: the user's `max_pods`, else the number by its interfaces, else
/// [`DEFAULT_MAX_PODS`]. A `pods_per_core` that is set and not zero limits the number to `pods_per_core` x `vcpus`.
#[must_use]
pub fn max_pods(user: Option<u32>, eni_limited: Option<u32>, pods_per_core: Option<u32>, vcpus: u32) -> u32 {
    let density = user.or(eni_limited).unwrap_or(DEFAULT_MAX_PODS);
    match pods_per_core {
        Some(per_core) if per_core > 0 => density.min(per_core.saturating_mul(vcpus)),
        _ => density,
    }
}

/// Variables of an expression for the number of pods.
const EXPRESSION_NAMES: [&str; 3] = ["default_enis", "ips_per_eni", "max_pods"];

/// Number of pods that a node's bootstrap computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Density {
    /// Number of pods.
    pub pods: u32,
    /// Warning if the user's expression is ignored.
    pub warning: Option<String>,
}

/// Reason why an expression gives no number of pods.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
enum DensityError {
    #[error("cannot be evaluated: {0}")]
    Expression(ExpressionError),
    #[error("the value {0} is not a number of pods")]
    OutOfRange(i64),
    #[error("unknown interface limits of this instance type")]
    NoLimits,
}

/// Returns the number of pods of a node with these interface limits. The first available value is used: the user's
/// `expression`, the number by the interfaces, or [`DEFAULT_MAX_PODS`].
///
/// An expression must give a number from 1 to 2³¹ - 1. Any other expression is ignored with a warning, because a node with the
/// default number is better than no node.
#[must_use]
pub fn density(limits: Option<InterfaceLimits>, expression: &str) -> Density {
    let default =
        limits.map_or(DEFAULT_MAX_PODS, |limits| eni_limited_pods(limits.interfaces, limits.ipv4_per_interface, 0));
    if expression.trim().is_empty() {
        return Density { pods: default, warning: None };
    }
    match limits.ok_or(DensityError::NoLimits).and_then(|limits| evaluate_expression(expression, limits, default)) {
        Ok(pods) => Density { pods, warning: None },
        Err(error) => {
            let why = problem(&error.to_string());
            let warning = format!("spec.kubelet.maxPodsExpression is ignored, maxPods is {default}: {why}");
            Density { pods: default, warning: Some(warning) }
        }
    }
}

fn evaluate_expression(expression: &str, limits: InterfaceLimits, default: u32) -> Result<u32, DensityError> {
    let values = [limits.interfaces, limits.ipv4_per_interface, default].map(i64::from);
    let compiled = Expression::compile(expression, &EXPRESSION_NAMES).map_err(DensityError::Expression)?;
    let value = compiled.evaluate(&values).map_err(DensityError::Expression)?;
    let pods = i32::try_from(value).ok().filter(|pods| *pods > 0).map(i32::unsigned_abs);
    pods.ok_or(DensityError::OutOfRange(value))
}

/// Returns the network limits of `instance_type` from the crate's table (`data/interfaces.csv`: EC2's DescribeInstanceTypes,
/// and the VPC network plugin's limits for single-card types that it lacks).
///
/// The node uses this function because it has no permission for EC2. An invalid line counts as absent; a test parses all lines.
#[must_use]
pub fn interface_limits(instance_type: &str) -> Option<InterfaceLimits> {
    rows().find(|(name, _)| *name == instance_type).map(|(_, limits)| limits)
}

/// Returns every instance type of the table with its limits, by name.
#[must_use]
pub fn table() -> BTreeMap<&'static str, InterfaceLimits> {
    rows().collect()
}

fn rows() -> impl Iterator<Item = (&'static str, InterfaceLimits)> {
    include_str!("../data/interfaces.csv").lines().skip(1).filter_map(row)
}

fn row(line: &'static str) -> Option<(&'static str, InterfaceLimits)> {
    let mut fields = line.split(',');
    let name = fields.next()?;
    let interfaces = fields.next()?.parse().ok()?;
    let ipv4_per_interface = fields.next()?.parse().ok()?;
    let limits = InterfaceLimits { interfaces, ipv4_per_interface };
    fields.next().is_none().then_some((name, limits))
}
