//! Schema rules of NodeClaim.

use serde_json::json;

use super::laws::{Keys, conditions, lifetimes, node_class_ref, requirements, rule, rules, taints};
use super::{Column, Law, law};

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
pub(super) fn laws() -> Vec<Law> {
    let mut laws = vec![
        law("spec", json!({ "required": ["nodeClassRef", "requirements"] })),
        law("spec", rules([rule("self == oldSelf", "spec is immutable")])),
    ];
    laws.extend(node_class_ref("spec.nodeClassRef"));
    laws.extend(requirements("spec.requirements", Keys::OfClaim));
    laws.extend(taints("spec.taints"));
    laws.extend(taints("spec.startupTaints"));
    laws.extend(lifetimes("spec"));
    // Earlier versions wrote conditions without a reason. If the API server refused their status, their instances would be
    // orphaned.
    laws.extend(conditions(&["lastTransitionTime", "status", "type"]));
    laws
}
