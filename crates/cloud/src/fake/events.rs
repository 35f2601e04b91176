//! EventBridge messages about instances, as a rule of the account would send them to a queue.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::filter::ACCOUNT;

/// An event of an instance.
#[derive(Clone, Copy)]
pub(super) enum FakeEvent<'a> {
    /// Interruption of a spot instance.
    SpotInterruption,
    /// Rebalance recommendation.
    Rebalance,
    /// Interruption of an instance of a capacity reservation.
    ReservationInterruption,
    /// Change to this state.
    State(&'a str),
}

/// Returns the message in EventBridge's envelope.
pub(super) fn envelope(region: &str, number: u64, instance: &str, event: FakeEvent<'_>, now: Timestamp) -> String {
    let (kind, detail) = match event {
        FakeEvent::SpotInterruption => {
            ("EC2 Spot Instance Interruption Warning", json!({"instance-id": instance, "instance-action": "terminate"}))
        }
        FakeEvent::Rebalance => ("EC2 Instance Rebalance Recommendation", json!({"instance-id": instance})),
        FakeEvent::ReservationInterruption => {
            let detail = json!({"instance-id": instance, "instance-action": "terminate"});
            ("EC2 Capacity Reservation Instance Interruption Warning", detail)
        }
        FakeEvent::State(state) => {
            ("EC2 Instance State-change Notification", json!({"instance-id": instance, "state": state}))
        }
    };
    let message: Value = json!({
        "version": "0",
        "id": format!("00000000-0000-4000-8000-{number:012}"),
        "detail-type": kind,
        "source": "aws.ec2",
        "account": ACCOUNT,
        "time": now.to_string(),
        "region": region,
        "resources": [format!("arn:aws:ec2:{region}:{ACCOUNT}:instance/{instance}")],
        "detail": detail,
    });
    message.to_string()
}
