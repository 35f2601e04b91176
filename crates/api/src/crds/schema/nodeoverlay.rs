//! Schema rules of NodeOverlay.

use serde_json::json;

use super::laws::{Keys, compared_rule, conditions, key_laws, listed_rule, rule, rules};
use super::{Column, Law, law};

/// Columns of `kubectl get`.
pub(super) const COLUMNS: &[Column] = &[
    ("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Weight", "integer", ".spec.weight", 1),
];

/// Returns the schema rules of NodeOverlay beyond the types of its fields.
pub(super) fn laws() -> Vec<Law> {
    const REQUIREMENTS: &str = "spec.requirements";
    let mut laws = vec![
        law("spec", json!({ "required": ["requirements"] })),
        law(
            "spec",
            rules([rule(
                "!has(self.price) || !has(self.priceAdjustment)",
                "'price' and 'priceAdjustment' exclude each other",
            )]),
        ),
        law(REQUIREMENTS, json!({ "maxItems": 100, "x-kubernetes-list-type": "atomic" })),
        law(REQUIREMENTS, rules([listed_rule("In"), listed_rule("NotIn"), compared_rule()])),
        law("spec.price", json!({ "pattern": r"^\d+(\.\d+)?$" })),
        law(
            "spec.priceAdjustment",
            json!({ "pattern": r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$" }),
        ),
        law(
            "spec.capacity",
            rules([rule(
                "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
                "capacity may not replace cpu, memory, ephemeral-storage or pods",
            )]),
        ),
        law("spec.weight", json!({ "minimum": 1, "maximum": 10_000 })),
    ];
    // An overlay may apply to one NodePool only, so the key of the NodePool is allowed as in a NodeClaim.
    laws.extend(key_laws(REQUIREMENTS, Keys::OfClaim));
    laws.extend(conditions(&["lastTransitionTime", "message", "reason", "status", "type"]));
    laws
}
