//! Schema rules of NodeOverlay.

use serde_json::json;

use super::common_rules::{Keys, cel_rule, cel_rules, compared_rule, conditions, key_rules, listed_rule};
use super::{Column, SchemaRule, set};

/// Columns of `kubectl get`.
pub(super) const COLUMNS: &[Column] = &[
    ("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Weight", "integer", ".spec.weight", 1),
];

/// Returns the schema rules of NodeOverlay beyond the types of its fields.
pub(super) fn schema_rules() -> Vec<SchemaRule> {
    const REQUIREMENTS: &str = "spec.requirements";
    let mut rules = vec![
        set("spec", json!({ "required": ["requirements"] })),
        set(
            "spec",
            cel_rules([cel_rule(
                "!has(self.price) || !has(self.priceAdjustment)",
                "'price' and 'priceAdjustment' exclude each other",
            )]),
        ),
        set(REQUIREMENTS, json!({ "maxItems": 100, "x-kubernetes-list-type": "atomic" })),
        set(REQUIREMENTS, cel_rules([listed_rule("In"), listed_rule("NotIn"), compared_rule()])),
        set("spec.price", json!({ "pattern": r"^\d+(\.\d+)?$" })),
        set(
            "spec.priceAdjustment",
            json!({ "pattern": r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$" }),
        ),
        set(
            "spec.capacity",
            cel_rules([cel_rule(
                "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
                "capacity may not replace cpu, memory, ephemeral-storage or pods",
            )]),
        ),
        set("spec.weight", json!({ "minimum": 1, "maximum": 10_000 })),
    ];
    // An overlay may apply to one NodePool only, so the key of the NodePool is allowed as in a NodeClaim.
    rules.extend(key_rules(REQUIREMENTS, Keys::OfClaim));
    rules.extend(conditions(&["lastTransitionTime", "message", "reason", "status", "type"]));
    rules
}
