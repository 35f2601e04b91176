//! Requirements of pods, NodePools, NodeClaims and NodeOverlays: conversion for the planner, and validation.

use api::label;
use planner::{Operator, Requirement};

use crate::pods::ignored::IgnoredReason;

/// Converts a requirement of a NodePool or NodeClaim to its canonical key, without validation.
pub(crate) fn convert(it: &api::Requirement) -> Requirement {
    Requirement {
        key: label::canonical(&it.key).to_owned(),
        operator: operator(it.operator),
        values: it.values.clone(),
        min_values: it.min_values.and_then(|count| u32::try_from(count).ok()),
    }
}

/// Returns the error of a requirement: each operator needs its kind of values.
pub(crate) fn error(it: &api::Requirement) -> Option<IgnoredReason> {
    let key = || label::canonical(&it.key).to_owned();
    let one_integer = || matches!(it.values.as_slice(), [value] if value.parse::<i64>().is_ok());
    match operator(it.operator) {
        Operator::In | Operator::NotIn if it.values.is_empty() => Some(IgnoredReason::Values { key: key() }),
        Operator::Exists | Operator::DoesNotExist if !it.values.is_empty() => {
            Some(IgnoredReason::Values { key: key() })
        }
        Operator::Gt | Operator::Gte | Operator::Lt | Operator::Lte if !one_integer() => {
            Some(IgnoredReason::Comparison { key: key() })
        }
        _ => None,
    }
}

fn operator(operator: api::Operator) -> Operator {
    match operator {
        api::Operator::In => Operator::In,
        api::Operator::NotIn => Operator::NotIn,
        api::Operator::Exists => Operator::Exists,
        api::Operator::DoesNotExist => Operator::DoesNotExist,
        api::Operator::Gt => Operator::Gt,
        api::Operator::Lt => Operator::Lt,
        api::Operator::Gte => Operator::Gte,
        api::Operator::Lte => Operator::Lte,
    }
}
