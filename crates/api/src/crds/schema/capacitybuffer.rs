//! Schema rules of CapacityBuffer, whose definition several autoscalers share.

use serde_json::json;

use super::laws::{conditions, rule, rules};
use super::{Column, Law, law};
use crate::resources::capacitybuffer::ACTIVE_CAPACITY;

/// Columns of `kubectl get`.
pub(super) const COLUMNS: &[Column] = &[
    ("Strategy", "string", ".spec.provisioningStrategy", 0),
    ("PodTemplate", "string", ".status.podTemplateRef.name", 0),
    ("Replicas", "integer", ".status.replicas", 0),
    ("ConditionsType", "string", ".status.conditions[*].type", 0),
    ("ConditionsStatus", "string", ".status.conditions[*].status", 0),
    ("ConditionsReason", "string", ".status.conditions[*].reason", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
];

/// Returns the schema rules of CapacityBuffer beyond the types of its fields.
pub(super) fn laws() -> Vec<Law> {
    let whole = rules([
        rule(
            "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
            "'podTemplateRef' needs 'replicas' or 'limits': they say how many pods",
        ),
        rule(
            "!(has(self.podTemplateRef) && has(self.scalableRef))",
            "'podTemplateRef' and 'scalableRef' exclude each other",
        ),
    ]);
    let mut laws = vec![
        law("spec", whole),
        law("spec.provisioningStrategy", json!({ "default": ACTIVE_CAPACITY })),
        law("spec.podTemplateRef.name", json!({ "minLength": 1 })),
        law("spec.scalableRef.kind", json!({ "minLength": 1 })),
        law("spec.scalableRef.name", json!({ "minLength": 1 })),
        law("spec.replicas", json!({ "minimum": 0 })),
        law("spec.percentage", json!({ "minimum": 0 })),
        law("status.podTemplateRef.name", json!({ "minLength": 1 })),
        law("status.conditions", json!({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"] })),
    ];
    laws.extend(conditions(&["lastTransitionTime", "message", "reason", "status", "type"]));
    laws
}
