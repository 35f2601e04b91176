//! Requirements on node labels, as pools, claims, resolved images and pods write them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a requirement compares a label's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Operator {
    /// The value is one of the listed ones.
    #[default]
    In,
    /// The label is absent or its value is not listed.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The value is a greater integer.
    Gt,
    /// The value is a lesser integer.
    Lt,
    /// The value is a greater or equal integer.
    Gte,
    /// The value is a lesser or equal integer.
    Lte,
}

impl Operator {
    /// The wire form.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }
}

/// A requirement on one label of a node, with the flexibility that must be left after scheduling.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// Comparison.
    pub operator: Operator,
    /// Values to compare with: none for Exists and DoesNotExist, one integer for Gt, Lt, Gte and Lte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Number of distinct values that must stay possible; pools and claims only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<i32>,
}

impl Requirement {
    /// A requirement without `minValues`.
    pub fn new<V: Into<String>>(key: &str, operator: Operator, values: impl IntoIterator<Item = V>) -> Self {
        Self { key: key.to_owned(), operator, values: values.into_iter().map(Into::into).collect(), min_values: None }
    }
}
