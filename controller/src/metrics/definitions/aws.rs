//! Prices, calls to AWS, the interruption queue and status checks.

use daemon::metric::{Counter, Gauge, Histogram, NoLabels};
use daemon::metrics;

use super::buckets::{DURATIONS, STEPS};
use super::labels::{
    ByBatcher, ByCall, ByCallOutcome, ByCapacityType, ByCapacityTypeOutcome, ByCapacityTypeSource, ByCategory,
    ByControllerMethodProvider, ByControllerMethodProviderError, ByMessageType, ByZoneId, ByZoneZoneId,
    ByZoneZoneIdCapacityTypeReason,
};

/// Buckets for the number of instances per request.
const BATCHES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

/// Buckets for the time from the choice of a launch to its request, in seconds.
const BATCH_TIMES: &[f64] = &[0.1, 1.0, 10.0, 60.0];

metrics! {
    table AWS_METRICS;
    LAUNCH_FAILURES: Counter<ByZoneZoneIdCapacityTypeReason> = (
        "karpenter_cloudprovider_instance_launch_failures_total",
        "Errors in CreateFleet responses, by zone, capacity type and EC2 error code"
    );
    TERMINATION_FAILURES: Counter<ByZoneZoneId> = (
        "karpenter_cloudprovider_instance_termination_failures_total",
        "Instances whose termination EC2 refused or did not answer, by zone; empty without a NodeClaim"
    );
    MESSAGES_RECEIVED: Counter<ByMessageType> = (
        "karpenter_interruption_received_messages_total",
        "Messages received from the interruption queue, by kind (no_op: not for this cluster, malformed: dropped)"
    );
    MESSAGES_DELETED: Counter<NoLabels> = (
        "karpenter_interruption_deleted_messages_total",
        "Messages deleted from the interruption queue after they were handled"
    );
    MESSAGE_DURATION: Histogram<NoLabels> = (
        "karpenter_interruption_message_queue_duration_seconds",
        "Seconds from an event to the deletion of its NodeClaim",
        DURATIONS
    );
    STATUS_UNHEALTHY: Counter<ByCategory> = (
        "karpenter_interruption_instance_status_unhealthy_total",
        "Instances that failed a status check or have a scheduled event, once per instance and kind"
    );
    QUEUE_REACHABLE: Gauge<NoLabels> = (
        "kerf_interruption_queue_reachable",
        "1 while the interruption queue is reachable, else 0; no value without a queue"
    );
    ORPHANS_KEPT: Gauge<NoLabels> = (
        "kerf_orphaned_instances_kept_count",
        "Instances without a NodeClaim that garbage collection keeps, because they are suspiciously many"
    );
    ZONAL_SHIFT: Gauge<ByZoneId> = (
        "kerf_zonal_shift_active",
        "1 while a zonal shift of ARC excludes the zone, by zone id; no value otherwise"
    );
    PRICE_SOURCE: Gauge<ByCapacityTypeSource> = (
        "kerf_prices_source",
        "1 for the source of the prices of a capacity type, else 0: aws, embedded (the built-in table), \
         on-demand (used for spot), table"
    );
    PRICE_TIME: Gauge<ByCapacityType> = (
        "kerf_prices_updated_timestamp_seconds",
        "Unix time of the last prices from AWS, by capacity type; absent before the first ones"
    );
    PRICES: Gauge<ByCapacityType> = (
        "kerf_prices_count",
        "Known prices, by capacity type; spot has one per type and zone"
    );
    PRICE_REFRESHES: Counter<ByCapacityTypeOutcome> = (
        "kerf_prices_refreshes_total",
        "Price updates, by capacity type and outcome (success, failure)"
    );
    CLOUD_CALLS: Counter<ByCallOutcome> = (
        "kerf_cloud_calls_total",
        "Calls to AWS, by action and outcome (ok, throttled, unauthorized, tags_denied: dry run that is repeated without \
         our own tags, known: gone or there already, no_answer, refused)"
    );
    CLOUD_WAITING: Counter<ByCall> = (
        "kerf_cloud_waiting_seconds_total",
        "Seconds that EC2 calls waited for the client-side rate limit, by action"
    );
    CLOUD_DURATION: Histogram<ByControllerMethodProvider> = (
        "karpenter_cloudprovider_duration_seconds",
        "Seconds per AWS call, including retries and without the wait for the rate limit, by action (method); \
         controller is empty",
        STEPS
    );
    CLOUD_ERRORS: Counter<ByControllerMethodProviderError> = (
        "karpenter_cloudprovider_errors_total",
        "Calls to AWS that failed, by action (method) and outcome (error); controller is empty"
    );
    BATCH_SIZE: Histogram<ByBatcher> = (
        "karpenter_cloudprovider_batcher_batch_size",
        "Instances per CreateFleet request",
        BATCHES
    );
    BATCH_TIME: Histogram<ByBatcher> = (
        "karpenter_cloudprovider_batcher_batch_time_seconds",
        "Seconds from the choice of a launch to its CreateFleet request, in which the token is written to its NodeClaims",
        BATCH_TIMES
    );
}
