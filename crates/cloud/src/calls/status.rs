//! What EC2 knows of an instance's health.

use serde::{Deserialize, Serialize};

/// An instance that fails a check or has an event ahead (aws 6.4). One entry an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceStatus {
    /// `i-...`.
    pub instance: String,
    /// Since when its own checks fail, RFC 3339; `None` while they pass.
    pub instance_impaired_since: Option<String>,
    /// Since when the checks of its host fail, RFC 3339; `None` while they pass.
    pub system_impaired_since: Option<String>,
    /// What is going to be done to it; without what is completed or cancelled.
    pub events: Vec<StatusEvent>,
}

/// Something that EC2 is going to do to an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusEvent {
    /// `instance-reboot`, `system-reboot`, `system-maintenance`, `instance-retirement` or `instance-stop`.
    pub code: String,
    /// EC2's words.
    pub description: String,
    /// When it may begin, RFC 3339.
    pub not_before: Option<String>,
}
