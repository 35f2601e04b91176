//! Queues with SQS' behaviour: long polling, redelivery of messages that are not deleted, a new receipt for each delivery.
//! EventBridge's messages about instances, as a rule of the account would send them to a queue.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::faults::refuse;
use super::filter::ACCOUNT;
use super::{FakeCloud, Input};
use crate::calls::{CloudError, ErrorKind, QueueMessage};

/// Visibility timeout of a received message.
const HIDDEN: SignedDuration = SignedDuration::from_secs(20);

/// Maximum number of messages per receive call.
const BATCH: usize = 10;

const RECEIVE: &str = "ReceiveMessage";

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

/// Queues of the account by name.
#[derive(Default)]
pub(super) struct Queues {
    queues: BTreeMap<String, Vec<Held>>,
    /// Counter for the numbers of messages and receipts.
    made: u64,
}

struct Held {
    message: QueueMessage,
    hidden_until: Timestamp,
}

/// Returns the URL of a queue: its name under a host that receives no requests.
fn url_of(name: &str) -> String {
    format!("https://sqs.invalid/{ACCOUNT}/{name}")
}

impl Queues {
    pub(super) fn create(&mut self, name: &str) {
        self.queues.entry(name.to_owned()).or_default();
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.queues.remove(name);
    }

    /// Returns the name of the first queue.
    pub(super) fn first(&self) -> Option<&str> {
        self.queues.keys().next().map(String::as_str)
    }

    pub(super) fn len(&self, name: &str) -> usize {
        self.queues.get(name).map_or(0, Vec::len)
    }

    /// Adds a message. Returns false if the queue does not exist.
    pub(super) fn send(&mut self, name: &str, body: &str, now: Timestamp) -> bool {
        let Some(queue) = self.queues.get_mut(name) else { return false };
        self.made += 1;
        let message = QueueMessage {
            id: format!("message-{}", self.made),
            receipt: String::new(),
            body: body.to_owned(),
            sent: Some(now),
        };
        queue.push(Held { message, hidden_until: now });
        true
    }

    pub(super) fn url(&self, name: &str) -> Result<String, CloudError> {
        if self.queues.contains_key(name) { Ok(url_of(name)) } else { Err(missing("GetQueueUrl")) }
    }

    fn receive(&mut self, url: &str, now: Timestamp) -> Result<Vec<QueueMessage>, CloudError> {
        let found = self.queues.iter_mut().find(|(name, _)| url_of(name) == url);
        let (_, queue) = found.ok_or_else(|| missing(RECEIVE))?;
        let mut received = Vec::new();
        for held in queue.iter_mut().filter(|held| held.hidden_until <= now).take(BATCH) {
            self.made += 1;
            held.message.receipt = format!("receipt-{}", self.made);
            held.hidden_until = now.saturating_add(HIDDEN).unwrap_or(Timestamp::MAX);
            received.push(held.message.clone());
        }
        Ok(received)
    }

    /// Deletes messages by receipt. As in SQS, the receipt of an earlier delivery deletes nothing and is no error.
    pub(super) fn delete(&mut self, url: &str, receipts: &[String]) -> Result<Vec<String>, CloudError> {
        let found = self.queues.iter_mut().find(|(name, _)| url_of(name) == url);
        let (_, queue) = found.ok_or_else(|| missing("DeleteMessageBatch"))?;
        queue.retain(|held| !receipts.contains(&held.message.receipt));
        Ok(receipts.iter().filter(|receipt| !receipt.starts_with("receipt-")).cloned().collect())
    }
}

fn missing(call: &'static str) -> CloudError {
    let message = "The specified queue does not exist.".to_owned();
    refuse(call, ErrorKind::NotFound, "AWS.SimpleQueueService.NonExistentQueue", message)
}

/// Waits for the first message as long as the builder's long poll. Hidden messages reappear only in a new receive call.
pub(super) async fn receive(cloud: &FakeCloud, url: &str) -> Result<Vec<QueueMessage>, CloudError> {
    let mut sent = cloud.sent.subscribe();
    let wait = Duration::try_from(cloud.at_present().0.timing.long_poll).unwrap_or_default();
    let end = tokio::time::Instant::now() + wait;
    let mut found = cloud.serve(RECEIVE, Input::Name(url.to_owned()), |state, now| state.queues.receive(url, now))?;
    while found.is_empty() && tokio::time::timeout_at(end, sent.changed()).await.is_ok() {
        let (mut state, now) = cloud.at_present();
        found = state.queues.receive(url, now)?;
    }
    Ok(found)
}
