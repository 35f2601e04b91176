//! Which nodes are unhealthy, how busy they are: what others say of a machine, and from when or until when it counts.

use api::condition;
use api::objects::{Node, NodeCondition, NodeReport};
use api::usage::Usage;
use jiff::{SignedDuration, Timestamp};
use planner::Unhealthy;

use super::NodeSource;
use crate::millis;
use crate::problem::UsageError;

/// What the agent, or the EKS node monitoring agent, says of a unhealthy machine (aws 4.8), and how long that has to last.
const MONITORED: [(&str, SignedDuration); 5] = [
    (condition::ACCELERATED_HARDWARE_READY, SignedDuration::from_mins(10)),
    (condition::STORAGE_READY, SignedDuration::from_mins(30)),
    (condition::NETWORKING_READY, SignedDuration::from_mins(30)),
    (condition::KERNEL_READY, SignedDuration::from_mins(30)),
    (condition::CONTAINER_RUNTIME_READY, SignedDuration::from_mins(30)),
];

/// How long a Node has to be without Ready.
const UNREADY: SignedDuration = SignedDuration::from_mins(30);

/// How long it has to last where kubelet and the agent agree: one of them may be wrong, both hardly are. A reboot is over by then.
const AGREED: SignedDuration = SignedDuration::from_secs(90);

/// What ails the node, with the first moment at which it may be replaced for it. A condition that does not say since when it
/// holds may have begun just now, so it does not count. `impaired` is since when EC2's own checks of the machine fail: they are no
/// illness by themselves, for whoever gives up machines that fail them needs no kubelet, but a witness beside either.
#[must_use]
pub fn sick(node: &Node, impaired: Option<Timestamp>) -> Option<Unhealthy> {
    let lost = [condition::FALSE, condition::UNKNOWN].iter().find_map(|status| since(node, condition::READY, status));
    let found =
        MONITORED.iter().filter_map(|(name, lasts)| Some((*name, since(node, name, condition::FALSE)?, *lasts)));
    let alone = lost.map(|since| (condition::READY, since, UNREADY)).into_iter().chain(found.clone());
    let agreed = found.filter_map(|(name, since, _)| Some((name, since.max(lost?), AGREED)));
    let witnessed = alone.clone().filter_map(|(name, since, _)| Some((name, since.max(impaired?), AGREED)));
    let all = agreed.chain(witnessed).chain(alone);
    let all = all.filter_map(|(name, since, lasts)| Some((since.checked_add(lasts).ok()?, name)));
    let (due, condition) = all.min_by_key(|(due, _)| *due)?;
    Some(Unhealthy { due: millis(due), condition: condition.to_owned() })
}

fn since(node: &Node, type_: &str, status: &str) -> Option<Timestamp> {
    let holds = |found: &&NodeCondition| found.status == status;
    Some(node.condition(type_).filter(holds)?.last_transition_time.as_ref()?.0)
}

/// What the machine uses, if the report is about this machine and about now; else why it does not count.
pub(super) fn usage<'r>(
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
    fn a_node_is_sick_from_the_first_moment_that_any_policy_names() {
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
            // The earliest counts.
            (
                vec![
                    condition("AcceleratedHardwareReady", "False", "12:25"),
                    condition("KernelReady", "False", "12:00"),
                    condition("Ready", "True", "11:00"),
                ],
                Some(("KernelReady", "12:30:00")),
            ),
            // Two who agree need not wait, from when on the second says so.
            (
                vec![condition("Ready", "Unknown", "12:05"), condition("KernelReady", "False", "12:00")],
                Some(("KernelReady", "12:06:30")),
            ),
            (
                vec![condition("Ready", "False", "12:00"), condition("StorageReady", "False", "12:29")],
                Some(("Ready", "12:30:00")),
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
            assert_eq!(sick(&node, None), expected, "{:?}", node.status.conditions);
        }
    }

    /// Rows: which condition is what since 12:00, since when EC2's checks fail, and from when on the node may go.
    #[test]
    fn checks_that_fail_bear_out_kubelet_and_the_agent_and_say_nothing_alone() {
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
            let said = json!({"type": name, "status": status, "lastTransitionTime": "2026-01-01T12:00:00Z"});
            let node: Node = serde_json::from_value(json!({"status": {"conditions": [said]}})).unwrap();
            let expected = due.map(|due| Unhealthy { due: millis(at(due)), condition: name.to_owned() });
            assert_eq!(sick(&node, impaired.map(at)), expected, "{name} is {status}, {impaired:?}");
        }
    }
}
