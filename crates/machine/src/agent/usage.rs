//! Settings of the utilization report.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::span::Span;

/// Measurement of the instance, and its interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UsageSettings {
    /// `true` if the instance is measured and its NodeUsage is written.
    pub enabled: bool,
    /// Interval of the measurements, from `1s` to `2m`.
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
    /// Returns the interval within its limits. A shorter interval has a cost without a benefit. A longer one would break the
    /// guarantee of a report every five minutes.
    #[must_use]
    pub fn every(&self) -> Duration {
        self.period.0.clamp(Duration::from_secs(1), Duration::from_secs(120))
    }
}
