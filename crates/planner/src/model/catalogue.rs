//! What can be bought for one node class: instance types with their offerings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Resources;

/// The few labels that the planner itself must know by name; crate `snapshot` tests that they are `api`'s.
pub mod label {
    /// Stands in the offerings.
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    /// Stands in the offerings.
    pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
    /// The instance type's name.
    pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
    /// Stands in reserved offerings: the capacity reservation that a node was launched into.
    pub const RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
    /// Unknown before a node registers.
    pub const HOSTNAME: &str = "kubernetes.io/hostname";
    /// Stands in reasons: what a pod says to keep the first of its workload off spot.
    pub const ON_DEMAND_BASE: &str = "kerf.sh/on-demand-base";
    /// Stands in reasons: what a pod says of how many of the others go to spot.
    pub const SPOT_SHARE: &str = "kerf.sh/spot-share";
}

/// Money per hour in millionths of a dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MicroDollars(pub i64);

/// The instance types of one node class, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Catalogue {
    /// The node class's name.
    pub name: String,
    /// Its instance types, sorted by name.
    pub types: Vec<InstanceType>,
}

/// One instance type under one node class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceType {
    /// EC2's name, such as `m7g.large`.
    pub name: String,
    /// Label values that the type can have; an absent key means that the label does not exist on its nodes.
    /// Zone and capacity type stand in the offerings.
    pub labels: BTreeMap<String, Vec<String>>,
    /// What the machine has.
    pub capacity: Resources,
    /// What pods may request: capacity less reservations and the eviction threshold.
    pub allocatable: Resources,
    /// Where, how and for how much it can be had.
    pub offerings: Vec<Offering>,
    /// As `offerings`, of those whose price nobody knows: their `price` means nothing, and none of them is bought before an
    /// overlay says what it costs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unpriced: Vec<Offering>,
    /// Work done for the money, in thousandths of the usual: 1,250 counts a price for four fifths when types compete.
    pub performance: Option<u32>,
    /// How many volumes a new node can attach, by CSI driver; a driver that is not named has no bound.
    pub attach_limits: BTreeMap<String, i64>,
}

/// A way to buy an instance type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offering {
    /// Availability zone name.
    pub zone: String,
    /// Spot, on-demand or reserved.
    pub capacity_type: CapacityType,
    /// Price per hour.
    pub price: MicroDollars,
    /// Whether it can be had now, as far as we know.
    pub available: bool,
    /// Further labels of nodes that come from this offering, such as the zone id.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The capacity reservation that a reserved offering draws on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
}

/// Capacity that is paid for already.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// EC2's id; one reservation can stand behind several offerings.
    pub id: String,
    /// Instances that it still has room for, those of claims in flight taken off.
    pub remaining: u32,
}

/// Karpenter's capacity types, cheapest tier first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityType {
    /// Paid for already.
    Reserved,
    /// Spare capacity that EC2 may take back.
    Spot,
    /// Full price.
    OnDemand,
}

impl Offering {
    /// The value of a label that offerings decide.
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
    /// The label value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        }
    }
}
