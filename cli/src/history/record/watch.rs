//! Observations from a dump of `kubectl get --watch --output-watch-events -o json`. The dump has no times, so those of the objects
//! count: the last one that the API server, a controller or kubelet wrote into the object.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::live::Seen;

/// Fields with a time in the past.
const TIMES: [&str; 8] = [
    "creationTimestamp",
    "time",
    "lastTransitionTime",
    "lastHeartbeatTime",
    "lastProbeTime",
    "startTime",
    "startedAt",
    "finishedAt",
];

/// Reports whether the value is an event of a watch.
pub(super) fn is_event(value: &Value) -> bool {
    value["type"].is_string() && value["object"].is_object()
}

/// Reports whether the event may be one of those for the objects that exist when the watch begins.
pub(super) fn is_first(value: &Value) -> bool {
    value["type"] == "ADDED"
}

/// Returns the time of an event, if its object has one, and what it changed.
pub(super) fn read(event: &Value) -> Option<(Option<Timestamp>, Seen)> {
    let object = event["object"].clone();
    let at = last_time(&object);
    let seen = match event["type"].as_str()? {
        "ADDED" | "MODIFIED" => Seen::Set(object),
        "DELETED" => Seen::Gone(object),
        _ => return None,
    };
    Some((at, seen))
}

fn last_time(object: &Value) -> Option<Timestamp> {
    [last_time_in(object), deletion(object)].into_iter().flatten().max()
}

fn last_time_in(value: &Value) -> Option<Timestamp> {
    match value {
        Value::Object(fields) => {
            let time = |(field, value): (&String, &Value)| match value {
                Value::String(text) if TIMES.contains(&field.as_str()) => text.parse().ok(),
                Value::Object(_) | Value::Array(_) => last_time_in(value),
                _ => None,
            };
            fields.iter().filter_map(time).max()
        }
        Value::Array(items) => items.iter().filter_map(last_time_in).max(),
        _ => None,
    }
}

/// Returns the time at which the deletion was requested. `deletionTimestamp` is the end of the grace period.
fn deletion(object: &Value) -> Option<Timestamp> {
    let metadata = &object["metadata"];
    let end: Timestamp = metadata["deletionTimestamp"].as_str()?.parse().ok()?;
    let grace = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
    end.checked_sub(SignedDuration::from_secs(grace)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn read_takes_the_last_time_of_the_object() {
        let object = json!({
            "kind": "Pod",
            "metadata": {
                "name": "web", "creationTimestamp": "2026-11-28T10:00:00Z",
                "managedFields": [{"time": "2026-11-28T10:00:07Z"}],
                "annotations": {"time": "no time"},
            },
            "status": {"conditions": [{"type": "Ready", "lastTransitionTime": "2026-11-28T10:00:05Z"}]},
        });
        let (at, seen) = read(&json!({"type": "MODIFIED", "object": object})).unwrap();
        assert_eq!(at.map(|at| at.to_string()).as_deref(), Some("2026-11-28T10:00:07Z"));
        assert!(matches!(seen, Seen::Set(_)));
        let mut deleted = object;
        deleted["metadata"]["deletionTimestamp"] = json!("2026-11-28T10:01:00Z");
        deleted["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        let (at, seen) = read(&json!({"type": "DELETED", "object": deleted})).unwrap();
        assert_eq!(at.map(|at| at.to_string()).as_deref(), Some("2026-11-28T10:00:30Z"));
        assert!(matches!(seen, Seen::Gone(_)));
        assert!(read(&json!({"type": "BOOKMARK", "object": {}})).is_none());
    }
}
