//! Schema rules of the published definitions that several types share. A rule stands beside the field that it is about, as a
//! keyword in `#[schemars(extend(...))]`; rules for the items of a list or the values of a map are `transform`s.
//!
//! kube-derive's `KubeSchema` is not used. Its `validation` accepts single CEL rules of a struct and its fields. It has no form
//! for rules from a table (restricted labels, aliases, tags), for items and values, or for types whose rules depend on the field
//! that contains them. Patterns, bounds and defaults would need these attributes anyway.

use schemars::Schema;
use serde_json::{Map, Value, json};

use crate::names::label::{AWS_DOMAIN, AWS_WELL_KNOWN, CAPACITY_TYPE, HOSTNAME, KARPENTER_DOMAIN, NODEPOOL, domain};

/// Pattern of a name with an optional DNS prefix, for label keys and taint keys.
pub(super) const QUALIFIED_NAME: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// Pattern of a label value.
pub(super) const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// Pattern of hours, minutes and seconds, or `Never`.
pub(super) const DURATION_OR_NEVER: &str = r"^(([0-9]+(s|m|h))+|Never)$";
/// Pattern of hours, minutes and seconds.
pub(super) const DURATION: &str = r"^([0-9]+(s|m|h))+$";

/// Returns a CEL rule with its error message, for `x-kubernetes-validations`.
pub(super) fn cel_rule(expression: impl Into<String>, message: impl Into<String>) -> Value {
    json!({ "rule": expression.into(), "message": message.into() })
}

/// Returns the CEL rule that a text is not empty.
pub(super) fn not_empty(message: &str) -> Value {
    cel_rule("self != ''", message)
}

/// Returns a transform that sets keywords of the items of a list. The value `null` removes a keyword.
pub(super) fn items(keywords: Value) -> impl FnMut(&mut Schema) {
    move |list| set(list.get_mut("items"), &keywords)
}

/// Returns a transform that sets keywords of the values of a map. The value `null` removes a keyword.
pub(super) fn values(keywords: Value) -> impl FnMut(&mut Schema) {
    move |map| set(map.get_mut("additionalProperties"), &keywords)
}

fn set(schema: Option<&mut Value>, keywords: &Value) {
    let Some(schema) = schema.and_then(Value::as_object_mut) else { return };
    for (keyword, value) in keywords.as_object().unwrap_or(&Map::new()) {
        match value {
            Value::Null => schema.remove(keyword),
            value => schema.insert(keyword.clone(), value.clone()),
        };
    }
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
    let conditions = key_conditions("x", keys).into_iter();
    conditions.map(|(condition, message)| cel_rule(format!("self.all(x, {condition})"), message)).collect()
}

/// Returns the rules for a single label key.
pub(super) fn label_key_rule(keys: Keys) -> Vec<Value> {
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

/// Returns a transform that sets the rules of a list of requirements. The requirements of images have no rules.
pub(super) fn requirements(keys: Keys) -> impl FnMut(&mut Schema) {
    let counted = cel_rule(
        "self.all(x, x.operator == 'In' && has(x.minValues) ? has(x.values) && x.values.size() >= x.minValues : true)",
        "requirements with 'minValues' must have at least that many values",
    );
    let rules = [listed_rule("In"), compared_rule(), counted];
    let key = json!({ "maxLength": 316, "pattern": QUALIFIED_NAME, "x-kubernetes-validations": label_key_rule(keys) });
    move |list| {
        list.insert("maxItems".to_owned(), json!(100));
        list.insert("x-kubernetes-list-type".to_owned(), json!("atomic"));
        list.insert("x-kubernetes-validations".to_owned(), json!(rules));
        set(list.pointer_mut("/items/properties/key"), &key);
        set(list.pointer_mut("/items/properties/minValues"), &json!({ "minimum": 1, "maximum": 50 }));
    }
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
