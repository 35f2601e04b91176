//! Messages of the SQS queue: EventBridge's envelopes, and all else that the rules of an account send there.

use cloud::StatusEvent;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
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
        /// Start of a scheduled change.
        starts: Option<Timestamp>,
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
    let (instances, starts) = match kind {
        NoticeKind::ScheduledChange => (affected(detail)?, start(detail)),
        _ => (vec![text(detail, "instance-id")?.to_owned()], None),
    };
    Ok(Message::Notice { kind, instances, at: envelope.time.parse().ok(), starts })
}

/// Returns the kind for a state that an instance does not leave by itself. The state may be in upper or lower case.
fn ending(state: &str) -> Option<NoticeKind> {
    match state.to_ascii_lowercase().as_str() {
        "stopping" | "stopped" => Some(NoticeKind::InstanceStopped),
        "shutting-down" | "terminated" => Some(NoticeKind::InstanceTerminated),
        _ => None,
    }
}

/// Selects scheduled changes of EC2 that are ahead. AWS Health also reports other services, and the end of events.
fn scheduled(detail: &Value) -> Result<Option<NoticeKind>, String> {
    let ours = text(detail, "service")? == "EC2" && text(detail, "eventTypeCategory")? == "scheduledChange";
    Ok((ours && !is_over(detail)).then_some(NoticeKind::ScheduledChange))
}

/// Reports whether AWS Health has closed an event: the event is done or cancelled.
fn is_over(detail: &Value) -> bool {
    let descriptions = detail.get("eventDescription").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut descriptions = descriptions.iter().filter_map(|one| one.get("latestDescription")?.as_str());
    has_word(detail, "statusCode", &["closed"]) || descriptions.any(StatusEvent::is_over)
}

/// Returns the affected instances, without those that are not affected any more. An event without entities concerns the account.
fn affected(detail: &Value) -> Result<Vec<String>, String> {
    let Some(entities) = detail.get("affectedEntities") else { return Ok(Vec::new()) };
    let entities = entities.as_array().ok_or_else(|| "detail.affectedEntities is not a list".to_owned())?;
    let affected = entities.iter().filter(|entity| !has_word(entity, "status", &["RESOLVED", "UNIMPAIRED"]));
    affected.map(|entity| text(entity, "entityValue").map(str::to_owned)).collect()
}

/// Returns the start of an event, whose format is that of mail: `Thu, 15 Oct 2026 02:00:00 GMT`.
fn start(detail: &Value) -> Option<Timestamp> {
    let text = detail.get("startTime")?.as_str()?;
    DateTimeParser::new().parse_timestamp(text).or_else(|_| text.parse()).ok()
}

/// Reports whether a field has one of these words, in upper or lower case.
fn has_word(value: &Value, field: &str, words: &[&str]) -> bool {
    let found = value.get(field).and_then(Value::as_str);
    found.is_some_and(|found| words.iter().any(|word| found.eq_ignore_ascii_case(word)))
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str, String> {
    value.get(field).and_then(Value::as_str).ok_or_else(|| format!("detail.{field} is missing"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Message, NoticeKind, parse};
    use crate::fixture::merge;

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
                (Ok(Message::Notice { kind, instances, at, .. }), Some((expected, count))) => {
                    assert_eq!((kind, instances.len()), (expected, count), "{body}");
                    assert!(at.is_some());
                }
                (Ok(Message::Nothing), None) => {}
                (other, _) => panic!("{body}: {other:?}"),
            }
        }
    }

    /// Returns an event of AWS Health about a maintenance of `i-1` and `i-2`, with this change.
    fn maintenance(change: &Value) -> String {
        let mut detail = json!({
            "eventArn": "arn:aws:health:us-east-1::event/EC2/AWS_EC2_SYSTEM_MAINTENANCE_EVENT/x",
            "service": "EC2", "eventTypeCode": "AWS_EC2_SYSTEM_MAINTENANCE_EVENT",
            "eventTypeCategory": "scheduledChange", "statusCode": "upcoming",
            "startTime": "Thu, 15 Oct 2026 02:00:00 GMT", "endTime": "Thu, 15 Oct 2026 04:00:00 GMT",
            "eventDescription": [{"language": "en_US", "latestDescription": "Your instance will be rebooted."}],
            "affectedEntities": [{"entityValue": "i-1", "status": "PENDING"}, {"entityValue": "i-2"}],
        });
        merge(&mut detail, change);
        envelope("aws.health", "AWS Health Event", &detail)
    }

    #[test]
    fn parse_returns_nothing_when_a_scheduled_change_is_over() {
        let described = |text: &str| json!({"eventDescription": [{"language": "en_US", "latestDescription": text}]});
        let over = [
            json!({"statusCode": "closed"}),
            json!({"statusCode": "CLOSED", "affectedEntities": [{"entityValue": "i-1", "status": "RESOLVED"}]}),
            described("[Completed] Your instance was rebooted."),
            described("[Canceled] The maintenance does not take place."),
        ];
        for change in over {
            assert_eq!(parse(&maintenance(&change)), Ok(Message::Nothing), "{change}");
        }
        let ahead =
            [json!({}), json!({"statusCode": "open"}), json!({"statusCode": null}), described("[Urgent] Reboot.")];
        for change in ahead {
            assert!(matches!(parse(&maintenance(&change)), Ok(Message::Notice { .. })), "{change}");
        }
    }

    #[test]
    fn parse_omits_resolved_entities_of_a_scheduled_change() {
        let entities = json!({"affectedEntities": [
            {"entityValue": "i-1", "status": "RESOLVED"}, {"entityValue": "i-2", "status": "PENDING"},
            {"entityValue": "i-3", "status": "unimpaired"}, {"entityValue": "i-4"},
        ]});
        let Ok(Message::Notice { instances, .. }) = parse(&maintenance(&entities)) else { panic!("no notice") };
        assert_eq!(instances, ["i-2", "i-4"]);
    }

    #[test]
    fn parse_returns_the_start_of_a_scheduled_change() {
        let time: Option<jiff::Timestamp> = "2026-10-15T02:00:00Z".parse().ok();
        let rows = [
            (json!({}), time),
            (json!({"startTime": "2026-10-15T02:00:00Z"}), time),
            (json!({"startTime": "soon"}), None),
            (json!({"startTime": null}), None),
        ];
        for (change, expected) in rows {
            let Ok(Message::Notice { starts, .. }) = parse(&maintenance(&change)) else {
                panic!("no notice: {change}")
            };
            assert_eq!(starts, expected, "{change}");
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
