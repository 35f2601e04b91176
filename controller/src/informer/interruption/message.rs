//! Messages of the SQS queue: EventBridge's envelopes, and all else that the rules of an account send there.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::NoticeKind;

/// Version of the envelope that EventBridge sends.
const VERSION: &str = "0";

/// Parsed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Notice about these instances.
    Notice {
        /// Kind of the notice.
        kind: NoticeKind,
        /// Instance ids, such as `i-...`.
        instances: Vec<String>,
        /// Time of the event.
        at: Option<Timestamp>,
    },
    /// Message without effect: another service, another kind of event, a state that is no end, or an empty body.
    Nothing,
}

impl Message {
    /// Returns the label value in metrics.
    #[must_use]
    pub fn kind_label(&self) -> &'static str {
        match self {
            Self::Notice { kind, .. } => kind.as_str(),
            Self::Nothing => "no_op",
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Envelope {
    #[serde(default)]
    version: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    detail_type: String,
    #[serde(default)]
    time: String,
    #[serde(default)]
    detail: Value,
}

/// Parses a message.
///
/// # Errors
/// Returns a message if the body is not an envelope, or if a relevant event lacks a required field.
pub fn parse(body: &str) -> Result<Message, String> {
    if body.trim().is_empty() {
        return Ok(Message::Nothing);
    }
    let complaint = |error: serde_json::Error| format!("not an EventBridge event: {error}");
    // A list would deserialize as an envelope without fields.
    let object: Map<String, Value> = serde_json::from_str(body).map_err(complaint)?;
    let envelope: Envelope = serde_json::from_value(Value::Object(object)).map_err(complaint)?;
    if envelope.version != VERSION {
        return Ok(Message::Nothing);
    }
    let detail = &envelope.detail;
    let kind = match (envelope.source.as_str(), envelope.detail_type.as_str()) {
        ("aws.ec2", "EC2 Spot Instance Interruption Warning") => Some(NoticeKind::SpotInterrupted),
        ("aws.ec2", "EC2 Instance Rebalance Recommendation") => Some(NoticeKind::RebalanceRecommendation),
        ("aws.ec2", "EC2 Instance State-change Notification") => ending(text(detail, "state")?),
        ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => {
            Some(NoticeKind::CapacityReservationInterrupted)
        }
        ("aws.health", "AWS Health Event") => scheduled(detail)?,
        _ => None,
    };
    let Some(kind) = kind else { return Ok(Message::Nothing) };
    let instances = match kind {
        NoticeKind::ScheduledChange => affected(detail)?,
        _ => vec![text(detail, "instance-id")?.to_owned()],
    };
    Ok(Message::Notice { kind, instances, at: envelope.time.parse().ok() })
}

/// Returns the kind for a state that an instance does not leave by itself. The state may be in upper or lower case.
fn ending(state: &str) -> Option<NoticeKind> {
    match state.to_ascii_lowercase().as_str() {
        "stopping" | "stopped" => Some(NoticeKind::InstanceStopped),
        "shutting-down" | "terminated" => Some(NoticeKind::InstanceTerminated),
        _ => None,
    }
}

/// Selects scheduled changes of EC2. AWS Health also reports other services and past events.
fn scheduled(detail: &Value) -> Result<Option<NoticeKind>, String> {
    let ours = text(detail, "service")? == "EC2" && text(detail, "eventTypeCategory")? == "scheduledChange";
    Ok(ours.then_some(NoticeKind::ScheduledChange))
}

/// Returns the affected instances. An event without entities concerns the account.
fn affected(detail: &Value) -> Result<Vec<String>, String> {
    let Some(entities) = detail.get("affectedEntities") else { return Ok(Vec::new()) };
    let entities = entities.as_array().ok_or_else(|| "detail.affectedEntities is not a list".to_owned())?;
    entities.iter().map(|entity| text(entity, "entityValue").map(str::to_owned)).collect()
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str, String> {
    value.get(field).and_then(Value::as_str).ok_or_else(|| format!("detail.{field} is missing"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Message, NoticeKind, parse};

    fn envelope(source: &str, kind: &str, detail: &Value) -> String {
        json!({
            "version": "0", "id": "x", "detail-type": kind, "source": source, "account": "123456789012",
            "time": "2026-03-01T12:00:00Z", "region": "us-west-2", "resources": ["arn:x"], "detail": detail,
        })
        .to_string()
    }

    fn ec2(kind: &str, detail: &Value) -> String {
        envelope("aws.ec2", kind, detail)
    }

    #[test]
    fn parse_returns_the_kind_for_source_and_detail_type() {
        let one = json!({"instance-id": "i-1", "instance-action": "terminate"});
        let state =
            |state: &str| ec2("EC2 Instance State-change Notification", &json!({"instance-id": "i-1", "state": state}));
        let health = |service: &str, category: &str| {
            let entities = json!([{"entityValue": "i-1"}, {"entityValue": "i-2"}]);
            let detail = json!({"service": service, "eventTypeCategory": category, "affectedEntities": entities});
            envelope("aws.health", "AWS Health Event", &detail)
        };
        let rows = [
            (ec2("EC2 Spot Instance Interruption Warning", &one), Some((NoticeKind::SpotInterrupted, 1))),
            (ec2("EC2 Instance Rebalance Recommendation", &one), Some((NoticeKind::RebalanceRecommendation, 1))),
            (
                ec2("EC2 Capacity Reservation Instance Interruption Warning", &one),
                Some((NoticeKind::CapacityReservationInterrupted, 1)),
            ),
            (state("stopping"), Some((NoticeKind::InstanceStopped, 1))),
            (state("STOPPED"), Some((NoticeKind::InstanceStopped, 1))),
            (state("Shutting-Down"), Some((NoticeKind::InstanceTerminated, 1))),
            (state("terminated"), Some((NoticeKind::InstanceTerminated, 1))),
            (state("running"), None),
            (state("pending"), None),
            (health("EC2", "scheduledChange"), Some((NoticeKind::ScheduledChange, 2))),
            (health("EC2", "issue"), None),
            (health("RDS", "scheduledChange"), None),
            (ec2("EC2 Fleet Instance Change", &one), None),
            (envelope("aws.other", "EC2 Spot Instance Interruption Warning", &one), None),
            ("{\"version\": \"1\"}".to_owned(), None),
            ("{}".to_owned(), None),
            (" ".to_owned(), None),
        ];
        for (body, expected) in rows {
            match (parse(&body), expected) {
                (Ok(Message::Notice { kind, instances, at }), Some((expected, count))) => {
                    assert_eq!((kind, instances.len()), (expected, count), "{body}");
                    assert!(at.is_some());
                }
                (Ok(Message::Nothing), None) => {}
                (other, _) => panic!("{body}: {other:?}"),
            }
        }
    }

    #[test]
    fn parse_fails_when_the_body_or_a_field_is_invalid() {
        let rows = [
            ("garbage".to_owned(), "not an EventBridge event"),
            ("[]".to_owned(), "not an EventBridge event"),
            (ec2("EC2 Spot Instance Interruption Warning", &json!({})), "instance-id"),
            (ec2("EC2 Spot Instance Interruption Warning", &Value::Null), "instance-id"),
            (ec2("EC2 Instance State-change Notification", &json!({"instance-id": "i-1"})), "state"),
            (
                envelope(
                    "aws.health",
                    "AWS Health Event",
                    &json!({"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": [{}]}),
                ),
                "entityValue",
            ),
        ];
        for (body, word) in rows {
            let error = parse(&body).err().unwrap_or_default();
            assert!(error.contains(word), "{body}: {error}");
        }
    }
}
