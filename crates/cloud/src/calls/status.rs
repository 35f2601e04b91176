//! Status checks and scheduled events of instances.

use serde::{Deserialize, Serialize};

/// Status of an instance that fails a status check or has a scheduled event. Each instance has one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceStatus {
    /// Instance id, `i-...`.
    pub instance: String,
    /// Time since which the instance status check fails, RFC 3339; `None` while it passes.
    pub instance_impaired_since: Option<String>,
    /// Time since which the system status check fails, RFC 3339; `None` while it passes.
    pub system_impaired_since: Option<String>,
    /// Scheduled events, without completed and cancelled events.
    pub events: Vec<StatusEvent>,
}

/// A scheduled event of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusEvent {
    /// Event code: `instance-reboot`, `system-reboot`, `system-maintenance`, `instance-retirement` or `instance-stop`.
    pub code: String,
    /// EC2's description.
    pub description: String,
    /// Earliest start, RFC 3339.
    pub not_before: Option<String>,
}
