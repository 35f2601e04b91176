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

/// Tags at the beginning of the descriptions of past events. AWS uses both spellings.
const OVER: [&str; 3] = ["completed", "canceled", "cancelled"];

impl StatusEvent {
    /// Reports whether a description of EC2 or AWS Health belongs to an event that is completed or cancelled: `[Completed] ...`.
    #[must_use]
    pub fn is_over(description: &str) -> bool {
        let tag = description.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']'));
        tag.is_some_and(|(tag, _)| OVER.iter().any(|word| tag.trim().eq_ignore_ascii_case(word)))
    }
}

#[cfg(test)]
mod tests {
    use super::StatusEvent;

    #[test]
    fn is_over_reads_the_tag_of_a_description() {
        let over = ["[Completed] reboot", "[Canceled] reboot", " [cancelled]", "[COMPLETED]"];
        let ahead = ["", "reboot", "reboot [Completed]", "[Urgent] reboot", "[Completed", "Completed"];
        assert_eq!(over.map(StatusEvent::is_over), [true; 4]);
        assert_eq!(ahead.map(StatusEvent::is_over), [false; 6]);
    }
}
