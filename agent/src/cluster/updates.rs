//! Updates of the Node's conditions and events about the Node, as values.

use api::hash::fnv1a;
use drain::Millis;
use serde_json::{Value, json};

use super::objects::Node;
use crate::host::clock::rfc3339;

/// Source component of the events.
const COMPONENT: &str = "kerf-agent";

/// A condition to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// Type of the condition.
    pub kind: &'static str,
    /// `True` or `False`.
    pub status: &'static str,
    /// Reason in CamelCase (or several gates, separated by commas).
    pub reason: String,
    /// Message, one sentence.
    pub message: String,
}

/// A `core/v1` Event to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// Key of the event, the same after a restart.
    pub key: String,
    /// Type `Warning` rather than `Normal`.
    pub warning: bool,
    /// Reason in CamelCase.
    pub reason: &'static str,
    /// Message, one sentence.
    pub message: String,
}

/// Returns the strategic merge patch of the Node's status for these conditions. `flipped` reports which conditions change their
/// status: only these receive a new transition time.
#[must_use]
pub fn status_patch(updates: &[ConditionUpdate], flipped: impl Fn(&ConditionUpdate) -> bool, now: Millis) -> Value {
    let at = rfc3339(now);
    let conditions: Vec<Value> = updates
        .iter()
        .map(|update| {
            let mut condition = json!({
                "type": update.kind,
                "status": update.status,
                "reason": update.reason,
                "message": update.message,
                "lastHeartbeatTime": at,
            });
            if flipped(update) {
                condition["lastTransitionTime"] = json!(at);
            }
            condition
        })
        .collect();
    json!({"status": {"conditions": conditions}})
}

impl NodeEvent {
    /// Returns the Event about the Node `name`. The name of the Event follows from its key, so that the server refuses a
    /// duplicate. An event without a Node object still refers to the Node by name, by which `kubectl describe node` finds it.
    #[must_use]
    pub fn event(&self, name: &str, node: Option<&Node>, now: Millis) -> Value {
        let at = rfc3339(now);
        let uid = node.map_or(name, |node| node.metadata.uid.as_str());
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": format!("{name}.{:016x}", fnv1a(self.key.bytes())), "namespace": "default"},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid},
            "type": if self.warning { "Warning" } else { "Normal" },
            "reason": self.reason,
            "message": self.message.chars().take(1000).collect::<String>(),
            "source": {"component": COMPONENT, "host": name},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
            "reportingComponent": COMPONENT,
            "reportingInstance": name,
        })
    }
}
