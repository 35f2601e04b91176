//! Instance types as structured output for programs.

use std::collections::BTreeMap;

use api::quantity;
use cloud::types::Quote;
use planner::{InstanceType, Resources};
use serde::Serialize;
use serde_json::Number;

use super::Listed;
use crate::output::money;

/// One instance type.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TypeEntry<'a> {
    name: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
    capacity: BTreeMap<&'a str, String>,
    allocatable: BTreeMap<&'a str, String>,
    attach_limits: &'a BTreeMap<String, i64>,
    offerings: Vec<OfferingEntry<'a>>,
}

/// One offering.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfferingEntry<'a> {
    zone: &'a str,
    capacity_type: &'static str,
    /// Dollars per hour.
    price: Option<Number>,
    available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Returns all listed types.
pub(super) fn entries(listed: &[Listed]) -> Vec<TypeEntry<'_>> {
    listed.iter().map(|one| entry(&one.kind, &one.quotes)).collect()
}

fn entry<'a>(kind: &'a InstanceType, quotes: &'a [Quote]) -> TypeEntry<'a> {
    TypeEntry {
        name: &kind.name,
        labels: labels(kind),
        capacity: quantities(&kind.capacity),
        allocatable: quantities(&kind.allocatable),
        attach_limits: &kind.attach_limits,
        offerings: quotes.iter().map(offering_entry).collect(),
    }
}

/// Returns the default labels of a node: the first of several values, and no label without values.
pub(super) fn labels(kind: &InstanceType) -> BTreeMap<&str, &str> {
    kind.labels.iter().filter_map(|(key, values)| Some((key.as_str(), values.first()?.as_str()))).collect()
}

/// Returns amounts as Kubernetes quantities.
pub(super) fn quantities(resources: &Resources) -> BTreeMap<&str, String> {
    resources.iter().map(|(name, amount)| (name, quantity::text(name, amount))).collect()
}

fn offering_entry(quote: &Quote) -> OfferingEntry<'_> {
    OfferingEntry {
        zone: &quote.zone,
        capacity_type: quote.capacity_type.as_str(),
        price: quote.price.and_then(|price| serde_json::from_str(&money::dollars(price.0)).ok()),
        available: quote.obstacle.is_none(),
        reason: quote.obstacle.as_ref().map(ToString::to_string),
    }
}
