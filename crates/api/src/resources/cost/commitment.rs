//! Commitment (`kerf.sh/v1alpha1`): a Savings Plan or Reserved Instances, whose cost is due whether nodes use them or not.

mod rules;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use rules::{CommitmentTerm, OnDemandType};

use super::DOLLARS;
use crate::resources::schema_rules::{cel_rule, values};
use crate::resources::status::Condition;

/// Savings Plan or Reserved Instances. Kerf launches on-demand nodes that use it before it launches others.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kerf.sh",
    version = "v1alpha1",
    kind = "Commitment",
    plural = "commitments",
    category = "kerf",
    status = "CommitmentStatus",
    derive = "PartialEq",
    doc = "Savings Plan or Reserved Instances that nodes use first.",
    printcolumn = r#"{"name":"Pays for","type":"string","jsonPath":".status.paysFor"}"#,
    printcolumn = r#"{"name":"Used","type":"string","jsonPath":".status.used"}"#,
    printcolumn = r#"{"name":"Nodes","type":"integer","jsonPath":".status.nodes"}"#,
    printcolumn = r#"{"name":"Covers/h","type":"string","jsonPath":".status.coveredCostPerHour"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Ends","type":"date","jsonPath":".spec.endTime"}"#,
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    cel_rule(
        "has(self.savingsPlan) != has(self.reservedInstances)",
        "a commitment is either a savingsPlan or reservedInstances",
    ),
    cel_rule(
        "!has(self.startTime) || !has(self.endTime) || self.startTime < self.endTime",
        "endTime must be after startTime",
    ),
]))]
pub struct CommitmentSpec {
    /// Savings Plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub savings_plan: Option<SavingsPlan>,
    /// Reserved Instances of one instance type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_instances: Option<ReservedInstances>,
    /// Part in percent that the nodes of this cluster may use; other clusters and accounts use the rest. Absent: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub share_percent: Option<i32>,
    /// Time from which it pays. Absent: it pays already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// Time from which it no longer pays. Absent: no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
}

/// Savings Plan: an amount per hour that pays for on-demand instances at lower rates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [cel_rule(
    "has(self.discountPercent) || (has(self.rates) && size(self.rates) > 0)",
    "without a rate the plan pays for nothing: set discountPercent or rates",
)]))]
pub struct SavingsPlan {
    /// Amount in dollars per hour, at the rates of the plan.
    #[schemars(extend("pattern" = DOLLARS))]
    pub cost_per_hour: String,
    /// Instance families of an EC2 Instance Savings Plan, such as `m7g`. Absent: all, as in a Compute Savings Plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 100, "x-kubernetes-list-type" = "set"))]
    pub instance_families: Vec<String>,
    /// Discount in percent from the on-demand price, for instance types without a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 99))]
    pub discount_percent: Option<i32>,
    /// Rates in dollars per hour, by instance type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 2000), transform = values(serde_json::json!({"pattern": DOLLARS})))]
    pub rates: BTreeMap<String, String>,
}

/// Reserved Instances of one instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservedInstances {
    /// Instance type, such as `m7g.xlarge`.
    #[schemars(extend("pattern" = r"^[a-z0-9-]+\.[a-z0-9-]+$"))]
    pub instance_type: String,
    /// Number of instances.
    #[schemars(range(min = 1))]
    pub count: i32,
    /// Availability zone, if they count only there. Absent: they count in the region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minLength" = 1))]
    pub zone: Option<String>,
    /// True if they count for all sizes of the family. Absent: as EC2 does for Linux, in the region and for families without accelerators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_flexible: Option<bool>,
}

/// Observed state of a Commitment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitmentStatus {
    /// Amount and instances that it pays for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pays_for: Option<String>,
    /// Part that nodes use, such as `83%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<String>,
    /// Number of nodes for which it pays, at least in part.
    #[serde(default)]
    pub nodes: i64,
    /// Cost per hour of these nodes without it, in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered_cost_per_hour: Option<String>,
    /// Conditions of the commitment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
