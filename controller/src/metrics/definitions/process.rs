//! The controller itself: its index and its writes.

use daemon::metric::{Counter, Gauge, NoLabels};
use daemon::metrics;

use super::labels::{BuildLabels, ByNodeClass, ByStepOutcome};

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
    USER_DATA_BYTES: Gauge<ByNodeClass> = (
        "karpenter_ec2nodeclasses_userdata_bytes",
        "Bytes of the largest user data that a class's machines get, before base64; EC2 takes 16,384"
    );
}
