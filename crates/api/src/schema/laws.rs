//! Laws that several kinds share: patterns of names, restricted label keys, requirements, taints, conditions.

use serde_json::{Value, json};

use super::{Law, law};
use crate::label::{AWS_DOMAIN, AWS_WELL_KNOWN, CAPACITY_TYPE, HOSTNAME, KARPENTER_DOMAIN, NODEPOOL, domain};
use crate::taint::EFFECTS;

/// A name with an optional DNS prefix: label and taint keys.
pub(super) const QUALIFIED_NAME: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// A qualified name or nothing: taint values.
const QUALIFIED_NAME_OR_EMPTY: &str = r"^(([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// The value of a label.
pub(super) const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// Hours, minutes and seconds, or `Never`.
pub(super) const DURATION_OR_NEVER: &str = r"^(([0-9]+(s|m|h))+|Never)$";
/// Hours, minutes and seconds.
pub(super) const DURATION: &str = r"^([0-9]+(s|m|h))+$";

/// A CEL rule with the sentence that people read when it fails.
pub(super) fn rule(expression: impl Into<String>, message: impl Into<String>) -> Value {
    json!({ "rule": expression.into(), "message": message.into() })
}

/// The keyword under which a schema holds its CEL rules.
pub(super) fn rules(rules: impl IntoIterator<Item = Value>) -> Value {
    json!({ "x-kubernetes-validations": rules.into_iter().collect::<Vec<_>>() })
}

/// Which keys of Karpenter's own domains may be written, and whether the pool's key is one of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// Keys of a pool's template.
    OfPool,
    /// Keys of a claim, which names its pool, and of an overlay, which may.
    OfClaim,
}

/// Rules that the keys of a label map hold.
pub(super) fn label_key_rules(keys: Keys) -> Vec<Value> {
    key_conditions("x", keys)
        .into_iter()
        .map(|(condition, message)| rule(format!("self.all(x, {condition})"), message))
        .collect()
}

/// Rules that a single label key holds.
fn requirement_key_rules(keys: Keys) -> Vec<Value> {
    key_conditions("self", keys).into_iter().map(|(condition, message)| rule(condition, message)).collect()
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

/// Laws of a list of requirements.
pub(super) fn requirements(path: &str, keys: Keys) -> Vec<Law> {
    let counted = rule(
        "self.all(x, x.operator == 'In' && has(x.minValues) ? has(x.values) && x.values.size() >= x.minValues : true)",
        "requirements with 'minValues' must have at least that many values",
    );
    let mut laws = vec![
        law(path, json!({ "maxItems": 100, "x-kubernetes-list-type": "atomic" })),
        law(path, rules([listed_rule("In"), compared_rule(), counted])),
        law(format!("{path}.[].minValues"), json!({ "minimum": 1, "maximum": 50 })),
    ];
    laws.extend(key_laws(path, keys));
    laws
}

/// Laws of the keys of a list of requirements.
pub(super) fn key_laws(path: &str, keys: Keys) -> [Law; 2] {
    let key = format!("{path}.[].key");
    let text = json!({ "maxLength": 316, "pattern": QUALIFIED_NAME });
    [law(key.as_str(), text), law(key.as_str(), rules(requirement_key_rules(keys)))]
}

/// The rule that an operator which compares with a list has one.
pub(super) fn listed_rule(operator: &str) -> Value {
    rule(
        format!("self.all(x, x.operator == '{operator}' ? has(x.values) && x.values.size() != 0 : true)"),
        format!("requirements with operator '{operator}' must have a value defined"),
    )
}

/// The rule that an operator which compares integers has one.
pub(super) fn compared_rule() -> Value {
    rule(
        "self.all(x, x.operator in ['Gt', 'Lt', 'Gte', 'Lte'] ? has(x.values) && x.values.size() == 1 && int(x.values[0]) >= 0 : true)",
        "requirements with operator 'Gt', 'Lt', 'Gte' or 'Lte' must have exactly one value, an integer of at least 0",
    )
}

/// Laws of a list of taints.
pub(super) fn taints(path: &str) -> Vec<Law> {
    vec![
        law(path, json!({ "x-kubernetes-list-type": "atomic" })),
        law(format!("{path}.[]"), json!({ "required": ["effect", "key"] })),
        law(format!("{path}.[].key"), json!({ "minLength": 1, "pattern": QUALIFIED_NAME })),
        law(format!("{path}.[].effect"), json!({ "enum": EFFECTS })),
        law(format!("{path}.[].value"), json!({ "pattern": QUALIFIED_NAME_OR_EMPTY })),
        law(format!("{path}.[].timeAdded"), json!({ "format": "date-time" })),
    ]
}

/// Laws of the reference to a node class, without those about change.
pub(super) fn node_class_ref(path: &str) -> Vec<Law> {
    let not_empty = |field: &str| rules([rule("self != ''", format!("{field} may not be empty"))]);
    vec![
        law(format!("{path}.group"), json!({ "pattern": "^[^/]*$" })),
        law(format!("{path}.group"), not_empty("group")),
        law(format!("{path}.kind"), not_empty("kind")),
        law(format!("{path}.name"), not_empty("name")),
    ]
}

/// Laws of the two durations that claims and pools' templates have.
pub(super) fn lifetimes(path: &str) -> Vec<Law> {
    vec![
        law(format!("{path}.terminationGracePeriod"), json!({ "pattern": DURATION })),
        law(format!("{path}.expireAfter"), json!({ "pattern": DURATION_OR_NEVER, "default": "720h" })),
    ]
}

/// Laws of the conditions of a status, with the fields that each must have.
pub(super) fn conditions(required: &[&str]) -> Vec<Law> {
    let path = "status.conditions.[]";
    vec![
        law(path, json!({ "required": required })),
        law(
            format!("{path}.type"),
            json!({
                "maxLength": 316,
                "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            }),
        ),
        law(format!("{path}.status"), json!({ "enum": ["True", "False", "Unknown"] })),
        law(format!("{path}.message"), json!({ "maxLength": 32768 })),
        law(format!("{path}.reason"), json!({ "maxLength": 1024 })),
        law(format!("{path}.observedGeneration"), json!({ "minimum": 0 })),
    ]
}
