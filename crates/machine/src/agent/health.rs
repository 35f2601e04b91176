//! Health conditions of the instance, and their thresholds.

use serde::{Deserialize, Serialize};

use super::span::Span;

/// Settings of the health conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HealthSettings {
    /// `false` if another program sets the health conditions.
    pub enabled: bool,
    /// Interval between two checks.
    pub period: Span,
    /// Threshold in percent of bytes or inodes above which a file system counts as full. kubelet's own garbage collection
    /// starts long before this value.
    pub disk_full_percent: Percent,
    /// systemd units that the node needs to run pods.
    pub units: HealthUnits,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self { enabled: true, period: Span::seconds(15), disk_full_percent: Percent(97), units: HealthUnits::default() }
    }
}

/// Names of systemd units; an empty name is not watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HealthUnits {
    /// Unit of kubelet.
    pub kubelet: String,
    /// Unit of the container runtime.
    pub runtime: String,
}

impl Default for HealthUnits {
    fn default() -> Self {
        Self { kubelet: "kubelet.service".to_owned(), runtime: "containerd.service".to_owned() }
    }
}

/// Percentage from 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "u8")]
pub struct Percent(pub u8);

impl TryFrom<i64> for Percent {
    type Error = String;

    fn try_from(percent: i64) -> Result<Self, String> {
        let valid = u8::try_from(percent).ok().filter(|percent| (1..=100).contains(percent));
        valid.map(Self).ok_or_else(|| format!("{percent} is not a percentage of a disk; write 1 to 100"))
    }
}

impl From<Percent> for u8 {
    fn from(percent: Percent) -> Self {
        percent.0
    }
}
