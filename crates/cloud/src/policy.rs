//! IAM permissions of Kerf, derived from its AWS calls. [`CALLS`] lists the IAM actions of each method of
//! [`Cloud`](crate::Cloud), and [`STATEMENTS`] allow exactly these.
//!
//! Policies and statements have Karpenter's names, so that users of Karpenter find the differences easily. Texts contain
//! placeholders such as `${CLUSTER}`. IAM rejects a document with unfilled placeholders, because they are unknown policy
//! variables.

mod calls;
pub mod check;
pub mod evaluation;
mod statements;
mod surroundings;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

pub use calls::CALLS;
pub use statements::{LATER_TAGS, STATEMENTS};
pub use surroundings::{NODE_POLICIES, NodePolicy, RETENTION, RULES, Rule};

/// Placeholders of the documents, each with a description.
pub const PLACEHOLDERS: &[(&str, &str)] = &[
    ("CLUSTER", "the cluster's name, as in `CLUSTER_NAME`"),
    ("REGION", "the AWS region, such as `us-west-2`"),
    ("ACCOUNT", "the number of the account"),
    ("PARTITION", "`aws`, in other partitions such as `aws-cn` or `aws-us-gov`"),
    ("NODE_ROLE", "the name of the nodes' role, with its path if it has one"),
    ("QUEUE", "the name of the SQS queue, as in `INTERRUPTION_QUEUE`"),
];

/// The permissions that a method of [`Cloud`](crate::Cloud) needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Name of the method.
    pub method: &'static str,
    /// AWS call of the method, as in [`CloudError::call`](crate::CloudError).
    pub call: &'static str,
    /// IAM actions: first the call's own, then those that the service performs on the caller's behalf.
    pub actions: &'static [&'static str],
    /// `Sid`s of the statements that allow these actions.
    pub statements: &'static [&'static str],
}

/// A managed policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Instances and launch templates.
    NodeLifecycle,
    /// The node role and its instance profiles.
    IamIntegration,
    /// Description of the cluster.
    EksIntegration,
    /// The interruption queue.
    Interruption,
    /// Zonal shifts of the cluster.
    ZonalShift,
    /// Discovery of instance types, prices, images, networks and reservations.
    ResourceDiscovery,
}

impl Policy {
    /// All policies in the order in which they are listed.
    pub const ALL: [Self; 6] = [
        Self::NodeLifecycle,
        Self::IamIntegration,
        Self::EksIntegration,
        Self::Interruption,
        Self::ZonalShift,
        Self::ResourceDiscovery,
    ];

    /// Returns the name without the cluster's name, such as `KarpenterControllerInterruptionPolicy`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeLifecycle => "KarpenterControllerNodeLifecyclePolicy",
            Self::IamIntegration => "KarpenterControllerIAMIntegrationPolicy",
            Self::EksIntegration => "KarpenterControllerEKSIntegrationPolicy",
            Self::Interruption => "KarpenterControllerInterruptionPolicy",
            Self::ZonalShift => "KarpenterControllerZonalShiftPolicy",
            Self::ResourceDiscovery => "KarpenterControllerResourceDiscoveryPolicy",
        }
    }

    /// Returns the document in IAM's JSON, with sorted keys and unfilled placeholders.
    #[must_use]
    pub fn document(self) -> Document {
        let own = STATEMENTS.iter().filter(|statement| statement.policy == self);
        let shown = own.map(|statement| statement.shown_with(statement.actions, statement.resources));
        Document { statements: shown.collect(), version: "2012-10-17" }
    }
}

/// A statement that allows actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Policy of the statement.
    pub policy: Policy,
    /// Statement id, unique in all policies.
    pub sid: &'static str,
    /// IAM actions, such as `ec2:RunInstances`.
    pub actions: &'static [&'static str],
    /// ARNs with wildcards.
    pub resources: &'static [&'static str],
    /// Conditions; all must hold.
    pub conditions: &'static [Condition],
}

/// A condition of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Comparison operator.
    pub operator: Operator,
    /// Key of the request or resource, such as `aws:RequestTag/karpenter.sh/nodepool`.
    pub key: &'static str,
    /// Accepted values; one must match.
    pub values: &'static [&'static str],
}

/// The IAM condition operators that Kerf uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// Each value of the key equals one of the given values.
    AllEqual,
    /// The key exists and its value equals one of the given values.
    Equals,
    /// As [`Self::Equals`], or the key does not exist.
    EqualsIfExists,
    /// The key exists and its value matches a pattern.
    Like,
}

impl Operator {
    /// Returns IAM's name of the operator.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllEqual => "ForAllValues:StringEquals",
            Self::Equals => "StringEquals",
            Self::EqualsIfExists => "StringEqualsIfExists",
            Self::Like => "StringLike",
        }
    }
}

/// A policy document that serialises to IAM's JSON.
#[derive(Debug, Serialize)]
pub struct Document {
    #[serde(rename = "Statement")]
    statements: Vec<Shown>,
    #[serde(rename = "Version")]
    version: &'static str,
}

/// A statement in IAM's JSON, with the fields in alphabetical order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Shown {
    action: Value,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    condition: BTreeMap<&'static str, BTreeMap<&'static str, Value>>,
    effect: &'static str,
    resource: Value,
    sid: &'static str,
}

impl Statement {
    /// Returns the statement in IAM's JSON, for these of its actions and resources.
    fn shown_with(&self, actions: &[&str], resources: &[&str]) -> Shown {
        let mut condition: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for one in self.conditions {
            condition.entry(one.operator.as_str()).or_default().insert(one.key, words(one.values));
        }
        Shown { action: words(actions), condition, effect: "Allow", resource: words(resources), sid: self.sid }
    }
}

/// Returns one string or a list of strings; IAM accepts both.
fn words(words: &[&str]) -> Value {
    match words {
        [word] => json!(word),
        words => json!(words),
    }
}
