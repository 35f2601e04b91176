//! Messages of a queue.

use jiff::Timestamp;

/// A message that was received and not yet deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueMessage {
    /// SQS' id.
    pub id: String,
    /// What deletes it; differs each time that the message is received.
    pub receipt: String,
    /// The text.
    pub body: String,
    /// When it was sent.
    pub sent: Option<Timestamp>,
}
