//! Schema rules of NodeClaim.

use serde_json::json;

use super::common_rules::{Keys, cel_rule, cel_rules, conditions, lifetimes, node_class_ref, requirements, taints};
use super::{Column, SchemaRule, set};

/// Columns of `kubectl get`.
pub(super) const COLUMNS: &[Column] = &[
    ("Type", "string", ".metadata.labels.node\\.kubernetes\\.io/instance-type", 0),
    ("Capacity", "string", ".metadata.labels.karpenter\\.sh/capacity-type", 0),
    ("Zone", "string", ".metadata.labels.topology\\.kubernetes\\.io/zone", 0),
    ("Node", "string", ".status.nodeName", 0),
    ("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("ImageID", "string", ".status.imageID", 1),
    ("ID", "string", ".status.providerID", 1),
    ("NodePool", "string", ".metadata.labels.karpenter\\.sh/nodepool", 1),
    ("NodeClass", "string", ".spec.nodeClassRef.name", 1),
    ("Drifted", "string", ".status.conditions[?(@.type==\"Drifted\")].status", 1),
];

/// Returns the schema rules of NodeClaim beyond the types of its fields.
pub(super) fn schema_rules() -> Vec<SchemaRule> {
    let mut rules = vec![
        set("spec", json!({ "required": ["nodeClassRef", "requirements"] })),
        set("spec", cel_rules([cel_rule("self == oldSelf", "spec is immutable")])),
    ];
    rules.extend(node_class_ref("spec.nodeClassRef"));
    rules.extend(requirements("spec.requirements", Keys::OfClaim));
    rules.extend(taints("spec.taints"));
    rules.extend(taints("spec.startupTaints"));
    rules.extend(lifetimes("spec"));
    // Earlier versions wrote conditions without a reason. If the API server refused their status, their instances would be
    // orphaned.
    rules.extend(conditions(&["lastTransitionTime", "status", "type"]));
    rules
}
