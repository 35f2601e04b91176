//! Label with the partition that EC2 selected in a placement group. DescribeInstances returns the partition only after the launch.
//! The label is written before the registration: spread over partitions would count a node without it nowhere.

use std::time::Duration;

use api::status::Conditioned;
use api::{condition, label};
use serde_json::json;

use crate::reconcile::nodeclaim::{NodeClaimDecision, NodeClaimView, target};
use crate::write::writer::Operation;

/// Delay before the next DescribeInstances call for an instance without a partition.
pub(super) const NEXT_LOOK: Duration = Duration::from_secs(2);

/// Reports whether only the partition is missing for the registration.
pub fn is_awaited(view: &NodeClaimView) -> bool {
    let claim = &view.claim;
    let partition = claim.metadata.labels.as_ref().and_then(|all| all.get(label::PLACEMENT_GROUP_PARTITION));
    claim.metadata.deletion_timestamp.is_none()
        && claim.is_true(condition::LAUNCHED)
        && !claim.is_true(condition::REGISTERED)
        && view.nodes.len() == 1
        && partition.is_some_and(|value| value == label::PARTITION_NOT_READ)
}

/// Writes the label of a partition that EC2 reported. The changed NodeClaim is registered next.
pub fn label(view: &NodeClaimView) -> Option<NodeClaimDecision> {
    let partition = view.partition.filter(|_| is_awaited(view))?;
    let labels = json!({"metadata": {"labels": {label::PLACEMENT_GROUP_PARTITION: partition.to_string()}}});
    Some(NodeClaimDecision {
        steps: vec![Operation::Patch(target(&view.claim), labels)],
        ..NodeClaimDecision::default()
    })
}
