//! Schema rules of CapacityBuffer, whose definition several autoscalers share.

use serde_json::json;

use super::common_rules::{cel_rule, cel_rules, conditions};
use super::{Column, SchemaRule, set};
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
pub(super) fn schema_rules() -> Vec<SchemaRule> {
    let whole = cel_rules([
        cel_rule(
            "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
            "'podTemplateRef' needs 'replicas' or 'limits': they say how many pods",
        ),
        cel_rule(
            "!(has(self.podTemplateRef) && has(self.scalableRef))",
            "'podTemplateRef' and 'scalableRef' exclude each other",
        ),
    ]);
    let mut rules = vec![
        set("spec", whole),
        set("spec.provisioningStrategy", json!({ "default": ACTIVE_CAPACITY })),
        set("spec.podTemplateRef.name", json!({ "minLength": 1 })),
        set("spec.scalableRef.kind", json!({ "minLength": 1 })),
        set("spec.scalableRef.name", json!({ "minLength": 1 })),
        set("spec.replicas", json!({ "minimum": 0 })),
        set("spec.percentage", json!({ "minimum": 0 })),
        set("status.podTemplateRef.name", json!({ "minLength": 1 })),
        set("status.conditions", json!({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"] })),
    ];
    rules.extend(conditions(&["lastTransitionTime", "message", "reason", "status", "type"]));
    rules
}
