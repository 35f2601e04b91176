//! JSON protocol of SQS.

use cloud::fake::FakeCloud;
use cloud::{Cloud, QueueMessage};
use md5::{Digest, Md5};
use serde_json::{Value, json};

use super::answer::{self, Failure, Reply, invalid};

/// Runs `operation`.
pub(super) async fn act(cloud: &FakeCloud, operation: &str, body: &[u8]) -> Result<Reply, Failure> {
    let request = answer::json(body)?;
    let text = |field: &str| request.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (answer, summary) = match operation {
        "GetQueueUrl" => {
            let url = cloud.queue_url(&text("QueueName")).await?;
            (json!({"QueueUrl": url}), url)
        }
        "ReceiveMessage" => {
            let found = cloud.receive_messages(&text("QueueUrl")).await?;
            let summary = format!("{} messages", found.len());
            (json!({"Messages": found.iter().map(message).collect::<Vec<_>>()}), summary)
        }
        "SendMessage" => {
            let (url, body) = (text("QueueUrl"), text("MessageBody"));
            // The last part of a queue's URL is its name.
            let name = url.rsplit_once('/').map_or(url.as_str(), |(_, name)| name);
            if !cloud.send(name, &body) {
                let message = "The specified queue does not exist.".to_owned();
                return Err(invalid("AWS.SimpleQueueService.NonExistentQueue", message));
            }
            (json!({"MessageId": "00000000-0000-4000-8000-000000000000", "MD5OfMessageBody": checksum(&body)}), url)
        }
        "DeleteMessageBatch" => delete(cloud, &text("QueueUrl"), &request).await?,
        other => return Err(invalid("InvalidAction", format!("The action {other} is not valid for this endpoint."))),
    };
    Ok(Reply { body: answer.to_string(), summary })
}

fn message(message: &QueueMessage) -> Value {
    let sent = message.sent.map(|sent| sent.as_millisecond().to_string());
    json!({
        "MessageId": message.id,
        "ReceiptHandle": message.receipt,
        "Body": message.body,
        "MD5OfBody": checksum(&message.body),
        "Attributes": {"SentTimestamp": sent},
    })
}

/// Returns the checksum that clients verify.
fn checksum(body: &str) -> String {
    Md5::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn delete(cloud: &dyn Cloud, url: &str, request: &Value) -> Result<(Value, String), Failure> {
    let entries = request.get("Entries").and_then(Value::as_array).cloned().unwrap_or_default();
    if !(1..=10).contains(&entries.len()) {
        let message = format!("Maximum number of entries per request are 10. You have sent {}.", entries.len());
        return Err(invalid("AWS.SimpleQueueService.TooManyEntriesInBatchRequest", message));
    }
    let field = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let receipts: Vec<String> = entries.iter().map(|entry| field(entry, "ReceiptHandle")).collect();
    let left = cloud.delete_messages(url, &receipts).await?;
    let (failed, done): (Vec<_>, Vec<_>) =
        entries.iter().partition(|entry| left.contains(&field(entry, "ReceiptHandle")));
    let summary = format!("{} deleted, {} not", done.len(), failed.len());
    let done: Vec<_> = done.iter().map(|entry| json!({"Id": field(entry, "Id")})).collect();
    let refused =
        |entry: &&Value| json!({"Id": field(entry, "Id"), "SenderFault": true, "Code": "ReceiptHandleIsInvalid"});
    let failed: Vec<_> = failed.iter().map(refused).collect();
    Ok((json!({"Successful": done, "Failed": failed}), summary))
}

/// Returns the name in today's protocol for a code of the old one.
pub(super) fn shape(code: &str) -> &str {
    match code {
        "AWS.SimpleQueueService.NonExistentQueue" => "com.amazonaws.sqs#QueueDoesNotExist",
        other => other,
    }
}
