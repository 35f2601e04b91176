//! EventBridge messages about instances, as a rule of the account would send them to a queue.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::FakeCloud;
use super::find::ACCOUNT;
use super::world::World;

/// An event of an instance.
#[derive(Clone, Copy)]
pub(super) enum FakeEvent<'a> {
    /// Interruption of a spot instance.
    SpotInterruption,
    /// Rebalance recommendation.
    Rebalance,
    /// Change to this state.
    State(&'a str),
}

/// Returns the message in EventBridge's envelope.
fn envelope(region: &str, number: u64, instance: &str, told: FakeEvent<'_>, now: Timestamp) -> String {
    let (kind, detail) = match told {
        FakeEvent::SpotInterruption => {
            ("EC2 Spot Instance Interruption Warning", json!({"instance-id": instance, "instance-action": "terminate"}))
        }
        FakeEvent::Rebalance => ("EC2 Instance Rebalance Recommendation", json!({"instance-id": instance})),
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

impl World {
    /// Sends an event to the queue of the rule, if the rule exists. A missing queue receives nothing.
    pub(super) fn tell(&mut self, instance: &str, told: FakeEvent<'_>, now: Timestamp) {
        let Some(queue) = self.event_queue.clone() else { return };
        self.made += 1;
        let message = envelope(&self.region, self.made, instance, told, now);
        self.queues.send(&queue, &message, now);
    }
}

impl FakeCloud {
    /// Creates a rule that sends the future events of instances to a queue; `None` removes the rule.
    pub fn events_to(&self, queue: Option<&str>) {
        self.at_present().0.event_queue = queue.map(str::to_owned);
    }
}
