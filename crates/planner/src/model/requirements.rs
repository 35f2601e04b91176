//! Label requirements and their algebra (Karpenter's sets with complements and integer bounds).
//!
//! A requirement allows a set of label values, and perhaps the absence of the label. All other rules follow from set algebra.
//! Two requirements are compatible when their intersection is not empty. `NotIn` and `DoesNotExist` are compatible because both
//! allow the value "absent".

mod set;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use set::ValueSet;

/// Requirement in the form of the API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// Key of the label; aliases are already normalised.
    pub key: String,
    /// Operator.
    pub operator: Operator,
    /// Values; one integer for the comparison operators.
    #[serde(default)]
    pub values: Vec<String>,
    /// Minimum number of distinct values that must remain possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<u32>,
}

impl Requirement {
    /// Creates a requirement without `minValues`.
    #[must_use]
    pub fn new<V: Into<String>>(key: &str, operator: Operator, values: impl IntoIterator<Item = V>) -> Self {
        Self { key: key.to_owned(), operator, values: values.into_iter().map(Into::into).collect(), min_values: None }
    }
}

/// Operators of Kubernetes and Karpenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values; the label may be absent.
    NotIn,
    /// Any value.
    Exists,
    /// Absent label.
    DoesNotExist,
    /// Integer greater than the value.
    Gt,
    /// Integer less than the value.
    Lt,
    /// Integer of at least the value.
    Gte,
    /// Integer of at most the value.
    Lte,
}

/// Conjunction of requirements, one set of values per key; a key without a set allows everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirements(BTreeMap<String, ValueSet>);

impl Requirements {
    /// Creates the requirements that a node with exactly these labels satisfies, for their keys.
    #[must_use]
    pub fn from_labels(labels: &BTreeMap<String, String>) -> Self {
        Self(labels.iter().map(|(key, value)| (key.clone(), ValueSet::one(value))).collect())
    }

    /// Narrows the allowed values of one key.
    pub fn add(&mut self, requirement: &Requirement) {
        self.narrow(&requirement.key, &ValueSet::from_requirement(requirement));
    }

    /// Narrows the allowed values of one key to those that are also in `set`.
    pub fn narrow(&mut self, key: &str, set: &ValueSet) {
        match self.0.get_mut(key) {
            Some(present) => *present = present.intersection(set),
            None => {
                self.0.insert(key.to_owned(), set.clone());
            }
        }
    }

    /// Returns the allowed values of one key; `None` without a requirement.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&ValueSet> {
        self.0.get(key)
    }

    /// Returns keys and their sets in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ValueSet)> {
        self.0.iter().map(|(key, set)| (key.as_str(), set))
    }

    /// Returns the values that both allow, for every key.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for (key, set) in &other.0 {
            both.narrow(key, set);
        }
        both
    }

    /// Returns the combined requirements for a node created from `self`, which is compatible with `asked`. A label that `self`
    /// does not name and that is not `well_known` remains absent, so the requirement on it holds already and is omitted.
    #[must_use]
    pub fn narrowed(&self, asked: &Self, well_known: &BTreeSet<String>) -> Self {
        let mut both = self.clone();
        for (key, set) in asked.0.iter().filter(|(key, _)| self.0.contains_key(*key) || well_known.contains(*key)) {
            both.narrow(key, set);
        }
        both
    }

    /// Returns the first key, by name, on which a node created from `self` cannot satisfy `asked`.
    ///
    /// A key that `self` does not name is free when it is `well_known`: the instance type decides. Any other label will be
    /// absent from the node, which only `NotIn` and `DoesNotExist` accept.
    #[must_use]
    pub fn first_conflict<'a>(&self, asked: &'a Self, well_known: &BTreeSet<String>) -> Option<&'a str> {
        let agrees = |key: &String, set: &ValueSet| match self.0.get(key) {
            Some(own) => !own.intersection(set).is_empty(),
            None => !set.is_empty() && (well_known.contains(key) || set.allows(None)),
        };
        asked.0.iter().find(|(key, set)| !agrees(key, set)).map(|(key, _)| key.as_str())
    }

    /// Reports whether a node with these labels satisfies every requirement.
    #[must_use]
    pub fn allow_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|(key, set)| set.allows(labels.get(key).map(String::as_str)))
    }

    /// Removes the requirements on a key.
    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// Returns the shortest list of requirements with the same meaning, in the order of the keys.
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
