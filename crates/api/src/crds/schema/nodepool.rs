//! Schema rules of NodePool.

use serde_json::json;

use super::common_rules::{
    DURATION_OR_NEVER, Keys, LABEL_VALUE, cel_rule, cel_rules, conditions, label_key_rules, lifetimes, node_class_ref,
    requirements, taints,
};
use super::{Column, SchemaRule, set};

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
pub(super) fn schema_rules() -> Vec<SchemaRule> {
    [spec(), template(), disruption(), status()].into_iter().flatten().collect()
}

fn spec() -> Vec<SchemaRule> {
    let whole = cel_rules([
        cel_rule(
            "has(self.replicas) == has(oldSelf.replicas)",
            "a pool cannot change between static (replicas set) and dynamic (replicas not set): make another pool",
        ),
        cel_rule(
            "!has(self.replicas) || !has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits)",
            "only 'limits.nodes' is supported on static pools (replicas set)",
        ),
        cel_rule(
            "!has(self.replicas) || !has(self.weight)",
            "'weight' is not supported on static pools (replicas set)",
        ),
    ]);
    vec![
        set("spec", whole),
        set("spec", json!({ "required": ["template"] })),
        set("spec.weight", json!({ "minimum": 1, "maximum": 100 })),
        set("spec.replicas", json!({ "minimum": 0 })),
    ]
}

fn template() -> Vec<SchemaRule> {
    const SPEC: &str = "spec.template.spec";
    const LABELS: &str = "spec.template.metadata.labels";
    let mut rules = vec![
        set("spec.template", json!({ "required": ["spec"] })),
        set(SPEC, json!({ "required": ["nodeClassRef", "requirements"] })),
        set(LABELS, json!({ "maxProperties": 100 })),
        set(LABELS, cel_rules(label_key_rules(Keys::OfPool))),
        set(format!("{LABELS}.{{}}"), json!({ "maxLength": 63, "pattern": LABEL_VALUE })),
        set(
            format!("{SPEC}.nodeClassRef"),
            cel_rules([
                cel_rule("self.group == oldSelf.group", "nodeClassRef.group is immutable"),
                cel_rule("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable"),
            ]),
        ),
    ];
    rules.extend(node_class_ref(&format!("{SPEC}.nodeClassRef")));
    rules.extend(requirements(&format!("{SPEC}.requirements"), Keys::OfPool));
    rules.extend(taints(&format!("{SPEC}.taints")));
    rules.extend(taints(&format!("{SPEC}.startupTaints")));
    rules.extend(lifetimes(SPEC));
    rules
}

fn disruption() -> Vec<SchemaRule> {
    const BUDGETS: &str = "spec.disruption.budgets";
    let budgets = cel_rules([cel_rule(
        "self.all(x, has(x.schedule) == has(x.duration))",
        "'schedule' must be set with 'duration'",
    )]);
    vec![
        set("spec.disruption", json!({ "default": { "consolidateAfter": "0s" } })),
        set("spec.disruption", json!({ "required": ["consolidateAfter"] })),
        set("spec.disruption.consolidateAfter", json!({ "pattern": DURATION_OR_NEVER })),
        set("spec.disruption.consolidationPolicy", json!({ "default": "WhenEmptyOrUnderutilized" })),
        set(BUDGETS, json!({ "default": [{ "nodes": "10%" }], "maxItems": 50, "x-kubernetes-list-type": "atomic" })),
        set(BUDGETS, budgets),
        set(format!("{BUDGETS}.[]"), json!({ "required": ["nodes"] })),
        set(format!("{BUDGETS}.[].nodes"), json!({ "default": "10%", "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$" })),
        set(format!("{BUDGETS}.[].reasons"), json!({ "maxItems": 50, "x-kubernetes-list-type": "set" })),
        set(
            format!("{BUDGETS}.[].schedule"),
            json!({ "pattern": r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$" }),
        ),
        set(format!("{BUDGETS}.[].duration"), json!({ "pattern": "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$" })),
    ]
}

fn status() -> Vec<SchemaRule> {
    let mut rules = conditions(&["lastTransitionTime", "message", "reason", "status", "type"]);
    rules.push(set("status.nodes", json!({ "default": 0 })));
    rules
}
