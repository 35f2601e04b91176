//! Schema rules that several kinds share: patterns of names, restricted label keys, requirements, taints, conditions.

use serde_json::{Value, json};

use super::{SchemaRule, set};
use crate::names::label::{AWS_DOMAIN, AWS_WELL_KNOWN, CAPACITY_TYPE, HOSTNAME, KARPENTER_DOMAIN, NODEPOOL, domain};
use crate::resources::taint::EFFECTS;

/// Pattern of a name with an optional DNS prefix, for label keys and taint keys.
pub(super) const QUALIFIED_NAME: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// Pattern of a qualified name or an empty text, for taint values.
const QUALIFIED_NAME_OR_EMPTY: &str = r"^(([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// Pattern of a label value.
pub(super) const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// Pattern of hours, minutes and seconds, or `Never`.
pub(super) const DURATION_OR_NEVER: &str = r"^(([0-9]+(s|m|h))+|Never)$";
/// Pattern of hours, minutes and seconds.
pub(super) const DURATION: &str = r"^([0-9]+(s|m|h))+$";

/// Returns a CEL rule with its error message.
pub(super) fn cel_rule(expression: impl Into<String>, message: impl Into<String>) -> Value {
    json!({ "rule": expression.into(), "message": message.into() })
}

/// Returns the schema keyword for CEL rules, with these rules.
pub(super) fn cel_rules(rules: impl IntoIterator<Item = Value>) -> Value {
    json!({ "x-kubernetes-validations": rules.into_iter().collect::<Vec<_>>() })
}

/// Object for which restricted label keys are checked. NodePools may not set the key of the NodePool themselves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// Keys of a NodePool's template.
    OfPool,
    /// Keys of a NodeClaim, which names its NodePool, and of a NodeOverlay, which may name one.
    OfClaim,
}

/// Returns the rules for the keys of a label map.
pub(super) fn label_key_rules(keys: Keys) -> Vec<Value> {
    key_conditions("x", keys)
        .into_iter()
        .map(|(condition, message)| cel_rule(format!("self.all(x, {condition})"), message))
        .collect()
}

/// Returns the rules for a single label key.
fn requirement_key_rules(keys: Keys) -> Vec<Value> {
    key_conditions("self", keys).into_iter().map(|(condition, message)| cel_rule(condition, message)).collect()
}

fn key_conditions(key: &str, keys: Keys) -> Vec<(String, String)> {
    let aws: Vec<_> = AWS_WELL_KNOWN.into_iter().filter(|k| domain(k) == Some(AWS_DOMAIN)).collect();
    let mut conditions = vec![
        in_domain(key, KARPENTER_DOMAIN, &[CAPACITY_TYPE, NODEPOOL]),
        in_domain(key, AWS_DOMAIN, &aws),
        refused(key, HOSTNAME),
    ];
    if keys == Keys::OfPool {
        conditions.push(refused(key, NODEPOOL));
    }
    conditions
}

fn in_domain(key: &str, domain: &str, allowed: &[&str]) -> (String, String) {
    let condition = format!("{key} in {allowed:?} || !{key}.find(\"^([^/]+)\").endsWith(\"{domain}\")");
    (condition, format!("label domain \"{domain}\" is restricted"))
}

fn refused(key: &str, label: &str) -> (String, String) {
    let condition = format!("{key} != \"{label}\"");
    (condition, format!("label \"{label}\" is restricted"))
}

/// Returns the schema rules of a list of requirements.
pub(super) fn requirements(path: &str, keys: Keys) -> Vec<SchemaRule> {
    let counted = cel_rule(
        "self.all(x, x.operator == 'In' && has(x.minValues) ? has(x.values) && x.values.size() >= x.minValues : true)",
        "requirements with 'minValues' must have at least that many values",
    );
    let mut rules = vec![
        set(path, json!({ "maxItems": 100, "x-kubernetes-list-type": "atomic" })),
        set(path, cel_rules([listed_rule("In"), compared_rule(), counted])),
        set(format!("{path}.[].minValues"), json!({ "minimum": 1, "maximum": 50 })),
    ];
    rules.extend(key_rules(path, keys));
    rules
}

/// Returns the schema rules of the keys in a list of requirements.
pub(super) fn key_rules(path: &str, keys: Keys) -> [SchemaRule; 2] {
    let key = format!("{path}.[].key");
    let text = json!({ "maxLength": 316, "pattern": QUALIFIED_NAME });
    [set(key.as_str(), text), set(key.as_str(), cel_rules(requirement_key_rules(keys)))]
}

/// Returns the rule that a requirement with a list operator has at least one value.
pub(super) fn listed_rule(operator: &str) -> Value {
    cel_rule(
        format!("self.all(x, x.operator == '{operator}' ? has(x.values) && x.values.size() != 0 : true)"),
        format!("requirements with operator '{operator}' must have a value defined"),
    )
}

/// Returns the rule that a requirement with an integer comparison has exactly one integer.
pub(super) fn compared_rule() -> Value {
    cel_rule(
        "self.all(x, x.operator in ['Gt', 'Lt', 'Gte', 'Lte'] ? has(x.values) && x.values.size() == 1 && int(x.values[0]) >= 0 : true)",
        "requirements with operator 'Gt', 'Lt', 'Gte' or 'Lte' must have exactly one value, an integer of at least 0",
    )
}

/// Returns the schema rules of a list of taints.
pub(super) fn taints(path: &str) -> Vec<SchemaRule> {
    vec![
        set(path, json!({ "x-kubernetes-list-type": "atomic" })),
        set(format!("{path}.[]"), json!({ "required": ["effect", "key"] })),
        set(format!("{path}.[].key"), json!({ "minLength": 1, "pattern": QUALIFIED_NAME })),
        set(format!("{path}.[].effect"), json!({ "enum": EFFECTS })),
        set(format!("{path}.[].value"), json!({ "pattern": QUALIFIED_NAME_OR_EMPTY })),
        set(format!("{path}.[].timeAdded"), json!({ "format": "date-time" })),
    ]
}

/// Returns the schema rules of the reference to a node class, without the rules for immutability.
pub(super) fn node_class_ref(path: &str) -> Vec<SchemaRule> {
    let not_empty = |field: &str| cel_rules([cel_rule("self != ''", format!("{field} may not be empty"))]);
    vec![
        set(format!("{path}.group"), json!({ "pattern": "^[^/]*$" })),
        set(format!("{path}.group"), not_empty("group")),
        set(format!("{path}.kind"), not_empty("kind")),
        set(format!("{path}.name"), not_empty("name")),
    ]
}

/// Returns the schema rules of the two durations in NodeClaims and in templates of NodePools.
pub(super) fn lifetimes(path: &str) -> Vec<SchemaRule> {
    vec![
        set(format!("{path}.terminationGracePeriod"), json!({ "pattern": DURATION })),
        set(format!("{path}.expireAfter"), json!({ "pattern": DURATION_OR_NEVER, "default": "720h" })),
    ]
}

/// Returns the schema rules of the conditions in a status. `required` lists the mandatory fields of each condition.
pub(super) fn conditions(required: &[&str]) -> Vec<SchemaRule> {
    let path = "status.conditions.[]";
    vec![
        set(path, json!({ "required": required })),
        set(
            format!("{path}.type"),
            json!({
                "maxLength": 316,
                "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            }),
        ),
        set(format!("{path}.status"), json!({ "enum": ["True", "False", "Unknown"] })),
        set(format!("{path}.message"), json!({ "maxLength": 32768 })),
        set(format!("{path}.reason"), json!({ "maxLength": 1024 })),
        set(format!("{path}.observedGeneration"), json!({ "minimum": 0 })),
    ]
}
