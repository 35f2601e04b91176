//! Compatibility of instance types with an EC2NodeClass. Each incompatibility is detected here with its reason, before any
//! launch.

use std::fmt;

use api::nodeclass::{AmiFamily, InterfaceType, NetworkInterface};

use super::ClassSettings;
use crate::calls::InstanceTypeInfo;

/// Processor feature for nested virtualization.
const NESTED: &str = "nested-virtualization";
/// Hypervisor of the types that support connection tracking settings.
const NITRO: &str = "nitro";

/// The reason why an instance type is incompatible with the EC2NodeClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incompatible {
    /// Amazon Linux 2023 does not run on first-generation Graviton.
    FirstGraviton,
    /// Windows does not exist for arm64.
    WindowsOnArm,
    /// `spec.networkInterfaces` needs EC2's elastic network adapter (ENA).
    NoNetworkAdapter,
    /// `spec.networkInterfaces` names a network card that the type does not have.
    NoNetworkCard {
        /// Index of the card.
        card: i32,
    },
    /// `spec.networkInterfaces` has a device index beyond the interfaces of the card.
    CardFull {
        /// Index of the card.
        card: i32,
        /// Maximum number of interfaces of the card.
        carries: u32,
    },
    /// `spec.networkInterfaces` has more EFA interfaces than the type supports.
    TooManyEfa {
        /// Number of EFA interfaces in the EC2NodeClass.
        asked: u32,
        /// Maximum number of EFA interfaces of the type.
        has: u32,
    },
    /// `spec.cpuOptions.nestedVirtualization` needs a processor that supports it.
    NoNestedVirtualization,
    /// The type does not support the strategy of the EC2NodeClass's placement group.
    PlacementStrategy(String),
    /// `spec.connectionTracking` needs the Nitro hypervisor.
    NoConnectionTracking,
}

impl fmt::Display for Incompatible {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FirstGraviton => out.write_str("AL2023 does not run on a1"),
            Self::WindowsOnArm => out.write_str("no Windows for arm64"),
            Self::NoNetworkAdapter => out.write_str("networkInterfaces requires ENA"),
            Self::NoNetworkCard { card } => write!(out, "networkInterfaces requires network card {card}"),
            Self::CardFull { card, carries } => {
                write!(out, "networkInterfaces exceeds the {carries} interfaces of network card {card}")
            }
            Self::TooManyEfa { asked, has } => {
                write!(out, "networkInterfaces requires {asked} EFA interfaces, it has {has}")
            }
            Self::NoNestedVirtualization => out.write_str("no nested virtualization"),
            Self::PlacementStrategy(strategy) => {
                write!(out, "not supported in placement groups of strategy {strategy}")
            }
            Self::NoConnectionTracking => out.write_str("connectionTracking requires the Nitro hypervisor"),
        }
    }
}

/// Returns the first reason why an instance type is incompatible with the EC2NodeClass.
#[must_use]
pub fn unfit(info: &InstanceTypeInfo, class: &ClassSettings) -> Option<Incompatible> {
    if class.family == AmiFamily::Al2023 && info.name.starts_with("a1.") {
        return Some(Incompatible::FirstGraviton);
    }
    if class.family.is_windows() && super::labels::arch(info) == api::label::ARCH_ARM64 {
        return Some(Incompatible::WindowsOnArm);
    }
    if let Some(unfit) = class.network_interfaces.as_deref().and_then(|wanted| interfaces(info, wanted)) {
        return Some(unfit);
    }
    if class.nested_virtualization && !info.processor_features.iter().any(|feature| feature == NESTED) {
        return Some(Incompatible::NoNestedVirtualization);
    }
    let unknown = |strategy: &&String| !info.placement_strategies.contains(strategy);
    if let Some(strategy) = class.placement_strategy.as_ref().filter(unknown) {
        return Some(Incompatible::PlacementStrategy(strategy.clone()));
    }
    (class.connection_tracking && info.hypervisor != NITRO).then_some(Incompatible::NoConnectionTracking)
}

fn interfaces(info: &InstanceTypeInfo, wanted: &[NetworkInterface]) -> Option<Incompatible> {
    if wanted.is_empty() {
        return None;
    }
    if !info.ena {
        return Some(Incompatible::NoNetworkAdapter);
    }
    for interface in wanted {
        let card = interface.network_card_index;
        let known = info.network_cards.iter().find(|known| i64::from(known.index) == i64::from(card));
        let Some(known) = known else { return Some(Incompatible::NoNetworkCard { card }) };
        if i64::from(interface.device_index) >= i64::from(known.max_interfaces) {
            return Some(Incompatible::CardFull { card, carries: known.max_interfaces });
        }
    }
    let asked = efa_only(wanted, |_| true);
    (asked > info.max_efa).then_some(Incompatible::TooManyEfa { asked, has: info.max_efa })
}

/// Counts the EFA-only interfaces, which have no IP addresses, on cards that satisfy `counts`.
pub(super) fn efa_only(interfaces: &[NetworkInterface], counts: impl Fn(i32) -> bool) -> u32 {
    let ours = |one: &&NetworkInterface| one.interface_type == InterfaceType::EfaOnly && counts(one.network_card_index);
    u32::try_from(interfaces.iter().filter(ours).count()).unwrap_or(u32::MAX)
}
