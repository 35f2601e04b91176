//! NodeOverlay (`karpenter.sh/v1alpha1`): what some machines cost or have beyond what the cloud says of them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::price::{InvalidAdjustment, InvalidFactor, InvalidPrice, PriceChange, factor, micro_dollars};
use crate::status::{Condition, Conditioned};
use crate::{Operator, Quantity, Requirement, annotation, condition};

/// Which machines are meant, and what they cost or have.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    plural = "nodeoverlays",
    shortname = "overlays",
    category = "karpenter",
    status = "NodeOverlayStatus",
    derive = "PartialEq",
    doc = "A correction of price or capacity of instance types.",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlaySpec {
    /// The machines meant: labels of instance types, of their offerings and of the pool.
    pub requirements: Vec<OverlayRequirement>,
    /// Price in dollars per hour, in place of the cloud's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// Change of the price: a sign and dollars per hour, or a sign and a percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_adjustment: Option<String>,
    /// Extended resources that the machines have besides the cloud's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<BTreeMap<String, Quantity>>,
    /// Overlays of greater weight win. Absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// A requirement on one label of the machines meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverlayRequirement {
    /// Label key.
    pub key: String,
    /// Comparison.
    pub operator: Operator,
    /// Values to compare with: none for Exists and DoesNotExist, one integer for Gt, Lt, Gte and Lte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl From<&OverlayRequirement> for Requirement {
    fn from(overlay: &OverlayRequirement) -> Self {
        Self::new(&overlay.key, overlay.operator, overlay.values.iter().map(String::as_str))
    }
}

/// What is known of an overlay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlayStatus {
    /// What is true of the overlay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Why an overlay's price cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOverlayPrice {
    /// `spec.price` is not a price.
    #[error("in spec.price")]
    Price(#[source] InvalidPrice),
    /// `spec.priceAdjustment` is not one.
    #[error("in spec.priceAdjustment")]
    Adjustment(#[source] InvalidAdjustment),
}

impl NodeOverlay {
    /// Heavier first, then the later name: the order in which overlays are looked at. Of two that speak of the same
    /// thing the earlier wins; with equal weights they are in conflict.
    #[must_use]
    pub fn precedence(&self, other: &Self) -> Ordering {
        let by_weight = other.weight().cmp(&self.weight());
        by_weight.then_with(|| other.metadata.name.cmp(&self.metadata.name))
    }

    /// Weight, 0 where none is written.
    #[must_use]
    pub fn weight(&self) -> i32 {
        self.spec.weight.unwrap_or_default()
    }

    /// What becomes of the machines' prices; `None` where the overlay says nothing of them.
    ///
    /// # Errors
    /// When the text is not a price or not a change of one.
    pub fn price_change(&self) -> Result<Option<PriceChange>, InvalidOverlayPrice> {
        if let Some(price) = &self.spec.price {
            let micros = micro_dollars(price).map_err(InvalidOverlayPrice::Price)?;
            return Ok(Some(PriceChange::Absolute(micros)));
        }
        let change = self.spec.price_adjustment.as_deref().map(PriceChange::adjustment).transpose();
        change.map_err(InvalidOverlayPrice::Adjustment)
    }

    /// Work that the machines do, in thousandths of the usual (annotation `kerf.sh/performance`).
    ///
    /// # Errors
    /// When the annotation is not a factor.
    pub fn performance(&self) -> Result<Option<u32>, InvalidFactor> {
        let annotations = self.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(annotation::PERFORMANCE)).map(|text| factor(text)).transpose()
    }
}

impl Conditioned for NodeOverlay {
    const DEPENDENTS: &'static [&'static str] = &[condition::VALIDATION_SUCCEEDED];

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |s| &s.conditions)
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.status.get_or_insert_default().conditions
    }
}
