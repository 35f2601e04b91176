//! Label requirements and their algebra (Karpenter's sets with complements and integer bounds).
//!
//! A requirement allows a set of label values, and perhaps that the label is absent. Everything else
//! follows from set algebra: two requirements are compatible when their intersection is not empty, and the
//! leniency of `NotIn` and `DoesNotExist` towards each other is the value "absent" that both allow.

mod set;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use set::ValueSet;

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

impl Requirement {
    /// A requirement without `minValues`.
    #[must_use]
    pub fn new<V: Into<String>>(key: &str, operator: Operator, values: impl IntoIterator<Item = V>) -> Self {
        Self { key: key.to_owned(), operator, values: values.into_iter().map(Into::into).collect(), min_values: None }
    }
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

/// A conjunction of requirements, one set of values a key; a key that is not named may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirements(BTreeMap<String, ValueSet>);

impl Requirements {
    /// The requirements that a node with exactly these labels meets, for the keys that they name.
    #[must_use]
    pub fn from_labels(labels: &BTreeMap<String, String>) -> Self {
        Self(labels.iter().map(|(key, value)| (key.clone(), ValueSet::one(value))).collect())
    }

    /// Narrows what is allowed for one key.
    pub fn add(&mut self, requirement: &Requirement) {
        self.narrow(&requirement.key, &ValueSet::from_requirement(requirement));
    }

    /// Narrows what is allowed for one key to the values that are also in `set`.
    pub fn narrow(&mut self, key: &str, set: &ValueSet) {
        match self.0.get_mut(key) {
            Some(present) => *present = present.intersection(set),
            None => {
                self.0.insert(key.to_owned(), set.clone());
            }
        }
    }

    /// What is allowed for one key; `None` when nothing was said about it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&ValueSet> {
        self.0.get(key)
    }

    /// Keys and their sets in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ValueSet)> {
        self.0.iter().map(|(key, set)| (key.as_str(), set))
    }

    /// Both at once: for every key the values that both allow.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for (key, set) in &other.0 {
            both.narrow(key, set);
        }
        both
    }

    /// Both at once for a node to be made after `self`, which agrees with `asked`: a label that `self` does not name and
    /// that is not `well_known` stays absent, so what was asked of it is settled and left out.
    #[must_use]
    pub fn narrowed(&self, asked: &Self, well_known: &BTreeSet<String>) -> Self {
        let mut both = self.clone();
        for (key, set) in asked.0.iter().filter(|(key, _)| self.0.contains_key(*key) || well_known.contains(*key)) {
            both.narrow(key, set);
        }
        both
    }

    /// The first key, by name, on which a node to be made after `self` cannot meet `asked`.
    ///
    /// A key that `self` does not name is free when it is `well_known`: the instance type will decide. Any other label
    /// will be absent from the node, which only `NotIn` and `DoesNotExist` accept.
    #[must_use]
    pub fn first_conflict<'a>(&self, asked: &'a Self, well_known: &BTreeSet<String>) -> Option<&'a str> {
        let agrees = |key: &String, set: &ValueSet| match self.0.get(key) {
            Some(own) => !own.intersection(set).is_empty(),
            None => !set.is_empty() && (well_known.contains(key) || set.allows(None)),
        };
        asked.0.iter().find(|(key, set)| !agrees(key, set)).map(|(key, _)| key.as_str())
    }

    /// Whether a node with these labels meets every requirement.
    #[must_use]
    pub fn allow_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|(key, set)| set.allows(labels.get(key).map(String::as_str)))
    }

    /// Forgets what was said about a key.
    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// The shortest list of requirements with the same meaning, in the order of the keys.
    #[must_use]
    pub fn to_vec(&self) -> Vec<Requirement> {
        self.0.iter().flat_map(|(key, set)| set.to_requirements(key)).collect()
    }
}

impl<'a> FromIterator<&'a Requirement> for Requirements {
    fn from_iter<I: IntoIterator<Item = &'a Requirement>>(requirements: I) -> Self {
        let mut all = Self::default();
        for requirement in requirements {
            all.add(requirement);
        }
        all
    }
}
