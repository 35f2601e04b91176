//! Guard of the cloud: only the leader changes AWS.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use cloud::guard::{Guard, Guarded};
use cloud::{Cloud, CloudError, ErrorKind};

use super::Leading;

/// Returns a cloud client that refuses changes while this replica does not lead. Deletions of queue messages are no changes: the
/// replica that received a message may delete it.
#[must_use]
pub fn led(cloud: Arc<dyn Cloud>, leading: Leading) -> Arc<dyn Cloud> {
    Arc::new(Guarded::new(cloud, Arc::new(LeaderGuard(leading))))
}

struct LeaderGuard(Leading);

impl Guard for LeaderGuard {
    fn before<'a>(&'a self, call: &'static str) -> Pin<Box<dyn Future<Output = Result<(), CloudError>> + Send + 'a>> {
        let refused = changes(call) && !self.0.is_held();
        Box::pin(std::future::ready(if refused { Err(not_the_leader(call)) } else { Ok(()) }))
    }

    fn after(&self, _call: &'static str, _took: Duration, _error: Option<&CloudError>) -> Option<CloudError> {
        None
    }
}

/// Reports whether the call of this name changes something that the other replica also changes.
fn changes(call: &str) -> bool {
    const READS: [&str; 4] = ["Describe", "Get", "List", "Receive"];
    !READS.iter().any(|prefix| call.starts_with(prefix)) && call != "DeleteMessageBatch"
}

/// Returns the error of a call that was not sent. Like a throttled call, it certainly changed nothing.
fn not_the_leader(call: &'static str) -> CloudError {
    CloudError {
        call,
        kind: ErrorKind::Throttled,
        code: "NotLeader".to_owned(),
        message: "not sent, because this replica does not lead".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::changes;

    #[test]
    fn changes_is_false_only_for_reads_and_queue_messages() {
        let writes =
            ["CreateFleet", "TerminateInstances", "CreateTags", "DeleteLaunchTemplate", "CreateLaunchTemplate"];
        assert_eq!(writes.map(changes), [true; 5]);
        let reads =
            ["DescribeInstances", "GetProducts", "ListInstanceProfiles", "ReceiveMessage", "DeleteMessageBatch"];
        assert_eq!(reads.map(changes), [false; 5]);
    }
}
