//! NodeClaims, and the instances behind them.

use daemon::metric::{Counter, Histogram};
use daemon::metrics;

use super::buckets::ENDINGS;
use super::labels::{
    ByConditionNodePoolCapacityTypeImageId, ByNodePool, ByNodePoolCapacityTypeZone, ByReasonNodePoolCapacityType,
    ByReasonNodePoolMinValuesRelaxed,
};

metrics! {
    table NODECLAIM_METRICS;
    CLAIMS_CREATED: Counter<ByReasonNodePoolMinValuesRelaxed> = (
        "karpenter_nodeclaims_created_total",
        "NodeClaims created, by reason, pool and whether a plan lowered minValues (true, false)"
    );
    CLAIMS_DISRUPTED: Counter<ByReasonNodePoolCapacityType> = (
        "karpenter_nodeclaims_disrupted_total",
        "NodeClaims deleted by the controller, by reason, pool and capacity type (empty before the launch)"
    );
    UNHEALTHY_DISRUPTED: Counter<ByConditionNodePoolCapacityTypeImageId> = (
        "karpenter_nodeclaims_unhealthy_disrupted_total",
        "NodeClaims deleted because their node was unhealthy, by condition, pool, capacity type and image"
    );
    CLAIMS_TERMINATED: Counter<ByNodePoolCapacityTypeZone> = (
        "karpenter_nodeclaims_terminated_total",
        "NodeClaims whose instance terminated, by pool, capacity type and zone"
    );
    CLAIM_TERMINATION: Histogram<ByNodePool> = (
        "karpenter_nodeclaims_termination_duration_seconds",
        "Seconds from the deletion of a NodeClaim to its removal, by pool",
        ENDINGS
    );
    INSTANCE_TERMINATION: Histogram<ByNodePool> = (
        "karpenter_nodeclaims_instance_termination_duration_seconds",
        "Seconds from TerminateInstances to the end of the instance, by pool",
        ENDINGS
    );
}
