//! Capacity reservations and placement groups.

use serde::{Deserialize, Serialize};

use super::Tags;

/// A filter of capacity reservations. All given fields must match; an empty field matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReservationFilter {
    /// Ids; one of them must match.
    pub ids: Vec<String>,
    /// Owner account.
    pub owner: Option<String>,
    /// Match criteria: `open` or `targeted`.
    pub match_criteria: Option<String>,
    /// Tags; all of them must match. The value `*` matches any value of the key.
    pub tags: Tags,
}

/// A capacity reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityReservation {
    /// Id, `cr-...`.
    pub id: String,
    /// Owner account.
    pub owner: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// Match criteria: `open` or `targeted`.
    pub match_criteria: String,
    /// True for a capacity block for ML.
    pub capacity_block: bool,
    /// True if EC2 may interrupt its instances.
    pub interruptible: bool,
    /// State in EC2's spelling: `active`, `expired`, `cancelled`, ...
    pub state: String,
    /// Total instance count.
    pub total: u32,
    /// Available instance count.
    pub available: u32,
    /// End time, RFC 3339; `None` if the reservation has no end date.
    pub ends: Option<String>,
    /// Tags.
    pub tags: Tags,
}

/// Name or id of a placement group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlacementGroupQuery {
    /// Name.
    Name(String),
    /// Id, `pg-...`.
    Id(String),
}

/// A placement group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementGroup {
    /// Id, `pg-...`.
    pub id: String,
    /// Name.
    pub name: String,
    /// Strategy: `cluster`, `spread` or `partition`.
    pub strategy: String,
    /// State: `pending`, `available`, `deleting` or `deleted`.
    pub state: String,
    /// Number of partitions, 0 unless the strategy is `partition`.
    pub partitions: u32,
}
