//! The rights that Kerf needs in AWS, derived from the calls that it makes: [`CALLS`] says for each method of
//! [`Cloud`](crate::Cloud) what IAM asks of it, [`STATEMENTS`] allow that and nothing else.
//!
//! Names of policies and statements are Karpenter's (aws 8.4), so that whoever has those finds the difference at once.
//! Texts hold placeholders such as `${CLUSTER}`; left unfilled they are policy variables that IAM does not know, so that it
//! refuses the document.

mod calls;
mod statements;
mod surroundings;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

pub use calls::CALLS;
pub use statements::{LATER_TAGS, STATEMENTS};
pub use surroundings::{NODE_POLICIES, NodePolicy, RETENTION, RULES, Rule};

/// What to fill into the documents.
pub const PLACEHOLDERS: &[(&str, &str)] = &[
    ("CLUSTER", "the cluster's name, as in `CLUSTER_NAME`"),
    ("REGION", "the AWS region, such as `us-west-2`"),
    ("ACCOUNT", "the number of the account"),
    ("PARTITION", "`aws`, in other partitions such as `aws-cn` or `aws-us-gov`"),
    ("NODE_ROLE", "the name of the nodes' role, with its path if it has one"),
    ("QUEUE", "the name of the SQS queue, as in `INTERRUPTION_QUEUE`"),
];

/// What a method of [`Cloud`](crate::Cloud) needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The method.
    pub method: &'static str,
    /// The call that it makes, as [`CloudError::call`](crate::CloudError) names it.
    pub call: &'static str,
    /// What IAM asks for: the call's own action first, then those that the service carries out in our name.
    pub actions: &'static [&'static str],
    /// `Sid`s of the statements that allow these.
    pub statements: &'static [&'static str],
}

/// A managed policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Instances and launch templates.
    NodeLifecycle,
    /// The nodes' role and its instance profiles.
    IamIntegration,
    /// The cluster's description.
    EksIntegration,
    /// The queue of notices.
    Interruption,
    /// What there is to buy, and where it can stand.
    ResourceDiscovery,
}

impl Policy {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 5] =
        [Self::NodeLifecycle, Self::IamIntegration, Self::EksIntegration, Self::Interruption, Self::ResourceDiscovery];

    /// Its name without the cluster's, such as `KarpenterControllerInterruptionPolicy`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeLifecycle => "KarpenterControllerNodeLifecyclePolicy",
            Self::IamIntegration => "KarpenterControllerIAMIntegrationPolicy",
            Self::EksIntegration => "KarpenterControllerEKSIntegrationPolicy",
            Self::Interruption => "KarpenterControllerInterruptionPolicy",
            Self::ResourceDiscovery => "KarpenterControllerResourceDiscoveryPolicy",
        }
    }

    /// Its document in IAM's JSON, keys sorted, placeholders unfilled.
    #[must_use]
    pub fn document(self) -> Document {
        let own = STATEMENTS.iter().filter(|statement| statement.policy == self);
        Document { statements: own.map(Statement::shown).collect(), version: "2012-10-17" }
    }
}

/// Something that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The policy that it is part of.
    pub policy: Policy,
    /// Its name, unique over all policies.
    pub sid: &'static str,
    /// Such as `ec2:RunInstances`.
    pub actions: &'static [&'static str],
    /// ARNs with wildcards.
    pub resources: &'static [&'static str],
    /// All must hold.
    pub conditions: &'static [Condition],
}

/// A condition of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// How to compare.
    pub operator: Operator,
    /// The key of the request or resource, such as `aws:RequestTag/karpenter.sh/nodepool`.
    pub key: &'static str,
    /// Any of these.
    pub values: &'static [&'static str],
}

/// IAM's operators, as far as we need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// Every value of the key is one of those that are given.
    AllEqual,
    /// The key is there with a value that is given.
    Equals,
    /// As [`Self::Equals`], or the key is not there.
    EqualsIfExists,
    /// The key is there and its value fits a pattern.
    Like,
}

impl Operator {
    /// IAM's name for it.
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

/// A policy as IAM reads it; serialise it.
#[derive(Debug, Serialize)]
pub struct Document {
    #[serde(rename = "Statement")]
    statements: Vec<Shown>,
    #[serde(rename = "Version")]
    version: &'static str,
}

/// The fields in the order of IAM's names for them.
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
    fn shown(&self) -> Shown {
        let mut condition: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for one in self.conditions {
            condition.entry(one.operator.as_str()).or_default().insert(one.key, words(one.values));
        }
        Shown {
            action: words(self.actions),
            condition,
            effect: "Allow",
            resource: words(self.resources),
            sid: self.sid,
        }
    }
}

/// IAM takes one word or a list of them.
fn words(words: &[&str]) -> Value {
    match words {
        [word] => json!(word),
        words => json!(words),
    }
}
