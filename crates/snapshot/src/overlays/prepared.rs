//! Validation and conversion of a NodeOverlay.

use std::error::Error;

use api::{NodeOverlay, PriceChange, Requirement, quantity};
use planner::Requirements;

use super::OverlayError;
use crate::requirements;

/// Resources of the instance itself, which overlays cannot change.
const FIXED: [&str; 4] = [quantity::CPU, quantity::EPHEMERAL_STORAGE, quantity::MEMORY, quantity::PODS];

/// A validated overlay.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) name: String,
    pub(super) weight: i32,
    pub(super) requirements: Requirements,
    pub(super) price: Option<PriceChange>,
    pub(super) capacity: Vec<(String, i64)>,
    pub(super) performance: Option<u32>,
}

impl Prepared {
    pub(super) fn new(overlay: &NodeOverlay) -> Result<Self, OverlayError> {
        let invalid = |message: String| OverlayError::Invalid { message };
        let list: Vec<Requirement> = overlay.spec.requirements.iter().map(Requirement::from).collect();
        if let Some(reason) = list.iter().find_map(requirements::error) {
            return Err(invalid(format!(
                "in spec.requirements: {reason}; In and NotIn need values, Exists and DoesNotExist none, comparisons one integer"
            )));
        }
        if overlay.spec.price.is_some() && overlay.spec.price_adjustment.is_some() {
            return Err(invalid(
                "spec.price and spec.priceAdjustment are mutually exclusive: remove one of them".to_owned(),
            ));
        }
        let price = overlay.price_change().map_err(|error| invalid(message_with_source(&error)))?;
        let performance = overlay.performance();
        let performance =
            performance.map_err(|error| invalid(format!("in annotation kerf.sh/performance: {error}")))?;
        let required: Vec<_> = list.iter().map(requirements::convert).collect();
        Ok(Self {
            name: overlay.metadata.name.clone().unwrap_or_default(),
            weight: overlay.weight(),
            requirements: required.iter().collect(),
            price,
            capacity: capacity(overlay).map_err(invalid)?,
            performance,
        })
    }
}

fn capacity(overlay: &NodeOverlay) -> Result<Vec<(String, i64)>, String> {
    let all = overlay.spec.capacity.iter().flatten();
    all.map(|(resource, amount)| {
        if FIXED.contains(&resource.as_str()) {
            return Err(format!("in spec.capacity: {resource} cannot be changed: only extended resources can"));
        }
        let amount = amount.amount(resource).map_err(|error| format!("in spec.capacity.{resource}: {error}"))?;
        Ok((resource.clone(), amount))
    })
    .collect()
}

/// Returns the message of an error with its source.
fn message_with_source(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
