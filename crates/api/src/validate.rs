//! Runtime validation of NodePools, NodeOverlays, CapacityBuffers, Commitments and SpendPolicies beyond the checks of the API server. The
//! problems become messages of conditions.

mod buffer;
mod commitment;
pub mod ineffective;
mod overlay;
mod spend_policy;

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;

pub use buffer::capacity_buffer;
pub use commitment::commitment;
pub use overlay::node_overlay;
pub use spend_policy::spend_policy;

use crate::names::label::{CAPACITY_TYPE, NODEPOOL};
use crate::names::{annotation, label};
use crate::resources::nodepool::NodePool;
use crate::resources::requirement::{Operator, Requirement};
use crate::resources::taint::{self, Taint};
use crate::units::price::InvalidPrice;

/// Problem of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path of the field, such as `spec.template.spec.requirements[0].values`.
    pub path: String,
    /// Problem as a sentence that does not contain the path.
    pub problem: String,
}

impl Fault {
    fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), problem: problem.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.problem)
    }
}

/// Returns all problems of a NodePool; empty if it is valid.
#[must_use]
pub fn node_pool(pool: &NodePool) -> Vec<Fault> {
    let template = &pool.spec.template;
    let mut found = Vec::new();
    for (key, value) in template.metadata.labels.iter().flatten() {
        found.extend(label_faults(key, value));
    }
    let taints = numbered("spec.template.spec.taints", template.spec.taints.iter().flatten());
    let startup_taints = numbered("spec.template.spec.startupTaints", template.spec.startup_taints.iter().flatten());
    found.extend(taint_faults(taints.chain(startup_taints)));
    for (path, requirement) in numbered("spec.template.spec.requirements", template.spec.requirements.iter()) {
        found.extend(requirement_faults(&path, requirement, NodePoolKey::Refused));
    }
    found.extend(pool.node_fee().err().map(|error| annotation_fault(annotation::NODE_FEE, &error)));
    found.extend(pool.max_cost_per_hour().err().map(|error| cost_limit_fault(pool, &error)));
    let premium = pool.preference_premium().err();
    found.extend(premium.map(|error| annotation_fault(annotation::PREFERENCE_PREMIUM, &error)));
    let factors = pool.performance_factors().err();
    found.extend(factors.map(|error| annotation_fault(annotation::PERFORMANCE_FACTORS, &error)));
    found
}

/// Returns items with their paths.
fn numbered<'a, T>(list: &'a str, items: impl Iterator<Item = T> + 'a) -> impl Iterator<Item = (String, T)> + 'a {
    items.enumerate().map(move |(index, item)| (format!("{list}[{index}]"), item))
}

/// Returns the problem of a limit of the cost, which is an annotation or a limit.
fn cost_limit_fault(pool: &NodePool, error: &InvalidPrice) -> Fault {
    const KEY: &str = annotation::MAX_COST_PER_HOUR;
    let limit = pool.spec.limits.as_ref().and_then(|limits| limits.get(KEY));
    if limit.is_some_and(|limit| limit.0 == error.text) {
        return Fault::new(format!("spec.limits[{KEY}]"), format!("limit {KEY:?}: {error}"));
    }
    annotation_fault(KEY, error)
}

fn annotation_fault(key: &str, error: &(dyn Error + 'static)) -> Fault {
    Fault::new(format!("metadata.annotations[{key}]"), format!("annotation {key:?}: {}", error_chain(error)))
}

/// Returns an error with its causes, as one sentence.
fn error_chain(error: &(dyn Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| (*error).source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// Permission of requirements to use the key [`NODEPOOL`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodePoolKey {
    Refused,
    Allowed,
}

fn label_faults(key: &str, value: &str) -> Vec<Fault> {
    let path = format!("spec.template.metadata.labels[{key}]");
    let mut found = key_faults(&path, "label", key, NodePoolKey::Refused);
    if !is_label_value(value) {
        found.push(Fault::new(path, format!("label {key:?} has the invalid value {value:?}")));
    }
    found
}

fn key_faults(path: &str, what: &str, key: &str, pool: NodePoolKey) -> Vec<Fault> {
    let mut found = Vec::new();
    if !is_qualified_name(key) {
        found.push(Fault::new(path, format!("{what} key {key:?} is not a qualified name")));
    }
    if key == NODEPOOL && pool == NodePoolKey::Refused {
        found.push(Fault::new(path, format!("{what} key {key:?} is restricted: the pool sets it by itself")));
    } else if label::is_restricted(key) {
        found.push(Fault::new(path, format!("{what} key {key:?} is restricted")));
    }
    found
}

fn taint_faults<'a>(taints: impl Iterator<Item = (String, &'a Taint)>) -> Vec<Fault> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for (path, taint) in taints {
        let Taint { key, effect, .. } = taint;
        let mut add = |field: &str, problem: String| found.push(Fault::new(format!("{path}{field}"), problem));
        if key.is_empty() {
            add(".key", "a taint has no key".to_owned());
        } else if !is_qualified_name(key) {
            add(".key", format!("taint key {key:?} is not a qualified name"));
        }
        if !taint.value().is_empty() && !is_qualified_name(taint.value()) {
            let value = taint.value();
            add(".value", format!("taint {key:?} has the invalid value {value:?}"));
        }
        if !effect.is_empty() && !taint::EFFECTS.contains(&effect.as_str()) {
            add(".effect", format!("taint {key:?} has the unknown effect {effect:?}"));
        }
        if !seen.insert((key, effect)) {
            add("", format!("taint {key}:{effect} is there more than once"));
        }
    }
    found
}

fn requirement_faults(path: &str, requirement: &Requirement, pool: NodePoolKey) -> Vec<Fault> {
    let key = label::canonical(&requirement.key);
    let mut found = key_faults(&format!("{path}.key"), "requirement", key, pool);
    let values: Vec<_> = requirement.values.iter().map(String::as_str).collect();
    let at_values = format!("{path}.values");
    match requirement.operator {
        Operator::In => {
            let problems = listed_faults(key, &values, requirement.min_values);
            found.extend(problems.into_iter().map(|(field, problem)| Fault::new(format!("{path}.{field}"), problem)));
        }
        Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
            if !matches!(values.as_slice(), [one] if one.parse::<i64>().is_ok_and(|n| n >= 0)) {
                let operator = requirement.operator.as_str();
                let problem =
                    format!("requirement {key:?} with {operator} needs exactly one value, an integer of at least 0");
                found.push(Fault::new(at_values, problem));
                return found;
            }
        }
        Operator::NotIn | Operator::Exists | Operator::DoesNotExist => {}
    }
    for value in values.iter().filter(|value| !is_label_value(value)) {
        found.push(Fault::new(&at_values, format!("requirement {key:?} has the invalid value {value:?}")));
    }
    found
}

/// Returns the invalid fields of the requirement, each with its problem.
fn listed_faults(key: &str, values: &[&str], min_values: Option<i32>) -> Vec<(&'static str, String)> {
    let known = |value: &&&str| key != CAPACITY_TYPE || label::CAPACITY_TYPES.contains(*value);
    let valid: BTreeSet<_> = values.iter().filter(known).collect();
    let mut found = Vec::new();
    if values.is_empty() {
        found.push(("values", format!("requirement {key:?} with In has no values")));
    } else if valid.is_empty() {
        found.push(("values", format!("requirement {key:?} has only unknown values: {values:?}")));
    }
    let least = min_values.and_then(|n| usize::try_from(n).ok());
    if least.is_some_and(|least| valid.len() < least) {
        let (has, least) = (valid.len(), least.unwrap_or_default());
        let problem = format!("requirement {key:?} has {has} valid values, fewer than its minValues of {least}");
        found.push(("minValues", problem));
    }
    found
}

/// Reports whether the text is a name of at most 63 characters with an optional DNS prefix of at most 253, as for Kubernetes
/// labels.
/// Reports whether the text is the key of a label: a name of at most 63 characters, after a DNS name and a slash if it has one.
#[must_use]
pub fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_dns_subdomain) && !name.is_empty() && is_label_value(name)
}

fn is_dns_subdomain(text: &str) -> bool {
    let part = |part: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

/// Reports whether the text has at most 63 letters, digits, dashes, underscores and dots, and begins and ends with a letter or
/// digit.
fn is_label_value(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests;
