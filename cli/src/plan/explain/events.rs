//! The newest events of controller and agent about an object. They have what a new plan cannot know: the node to which the controller
//! nominated a pod, or the command that it carries out.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde_json::Value;

use super::Explanation;
use crate::failure::Failure;
use crate::output::{age, counted};

/// Maximum number of events.
const EVENTS: usize = 5;
/// Sources of events.
const SOURCES: [&str; 2] = ["karpenter", "kerf-agent"];

/// Returns the section about the newest events, or about the reason why they cannot be read.
pub fn events(events: Result<Vec<Value>, Failure>, now: Timestamp, colours: bool) -> String {
    let mut explanation = Explanation::new(colours);
    explanation.heading("EVENTS");
    match events {
        Ok(events) => newest(events).iter().for_each(|event| explanation.line(&line(event, now))),
        Err(failure) => explanation.line(&format!("not read: {failure}")),
    }
    if explanation.lines.len() == 2 {
        explanation.line("none of the controller or the agent; the API server keeps events for an hour by default");
    }
    explanation.text()
}

/// Returns the events of Kerf, from the newest.
fn newest(events: Vec<Value>) -> Vec<Event> {
    let events = events.into_iter().filter_map(|event| serde_json::from_value::<Event>(event).ok());
    let is_own = |event: &Event| {
        let component = event.source.as_ref().and_then(|source| source.component.as_deref());
        component.is_some_and(|component| SOURCES.contains(&component))
    };
    let mut own: Vec<Event> = events.filter(is_own).collect();
    own.sort_by_key(|event| std::cmp::Reverse(time(event)));
    own.truncate(EVENTS);
    own
}

fn time(event: &Event) -> Option<Timestamp> {
    event.last_timestamp.as_ref().or(event.metadata.creation_timestamp.as_ref()).map(|time| time.0)
}

fn line(event: &Event, now: Timestamp) -> String {
    let ago = time(event).map_or_else(|| "unknown".to_owned(), |time| age(now.as_second() - time.as_second()) + " ago");
    let times = event.count.filter(|&count| count > 1).map(|count| format!(", {}", counted(count as usize, "time")));
    let reason = event.reason.as_deref().unwrap_or_default();
    format!("{ago}{}: {reason}: {}", times.unwrap_or_default(), event.message.as_deref().unwrap_or_default())
}
