//! NodePool (`karpenter.sh/v1`): which machines may be made for which pods, and how they may be taken away.

mod disruption;
mod packing;

use std::collections::BTreeMap;

pub use disruption::{DisruptionFault, Utilization};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::performance::{InvalidFactors, PerformanceFactors};
use crate::price::{InvalidPrice, micro_dollars};
use crate::status::{Condition, Conditioned};
use crate::{DurationText, Operator, Quantity, Requirement, Taint, annotation, condition, label};

/// What a pool of nodes is made of and how it may be disrupted.
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
    /// The claims of this pool are made from this template, and are often narrower than it.
    pub template: NodeClaimTemplate,
    /// When and how many nodes may be taken away.
    #[serde(default)]
    pub disruption: Disruption,
    /// The most that all nodes of the pool may add up to, by resource; `nodes` counts nodes. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, Quantity>>,
    /// Pools of greater weight are tried first. Absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// Number of nodes that the pool always has. Absent: as many as pods need. May never appear or vanish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
}

/// What the claims of a pool start from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplate {
    /// Labels and annotations that every node of the pool gets.
    #[serde(default, skip_serializing_if = "TemplateMeta::is_empty")]
    pub metadata: TemplateMeta,
    /// What every claim of the pool asks for.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations that every node of a pool gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMeta {
    /// Labels; keys that Karpenter or its provider sets by itself are refused.
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

/// What every claim of a pool asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Taints that every node of the pool keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    /// Taints that every node of the pool starts with and that others lift; pods need not tolerate them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_taints: Option<Vec<Taint>>,
    /// What the nodes' labels may be; instance type, zone and capacity type among them.
    pub requirements: Vec<Requirement>,
    /// The class that knows how to launch the machines.
    pub node_class_ref: NodeClassRef,
    /// How long a node may drain before it is taken away regardless of budgets and blocking pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<DurationText>,
    /// Age at which a node is replaced, or `Never`.
    #[serde(default = "default_expire_after")]
    pub expire_after: DurationText,
}

pub(crate) fn default_expire_after() -> DurationText {
    DurationText::from("720h")
}

/// Names the class that knows how to launch machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassRef {
    /// API group of the class.
    pub group: String,
    /// Kind of the class.
    pub kind: String,
    /// Name of the class.
    pub name: String,
}

/// When and how many nodes may be taken away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// How long a node must be quiet before it may be consolidated, or `Never`.
    pub consolidate_after: DurationText,
    /// Which nodes may be consolidated.
    #[serde(default)]
    pub consolidation_policy: ConsolidationPolicy,
    /// How many nodes may be disrupted at a time; the smallest that applies wins.
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

/// Which nodes may be consolidated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ConsolidationPolicy {
    /// Only nodes without pods.
    WhenEmpty,
    /// Nodes whose pods fit elsewhere or on something cheaper.
    #[default]
    WhenEmptyOrUnderutilized,
    /// As before, when the saving is worth the disturbance.
    Balanced,
}

/// How many nodes of a pool may be disrupted at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// A number of nodes, or a percentage of the pool, rounded up.
    #[serde(default = "default_budget_nodes")]
    pub nodes: String,
    /// The kinds of disruption that the budget is for. Absent or empty: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// When the budget begins to apply: five cron fields or a descriptor such as `@daily`, in UTC or in the zone
    /// that annotation `kerf.sh/budget-timezone` names. Absent: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// How long the budget applies from each beginning, in hours and minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<DurationText>,
}

/// Why a node is taken away voluntarily.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DisruptionReason {
    /// Its pods fit elsewhere or on something cheaper.
    Underutilized,
    /// It has no pods.
    Empty,
    /// It is no longer what was asked for.
    Drifted,
}

/// What is known of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// What all nodes of the pool add up to, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, Quantity>,
    /// Number of nodes of the pool.
    #[serde(default)]
    pub nodes: i64,
    /// Generation of the class that the registration health was last evaluated for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// What is true of the pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl NodePool {
    /// What the template asks of machines. Claims of a static pool are made straight from it; with no word on the
    /// capacity type they are on-demand (aws 4.2).
    #[must_use]
    pub fn template_requirements(&self) -> Vec<Requirement> {
        let mut all = self.spec.template.spec.requirements.clone();
        let silent = !all.iter().any(|asked| label::canonical(&asked.key) == label::CAPACITY_TYPE);
        if self.spec.replicas.is_some() && silent {
            all.push(Requirement::new(label::CAPACITY_TYPE, Operator::In, [label::CAPACITY_ON_DEMAND]));
        }
        all
    }

    /// What each node costs beside its price, in micro-dollars per hour (annotation `kerf.sh/node-fee`); 0 without it.
    ///
    /// # Errors
    /// When the annotation is not a price.
    pub fn node_fee(&self) -> Result<i64, InvalidPrice> {
        self.annotation(annotation::NODE_FEE).map_or(Ok(0), micro_dollars)
    }

    /// Work that the pool's machines do (annotation `kerf.sh/performance-factors`); empty without it.
    ///
    /// # Errors
    /// When the annotation is not a list of factors.
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
