//! Requirements on node labels, in NodePools, NodeClaims, resolved images and pods.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Operator that compares a label's value with the values of a requirement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Operator {
    /// The value is listed.
    #[default]
    In,
    /// The label is absent, or its value is not listed.
    NotIn,
    /// The label is present.
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
    /// Returns the operator's name in the API.
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

/// Requirement on one node label, with the minimum number of values that must remain after scheduling.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// Operator.
    pub operator: Operator,
    /// Values of the operator: none for Exists and DoesNotExist, one integer for Gt, Lt, Gte and Lte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Minimum number of distinct values that must remain possible. Only in NodePools and NodeClaims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<i32>,
}

impl Requirement {
    /// Creates a requirement without `minValues`.
    pub fn new<V: Into<String>>(key: &str, operator: Operator, values: impl IntoIterator<Item = V>) -> Self {
        Self { key: key.to_owned(), operator, values: values.into_iter().map(Into::into).collect(), min_values: None }
    }
}
