//! Labels of the controller's metrics. A struct is named after its labels, in their order.

use daemon::labels;

labels! {
    BuildLabels { version, goversion, goarch, commit }
    ByBatcher { batcher }
    ByCall { call }
    ByCallOutcome { call, outcome }
    ByCapacityType { capacity_type }
    ByCapacityTypeOutcome { capacity_type, outcome }
    ByCapacityTypeSource { capacity_type, source }
    ByCapacityTypeZone { capacity_type, zone }
    ByCategory { category }
    ByCode { code }
    ByConditionNodePoolCapacityTypeImageId { condition, nodepool, capacity_type, image_id }
    ByConsolidationType { consolidation_type }
    ByController { controller }
    ByControllerMethodProvider { controller, method, provider }
    ByControllerMethodProviderError { controller, method, provider, error }
    ByControllerSchedulingId { controller, scheduling_id }
    ByControllerZone { controller, zone }
    ByDecisionNodePoolPolicy { decision, nodepool, policy }
    ByDecisionReasonConsolidationType { decision, reason, consolidation_type }
    ByInstanceType { instance_type }
    ByInstanceTypeCapacityTypeZone { instance_type, capacity_type, zone }
    ByKind { kind }
    ByLabelValue { label, value }
    ByMessageType { message_type }
    ByNameNamespace { name, namespace }
    ByNamespaceWorkload { namespace, workload }
    ByNodeClass { nodeclass }
    ByNodePool { nodepool }
    ByNodePoolCapacityTypeZone { nodepool, capacity_type, zone }
    ByNodePoolConditionReason { nodepool, condition, reason }
    ByNodePoolDecisionReasonConsolidationType { nodepool, decision, reason, consolidation_type }
    ByNodePoolGate { nodepool, gate }
    ByNodePoolInstanceTypeCapacityType { nodepool, instance_type, capacity_type }
    ByNodePoolOutcome { nodepool, outcome }
    ByNodePoolPhaseScheduledReady { nodepool, phase, scheduled, ready }
    ByNodePoolReason { nodepool, reason }
    ByNodePoolResource { nodepool, resource }
    ByNodePoolResourceType { nodepool, resource_type }
    ByNodePoolZone { nodepool, zone }
    ByReason { reason }
    ByReasonConsolidationType { reason, consolidation_type }
    ByReasonNodePoolCapacityType { reason, nodepool, capacity_type }
    ByReasonNodePoolMinValuesRelaxed { reason, nodepool, min_values_relaxed }
    ByReasonOutcome { reason, outcome }
    ByCommitment { commitment }
    ByResourceType { resource_type }
    ByResourceTypeNodePool { resource_type, nodepool }
    BySpendPolicy { spendpolicy }
    BySpendPolicyLimit { spendpolicy, limit }
    ByStage { stage }
    ByState { state }
    ByStepOutcome { step, outcome }
    ByTask { task }
    ByTypeStatus { kind as "type", status }
    ByTypeStatusReason { kind as "type", status, reason }
    ByZoneId { zone_id }
    ByZoneZoneId { zone, zone_id }
    ByZoneZoneIdCapacityTypeReason { zone, zone_id, capacity_type, reason }
}
