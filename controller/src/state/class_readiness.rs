//! Readiness of an EC2NodeClass for launches, by the object itself: a controller that has not resolved the EC2NodeClass yet, or
//! another program, may have set its condition.

use api::status::Conditioned;
use api::{EC2NodeClass, NodeClaim, condition, reason};

use crate::state::index::Index;
use crate::write::events::{Event, ObjectReference};
use crate::write::writer::{Operation, Target};

/// Reason in metrics of NodeClaims whose EC2NodeClass cannot launch, as in Karpenter.
pub const NOT_READY: &str = "nodeclass_not_ready";

/// Readiness of an EC2NodeClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassReadiness {
    /// Launches are possible.
    Ready,
    /// The condition is missing, or older than the specification.
    Unknown {
        /// Message for conditions and events.
        message: String,
    },
    /// The EC2NodeClass does not exist.
    Missing {
        /// Message with the fix.
        message: String,
    },
    /// The EC2NodeClass is being deleted.
    Terminating {
        /// Message for conditions and events.
        message: String,
    },
    /// The condition Ready is False.
    NotReady {
        /// Reason of the condition.
        reason: String,
        /// Message with the causes.
        message: String,
    },
}

impl ClassReadiness {
    /// Returns the readiness of the EC2NodeClass with this name.
    #[must_use]
    pub fn from_index(index: &Index, name: &str) -> Self {
        Self::new(name, index.classes.get(name).map(AsRef::as_ref))
    }

    /// Returns the readiness of an EC2NodeClass, if it exists. `True` counts for every generation: the controller launches with
    /// the last resolved specification, and drift detection replaces the node.
    #[must_use]
    pub fn new(name: &str, class: Option<&EC2NodeClass>) -> Self {
        let Some(class) = class else {
            let message =
                format!("EC2NodeClass {name:?} does not exist: create it or correct spec.template.spec.nodeClassRef");
            return Self::Missing { message };
        };
        if class.metadata.deletion_timestamp.is_some() {
            return Self::Terminating { message: format!("EC2NodeClass {name:?} is being deleted") };
        }
        let observed = |ready: &&api::Condition| {
            ready.observed_generation == 0 || ready.observed_generation >= class.metadata.generation.unwrap_or_default()
        };
        match api::status::find(class.conditions(), condition::READY) {
            Some(ready) if ready.is_true() => Self::Ready,
            Some(ready) if ready.is_false() && observed(&ready) => {
                Self::NotReady { reason: ready.reason.clone(), message: faults(class, &ready.message) }
            }
            _ => Self::Unknown { message: format!("EC2NodeClass {name:?} has not been reconciled yet") },
        }
    }

    /// Returns the operations that delete a NodeClaim which cannot be launched now, with the cause as an event; its pods are
    /// planned again.
    #[must_use]
    pub fn deletion_of(&self, claim: &NodeClaim) -> Option<Vec<Operation>> {
        let (reason, message) = self.refusal()?;
        let target = Target::Claim(claim.metadata.name.clone().unwrap_or_default());
        Some(vec![
            Operation::Note(Event::warning(ObjectReference::to(claim), reason, message.to_owned())),
            Operation::Delete(target, claim.metadata.uid.clone().unwrap_or_default()),
        ])
    }

    /// Returns reason and message for NodeClaims that cannot be launched now, if the cause is certain.
    #[must_use]
    pub fn refusal(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Ready | Self::Unknown { .. } => None,
            Self::Missing { message } => Some((reason::NODE_CLASS_NOT_FOUND, message)),
            Self::Terminating { message } => Some((reason::NODE_CLASS_TERMINATING, message)),
            Self::NotReady { message, .. } => Some((reason::NODE_CLASS_NOT_READY, message)),
        }
    }
}

/// Returns the problems of an EC2NodeClass with their fixes: `Ready` itself only lists the conditions that are not true.
fn faults(class: &EC2NodeClass, summary: &str) -> String {
    let causes: Vec<&str> = class
        .conditions()
        .iter()
        .filter(|found| found.is_false() && found.type_ != condition::READY && !found.message.is_empty())
        .filter(|found| found.reason != reason::DEPENDENCIES_NOT_READY)
        .map(|found| found.message.as_str())
        .collect();
    if causes.is_empty() { summary.to_owned() } else { causes.join("; ") }
}

#[cfg(test)]
mod tests {
    use api::{condition, reason};
    use serde_json::{Value, json};

    use super::ClassReadiness;
    use crate::fixture::{at, class, condition as cond, merge};

    fn ready(status: &str, observed: i64) -> Value {
        let mut ready = cond(condition::READY, status, 1);
        merge(&mut ready, &json!({"observedGeneration": observed, "message": "for a test"}));
        json!({"metadata": {"generation": 2}, "status": {"conditions": [ready]}})
    }

    #[test]
    fn refusal_requires_a_current_condition() {
        let deleted = json!({"metadata": {"deletionTimestamp": at(1).to_string(), "finalizers": ["other"]}});
        let rows = [
            ("no class", None, Some(reason::NODE_CLASS_NOT_FOUND)),
            ("deleted", Some(deleted), Some(reason::NODE_CLASS_TERMINATING)),
            ("not ready", Some(ready("False", 2)), Some(reason::NODE_CLASS_NOT_READY)),
            ("not ready, set without a generation", Some(ready("False", 0)), Some(reason::NODE_CLASS_NOT_READY)),
            ("not ready before the last change", Some(ready("False", 1)), None),
            ("unknown", Some(ready("Unknown", 2)), None),
            ("ready", Some(ready("True", 2)), None),
            ("ready before the last change", Some(ready("True", 1)), None),
            ("new", Some(json!({})), None),
        ];
        for (what, change, expected) in rows {
            let class = change.map(|change| class(&change));
            let readiness = ClassReadiness::new("default", class.as_deref());
            assert_eq!(readiness.refusal().map(|(reason, _)| reason), expected, "{what}");
        }
    }
}
