//! Decisions about preferences with a price.

use serde::{Deserialize, Serialize};

use crate::model::MicroDollars;

/// Decision whether pods of a workload that prefer separate hosts keep them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreferenceDecision {
    /// Positions of the workload's pods in the snapshot.
    pub pods: Vec<usize>,
    /// True if the plan honours the preference.
    pub is_honoured: bool,
    /// Additional cost of separate hosts per hour; `None` if they would leave pods without a place.
    pub premium: Option<MicroDollars>,
    /// Maximum additional cost per hour; `None` is unlimited.
    pub limit: Option<MicroDollars>,
}
