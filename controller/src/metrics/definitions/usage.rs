//! Utilization as agents report it, and requests that follow it.

use daemon::metric::{Counter, Gauge, NoLabels};
use daemon::metrics;

use super::labels::{ByNodePool, ByNodePoolResource, ByReasonOutcome, ByState};

metrics! {
    table USAGE_METRICS;
    USAGE_CPU: Gauge<ByNodePool> = (
        "kerf_node_usage_cpu_p95_cores",
        "95th percentile of CPU utilization per node in cores, summed by pool, as agents report"
    );
    USAGE_MEMORY: Gauge<ByNodePool> = (
        "kerf_node_usage_memory_p95_bytes",
        "95th percentile of the working set per node in bytes, summed by pool, as agents report"
    );
    USAGE_PRESSURE: Gauge<ByNodePoolResource> = (
        "kerf_node_usage_pressure_ratio",
        "Highest pressure (PSI some) of cpu, memory or io in five minutes of the last hour, of the worst node of the \
         pool"
    );
    USAGE_OOM_KILLS: Gauge<ByNodePool> = (
        "kerf_node_usage_oom_kills",
        "OOM kills on nodes of the pool in 24 hours"
    );
    USAGE_REPORTS: Gauge<ByState> = (
        "kerf_node_usage_reports_count",
        "Nodes with a valid NodeUsage (current), and NodeUsages that are stale or of another instance (ignored)"
    );
    REQUESTS_ABOVE_USE: Gauge<ByNodePoolResource> = (
        "kerf_pods_requests_above_use",
        "Requests above the recommendation, in cores or bytes; for pools that observe, and for pools that pack where \
         pods cannot be resized"
    );
    RESIZES: Counter<ByReasonOutcome> = (
        "kerf_pods_resizes_total",
        "Resizes of running pods, by reason (makes_room, or restored: pressure, grown, unpacked; no_room: only \
         recorded) and outcome (success, error)"
    );
    NEW_FLEET_COST: Gauge<NoLabels> = (
        "kerf_observed_new_fleet_dollars_per_hour",
        "Cost of the fleet that the controller would launch for the present pods, in dollars per hour; only with OBSERVE"
    );
    SAVED_BY_USAGE: Gauge<NoLabels> = (
        "kerf_consolidation_saving_from_usage_dollars_per_hour",
        "Savings of the last plan that lower requests made possible, in dollars per hour"
    );
}
