//! Plans, and the pods in them.

use daemon::metric::{Counter, Gauge, Histogram, NoLabels};
use daemon::metrics;

use super::buckets::{DURATIONS, STEPS};
use super::labels::{ByController, ByControllerZone, ByReason};

metrics! {
    table SCHEDULER_METRICS;
    SCHEDULING_DURATION: Histogram<ByController> = (
        "karpenter_scheduler_scheduling_duration_seconds",
        "Seconds per plan, including the snapshot",
        DURATIONS
    );
    DECISION: Histogram<NoLabels> = (
        "karpenter_pods_scheduling_decision_duration_seconds",
        "Seconds from the creation of a pod to the first plan that contains it",
        STEPS
    );
    PENDING_BY_ZONE: Gauge<ByControllerZone> = (
        "karpenter_scheduler_pending_pods_by_effective_zone_count",
        "Pending pods in the last plan, by the zone that their node selector and affinity require; flexible for \
         several zones"
    );
    UNSCHEDULABLE_PODS: Gauge<ByController> = (
        "karpenter_scheduler_unschedulable_pods_count",
        "Unschedulable pods in the last plan"
    );
    UNSCHEDULABLE_BY_REASON: Gauge<ByReason> = (
        "kerf_pods_unschedulable_count",
        "Unschedulable pods in the last plan, by the reason of the NodePool that came nearest: no_nodepool, taint, \
         requirement, types, unavailable, spot_only, min_values, topology, limit, paused, group"
    );
    IGNORED_PODS: Gauge<NoLabels> = (
        "karpenter_scheduler_ignored_pods_count",
        "Pods that the last plan ignored; each has an event with the reason"
    );
    PLAN_FINDINGS: Counter<NoLabels> = (
        "kerf_plan_findings_total",
        "Plans that failed validation; more than 0 is a bug of Kerf"
    );
}
