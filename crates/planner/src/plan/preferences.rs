//! Preferences of pods: dropped ones, and decisions about those with a price.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::model::{CapacityType, MicroDollars, Requirement, label};

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

/// Dropped preference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Preference {
    /// Preferred pod affinity.
    Near {
        /// Weight, 1 to 100.
        weight: i32,
        /// Topology key.
        key: String,
    },
    /// Preferred pod anti-affinity.
    Apart {
        /// Weight, 1 to 100.
        weight: i32,
        /// Topology key.
        key: String,
    },
    /// Preferred node affinity.
    Nodes {
        /// Weight, 1 to 100.
        weight: i32,
        /// Preferred requirements.
        term: Vec<Requirement>,
    },
    /// Spread with `ScheduleAnyway`.
    Spread {
        /// Topology key.
        key: String,
    },
    /// Nodes without `PreferNoSchedule` taints.
    SoftTaints,
    /// Part of the pod in its workload's capacity split.
    Share {
        /// Side of the split: spot, or else on-demand.
        of: CapacityType,
    },
}

impl Preference {
    /// Reports whether pods with the preference prefer separate hosts.
    #[must_use]
    pub fn is_for_separate_hosts(&self) -> bool {
        matches!(self, Self::Apart { key, .. } | Self::Spread { key } if key == label::HOSTNAME)
    }
}

impl Display for Preference {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Near { weight, key } => write!(out, "preferred podAffinity by {key} (weight {weight})"),
            Self::Apart { weight, key } => {
                write!(out, "preferred podAntiAffinity by {key} (weight {weight})")
            }
            Self::Nodes { weight, term } => {
                let keys: Vec<&str> = term.iter().map(|it| it.key.as_str()).collect();
                write!(out, "preferred nodeAffinity by {} (weight {weight})", keys.join(" and "))
            }
            Self::Spread { key } => write!(out, "ScheduleAnyway spread by {key}"),
            Self::SoftTaints => out.write_str("avoidance of PreferNoSchedule taints"),
            Self::Share { of } => {
                let side = if *of == CapacityType::Spot { "spot" } else { "on-demand" };
                write!(out, "preference for {side} by {}", label::SPOT_SHARE)
            }
        }
    }
}
