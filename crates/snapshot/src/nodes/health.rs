//! Health and utilization of nodes: the conditions and reports of a node, and the times from or until which they count.

use api::objects::{Node, NodeCondition, NodeReport};
use api::usage::Usage;
use api::{condition, reason};
use jiff::{SignedDuration, Timestamp};
use planner::Unhealthy;

use super::NodeSource;
use crate::millis;
use crate::problem::UsageError;

/// Conditions of the Kerf agent or the EKS node monitoring agent for unhealthy nodes, each with the minimum duration before
/// repair.
const MONITORED: [(&str, SignedDuration); 5] = [
    (condition::ACCELERATED_HARDWARE_READY, SignedDuration::from_mins(10)),
    (condition::STORAGE_READY, SignedDuration::from_mins(30)),
    (condition::NETWORKING_READY, SignedDuration::from_mins(30)),
    (condition::KERNEL_READY, SignedDuration::from_mins(30)),
    (condition::CONTAINER_RUNTIME_READY, SignedDuration::from_mins(30)),
];

/// Minimum duration of a Node without `Ready` before repair.
const UNREADY: SignedDuration = SignedDuration::from_mins(30);

/// Minimum duration if kubelet and the agent report problems at the same time. A single report may be wrong, two hardly are. Before
/// its report the agent has observed the problem for 30 to 60 s.
const AGREED: SignedDuration = SignedDuration::from_secs(30);

/// Conditions of kubelet that confirm a condition of the agent, beside `Ready`.
const CONFIRMED_BY: [(&str, &str); 2] =
    [(condition::DISK_PRESSURE, condition::STORAGE_READY), (condition::MEMORY_PRESSURE, condition::KERNEL_READY)];

/// Minimum duration if EC2's status check confirms a condition. A reboot takes less time.
const AGREED_WITH_EC2: SignedDuration = SignedDuration::from_secs(90);

/// Minimum duration of a problem that does not end by itself, from Kerf's agent, which looks again every 15 s and takes back its report
/// if the problem is gone.
const LASTING: SignedDuration = SignedDuration::from_secs(60);

/// Reasons of problems that do not end by themselves.
const LASTING_REASONS: [&str; 4] = [
    reason::READONLY_FILESYSTEM,
    reason::FILESYSTEM_SHUTDOWN,
    reason::NVIDIA_DEVICE_COUNT_MISMATCH,
    reason::NEURON_DEVICE_COUNT_MISMATCH,
];

/// Returns the condition that makes the node unhealthy, with the earliest time of its replacement.
///
/// A condition without a transition time does not count, because it may have begun just now. `impaired` is the time since which
/// EC2's status checks of the instance fail. Failed status checks alone do not make a node unhealthy, because another mechanism
/// replaces such instances without kubelet. The checks only confirm a condition of kubelet or the agent.
#[must_use]
pub fn unhealthy(node: &Node, impaired: Option<Timestamp>) -> Option<Unhealthy> {
    let unready =
        [condition::FALSE, condition::UNKNOWN].iter().find_map(|status| since(node, condition::READY, status));
    let found =
        MONITORED.iter().filter_map(|(name, lasts)| Some((*name, since(node, name, condition::FALSE)?, *lasts)));
    let alone = unready.map(|since| (condition::READY, since, UNREADY)).into_iter().chain(found.clone());
    let agreed = found.clone().filter_map(|(name, since, _)| Some((name, since.max(unready?), AGREED)));
    let pressed = found.clone().filter_map(|(name, since, _)| Some((name, since.max(pressure(node, name)?), AGREED)));
    let lasting = found.filter(|(name, ..)| is_lasting(node, name)).map(|(name, since, _)| (name, since, LASTING));
    let impaired = alone.clone().filter_map(|(name, since, _)| Some((name, since.max(impaired?), AGREED_WITH_EC2)));
    let all = agreed.chain(pressed).chain(lasting).chain(impaired).chain(alone);
    let all = all.filter_map(|(name, since, lasts)| Some((since.checked_add(lasts).ok()?, name)));
    let (due, condition) = all.min_by_key(|(due, _)| *due)?;
    Some(Unhealthy { due: millis(due), condition: condition.to_owned() })
}

/// Returns the time since which kubelet reports a pressure that confirms this condition of the agent.
fn pressure(node: &Node, confirmed: &str) -> Option<Timestamp> {
    let (pressure, _) = CONFIRMED_BY.iter().find(|(_, name)| *name == confirmed)?;
    since(node, pressure, condition::TRUE)
}

/// Reports whether Kerf's agent gives a reason for this condition that does not end by itself.
fn is_lasting(node: &Node, name: &str) -> bool {
    node.condition(name).is_some_and(|found| {
        found.message.starts_with(condition::AGENT_MESSAGE) && LASTING_REASONS.contains(&found.reason.as_str())
    })
}

fn since(node: &Node, type_: &str, status: &str) -> Option<Timestamp> {
    let holds = |found: &&NodeCondition| found.status == status;
    Some(node.condition(type_).filter(holds)?.last_transition_time.as_ref()?.0)
}

/// Returns the utilization if the report is for this instance and current, else the reason why it is ignored.
pub(super) fn valid_usage<'r>(
    machine: &NodeSource<'_>,
    report: &'r NodeReport,
    now: Timestamp,
) -> Result<&'r Usage, UsageError> {
    let usage = &report.usage;
    let rows = [
        (machine.instance() != Some(&usage.instance), UsageError::OtherInstance),
        (usage.is_ahead(now), UsageError::Ahead),
        (usage.is_stale(now), UsageError::Stale),
    ];
    rows.into_iter().find(|(holds, _)| *holds).map_or(Ok(usage), |(_, why)| Err(why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unhealthy_returns_the_earliest_due_condition() {
        let at = |text: &str| millis(text.parse::<Timestamp>().unwrap());
        let condition = |type_: &str, status: &str, since: &str| {
            let since = if since.is_empty() { json!(null) } else { json!(format!("2026-01-01T{since}:00Z")) };
            json!({"type": type_, "status": status, "lastTransitionTime": since})
        };
        let rows = [
            (vec![], None),
            (vec![condition("Ready", "True", "12:00")], None),
            (vec![condition("Ready", "False", "12:00")], Some(("Ready", "12:30:00"))),
            (vec![condition("Ready", "Unknown", "12:00")], Some(("Ready", "12:30:00"))),
            (vec![condition("Ready", "Unknown", "")], None),
            (vec![condition("MemoryPressure", "True", "12:00")], None),
            (vec![condition("KernelReady", "True", "12:00")], None),
            (vec![condition("KernelReady", "Unknown", "12:00")], None),
            (vec![condition("KernelReady", "False", "12:00")], Some(("KernelReady", "12:30:00"))),
            (vec![condition("StorageReady", "False", "12:00")], Some(("StorageReady", "12:30:00"))),
            (vec![condition("NetworkingReady", "False", "12:00")], Some(("NetworkingReady", "12:30:00"))),
            (vec![condition("ContainerRuntimeReady", "False", "12:00")], Some(("ContainerRuntimeReady", "12:30:00"))),
            (
                vec![condition("AcceleratedHardwareReady", "False", "12:00")],
                Some(("AcceleratedHardwareReady", "12:10:00")),
            ),
            // The earliest due time counts.
            (
                vec![
                    condition("AcceleratedHardwareReady", "False", "12:25"),
                    condition("KernelReady", "False", "12:00"),
                    condition("Ready", "True", "11:00"),
                ],
                Some(("KernelReady", "12:30:00")),
            ),
            // The shorter duration counts from the second report on, because two sources agree.
            (
                vec![condition("Ready", "Unknown", "12:05"), condition("KernelReady", "False", "12:00")],
                Some(("KernelReady", "12:05:30")),
            ),
            // kubelet's pressure confirms only what it concerns.
            (
                vec![condition("DiskPressure", "True", "12:05"), condition("StorageReady", "False", "12:00")],
                Some(("StorageReady", "12:05:30")),
            ),
            (
                vec![condition("MemoryPressure", "True", "12:00"), condition("KernelReady", "False", "12:05")],
                Some(("KernelReady", "12:05:30")),
            ),
            (
                vec![condition("MemoryPressure", "True", "12:00"), condition("StorageReady", "False", "12:05")],
                Some(("StorageReady", "12:35:00")),
            ),
            (
                vec![condition("DiskPressure", "False", "12:00"), condition("StorageReady", "False", "12:05")],
                Some(("StorageReady", "12:35:00")),
            ),
            (
                vec![condition("Ready", "False", "12:00"), condition("StorageReady", "False", "12:29")],
                Some(("StorageReady", "12:29:30")),
            ),
            (
                vec![condition("Ready", "False", "12:00"), condition("StorageReady", "True", "12:01")],
                Some(("Ready", "12:30:00")),
            ),
        ];
        for (conditions, expected) in rows {
            let node: Node = serde_json::from_value(json!({"status": {"conditions": conditions}})).unwrap();
            let expected = expected.map(|(condition, due)| Unhealthy {
                due: at(&format!("2026-01-01T{due}Z")),
                condition: condition.to_owned(),
            });
            assert_eq!(unhealthy(&node, None), expected, "{:?}", node.status.conditions);
        }
    }

    /// Rows: reason and message of a condition that is False since 12:00, and the time of replacement.
    #[test]
    fn unhealthy_is_due_soon_for_a_problem_that_does_not_end_by_itself() {
        let rows = [
            ("ReadonlyFilesystem", "kerf-agent: / is read-only", "12:01:00"),
            ("FilesystemShutdown", "kerf-agent: XFS", "12:01:00"),
            ("DiskFull", "kerf-agent: /var is full", "12:30:00"),
            ("ReadonlyFilesystem", "/ is read-only", "12:30:00"),
        ];
        for (reason, message, due) in rows {
            let since = "2026-01-01T12:00:00Z";
            let found = json!({"type": "StorageReady", "status": "False", "reason": reason, "message": message, "lastTransitionTime": since});
            let node: Node = serde_json::from_value(json!({"status": {"conditions": [found]}})).unwrap();
            let due = millis(format!("2026-01-01T{due}Z").parse::<Timestamp>().unwrap());
            let expected = Unhealthy { due, condition: "StorageReady".to_owned() };
            assert_eq!(unhealthy(&node, None), Some(expected), "{reason}: {message}");
        }
    }

    /// Rows: a condition with its status since 12:00, the time since which EC2's checks fail, and the time of replacement.
    #[test]
    fn unhealthy_is_due_earlier_when_ec2_checks_fail_too() {
        let at = |time: &str| format!("2026-01-01T{time}Z").parse::<Timestamp>().unwrap();
        let rows = [
            ("Ready", "False", None, Some("12:30:00")),
            ("Ready", "False", Some("11:00:00"), Some("12:01:30")),
            ("Ready", "Unknown", Some("12:05:00"), Some("12:06:30")),
            ("Ready", "Unknown", Some("12:29:00"), Some("12:30:00")),
            ("Ready", "True", Some("11:00:00"), None),
            ("StorageReady", "False", Some("11:00:00"), Some("12:01:30")),
            ("StorageReady", "False", Some("12:10:00"), Some("12:11:30")),
            ("StorageReady", "True", Some("11:00:00"), None),
        ];
        for (name, status, impaired, due) in rows {
            let found = json!({"type": name, "status": status, "lastTransitionTime": "2026-01-01T12:00:00Z"});
            let node: Node = serde_json::from_value(json!({"status": {"conditions": [found]}})).unwrap();
            let expected = due.map(|due| Unhealthy { due: millis(at(due)), condition: name.to_owned() });
            assert_eq!(unhealthy(&node, impaired.map(at)), expected, "{name} is {status}, {impaired:?}");
        }
    }
}
