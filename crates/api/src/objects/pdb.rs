//! PodDisruptionBudgets, as far as Kerf reads them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::Pod;
use super::meta::slim;
use super::selector::LabelSelector;

/// Pods that are not ready may always go.
const ALWAYS_ALLOW: &str = "AlwaysAllow";

/// A PodDisruptionBudget.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::policy::v1::PodDisruptionBudget", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudget {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What the budget allows.
    pub spec: PodDisruptionBudgetSpec,
    /// What is left of the budget.
    pub status: PodDisruptionBudgetStatus,
}

/// What a budget allows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetSpec {
    /// The pods meant, in the budget's own namespace; absent means none, empty means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Number or percentage of pods that must stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrString>,
    /// Number or percentage of pods that may be gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// `IfHealthyBudget` or `AlwaysAllow`: whether pods that are not ready may always go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_pod_eviction_policy: Option<String>,
}

/// What is left of a budget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatus {
    /// Evictions that would be allowed now.
    pub disruptions_allowed: i32,
    /// Healthy pods now.
    pub current_healthy: i32,
    /// Healthy pods that must stay.
    pub desired_healthy: i32,
    /// Pods that the budget counts.
    pub expected_pods: i32,
    /// Generation that these figures are of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl PodDisruptionBudget {
    /// Whether the budget is about the pod. Without a selector it is about none, with an empty one about all of its namespace.
    #[must_use]
    pub fn selects(&self, pod: &Pod) -> bool {
        let none = BTreeMap::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
        self.metadata.namespace.as_deref() == Some(pod.namespace())
            && self.spec.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// Whether one of its pods may be evicted now.
    #[must_use]
    pub fn lets_ready_go(&self) -> bool {
        self.status.disruptions_allowed > 0
    }

    /// Whether one of its pods that is not ready may be evicted now: that takes nothing from those that are, so it may while
    /// enough of them are, or always.
    #[must_use]
    pub fn lets_unready_go(&self) -> bool {
        let status = &self.status;
        self.lets_ready_go()
            || self.spec.unhealthy_pod_eviction_policy.as_deref() == Some(ALWAYS_ALLOW)
            || status.desired_healthy > 0 && status.current_healthy >= status.desired_healthy
    }

    /// Whether the eviction of one of its pods would pass now.
    #[must_use]
    pub fn lets_go(&self, pod: &Pod) -> bool {
        if pod.is_ready() { self.lets_ready_go() } else { self.lets_unready_go() }
    }

    /// Whether the eviction of one of its pods would pass once a copy of it is ready.
    #[must_use]
    pub fn lets_go_beside_a_copy(&self) -> bool {
        !self.blocks_for_ever() && self.status.current_healthy >= self.status.desired_healthy
    }

    /// Whether the budget allows no eviction as long as its workload has no more pods than now: as many must stay as there are.
    /// Percentages are rounded up, as the disruption controller does it. While nobody has counted its pods, only
    /// [`PodDisruptionBudget::blocks_for_ever`] is known.
    #[must_use]
    pub fn wants_all_to_stay(&self) -> bool {
        let expected = i64::from(self.status.expected_pods);
        let stay = self.spec.min_available.as_ref().and_then(|value| amount(value, expected));
        let all = expected > 0 && stay.is_some_and(|stay| stay >= expected);
        !self.lets_ready_go() && (self.blocks_for_ever() || all)
    }

    /// What of the budget makes all of its pods stay, as the end of a sentence.
    #[must_use]
    pub fn why_all_stay(&self) -> String {
        let pods = self.status.expected_pods;
        match (&self.spec.max_unavailable, &self.spec.min_available) {
            (Some(gone), _) => format!("maxUnavailable is {}", text(gone)),
            (None, Some(stay)) if pods == 1 => format!("minAvailable is {} and there is 1 pod", text(stay)),
            (None, Some(stay)) => format!("minAvailable is {} and there are {pods} pods", text(stay)),
            (None, None) => "its status is not reported".to_owned(),
        }
    }

    /// `namespace/name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        format!("{}/{name}", self.metadata.namespace.as_deref().unwrap_or_default())
    }

    /// Whether the budget can never allow an eviction: no pod may be gone, or all must stay.
    #[must_use]
    pub fn blocks_for_ever(&self) -> bool {
        let unavailable = self.spec.max_unavailable.as_ref().map(text);
        let available = self.spec.min_available.as_ref().map(text);
        matches!(unavailable.as_deref(), Some("0" | "0%")) || available.as_deref() == Some("100%")
    }
}

/// As someone wrote it.
fn text(value: &IntOrString) -> String {
    match value {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

/// A number of pods, or a percentage of so many, rounded up; `None` where it is neither.
fn amount(value: &IntOrString, pods: i64) -> Option<i64> {
    match value {
        IntOrString::Int(number) => Some(i64::from(*number)),
        IntOrString::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            Some(pods.saturating_mul(percent).saturating_add(99).div_euclid(100))
        }
    }
}
