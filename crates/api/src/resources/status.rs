//! Changes of conditions: Karpenter's status rules as pure functions. Statuses that Karpenter or Kerf wrote are therefore
//! interchangeable.

use std::cmp::Ordering;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{condition, reason};

/// Pattern of the types of conditions.
const CONDITION_TYPE: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// Condition of an object. Reason and message may be empty in objects that other programs wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition, in CamelCase.
    #[serde(rename = "type")]
    #[schemars(extend("maxLength" = 316, "pattern" = CONDITION_TYPE))]
    pub type_: String,
    /// Status: `True`, `False` or `Unknown`.
    #[schemars(extend("enum" = [condition::TRUE, condition::FALSE, condition::UNKNOWN]))]
    pub status: String,
    /// Generation of the object that the condition is about; 0 if not set.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(extend("minimum" = 0))]
    pub observed_generation: i64,
    /// Time of the last change of `status`.
    pub last_transition_time: Time,
    /// Reason for `status`, in CamelCase.
    #[serde(default)]
    #[schemars(!default, extend("maxLength" = 1024))]
    pub reason: String,
    /// Message as text.
    #[serde(default)]
    #[schemars(!default, extend("maxLength" = 32_768))]
    pub message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

impl Condition {
    /// Reports whether the status is `True`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == condition::TRUE
    }

    /// Reports whether the status is `False`.
    #[must_use]
    pub fn is_false(&self) -> bool {
        self.status == condition::FALSE
    }

    /// Reports whether the status is neither `True` nor `False`.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        !self.is_true() && !self.is_false()
    }
}

/// Returns the condition of this type, if there is one.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// Reports whether the condition of this type is present and `True`.
#[must_use]
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(Condition::is_true)
}

/// Sets a condition of a kind without a root condition, such as a CapacityBuffer. The condition keeps its position, and its
/// transition time changes only with its status. Returns whether anything changed.
pub fn set_plain(
    conditions: &mut Vec<Condition>,
    desired: DesiredCondition<'_>,
    generation: i64,
    now: Timestamp,
) -> bool {
    let old = conditions.iter_mut().find(|c| c.type_ == desired.type_);
    let transition = match &old {
        Some(old) if old.status == desired.status => old.last_transition_time.0,
        _ => whole_seconds(now),
    };
    let next = desired.condition(generation, transition);
    match old {
        Some(old) if *old == next => return false,
        Some(old) => *old = next,
        None => conditions.push(next),
    }
    true
}

/// Kind whose conditions follow Karpenter's rules.
pub trait Conditioned {
    /// Conditions from which `Ready` is computed, in the order of their creation.
    const DEPENDENTS: &'static [&'static str];

    /// Returns the metadata of the object.
    fn metadata(&self) -> &ObjectMeta;

    /// Returns the conditions of the object, empty while it has no status.
    fn conditions(&self) -> &[Condition];

    /// Returns the conditions of the object, and creates its status if necessary.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;

    /// Returns the properties of the object for the rules. An object without a creation time, which did not come from an API
    /// server, counts as created at `now`.
    fn subject(&self, now: Timestamp) -> Subject {
        let metadata = self.metadata();
        Subject {
            dependents: Self::DEPENDENTS,
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().map_or(now, |t| t.0),
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }

    /// Reports whether the condition of this type is present and `True`.
    fn is_true(&self, type_: &str) -> bool {
        is_true(self.conditions(), type_)
    }

    /// Creates the missing root and dependent conditions. Returns whether anything changed.
    fn initialize(&mut self, now: Timestamp) -> bool {
        self.subject(now).initialize(self.conditions_mut(), now)
    }

    /// Sets a condition to `True` with its type as reason. Returns whether anything changed.
    fn set_true(&mut self, type_: &str, now: Timestamp) -> bool {
        self.set(type_, condition::TRUE, type_, "", now)
    }

    /// Sets a condition to `False`. Returns whether anything changed.
    fn set_false(&mut self, type_: &str, reason: &str, message: &str, now: Timestamp) -> bool {
        self.set(type_, condition::FALSE, reason, message, now)
    }

    /// Sets a condition to `Unknown`. Returns whether anything changed.
    fn set_unknown(&mut self, type_: &str, reason: &str, message: &str, now: Timestamp) -> bool {
        self.set(type_, condition::UNKNOWN, reason, message, now)
    }

    /// Sets a condition and recomputes the root condition. Returns whether anything changed.
    fn set(&mut self, type_: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> bool {
        let desired = DesiredCondition { type_, status, reason, message };
        self.subject(now).set(self.conditions_mut(), desired, now)
    }

    /// Removes an independent condition. Root and dependent conditions are never removed. Returns whether anything changed.
    fn clear(&mut self, type_: &str, now: Timestamp) -> bool {
        self.subject(now).clear(self.conditions_mut(), type_)
    }
}

/// Desired state of a condition.
#[derive(Clone, Copy, Debug)]
pub struct DesiredCondition<'a> {
    /// Type of the condition.
    pub type_: &'a str,
    /// Status: `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// Reason in CamelCase.
    pub reason: &'a str,
    /// Message as text.
    pub message: &'a str,
}

impl DesiredCondition<'_> {
    fn condition(self, generation: i64, transition: Timestamp) -> Condition {
        Condition {
            type_: self.type_.to_owned(),
            status: self.status.to_owned(),
            observed_generation: generation,
            last_transition_time: Time(transition),
            reason: self.reason.to_owned(),
            message: self.message.to_owned(),
        }
    }
}

/// Properties of the object whose conditions change, as far as the rules need them.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Conditions from which `Ready` is computed.
    pub dependents: &'static [&'static str],
    /// Generation of the object.
    pub generation: i64,
    /// Creation time of the object, the first transition time of root and dependent conditions.
    pub created: Timestamp,
    /// True if the object is being deleted.
    pub deleting: bool,
}

impl Subject {
    /// Creates the missing root and dependent conditions as `Unknown`. Returns whether anything changed.
    pub fn initialize(&self, conditions: &mut Vec<Condition>, now: Timestamp) -> bool {
        let mut changed = false;
        for type_ in std::iter::once(&condition::READY).chain(self.dependents) {
            if find(conditions, type_).is_none() {
                let desired = DesiredCondition {
                    type_,
                    status: condition::UNKNOWN,
                    reason: reason::AWAITING_RECONCILIATION,
                    message: "object is awaiting reconciliation",
                };
                changed |= self.set(conditions, desired, now);
            }
        }
        changed
    }

    /// Sets a condition, sorts the list and recomputes the root condition. Returns whether anything changed.
    pub fn set(&self, conditions: &mut Vec<Condition>, desired: DesiredCondition<'_>, now: Timestamp) -> bool {
        if !self.replace(conditions, desired, now) {
            return false;
        }
        if desired.type_ != condition::READY {
            self.set_root(conditions, now);
        }
        true
    }

    /// Removes an independent condition and sorts the rest by type. Returns whether anything changed.
    pub fn clear(&self, conditions: &mut Vec<Condition>, type_: &str) -> bool {
        if self.is_dependent(type_) || find(conditions, type_).is_none() {
            return false;
        }
        conditions.retain(|c| c.type_ != type_);
        conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        true
    }

    fn replace(&self, conditions: &mut Vec<Condition>, desired: DesiredCondition<'_>, now: Timestamp) -> bool {
        let old = find(conditions, desired.type_);
        let next = self.next(old, desired, now);
        if old == Some(&next) {
            return false;
        }
        conditions.retain(|c| c.type_ != desired.type_);
        if self.deleting {
            for other in conditions.iter_mut() {
                other.observed_generation = self.generation;
            }
        }
        conditions.push(next);
        conditions.sort_by(order);
        true
    }

    fn next(&self, old: Option<&Condition>, desired: DesiredCondition<'_>, now: Timestamp) -> Condition {
        let transition = match old {
            Some(old) if old.status == desired.status => old.last_transition_time.0,
            None if self.is_dependent(desired.type_) => whole_seconds(self.created),
            _ => whole_seconds(now),
        };
        desired.condition(self.generation, transition)
    }

    fn set_root(&self, conditions: &mut Vec<Condition>, now: Timestamp) {
        let unhealthy = self.unhealthy(conditions);
        let refused = unhealthy.iter().any(|c| c.is_false() && c.observed_generation == self.generation);
        let message = unhealthy.iter().map(|c| format!("{}={}", c.type_, c.status)).collect::<Vec<_>>().join(", ");
        let (status, reason) = match (unhealthy.is_empty(), refused) {
            (true, _) => (condition::TRUE, condition::READY),
            (false, true) => (condition::FALSE, reason::UNHEALTHY_DEPENDENTS),
            (false, false) => (condition::UNKNOWN, reason::RECONCILING_DEPENDENTS),
        };
        let desired = DesiredCondition { type_: condition::READY, status, reason, message: &message };
        self.replace(conditions, desired, now);
    }

    /// Returns the dependents that keep the root condition from `True`, the latest transition first.
    fn unhealthy<'a>(&self, conditions: &'a [Condition]) -> Vec<&'a Condition> {
        let mut found: Vec<_> = conditions
            .iter()
            .filter(|c| self.dependents.contains(&c.type_.as_str()))
            .filter(|c| !c.is_true() || c.observed_generation != self.generation)
            .collect();
        found.sort_by(|a, b| b.last_transition_time.cmp(&a.last_transition_time));
        found
    }

    fn is_dependent(&self, type_: &str) -> bool {
        type_ == condition::READY || self.dependents.contains(&type_)
    }
}

/// Orders the root condition last, and the others by transition time. Equal ones keep their order.
fn order(a: &Condition, b: &Condition) -> Ordering {
    let root = |c: &Condition| c.type_ == condition::READY;
    root(a).cmp(&root(b)).then_with(|| match root(a) {
        true => Ordering::Equal,
        false => a.last_transition_time.cmp(&b.last_transition_time),
    })
}

/// Truncates to whole seconds, as Kubernetes stores times. A fraction would come back as another value.
fn whole_seconds(instant: Timestamp) -> Timestamp {
    Timestamp::from_second(instant.as_second()).unwrap_or(instant)
}

#[cfg(test)]
mod tests;
