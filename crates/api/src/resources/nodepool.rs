//! NodePool (`karpenter.sh/v1`): constraints for the launch of nodes, and rules for their disruption.

mod disruption;
mod drift_canary;
pub mod performance;
pub mod schedule;

use std::collections::BTreeMap;

pub use disruption::{DisruptionFault, Utilization};
pub use drift_canary::{DriftCanary, InvalidDriftCanary};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::CustomResource;
use performance::{InvalidFactors, PerformanceFactors};
use schedule::{InvalidTimes, Times};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::requirement::{Operator, Requirement};
use super::schema_rules::{
    DURATION, DURATION_OR_NEVER, Keys, LABEL_VALUE, cel_rule, label_key_rules, not_empty, requirements, values,
};
use super::status::{Condition, Conditioned};
use super::taint::Taint;
use crate::names::{annotation, condition, label};
use crate::units::duration::DurationText;
use crate::units::price::{InvalidPremium, InvalidPrice, micro_dollars, premium};
use crate::units::quantity::Quantity;

/// Constraints for the nodes of a NodePool, and rules for their disruption.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    category = "karpenter",
    status = "NodePoolStatus",
    derive = "PartialEq",
    doc = "A group of nodes: constraints for their launch and rules for their disruption.",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.nodes"),
    printcolumn = r#"{"name":"NodeClass","type":"string","jsonPath":".spec.template.spec.nodeClassRef.name"}"#,
    printcolumn = r#"{"name":"Nodes","type":"string","jsonPath":".status.nodes"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Weight","type":"integer","jsonPath":".spec.weight","priority":1}"#,
    printcolumn = r#"{"name":"CPU","type":"string","jsonPath":".status.resources.cpu","priority":1}"#,
    printcolumn = r#"{"name":"Memory","type":"string","jsonPath":".status.resources.memory","priority":1}"#,
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    cel_rule(
        "has(self.replicas) == has(oldSelf.replicas)",
        "a pool cannot change between static (replicas set) and dynamic (replicas not set): make another pool",
    ),
    cel_rule(
        "!has(self.replicas) || !has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits)",
        "only 'limits.nodes' is supported on static pools (replicas set)",
    ),
    cel_rule(
        "!has(self.replicas) || !has(self.weight)",
        "'weight' is not supported on static pools (replicas set)",
    ),
]))]
pub struct NodePoolSpec {
    /// Template of the NodeClaims of this NodePool. A NodeClaim often has narrower requirements than the template.
    pub template: NodeClaimTemplate,
    /// Rules for the disruption of nodes.
    #[serde(default)]
    #[schemars(extend("default" = { "consolidateAfter": "0s" }))]
    pub disruption: Disruption,
    /// Maximum of the sum over all nodes of the NodePool, by resource; `nodes` counts nodes. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, Quantity>>,
    /// Priority of the NodePool during scheduling; NodePools with a greater weight are tried first. Absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 100))]
    pub weight: Option<i32>,
    /// Fixed number of nodes of a static NodePool. Absent: as many nodes as pods need. The field cannot be added or removed
    /// later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub replicas: Option<i64>,
}

/// Template of the NodeClaims of a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplate {
    /// Labels and annotations of every node of the NodePool.
    #[serde(default, skip_serializing_if = "TemplateMeta::is_empty")]
    pub metadata: TemplateMeta,
    /// Specification of every NodeClaim of the NodePool.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations of every node of a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMeta {
    /// Labels. Keys that Karpenter or its provider sets itself are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        extend("maxProperties" = 100, "x-kubernetes-validations" = label_key_rules(Keys::OfPool)),
        transform = values(json!({ "maxLength": 63, "pattern": LABEL_VALUE })),
    )]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

impl TemplateMeta {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Specification of every NodeClaim of a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Taints of every node of the NodePool. Pods must tolerate them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Option<Vec<Taint>>,
    /// Taints that every node of the NodePool has at its start and that other programs remove. Pods need not tolerate them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub startup_taints: Option<Vec<Taint>>,
    /// Requirements on the labels of nodes, including instance type, zone and capacity type.
    #[schemars(transform = requirements(Keys::OfPool))]
    pub requirements: Vec<Requirement>,
    /// Reference to the node class with the launch settings.
    #[schemars(extend("x-kubernetes-validations" = [
        cel_rule("self.group == oldSelf.group", "nodeClassRef.group is immutable"),
        cel_rule("self.kind == oldSelf.kind", "nodeClassRef.kind is immutable"),
    ]))]
    pub node_class_ref: NodeClassRef,
    /// Maximum duration of a node's drain. Afterwards the node is terminated regardless of PodDisruptionBudgets and blocking
    /// pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = DURATION))]
    pub termination_grace_period: Option<DurationText>,
    /// Age at which a node is replaced, or `Never`.
    #[serde(default = "default_expire_after")]
    #[schemars(extend("pattern" = DURATION_OR_NEVER))]
    pub expire_after: DurationText,
}

pub(crate) fn default_expire_after() -> DurationText {
    DurationText::from("720h")
}

/// Reference to the node class with the launch settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassRef {
    /// API group of the node class.
    #[schemars(extend("pattern" = "^[^/]*$", "x-kubernetes-validations" = [not_empty("group may not be empty")]))]
    pub group: String,
    /// Kind of the node class.
    #[schemars(extend("x-kubernetes-validations" = [not_empty("kind may not be empty")]))]
    pub kind: String,
    /// Name of the node class.
    #[schemars(extend("x-kubernetes-validations" = [not_empty("name may not be empty")]))]
    pub name: String,
}

/// Rules for the disruption of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// Duration without pod changes on a node before the node may be consolidated, or `Never`.
    #[schemars(extend("pattern" = DURATION_OR_NEVER))]
    pub consolidate_after: DurationText,
    /// Policy that selects the nodes that may be consolidated.
    #[serde(default)]
    pub consolidation_policy: ConsolidationPolicy,
    /// Budgets that limit the number of nodes that are disrupted at the same time. The most restrictive applicable budget
    /// counts.
    #[serde(default = "default_budgets")]
    #[schemars(extend(
        "maxItems" = 50,
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = [cel_rule(
            "self.all(x, has(x.schedule) == has(x.duration))",
            "'schedule' must be set with 'duration'",
        )],
    ))]
    pub budgets: Vec<Budget>,
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: DurationText::from("0s"),
            consolidation_policy: ConsolidationPolicy::default(),
            budgets: default_budgets(),
        }
    }
}

fn default_budgets() -> Vec<Budget> {
    vec![Budget { nodes: default_budget_nodes(), ..Budget::default() }]
}

fn default_budget_nodes() -> String {
    "10%".to_owned()
}

/// Policy that selects the nodes that may be consolidated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ConsolidationPolicy {
    /// Only nodes without pods.
    WhenEmpty,
    /// Nodes without pods, and nodes whose pods fit on other nodes or on a cheaper node.
    #[default]
    WhenEmptyOrUnderutilized,
    /// Nodes as with `WhenEmptyOrUnderutilized`, if the savings justify the disruption cost.
    Balanced,
}

/// Limit on the number of nodes of a NodePool that are disrupted at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["nodes"]))]
pub struct Budget {
    /// Number of nodes, or percentage of the nodes of the NodePool, rounded up.
    #[serde(default = "default_budget_nodes")]
    #[schemars(extend("pattern" = "^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub nodes: String,
    /// Reasons for disruption that the budget limits. Absent or empty: all reasons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxItems" = 50, "x-kubernetes-list-type" = "set"))]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// Start of the budget: five cron fields or a descriptor such as `@daily`. The time zone is UTC, or the one in annotation
    /// `kerf.sh/budget-timezone`. Absent: the budget always applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "pattern" = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"
    ))]
    pub schedule: Option<String>,
    /// Duration for which the budget applies from each start, in hours and minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"))]
    pub duration: Option<DurationText>,
}

/// Reason for the voluntary disruption of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DisruptionReason {
    /// Pods of the node fit on other nodes or on a cheaper node.
    Underutilized,
    /// Node without pods.
    Empty,
    /// Node that no longer matches its NodePool or node class.
    Drifted,
}

/// Observed state of a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Sum over all nodes of the NodePool, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, Quantity>,
    /// Number of nodes of the NodePool.
    #[serde(default)]
    pub nodes: i64,
    /// Generation of the node class for which the registration health was last evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// Conditions of the NodePool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl NodePool {
    /// Returns the requirements of the template. NodeClaims of a static NodePool are made directly from them. If a static
    /// NodePool has no requirement on the capacity type, its NodeClaims are on-demand, as in Karpenter.
    #[must_use]
    pub fn template_requirements(&self) -> Vec<Requirement> {
        let mut all = self.spec.template.spec.requirements.clone();
        let unconstrained = !all.iter().any(|requirement| label::canonical(&requirement.key) == label::CAPACITY_TYPE);
        if self.spec.replicas.is_some() && unconstrained {
            all.push(Requirement::new(label::CAPACITY_TYPE, Operator::In, [label::CAPACITY_ON_DEMAND]));
        }
        all
    }

    /// Returns the cost of each node besides its price, in micro-dollars per hour (annotation `kerf.sh/node-fee`); 0 if absent.
    ///
    /// # Errors
    /// Returns an error if the annotation is not a price.
    pub fn node_fee(&self) -> Result<i64, InvalidPrice> {
        self.annotation(annotation::NODE_FEE).map_or(Ok(0), micro_dollars)
    }

    /// Returns the maximum cost of the nodes in micro-dollars per hour (`kerf.sh/max-cost-per-hour` as annotation or in `spec.limits`, the
    /// lower of both); `None` if absent.
    ///
    /// # Errors
    /// Returns an error if one of them is not a price.
    pub fn max_cost_per_hour(&self) -> Result<Option<i64>, InvalidPrice> {
        let limit = self.spec.limits.as_ref().and_then(|limits| limits.get(annotation::MAX_COST_PER_HOUR));
        let written = [self.annotation(annotation::MAX_COST_PER_HOUR), limit.map(|quantity| quantity.0.as_str())];
        let limits: Result<Vec<i64>, _> = written.into_iter().flatten().map(micro_dollars).collect();
        Ok(limits?.into_iter().min())
    }

    /// Reports whether the NodePool has nodes at a time (annotation `kerf.sh/active-times`); always if absent.
    ///
    /// # Errors
    /// Returns an error if the annotation names no times.
    pub fn is_active(&self, now: Timestamp) -> Result<bool, InvalidTimes> {
        Times::are_now(self.annotation(annotation::ACTIVE_TIMES), now)
    }

    /// Returns the premium for preferences in percent (annotation `kerf.sh/preference-premium`); `None` if absent. The inner
    /// `None` is an unlimited premium.
    ///
    /// # Errors
    /// Returns an error if the annotation is not a premium.
    pub fn preference_premium(&self) -> Result<Option<Option<u32>>, InvalidPremium> {
        self.annotation(annotation::PREFERENCE_PREMIUM).map(premium).transpose()
    }

    /// Returns the performance factors of the NodePool (annotation `kerf.sh/performance-factors`); empty if absent.
    ///
    /// # Errors
    /// Returns an error if the annotation is not a list of factors.
    pub fn performance_factors(&self) -> Result<PerformanceFactors, InvalidFactors> {
        PerformanceFactors::read(self.annotation(annotation::PERFORMANCE_FACTORS).unwrap_or_default())
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

impl Conditioned for NodePool {
    const DEPENDENTS: &'static [&'static str] = &[condition::VALIDATION_SUCCEEDED, condition::NODE_CLASS_READY];

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
