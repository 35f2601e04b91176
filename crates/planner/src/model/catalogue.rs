//! Catalogue of one EC2NodeClass: instance types with their offerings.

pub(super) mod commitment;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Resources;

/// Labels that the planner must know by name; crate `snapshot` tests that they equal those of `api`.
pub mod label {
    /// Zone; offerings have it.
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    /// Capacity type; offerings have it.
    pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
    /// Name of the instance type.
    pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
    /// Capacity reservation that a node was launched into; reserved offerings have it.
    pub const RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
    /// Hostname; unknown before a node registers.
    pub const HOSTNAME: &str = "kubernetes.io/hostname";
    /// Hypervisor; empty for bare metal.
    pub const INSTANCE_HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
    /// Number of GPUs of the instance type.
    pub const INSTANCE_GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
    /// Number of accelerators of the instance type.
    pub const INSTANCE_ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
    /// Annotation of a pod with the number of its workload's pods that never run on spot; named in reasons.
    pub const ON_DEMAND_BASE: &str = "kerf.sh/on-demand-base";
    /// Annotation with the share of a workload's other pods that run on spot; named in reasons.
    pub const SPOT_SHARE: &str = "kerf.sh/spot-share";
}

/// Money per hour in millionths of a dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MicroDollars(pub i64);

impl MicroDollars {
    /// Reports whether the amount is 0.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

/// Instance types of one EC2NodeClass, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Catalogue {
    /// Name of the EC2NodeClass.
    pub name: String,
    /// Instance types, sorted by name.
    pub types: Vec<InstanceType>,
    /// Names of zones that a zonal shift excludes; their offerings are unavailable. Named in reasons.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub shifted_zones: BTreeSet<String>,
    /// Cost per hour of what each node of the EC2NodeClass has beside its instance: volumes and a public address.
    #[serde(skip_serializing_if = "MicroDollars::is_zero")]
    pub node_extras: MicroDollars,
}

/// Instance type under one EC2NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceType {
    /// EC2's name, such as `m7g.large`.
    pub name: String,
    /// Possible label values of the type; an absent key means that its nodes lack the label. Zone and capacity type belong to
    /// the offerings.
    pub labels: BTreeMap<String, Vec<String>>,
    /// Capacity of the machine.
    pub capacity: Resources,
    /// Allocatable resources: capacity less reservations and the eviction threshold.
    pub allocatable: Resources,
    /// Offerings with zone, capacity type and price.
    pub offerings: Vec<Offering>,
    /// Offerings without a known price: their `price` has no meaning, and no launch uses them before a NodeOverlay sets a
    /// price.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unpriced: Vec<Offering>,
    /// Performance per price, in thousandths of the usual: with 1,250, a price counts as four fifths in comparisons of types.
    pub performance: Option<u32>,
    /// Maximum number of volumes that a new node can attach, by CSI driver; a driver without an entry is unlimited.
    pub attach_limits: BTreeMap<String, i64>,
}

/// Offering of an instance type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offering {
    /// Name of the availability zone.
    pub zone: String,
    /// Spot, on-demand or reserved.
    pub capacity_type: CapacityType,
    /// Price per hour for comparisons, with the premium.
    pub price: MicroDollars,
    /// Part of the price that EC2 does not charge: the premium for the risk of recent interruptions and shortages.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub premium: MicroDollars,
    /// True if the offering is available now, as far as known.
    pub available: bool,
    /// Further labels of nodes from this offering, such as the zone id.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Capacity reservation of a reserved offering.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
}

fn is_nothing(price: &MicroDollars) -> bool {
    *price == MicroDollars(0)
}

/// Prepaid capacity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// EC2's id; one reservation can belong to several offerings.
    pub id: String,
    /// Remaining instances, without those of in-flight claims.
    pub remaining: u32,
}

/// Karpenter's capacity types, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityType {
    /// Prepaid capacity.
    Reserved,
    /// Spare capacity that EC2 may interrupt.
    Spot,
    /// Capacity at full price.
    OnDemand,
}

impl Catalogue {
    /// Returns the instance type of this name.
    #[must_use]
    pub fn instance_type(&self, name: &str) -> Option<&InstanceType> {
        let position = self.types.binary_search_by(|kind| kind.name.as_str().cmp(name)).ok()?;
        self.types.get(position)
    }
}

impl InstanceType {
    /// Returns the price that EC2 charges for a node with these labels. The offering may be unavailable by now.
    #[must_use]
    pub fn price_of_node(&self, labels: &BTreeMap<String, String>) -> Option<MicroDollars> {
        let is_offering = |offering: &&Offering| {
            let reservation = labels.get(label::RESERVATION_ID);
            labels.get(label::ZONE) == Some(&offering.zone)
                && labels.get(label::CAPACITY_TYPE).map(String::as_str) == Some(offering.capacity_type.as_str())
                && offering.reservation.as_ref().is_none_or(|own| reservation.is_none_or(|id| *id == own.id))
        };
        Some(self.offerings.iter().find(is_offering)?.charged())
    }

    /// Reports whether launches avoid the type while ordinary types fit: bare-metal and accelerated types.
    #[must_use]
    pub fn is_exotic(&self) -> bool {
        let no_hypervisor = self.labels.get(label::INSTANCE_HYPERVISOR).is_some_and(|it| it == &[String::new()]);
        no_hypervisor
            || self.labels.contains_key(label::INSTANCE_GPU_COUNT)
            || self.labels.contains_key(label::INSTANCE_ACCELERATOR_COUNT)
    }
}

impl Offering {
    /// Returns the price that EC2 charges. A running node counts with it: the premium is for the choice of new ones.
    #[must_use]
    pub fn charged(&self) -> MicroDollars {
        MicroDollars(self.price.0 - self.premium.0)
    }

    /// Returns the value of a label that offerings decide.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        match key {
            label::ZONE => Some(&self.zone),
            label::CAPACITY_TYPE => Some(self.capacity_type.as_str()),
            label::RESERVATION_ID if self.reservation.is_some() => self.reservation.as_ref().map(|it| it.id.as_str()),
            key => self.labels.get(key).map(String::as_str),
        }
    }
}

impl CapacityType {
    /// Returns the label value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        }
    }
}
