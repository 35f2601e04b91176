//! NodeOverlay (`karpenter.sh/v1alpha1`): correction of price or capacity of instance types.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::requirement::{Operator, Requirement};
use super::schema_rules::{Keys, QUALIFIED_NAME, cel_rule, compared_rule, label_key_rule, listed_rule};
use super::status::{Condition, Conditioned};
use crate::names::{annotation, condition};
use crate::units::price::{InvalidAdjustment, InvalidFactor, InvalidPrice, PriceChange, factor, micro_dollars};
use crate::units::quantity::Quantity;

/// Instance types of the overlay, and their price or capacity.
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
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Weight","type":"integer","jsonPath":".spec.weight","priority":1}"#,
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [cel_rule(
    "!has(self.price) || !has(self.priceAdjustment)",
    "'price' and 'priceAdjustment' exclude each other",
)]))]
pub struct NodeOverlaySpec {
    /// Requirements that select instance types: labels of the types, of their offerings and of the NodePool.
    #[schemars(extend(
        "maxItems" = 100,
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = [listed_rule("In"), listed_rule("NotIn"), compared_rule()],
    ))]
    pub requirements: Vec<OverlayRequirement>,
    /// Price in dollars per hour, which replaces the price of EC2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^\d+(\.\d+)?$"))]
    pub price: Option<String>,
    /// Adjustment of the price: a sign and dollars per hour, or a sign and a percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$"))]
    pub price_adjustment: Option<String>,
    /// Extended resources of the instance types, in addition to those of EC2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [cel_rule(
        "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
        "capacity may not replace cpu, memory, ephemeral-storage or pods",
    )]))]
    pub capacity: Option<BTreeMap<String, Quantity>>,
    /// Priority of the overlay; the overlay with the greater weight counts. Absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 10_000))]
    pub weight: Option<i32>,
}

/// Requirement on one label of the instance types.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverlayRequirement {
    /// Label key.
    // An overlay may apply to one NodePool only, so the key of the NodePool is allowed as in a NodeClaim.
    #[schemars(extend(
        "maxLength" = 316,
        "pattern" = QUALIFIED_NAME,
        "x-kubernetes-validations" = label_key_rule(Keys::OfClaim),
    ))]
    pub key: String,
    /// Operator.
    pub operator: Operator,
    /// Values of the operator: none for Exists and DoesNotExist, one integer for Gt, Lt, Gte and Lte.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl From<&OverlayRequirement> for Requirement {
    fn from(overlay: &OverlayRequirement) -> Self {
        Self::new(&overlay.key, overlay.operator, overlay.values.iter().map(String::as_str))
    }
}

/// Observed state of a NodeOverlay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlayStatus {
    /// Conditions of the overlay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Error in the price of an overlay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOverlayPrice {
    /// Invalid `spec.price`.
    #[error("in spec.price")]
    Price(#[source] InvalidPrice),
    /// Invalid `spec.priceAdjustment`.
    #[error("in spec.priceAdjustment")]
    Adjustment(#[source] InvalidAdjustment),
}

impl NodeOverlay {
    /// Compares two overlays in the order of their evaluation: greater weight first, then the later name. Of two overlays for
    /// the same value the earlier one counts; with equal weights they are in conflict.
    #[must_use]
    pub fn precedence(&self, other: &Self) -> Ordering {
        let by_weight = other.weight().cmp(&self.weight());
        by_weight.then_with(|| other.metadata.name.cmp(&self.metadata.name))
    }

    /// Returns the weight, 0 if absent.
    #[must_use]
    pub fn weight(&self) -> i32 {
        self.spec.weight.unwrap_or_default()
    }

    /// Returns the change of prices; `None` if the overlay does not change them.
    ///
    /// # Errors
    /// Returns an error if the text is not a price or a price adjustment.
    pub fn price_change(&self) -> Result<Option<PriceChange>, InvalidOverlayPrice> {
        if let Some(price) = &self.spec.price {
            let micros = micro_dollars(price).map_err(InvalidOverlayPrice::Price)?;
            return Ok(Some(PriceChange::Absolute(micros)));
        }
        let change = self.spec.price_adjustment.as_deref().map(PriceChange::adjustment).transpose();
        change.map_err(InvalidOverlayPrice::Adjustment)
    }

    /// Returns the work of the instance types in thousandths of the usual (annotation `kerf.sh/performance`).
    ///
    /// # Errors
    /// Returns an error if the annotation is not a factor.
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
