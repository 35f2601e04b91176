//! Metrics of AWS: prices, calls, the interruption queue and status checks.

use daemon::metric::{Kind, Metric};

use super::{DURATIONS, STEPS};

/// Buckets for the number of instances per request.
const BATCHES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

/// Capacity pools that failed at a launch.
pub const LAUNCH_FAILURES: Metric = Metric {
    name: "karpenter_cloudprovider_instance_launch_failures_total",
    help: "Errors in CreateFleet responses, by zone, capacity type and EC2 error code",
    kind: Kind::Counter,
    labels: &["zone", "capacity_type", "reason"],
};
/// Received messages of the interruption queue.
pub const MESSAGES_RECEIVED: Metric = Metric {
    name: "karpenter_interruption_received_messages_total",
    help: "Messages received from the interruption queue, by kind (no_op: not for this cluster, malformed: dropped)",
    kind: Kind::Counter,
    labels: &["message_type"],
};
/// Deleted messages of the interruption queue.
pub const MESSAGES_DELETED: Metric = Metric {
    name: "karpenter_interruption_deleted_messages_total",
    help: "Messages deleted from the interruption queue after they were handled",
    kind: Kind::Counter,
    labels: &[],
};
/// Duration from an event to the deletion of its NodeClaim.
pub const MESSAGE_DURATION: Metric = Metric {
    name: "karpenter_interruption_message_queue_duration_seconds",
    help: "Seconds from an event to the deletion of its NodeClaim",
    kind: Kind::Histogram(DURATIONS),
    labels: &[],
};
/// Instances that failed a status check.
pub const STATUS_UNHEALTHY: Metric = Metric {
    name: "karpenter_interruption_instance_status_unhealthy_total",
    help: "Instances that failed a status check or have a scheduled event, once per instance and kind",
    kind: Kind::Counter,
    labels: &["category"],
};
/// Reachability of the interruption queue.
pub const QUEUE_REACHABLE: Metric = Metric {
    name: "kerf_interruption_queue_reachable",
    help: "1 while the interruption queue is reachable, else 0; no value without a queue",
    kind: Kind::Gauge,
    labels: &[],
};
/// Source of the prices.
pub const PRICE_SOURCE: Metric = Metric {
    name: "kerf_prices_source",
    help: "1 for the source of the prices of a capacity type, else 0: aws, embedded (the built-in table of \
           us-east-1), on-demand (used for spot), table",
    kind: Kind::Gauge,
    labels: &["capacity_type", "source"],
};
/// Time of the last prices.
pub const PRICE_TIME: Metric = Metric {
    name: "kerf_prices_updated_timestamp_seconds",
    help: "Unix time of the last prices from AWS, by capacity type; absent before the first ones",
    kind: Kind::Gauge,
    labels: &["capacity_type"],
};
/// Number of known prices.
pub const PRICES: Metric = Metric {
    name: "kerf_prices_count",
    help: "Known prices, by capacity type; spot has one per type and zone",
    kind: Kind::Gauge,
    labels: &["capacity_type"],
};
/// Price updates.
pub const PRICE_REFRESHES: Metric = Metric {
    name: "kerf_prices_refreshes_total",
    help: "Price updates, by capacity type and outcome (success, failure)",
    kind: Kind::Counter,
    labels: &["capacity_type", "outcome"],
};
/// Calls to AWS.
pub const CLOUD_CALLS: Metric = Metric {
    name: "kerf_cloud_calls_total",
    help: "Calls to AWS, by action and outcome (ok, throttled, unauthorized, known: gone or there already, no_answer, refused)",
    kind: Kind::Counter,
    labels: &["call", "outcome"],
};
/// Time that calls wait for the client-side rate limit.
pub const CLOUD_WAITING: Metric = Metric {
    name: "kerf_cloud_waiting_seconds_total",
    help: "Seconds that EC2 calls waited for the client-side rate limit, by action",
    kind: Kind::Counter,
    labels: &["call"],
};
/// Duration of calls.
pub const CLOUD_DURATION: Metric = Metric {
    name: "karpenter_cloudprovider_duration_seconds",
    help: "Seconds per AWS call, including retries and without the wait for the rate limit, by action (method); \
           controller is empty",
    kind: Kind::Histogram(STEPS),
    labels: &["controller", "method", "provider"],
};
/// Failed calls.
pub const CLOUD_ERRORS: Metric = Metric {
    name: "karpenter_cloudprovider_errors_total",
    help: "Calls to AWS that failed, by action (method) and outcome (error); controller is empty",
    kind: Kind::Counter,
    labels: &["controller", "method", "provider", "error"],
};
/// Number of NodeClaims that share a call.
pub const BATCH_SIZE: Metric = Metric {
    name: "karpenter_cloudprovider_batcher_batch_size",
    help: "Instances per CreateFleet request",
    kind: Kind::Histogram(BATCHES),
    labels: &["batcher"],
};
