//! NodePool (`karpenter.sh/v1`): constraints for the launch of nodes, and rules for their disruption.

mod disruption;
pub mod performance;
pub mod schedule;

use std::collections::BTreeMap;

pub use disruption::{DisruptionFault, Utilization};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::CustomResource;
use performance::{InvalidFactors, PerformanceFactors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::requirement::{Operator, Requirement};
use super::status::{Condition, Conditioned};
use super::taint::Taint;
use crate::names::{annotation, condition, label};
use crate::units::duration::DurationText;
use crate::units::price::{InvalidPrice, micro_dollars};
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
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolSpec {
    /// Template of the NodeClaims of this NodePool. A NodeClaim often has narrower requirements than the template.
    pub template: NodeClaimTemplate,
    /// Rules for the disruption of nodes.
    #[serde(default)]
    pub disruption: Disruption,
    /// Maximum of the sum over all nodes of the NodePool, by resource; `nodes` counts nodes. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, Quantity>>,
    /// Priority of the NodePool during scheduling; NodePools with a greater weight are tried first. Absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// Fixed number of nodes of a static NodePool. Absent: as many nodes as pods need. The field cannot be added or removed
    /// later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    pub taints: Option<Vec<Taint>>,
    /// Taints that every node of the NodePool has at its start and that other programs remove. Pods need not tolerate them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_taints: Option<Vec<Taint>>,
    /// Requirements on the labels of nodes, including instance type, zone and capacity type.
    pub requirements: Vec<Requirement>,
    /// Reference to the node class with the launch settings.
    pub node_class_ref: NodeClassRef,
    /// Maximum duration of a node's drain. Afterwards the node is terminated regardless of PodDisruptionBudgets and blocking
    /// pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<DurationText>,
    /// Age at which a node is replaced, or `Never`.
    #[serde(default = "default_expire_after")]
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
    pub group: String,
    /// Kind of the node class.
    pub kind: String,
    /// Name of the node class.
    pub name: String,
}

/// Rules for the disruption of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// Duration without pod changes on a node before the node may be consolidated, or `Never`.
    pub consolidate_after: DurationText,
    /// Policy that selects the nodes that may be consolidated.
    #[serde(default)]
    pub consolidation_policy: ConsolidationPolicy,
    /// Budgets that limit the number of nodes that are disrupted at the same time. The most restrictive applicable budget
    /// counts.
    #[serde(default = "default_budgets")]
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
pub struct Budget {
    /// Number of nodes, or percentage of the nodes of the NodePool, rounded up.
    #[serde(default = "default_budget_nodes")]
    pub nodes: String,
    /// Reasons for disruption that the budget limits. Absent or empty: all reasons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// Start of the budget: five cron fields or a descriptor such as `@daily`. The time zone is UTC, or the one in annotation
    /// `kerf.sh/budget-timezone`. Absent: the budget always applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Duration for which the budget applies from each start, in hours and minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
