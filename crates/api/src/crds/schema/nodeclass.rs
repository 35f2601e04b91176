//! Schema rules of EC2NodeClass.

mod launch;
mod selectors;

use serde_json::{Value, json};

use super::laws::{conditions, rule, rules};
use super::{Column, Law, law};
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
pub(super) fn laws() -> Vec<Law> {
    [spec(), selectors::laws(), launch::laws(), kubelet(), status()].into_iter().flatten().collect()
}

fn spec() -> Vec<Law> {
    let mut whole = vec![
        rule("has(self.role) != has(self.instanceProfile)", "exactly one of 'role' and 'instanceProfile' must be set"),
        rule(
            "has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))",
            "must specify amiFamily if amiSelectorTerms does not contain an alias",
        ),
    ];
    whole.extend(AmiFamily::ALIASES.map(family_of_alias));
    let not_empty = |field: &str| rules([rule("self != ''", format!("{field} cannot be empty"))]);
    vec![
        law("spec", rules(whole)),
        law("spec.role", not_empty("role")),
        law("spec.instanceProfile", not_empty("instanceProfile")),
        law("spec.ipPrefixCount", json!({ "minimum": 0 })),
        law("spec.tags", rules(tag_rules())),
    ]
}

fn family_of_alias((alias, family): (&str, AmiFamily)) -> Value {
    let family = family.as_str();
    rule(
        format!(
            "!has(self.amiFamily) || self.amiFamily in ['{family}', 'Custom'] || !self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.startsWith('{alias}@'))"
        ),
        format!("amiFamily must be '{family}' or 'Custom' when using the alias '{alias}'"),
    )
}

/// Returns the rules against tags that the controller sets itself.
fn tag_rules() -> Vec<Value> {
    let mut found = vec![
        rule("self.all(k, k != '')", "empty tag keys are not supported"),
        rule(
            "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
            "tag contains a restricted tag matching kubernetes.io/cluster/",
        ),
    ];
    for key in ["eks:eks-cluster-name", NODEPOOL, "karpenter.sh/nodeclaim", EC2_NODE_CLASS] {
        found.push(rule(format!("self.all(k, k != '{key}')"), format!("tag contains a restricted tag matching {key}")));
    }
    found
}

fn kubelet() -> Vec<Law> {
    let percent = json!({ "minimum": 0, "maximum": 100 });
    let mut laws = vec![
        law("spec.kubelet", rules(kubelet_rules())),
        law("spec.kubelet.maxPods", json!({ "minimum": 0 })),
        law("spec.kubelet.podsPerCore", json!({ "minimum": 0 })),
        law("spec.kubelet.imageGCHighThresholdPercent", percent.clone()),
        law("spec.kubelet.imageGCLowThresholdPercent", percent),
    ];
    for field in ["systemReserved", "kubeReserved"] {
        laws.extend(reserved(field));
    }
    for field in ["evictionHard", "evictionSoft", "evictionSoftGracePeriod"] {
        laws.push(law(format!("spec.kubelet.{field}"), signals(field)));
    }
    let threshold = format!(
        r"^((\d{{1,2}}(\.\d{{1,2}})?|100(\.0{{1,2}})?)%||{})$",
        PATTERN.trim_start_matches('^').trim_end_matches('$')
    );
    for field in ["evictionHard", "evictionSoft"] {
        laws.push(law(format!("spec.kubelet.{field}.{{}}"), json!({ "pattern": threshold })));
    }
    laws
}

fn kubelet_rules() -> [Value; 3] {
    [
        rule(
            "has(self.imageGCHighThresholdPercent) && has(self.imageGCLowThresholdPercent) ? self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent : true",
            "imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent",
        ),
        rule(
            "has(self.evictionSoft) ? self.evictionSoft.all(e, has(self.evictionSoftGracePeriod) && e in self.evictionSoftGracePeriod) : true",
            "every key of evictionSoft must have a matching evictionSoftGracePeriod",
        ),
        rule(
            "has(self.evictionSoftGracePeriod) ? self.evictionSoftGracePeriod.all(e, has(self.evictionSoft) && e in self.evictionSoft) : true",
            "every key of evictionSoftGracePeriod must have a matching evictionSoft",
        ),
    ]
}

fn reserved(field: &str) -> [Law; 2] {
    let path = format!("spec.kubelet.{field}");
    // Karpenter reads these values as text. An integer, which Karpenter could not read, is therefore refused here too.
    let text = json!({
        "type": "string",
        "pattern": PATTERN,
        "anyOf": null,
        "x-kubernetes-int-or-string": null,
    });
    let whole = rules([
        rule(
            "self.all(x, x in ['cpu', 'memory', 'ephemeral-storage', 'pid'])",
            format!("valid keys for {field} are ['cpu','memory','ephemeral-storage','pid']"),
        ),
        rule("self.all(x, !self[x].startsWith('-'))", format!("{field} value cannot be a negative resource quantity")),
    ]);
    [law(format!("{path}.{{}}"), text), law(path, whole)]
}

fn signals(field: &str) -> Value {
    const SIGNALS: &str = "['memory.available','nodefs.available','nodefs.inodesFree','imagefs.available','imagefs.inodesFree','pid.available']";
    rules([rule(format!("self.all(x, x in {SIGNALS})"), format!("valid keys for {field} are {SIGNALS}"))])
}

fn status() -> Vec<Law> {
    let mut laws = conditions(&["lastTransitionTime", "message", "reason", "status", "type"]);
    const RESERVATION: &str = "status.capacityReservations.[]";
    laws.extend([
        law(format!("{RESERVATION}.instanceMatchCriteria"), json!({ "enum": ["open", "targeted"] })),
        law(
            format!("{RESERVATION}.reservationType"),
            json!({ "enum": ["default", "capacity-block"], "default": "default" }),
        ),
        law(format!("{RESERVATION}.state"), json!({ "enum": ["active", "expiring"], "default": "active" })),
        law(format!("{RESERVATION}.interruptible"), json!({ "default": false })),
    ]);
    laws
}
