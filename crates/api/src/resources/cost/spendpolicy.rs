//! SpendPolicy (`kerf.sh/v1alpha1`): limits of what the nodes of NodePools cost, per hour by schedules, and per month.

mod month_cost;
mod rules;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use month_cost::{MonthCost, Spending};
pub use rules::{SpendLimits, SpendRules};

use super::DOLLARS;
use crate::objects::selector::LabelSelector;
use crate::resources::schema_rules::{DURATION, cel_rule};
use crate::resources::status::Condition;
use crate::units::duration::DurationText;

/// Limits of the cost of the selected NodePools' nodes together. The cost counts prices, volumes, public addresses and `kerf.sh/node-fee`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kerf.sh",
    version = "v1alpha1",
    kind = "SpendPolicy",
    plural = "spendpolicies",
    category = "kerf",
    status = "SpendPolicyStatus",
    derive = "PartialEq",
    doc = "Limits of what the nodes of NodePools cost, per hour and per month.",
    printcolumn = r#"{"name":"Cost/h","type":"string","jsonPath":".status.costPerHour"}"#,
    printcolumn = r#"{"name":"Max/h","type":"string","jsonPath":".status.maxCostPerHour"}"#,
    printcolumn = r#"{"name":"Month","type":"string","jsonPath":".status.costThisMonth"}"#,
    printcolumn = r#"{"name":"Forecast","type":"string","jsonPath":".status.forecastThisMonth"}"#,
    printcolumn = r#"{"name":"Within","type":"string","jsonPath":".status.conditions[?(@.type==\"WithinLimits\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [cel_rule(
    "has(self.maxCostPerHour) || has(self.softCostPerHour) || has(self.maxCostPerMonth) || (has(self.windows) && size(self.windows) > 0)",
    "a policy without a limit has no effect: set maxCostPerHour, softCostPerHour, maxCostPerMonth or windows",
)]))]
pub struct SpendPolicySpec {
    /// NodePools of the policy, by their labels, the labels of their nodes, and `karpenter.sh/nodepool`. Absent: all NodePools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_pool_selector: Option<LabelSelector>,
    /// Maximum cost per hour in dollars. A launch that could exceed it is not made. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = DOLLARS))]
    pub max_cost_per_hour: Option<String>,
    /// Cost per hour in dollars above which preferences of pods may cost nothing, and consolidation accepts any saving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = DOLLARS))]
    pub soft_cost_per_hour: Option<String>,
    /// Budget of a calendar month in dollars. When it is spent, nothing is launched until the month ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = DOLLARS))]
    pub max_cost_per_month: Option<String>,
    /// Times with other limits per hour. Of several open windows, the lowest limit applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 50, "x-kubernetes-list-type" = "atomic"))]
    pub windows: Vec<SpendWindow>,
    /// Time zone of schedules and months, as a name of the IANA database such as `Europe/Berlin`. Absent: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minLength" = 1, "maxLength" = 64))]
    pub time_zone: Option<String>,
}

/// Time with other limits per hour. A limit that a window does not set remains as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [cel_rule(
    "has(self.maxCostPerHour) || has(self.softCostPerHour)",
    "a window without a limit has no effect: set maxCostPerHour or softCostPerHour",
)]))]
pub struct SpendWindow {
    /// Start of the window: five cron fields, or a descriptor such as `@daily`.
    #[schemars(extend("minLength" = 1))]
    pub schedule: String,
    /// Duration of the window from each start.
    #[schemars(extend("pattern" = DURATION))]
    pub duration: DurationText,
    /// Maximum cost per hour in dollars while the window is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = DOLLARS))]
    pub max_cost_per_hour: Option<String>,
    /// Soft limit of the cost per hour in dollars while the window is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = DOLLARS))]
    pub soft_cost_per_hour: Option<String>,
}

/// Observed state of a SpendPolicy. Amounts are dollars.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpendPolicyStatus {
    /// Number of selected NodePools.
    #[serde(default)]
    pub node_pools: i64,
    /// Cost of the nodes per hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_hour: Option<String>,
    /// Maximum cost per hour that applies now. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_per_hour: Option<String>,
    /// Soft limit per hour that applies now. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_cost_per_hour: Option<String>,
    /// Calendar month of `costThisMonth`, such as `2026-11`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub month: Option<String>,
    /// Cost of the nodes since the month began, or since the policy exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_this_month: Option<String>,
    /// Cost at the end of the month, if the nodes go on to cost what they did on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast_this_month: Option<String>,
    /// Time since which `costThisMonth` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_since: Option<Time>,
    /// Time until which `costThisMonth` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_until: Option<Time>,
    /// Conditions of the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
