//! Messages of an SQS queue.

use jiff::Timestamp;

/// A message that was received and not yet deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueMessage {
    /// SQS message id.
    pub id: String,
    /// Receipt handle, the key for its deletion; differs for each delivery.
    pub receipt: String,
    /// Text of the message.
    pub body: String,
    /// Time at which the message was sent.
    pub sent: Option<Timestamp>,
}
