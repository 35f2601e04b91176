//! Label requirements and their algebra (Karpenter's sets with complements and integer bounds).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// One requirement as objects write it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The label's key; aliases are already normalised.
    pub key: String,
    /// How the values are meant.
    pub operator: Operator,
    /// The values; one integer for the comparing operators.
    #[serde(default)]
    pub values: Vec<String>,
    /// How many distinct values must stay possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<u32>,
}

/// Kubernetes' and Karpenter's operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values; an absent label is fine.
    NotIn,
    /// Any value.
    Exists,
    /// No such label.
    DoesNotExist,
    /// An integer greater than the value.
    Gt,
    /// An integer less than the value.
    Lt,
    /// An integer of at least the value.
    Gte,
    /// An integer of at most the value.
    Lte,
}

/// What is still possible for one label.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueSet {
    /// Whether `values` are the excluded ones.
    complement: bool,
    values: BTreeSet<String>,
    at_least: Option<i64>,
    at_most: Option<i64>,
    /// The greatest `minValues` of what was put in.
    min_values: Option<u32>,
}

/// A conjunction of requirements, one set of values a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirements(BTreeMap<String, ValueSet>);
