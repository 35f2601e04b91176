//! SQS queue with the messages of EventBridge.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName};
use cloud::{CloudError, QueueMessage, Timestamp};

use crate::failure::{failure, incomplete, refused};

/// Messages per call, the maximum of SQS.
const BATCH: usize = 10;

/// Seconds that a call waits for the first message, the maximum of SQS.
const WAIT: i32 = 20;

/// Visibility timeout: seconds until a message that was not deleted is received again.
const HIDDEN: i32 = 20;

pub(crate) async fn url(client: &Client, name: &str) -> Result<String, CloudError> {
    const CALL: &str = "GetQueueUrl";
    let answer = client.get_queue_url().queue_name(name).send().await.map_err(|error| failure(CALL, error))?;
    answer.queue_url.ok_or_else(|| incomplete(CALL, "queue URL"))
}

pub(crate) async fn receive(client: &Client, url: &str) -> Result<Vec<QueueMessage>, CloudError> {
    let call = client
        .receive_message()
        .queue_url(url)
        .max_number_of_messages(i32::try_from(BATCH).unwrap_or(i32::MAX))
        .visibility_timeout(HIDDEN)
        .wait_time_seconds(WAIT)
        .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp);
    let answer = call.send().await.map_err(|error| failure("ReceiveMessage", error))?;
    Ok(answer.messages.unwrap_or_default().into_iter().map(message).collect())
}

fn message(message: Message) -> QueueMessage {
    let attributes = message.attributes.unwrap_or_default();
    let sent = attributes.get(&MessageSystemAttributeName::SentTimestamp).and_then(|text| text.parse().ok());
    QueueMessage {
        id: message.message_id.unwrap_or_default(),
        receipt: message.receipt_handle.unwrap_or_default(),
        body: message.body.unwrap_or_default(),
        sent: sent.and_then(|milliseconds| Timestamp::from_millisecond(milliseconds).ok()),
    }
}

/// Deletes messages. A batch that fails as a whole ends the deletion; earlier batches are deleted, and a repeated deletion is
/// no error.
pub(crate) async fn delete(client: &Client, url: &str, receipts: &[String]) -> Result<Vec<String>, CloudError> {
    let mut left = Vec::new();
    for batch in receipts.chunks(BATCH) {
        left.extend(delete_batch(client, url, batch).await?);
    }
    Ok(left)
}

async fn delete_batch(client: &Client, url: &str, receipts: &[String]) -> Result<Vec<String>, CloudError> {
    const CALL: &str = "DeleteMessageBatch";
    let mut call = client.delete_message_batch().queue_url(url);
    for (position, receipt) in receipts.iter().enumerate() {
        let entry = DeleteMessageBatchRequestEntry::builder().id(position.to_string()).receipt_handle(receipt);
        call = call.entries(entry.build().map_err(|error| refused(CALL, error.to_string()))?);
    }
    let answer = call.send().await.map_err(|error| failure(CALL, error))?;
    let position = |id: &str| id.parse::<usize>().ok();
    let failed = answer.failed.iter().filter_map(|entry| receipts.get(position(&entry.id)?));
    Ok(failed.cloned().collect())
}
