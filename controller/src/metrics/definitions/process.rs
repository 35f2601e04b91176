//! The controller itself: its index and its writes.

use daemon::metric::{Counter, Gauge, NoLabels};
use daemon::metrics;

use super::labels::{BuildLabels, ByKind, ByNodeClass, ByStepOutcome, ByTask};

metrics! {
    table PROCESS_METRICS;
    BUILD_INFO: Gauge<BuildLabels> = (
        "karpenter_build_info",
        "1, with the version and the architecture that it was built for; goversion is empty, and commit too"
    );
    NODE_COUNT: Gauge<NoLabels> = (
        "karpenter_cluster_state_node_count",
        "Nodes in the controller's index"
    );
    SYNCED: Gauge<NoLabels> = (
        "karpenter_cluster_state_synced",
        "1 when all watches are synced, else 0"
    );
    UNSYNCED_TIME: Gauge<NoLabels> = (
        "karpenter_cluster_state_unsynced_time_seconds",
        "Seconds in which not all watches are synced; 0 when all are"
    );
    ACT_STEPS: Counter<ByStepOutcome> = (
        "kerf_act_steps_total",
        "Writes to Kubernetes and AWS, by operation and outcome"
    );
    WATCH_AGE: Gauge<ByKind> = (
        "kerf_watch_age_seconds",
        "Seconds since the API server last confirmed the controller's view of a kind, by an event, a bookmark or a \
         reconnect; no voluntary disruption above kerf_watch_max_age_seconds"
    );
    WATCH_MAX_AGE: Gauge<NoLabels> = (
        "kerf_watch_max_age_seconds",
        "Age in seconds above which the view of a kind is stale (MAX_VIEW_AGE)"
    );
    PANICS: Counter<ByTask> = (
        "kerf_panics_total",
        "Panics in a reconcile, a plan or a periodic task, which was retried; more than 0 is a bug of Kerf"
    );
    EVENTS_DROPPED: Counter<NoLabels> = (
        "kerf_events_dropped_total",
        "Events that were not sent because too many were waiting"
    );
    USER_DATA_BYTES: Gauge<ByNodeClass> = (
        "karpenter_ec2nodeclasses_userdata_bytes",
        "Bytes of the largest user data that a class's machines get, before base64; EC2 takes 16,384"
    );
    PROCESS_CPU: Counter<NoLabels> = (
        "process_cpu_seconds_total",
        "Seconds of CPU that the process used"
    );
    PROCESS_MEMORY: Gauge<NoLabels> = (
        "process_resident_memory_bytes",
        "Bytes of memory that the process occupies"
    );
    PROCESS_VIRTUAL_MEMORY: Gauge<NoLabels> = (
        "process_virtual_memory_bytes",
        "Bytes of address space that the process reserved"
    );
    PROCESS_START: Gauge<NoLabels> = (
        "process_start_time_seconds",
        "Start of the process, in seconds since 1970"
    );
    PROCESS_OPEN_FDS: Gauge<NoLabels> = (
        "process_open_fds",
        "Open file descriptors"
    );
    PROCESS_MAX_FDS: Gauge<NoLabels> = (
        "process_max_fds",
        "Limit of open file descriptors"
    );
}
