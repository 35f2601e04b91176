//! Schema rules of EC2NodeClass.

mod launch;
mod selectors;

use serde_json::{Value, json};

use super::common_rules::{cel_rule, cel_rules, conditions};
use super::{Column, SchemaRule, set};
use crate::names::label::{EC2_NODE_CLASS, NODEPOOL};
use crate::resources::nodeclass::AmiFamily;
use crate::units::quantity::PATTERN;

/// Columns of `kubectl get`.
pub(super) const COLUMNS: &[Column] = &[
    ("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Role", "string", ".spec.role", 1),
];

/// Returns the schema rules of EC2NodeClass beyond the types of its fields.
pub(super) fn schema_rules() -> Vec<SchemaRule> {
    [spec(), selectors::schema_rules(), launch::schema_rules(), kubelet(), status()].into_iter().flatten().collect()
}

fn spec() -> Vec<SchemaRule> {
    let mut whole = vec![
        cel_rule(
            "has(self.role) != has(self.instanceProfile)",
            "exactly one of 'role' and 'instanceProfile' must be set",
        ),
        cel_rule(
            "has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))",
            "must specify amiFamily if amiSelectorTerms does not contain an alias",
        ),
    ];
    whole.extend(AmiFamily::ALIASES.map(|(alias, family)| alias_rule(alias, family)));
    let not_empty = |field: &str| cel_rules([cel_rule("self != ''", format!("{field} cannot be empty"))]);
    vec![
        set("spec", cel_rules(whole)),
        set("spec.role", not_empty("role")),
        set("spec.instanceProfile", not_empty("instanceProfile")),
        set("spec.ipPrefixCount", json!({ "minimum": 0 })),
        set("spec.tags", cel_rules(tag_rules())),
    ]
}

fn alias_rule(alias: &str, family: AmiFamily) -> Value {
    let family = family.as_str();
    cel_rule(
        format!(
            "!has(self.amiFamily) || self.amiFamily in ['{family}', 'Custom'] || !self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.startsWith('{alias}@'))"
        ),
        format!("amiFamily must be '{family}' or 'Custom' when using the alias '{alias}'"),
    )
}

/// Returns the rules against tags that the controller sets itself.
fn tag_rules() -> Vec<Value> {
    let mut found = vec![
        cel_rule("self.all(k, k != '')", "empty tag keys are not supported"),
        cel_rule(
            "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
            "tag contains a restricted tag matching kubernetes.io/cluster/",
        ),
    ];
    for key in ["eks:eks-cluster-name", NODEPOOL, "karpenter.sh/nodeclaim", EC2_NODE_CLASS] {
        found.push(cel_rule(
            format!("self.all(k, k != '{key}')"),
            format!("tag contains a restricted tag matching {key}"),
        ));
    }
    found
}

fn kubelet() -> Vec<SchemaRule> {
    let percent = json!({ "minimum": 0, "maximum": 100 });
    let mut rules = vec![
        set("spec.kubelet", cel_rules(kubelet_rules())),
        set("spec.kubelet.maxPods", json!({ "minimum": 0 })),
        set("spec.kubelet.podsPerCore", json!({ "minimum": 0 })),
        set("spec.kubelet.imageGCHighThresholdPercent", percent.clone()),
        set("spec.kubelet.imageGCLowThresholdPercent", percent),
    ];
    for field in ["systemReserved", "kubeReserved"] {
        rules.extend(reserved(field));
    }
    for field in ["evictionHard", "evictionSoft", "evictionSoftGracePeriod"] {
        rules.push(set(format!("spec.kubelet.{field}"), signals(field)));
    }
    let threshold = format!(
        r"^((\d{{1,2}}(\.\d{{1,2}})?|100(\.0{{1,2}})?)%||{})$",
        PATTERN.trim_start_matches('^').trim_end_matches('$')
    );
    for field in ["evictionHard", "evictionSoft"] {
        rules.push(set(format!("spec.kubelet.{field}.{{}}"), json!({ "pattern": threshold })));
    }
    rules
}

fn kubelet_rules() -> [Value; 3] {
    [
        cel_rule(
            "has(self.imageGCHighThresholdPercent) && has(self.imageGCLowThresholdPercent) ? self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent : true",
            "imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent",
        ),
        cel_rule(
            "has(self.evictionSoft) ? self.evictionSoft.all(e, has(self.evictionSoftGracePeriod) && e in self.evictionSoftGracePeriod) : true",
            "every key of evictionSoft must have a matching evictionSoftGracePeriod",
        ),
        cel_rule(
            "has(self.evictionSoftGracePeriod) ? self.evictionSoftGracePeriod.all(e, has(self.evictionSoft) && e in self.evictionSoft) : true",
            "every key of evictionSoftGracePeriod must have a matching evictionSoft",
        ),
    ]
}

fn reserved(field: &str) -> [SchemaRule; 2] {
    let path = format!("spec.kubelet.{field}");
    // Karpenter reads these values as text. An integer, which Karpenter could not read, is therefore refused here too.
    let text = json!({
        "type": "string",
        "pattern": PATTERN,
        "anyOf": null,
        "x-kubernetes-int-or-string": null,
    });
    let whole = cel_rules([
        cel_rule(
            "self.all(x, x in ['cpu', 'memory', 'ephemeral-storage', 'pid'])",
            format!("valid keys for {field} are ['cpu','memory','ephemeral-storage','pid']"),
        ),
        cel_rule(
            "self.all(x, !self[x].startsWith('-'))",
            format!("{field} value cannot be a negative resource quantity"),
        ),
    ]);
    [set(format!("{path}.{{}}"), text), set(path, whole)]
}

fn signals(field: &str) -> Value {
    const SIGNALS: &str = "['memory.available','nodefs.available','nodefs.inodesFree','imagefs.available','imagefs.inodesFree','pid.available']";
    cel_rules([cel_rule(format!("self.all(x, x in {SIGNALS})"), format!("valid keys for {field} are {SIGNALS}"))])
}

fn status() -> Vec<SchemaRule> {
    let mut rules = conditions(&["lastTransitionTime", "message", "reason", "status", "type"]);
    const RESERVATION: &str = "status.capacityReservations.[]";
    rules.extend([
        set(format!("{RESERVATION}.instanceMatchCriteria"), json!({ "enum": ["open", "targeted"] })),
        set(
            format!("{RESERVATION}.reservationType"),
            json!({ "enum": ["default", "capacity-block"], "default": "default" }),
        ),
        set(format!("{RESERVATION}.state"), json!({ "enum": ["active", "expiring"], "default": "active" })),
        set(format!("{RESERVATION}.interruptible"), json!({ "default": false })),
    ]);
    rules
}
