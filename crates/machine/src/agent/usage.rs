//! Settings of the usage report.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::span::Span;

/// What is measured of the machine, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UsageSettings {
    /// Whether the machine is measured and its NodeUsage written.
    pub enabled: bool,
    /// How often it is measured, from `1s` to `2m`.
    pub period: Span,
    /// Kubelet's `cgroupRoot`, below which the pods' cgroups are.
    pub cgroup_root: String,
}

impl Default for UsageSettings {
    fn default() -> Self {
        Self { enabled: true, period: Span::seconds(10), cgroup_root: "/".to_owned() }
    }
}

impl UsageSettings {
    /// The period, held within its bounds: faster costs for nothing, slower breaks the promise to report every five minutes.
    #[must_use]
    pub fn every(&self) -> Duration {
        self.period.0.clamp(Duration::from_secs(1), Duration::from_secs(120))
    }
}
