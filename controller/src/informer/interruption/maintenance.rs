//! Scheduled maintenance of instances: which program acts, and when.
//!
//! EC2 announces maintenance weeks ahead and may cancel or move it. A live agent reads the same list from metadata, and follows
//! its setting `maintenance`. The controller acts for all other nodes, [`LEAD`] before the window. Until then EC2's status
//! checks repeat the event every minute.

use api::condition;
use api::objects::Node;
use jiff::{SignedDuration, Timestamp};

use crate::reconcile::node::has_live_agent;

/// Time before the window at which a node is removed: the agent's default of `maintenance.lead`.
pub const LEAD: SignedDuration = SignedDuration::from_mins(30);

/// Time that is assumed to remain when the window is already open.
const AT_ONCE: SignedDuration = SignedDuration::from_mins(2);

/// Reports whether the controller must act at `now` on maintenance that starts at `starts`. Without a start it may be any
/// moment, and no agent has it in its list.
#[must_use]
pub fn is_due<'n>(starts: Option<Timestamp>, nodes: impl IntoIterator<Item = &'n Node>, now: Timestamp) -> bool {
    let Some(starts) = starts else { return true };
    starts.duration_since(now) <= LEAD && !is_handled_by_agent(nodes, now)
}

/// Reports whether the agent of a node acts on maintenance: the agent is live and its metadata answers.
#[must_use]
pub fn is_handled_by_agent<'n>(nodes: impl IntoIterator<Item = &'n Node>, now: Timestamp) -> bool {
    let is_blind = |node: &Node| {
        node.condition(condition::METADATA_REACHABLE).is_some_and(|found| found.status == condition::FALSE)
    };
    nodes.into_iter().any(|node| has_live_agent(node, now) && !is_blind(node))
}

/// Returns the time at which pods are deleted by force: the start of the window, or two minutes from `now`.
#[must_use]
pub fn deadline(starts: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let soonest = now.checked_add(AT_ONCE).unwrap_or(now);
    starts.map(|starts| starts.max(soonest))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::at;

    fn node(heartbeat: Option<i64>, metadata: Option<&str>) -> Node {
        let annotations = heartbeat.map(|seconds| json!({"kerf.sh/agent-heartbeat": at(seconds).to_string()}));
        let reachable = metadata.map(|status| json!({"type": "kerf.sh/MetadataReachable", "status": status}));
        let conditions: Vec<Value> = reachable.into_iter().collect();
        serde_json::from_value(json!({
            "metadata": {"name": "n", "annotations": annotations}, "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn is_due_half_an_hour_ahead_when_no_agent_acts() {
        const NOW: i64 = 10_000;
        let (silent, live) = (node(None, None), node(Some(NOW - 60), Some("True")));
        let rows = [
            ("weeks ahead", Some(NOW + 21 * 86_400), vec![&silent], false),
            ("a second too early", Some(NOW + 1801), vec![&silent], false),
            ("half an hour ahead", Some(NOW + 1800), vec![&silent], true),
            ("window open", Some(NOW - 60), vec![&silent], true),
            ("start unknown", None, vec![&silent], true),
            ("no node yet", Some(NOW + 60), vec![], true),
            ("live agent", Some(NOW + 60), vec![&live], false),
            ("live agent, start unknown", None, vec![&live], true),
        ];
        for (name, starts, nodes, due) in rows {
            assert_eq!(is_due(starts.map(at), nodes, at(NOW)), due, "{name}");
        }
        let (gone, blind) = (node(Some(NOW - 180), None), node(Some(NOW - 60), Some("False")));
        for node in [&gone, &blind] {
            assert!(is_due(Some(at(NOW + 60)), [node], at(NOW)), "an agent that receives no notices: {node:?}");
        }
    }

    #[test]
    fn deadline_is_the_start_or_two_minutes_ahead() {
        let rows = [(Some(5000), Some(5000)), (Some(1060), Some(1120)), (Some(0), Some(1120)), (None, None)];
        for (starts, expected) in rows {
            assert_eq!(deadline(starts.map(at), at(1000)), expected.map(at), "{starts:?}");
        }
    }
}
