//! Label selectors, and their evaluation. kube's `Selector` is converted from a copy of each selector; this one is evaluated as
//! parsed, for a hundred thousand pods.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::meta::nullable;

/// Selector of objects by label. An empty selector selects everything. An absent selector selects nothing; the caller handles
/// that case.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must have exactly these values.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements, which must all match.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// Requirement of a label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelectorRequirement {
    /// Label key.
    pub key: String,
    /// Operator.
    pub operator: LabelSelectorOperator,
    /// Values of the operator.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Operator of a label selector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum LabelSelectorOperator {
    /// The value is listed.
    #[default]
    In,
    /// The label is absent, or its value is not listed.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl LabelSelector {
    /// Reports whether `labels` match every requirement.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let exact = |(key, value)| labels.get(key) == Some(value);
        self.match_labels.iter().all(exact) && self.match_expressions.iter().all(|r| r.matches(labels))
    }

    /// Reports whether the selector has no requirement.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }
}

impl LabelSelectorRequirement {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let listed = value.is_some_and(|v| self.values.contains(v));
        match self.operator {
            LabelSelectorOperator::In => listed,
            LabelSelectorOperator::NotIn => !listed,
            LabelSelectorOperator::Exists => value.is_some(),
            LabelSelectorOperator::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selector_matches_labels() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let rows = [
            ("{}", true),
            (r#"{"matchLabels":{"a":"1"}}"#, true),
            (r#"{"matchLabels":{"a":"2"}}"#, false),
            (r#"{"matchLabels":null,"matchExpressions":null}"#, true),
            (r#"{"matchExpressions":[{"key":"a","operator":"In","values":["1","2"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"b","operator":"In","values":["1"]}]}"#, false),
            (r#"{"matchExpressions":[{"key":"a","operator":"NotIn","values":["1"]}]}"#, false),
            (r#"{"matchExpressions":[{"key":"b","operator":"NotIn","values":["1"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"a","operator":"Exists"}]}"#, true),
            (r#"{"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]}"#, false),
            (r#"{"matchLabels":{"a":"1"},"matchExpressions":[{"key":"b","operator":"Exists"}]}"#, false),
        ];
        for (json, expected) in rows {
            let selector: LabelSelector = serde_json::from_str(json).unwrap();
            assert_eq!(selector.matches(&labels), expected, "{json}");
        }
    }
}
