//! Workloads that want some of their pods on-demand and a share of the others on spot.

use serde::{Deserialize, Serialize};

/// What the pods of one workload ask for together; pods with equal mixes belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacitySplit {
    /// For people: `Kind namespace/name` of the pods' controller.
    pub workload: String,
    /// The controller's UID.
    pub owner: String,
    /// How many of the pods never go to spot; capacity that is reserved counts as on-demand.
    pub on_demand_base: u32,
    /// Of the others, how many of a hundred go to spot if it can be had; `None` where they go wherever it is cheapest.
    pub spot_share: Option<u8>,
}
