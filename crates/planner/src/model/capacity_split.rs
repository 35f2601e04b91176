//! Workloads with some of their pods on-demand and a share of the others on spot.

use serde::{Deserialize, Serialize};

/// Split that the pods of one workload share; pods with equal values belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacitySplit {
    /// Display name: `Kind namespace/name` of the pods' controller.
    pub workload: String,
    /// UID of the controller.
    pub owner: String,
    /// Number of pods that never run on spot; reserved capacity counts as on-demand.
    pub on_demand_base: u32,
    /// Share of the other pods that run on spot if available, in percent; `None` where they run wherever it is cheapest.
    pub spot_share: Option<u8>,
}
