//! Capacity that is reserved, and groups that say where machines stand.

use serde::{Deserialize, Serialize};

use super::Tags;

/// Which capacity reservations to look for: all given fields must match; empty ones ask for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReservationFilter {
    /// Ids, any of them.
    pub ids: Vec<String>,
    /// Owner account.
    pub owner: Option<String>,
    /// `open` or `targeted`.
    pub match_criteria: Option<String>,
    /// Tags, all of them; `*` as value asks only for the key.
    pub tags: Tags,
}

/// A capacity reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityReservation {
    /// `cr-...`.
    pub id: String,
    /// Owner account.
    pub owner: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// `open` or `targeted`.
    pub match_criteria: String,
    /// Whether it is a capacity block for ML.
    pub capacity_block: bool,
    /// Whether EC2 may take its instances back.
    pub interruptible: bool,
    /// `active`, `expired`, `cancelled`, ... as EC2 says it.
    pub state: String,
    /// Instances that it is for.
    pub total: u32,
    /// Instances that it still has room for.
    pub available: u32,
    /// When it ends, RFC 3339; `None` runs on until somebody ends it.
    pub ends: Option<String>,
    /// Its tags.
    pub tags: Tags,
}

/// How a placement group is named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlacementGroupQuery {
    /// By name.
    Name(String),
    /// By id, `pg-...`.
    Id(String),
}

/// A placement group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementGroup {
    /// `pg-...`.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `cluster`, `spread` or `partition`.
    pub strategy: String,
    /// `pending`, `available`, `deleting` or `deleted`.
    pub state: String,
    /// How many partitions it has, 0 unless its strategy is `partition`.
    pub partitions: u32,
}
