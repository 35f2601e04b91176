//! Schema rules of NodePool.

use serde_json::json;

use super::laws::{
    DURATION_OR_NEVER, Keys, LABEL_VALUE, conditions, label_key_rules, lifetimes, node_class_ref, requirements, rule,
    rules, taints,
};
use super::{Column, Law, law};

/// Columns of `kubectl get`.
pub(super) const COLUMNS: &[Column] = &[
    ("NodeClass", "string", ".spec.template.spec.nodeClassRef.name", 0),
    ("Nodes", "string", ".status.nodes", 0),
    ("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Weight", "integer", ".spec.weight", 1),
    ("CPU", "string", ".status.resources.cpu", 1),
    ("Memory", "string", ".status.resources.memory", 1),
];

/// Returns the schema rules of NodePool beyond the types of its fields.
pub(super) fn laws() -> Vec<Law> {
    [spec(), template(), disruption(), status()].into_iter().flatten().collect()
}

fn spec() -> Vec<Law> {
    let whole = rules([
        rule(
            "has(self.replicas) == has(oldSelf.replicas)",
            "a pool cannot change between static (replicas set) and dynamic (replicas not set): make another pool",
        ),
        rule(
            "!has(self.replicas) || !has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits)",
            "only 'limits.nodes' is supported on static pools (replicas set)",
        ),
        rule("!has(self.replicas) || !has(self.weight)", "'weight' is not supported on static pools (replicas set)"),
    ]);
    vec![
        law("spec", whole),
        law("spec", json!({ "required": ["template"] })),
        law("spec.weight", json!({ "minimum": 1, "maximum": 100 })),
        law("spec.replicas", json!({ "minimum": 0 })),
    ]
}

fn template() -> Vec<Law> {
    const SPEC: &str = "spec.template.spec";
    const LABELS: &str = "spec.template.metadata.labels";
    let mut laws = vec![
        law("spec.template", json!({ "required": ["spec"] })),
        law(SPEC, json!({ "required": ["nodeClassRef", "requirements"] })),
        law(LABELS, json!({ "maxProperties": 100 })),
        law(LABELS, rules(label_key_rules(Keys::OfPool))),
        law(format!("{LABELS}.{{}}"), json!({ "maxLength": 63, "pattern": LABEL_VALUE })),
        law(
            format!("{SPEC}.nodeClassRef"),
            rules([
                rule("self.group == oldSelf.group", "nodeClassRef.group is immutable"),
                rule("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable"),
            ]),
        ),
    ];
    laws.extend(node_class_ref(&format!("{SPEC}.nodeClassRef")));
    laws.extend(requirements(&format!("{SPEC}.requirements"), Keys::OfPool));
    laws.extend(taints(&format!("{SPEC}.taints")));
    laws.extend(taints(&format!("{SPEC}.startupTaints")));
    laws.extend(lifetimes(SPEC));
    laws
}

fn disruption() -> Vec<Law> {
    const BUDGETS: &str = "spec.disruption.budgets";
    let budgets =
        rules([rule("self.all(x, has(x.schedule) == has(x.duration))", "'schedule' must be set with 'duration'")]);
    vec![
        law("spec.disruption", json!({ "default": { "consolidateAfter": "0s" } })),
        law("spec.disruption", json!({ "required": ["consolidateAfter"] })),
        law("spec.disruption.consolidateAfter", json!({ "pattern": DURATION_OR_NEVER })),
        law("spec.disruption.consolidationPolicy", json!({ "default": "WhenEmptyOrUnderutilized" })),
        law(BUDGETS, json!({ "default": [{ "nodes": "10%" }], "maxItems": 50, "x-kubernetes-list-type": "atomic" })),
        law(BUDGETS, budgets),
        law(format!("{BUDGETS}.[]"), json!({ "required": ["nodes"] })),
        law(format!("{BUDGETS}.[].nodes"), json!({ "default": "10%", "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$" })),
        law(format!("{BUDGETS}.[].reasons"), json!({ "maxItems": 50, "x-kubernetes-list-type": "set" })),
        law(
            format!("{BUDGETS}.[].schedule"),
            json!({ "pattern": r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$" }),
        ),
        law(format!("{BUDGETS}.[].duration"), json!({ "pattern": "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$" })),
    ]
}

fn status() -> Vec<Law> {
    let mut laws = conditions(&["lastTransitionTime", "message", "reason", "status", "type"]);
    laws.push(law("status.nodes", json!({ "default": 0 })));
    laws
}
