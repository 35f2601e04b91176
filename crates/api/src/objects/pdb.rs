//! PodDisruptionBudgets, with the fields that Kerf uses.

pub(super) mod unevictable;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::meta::slim;
use super::pod::Pod;
use super::selector::LabelSelector;

/// Value of `unhealthyPodEvictionPolicy`: pods that are not ready may always be evicted.
const ALWAYS_ALLOW: &str = "AlwaysAllow";

/// PodDisruptionBudget.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::policy::v1::PodDisruptionBudget", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudget {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Specification of the budget.
    pub spec: PodDisruptionBudgetSpec,
    /// Observed state of the budget.
    pub status: PodDisruptionBudgetStatus,
}

/// Specification of a PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetSpec {
    /// Selected pods, in the namespace of the budget. Absent: none; empty: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Number or percentage of pods that must stay available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrString>,
    /// Number or percentage of pods that may be unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Policy for pods that are not ready: `IfHealthyBudget`, or `AlwaysAllow` if they may always be evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_pod_eviction_policy: Option<String>,
}

/// Observed state of a PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatus {
    /// Number of evictions that are allowed now.
    pub disruptions_allowed: i32,
    /// Number of healthy pods.
    pub current_healthy: i32,
    /// Minimum number of healthy pods.
    pub desired_healthy: i32,
    /// Number of pods that the budget counts.
    pub expected_pods: i32,
    /// Generation that these figures belong to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Reports whether the only budget of a pod blocks its eviction for ever, and would not beside a copy of the pod.
#[must_use]
pub fn blocks_without_copy(budgets: &[&PodDisruptionBudget]) -> bool {
    matches!(budgets, [only] if only.requires_all_pods() && only.allows_eviction_beside_copy())
}

impl PodDisruptionBudget {
    /// Reports whether the budget selects the pod. An absent selector selects no pod, an empty one selects all pods of the
    /// namespace.
    #[must_use]
    pub fn selects(&self, pod: &Pod) -> bool {
        let none = BTreeMap::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
        self.metadata.namespace.as_deref() == Some(pod.namespace())
            && self.spec.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// Reports whether a ready pod of the budget may be evicted now.
    #[must_use]
    pub fn allows_ready_eviction(&self) -> bool {
        self.status.disruptions_allowed > 0
    }

    /// Reports whether a pod of the budget that is not ready may be evicted now. Such an eviction takes no healthy pod away.
    /// The API server allows the eviction while enough pods are healthy, or always with `AlwaysAllow`.
    #[must_use]
    pub fn allows_unready_eviction(&self) -> bool {
        let status = &self.status;
        self.allows_ready_eviction()
            || self.spec.unhealthy_pod_eviction_policy.as_deref() == Some(ALWAYS_ALLOW)
            || status.desired_healthy > 0 && status.current_healthy >= status.desired_healthy
    }

    /// Reports whether the eviction of this pod of the budget would be allowed now.
    #[must_use]
    pub fn allows_eviction(&self, pod: &Pod) -> bool {
        if pod.is_ready() { self.allows_ready_eviction() } else { self.allows_unready_eviction() }
    }

    /// Reports whether the eviction of a pod of the budget would be allowed once a copy of the pod is ready.
    #[must_use]
    pub fn allows_eviction_beside_copy(&self) -> bool {
        !self.never_allows_eviction() && self.status.current_healthy >= self.status.desired_healthy
    }

    /// Reports whether the budget allows no eviction while its workload has no more pods than now, because all of them must
    /// stay available. Percentages are rounded up, as in the disruption controller. While the pods are not counted yet, the
    /// result is that of [`PodDisruptionBudget::never_allows_eviction`].
    #[must_use]
    pub fn requires_all_pods(&self) -> bool {
        let expected = i64::from(self.status.expected_pods);
        let stay = self.spec.min_available.as_ref().and_then(|value| amount(value, expected));
        let all = expected > 0 && stay.is_some_and(|stay| stay >= expected);
        !self.allows_ready_eviction() && (self.never_allows_eviction() || all)
    }

    /// Reports whether the disruption controller can never count the pods of the budget, so that no eviction is ever allowed.
    /// For a percentage, and for `maxUnavailable`, it needs the number of replicas, which these owners do not have.
    #[must_use]
    pub fn is_uncountable(&self, pod: &Pod) -> bool {
        const WITHOUT_REPLICAS: [&str; 2] = ["DaemonSet", "Job"];
        let needs_replicas =
            self.spec.max_unavailable.is_some() || matches!(self.spec.min_available, Some(IntOrString::String(_)));
        let has_none = pod.controller().is_some_and(|owner| WITHOUT_REPLICAS.contains(&owner.kind.as_str()));
        needs_replicas && has_none && !self.allows_ready_eviction()
    }

    /// Returns the state of the budget for this number of expected pods, of which some are healthy, as the disruption controller
    /// computes it.
    #[must_use]
    pub fn counted(&self, expected: i32, healthy: i32) -> PodDisruptionBudgetStatus {
        let of = |value: &Option<IntOrString>| value.as_ref().and_then(|value| amount(value, i64::from(expected)));
        let stay = match (of(&self.spec.max_unavailable), of(&self.spec.min_available)) {
            (Some(gone), _) => i64::from(expected).saturating_sub(gone).max(0),
            (None, stay) => stay.unwrap_or(0),
        };
        let stay = i32::try_from(stay).unwrap_or(i32::MAX);
        PodDisruptionBudgetStatus {
            disruptions_allowed: if expected > 0 { healthy.saturating_sub(stay).max(0) } else { 0 },
            current_healthy: healthy,
            desired_healthy: stay,
            expected_pods: expected,
            observed_generation: self.metadata.generation,
        }
    }

    /// Returns the setting of the budget that requires all of its pods to stay, as the end of a sentence.
    #[must_use]
    pub fn blocking_setting(&self) -> String {
        let pods = self.status.expected_pods;
        match (&self.spec.max_unavailable, &self.spec.min_available) {
            (Some(gone), _) => format!("maxUnavailable is {}", text(gone)),
            (None, Some(stay)) if pods == 1 => format!("minAvailable is {} and there is 1 pod", text(stay)),
            (None, Some(stay)) => format!("minAvailable is {} and there are {pods} pods", text(stay)),
            (None, None) => "its status is not reported".to_owned(),
        }
    }

    /// Returns `namespace/name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        format!("{}/{name}", self.metadata.namespace.as_deref().unwrap_or_default())
    }

    /// Reports whether the budget can never allow an eviction: no pod may be unavailable, or all pods must be available.
    #[must_use]
    pub fn never_allows_eviction(&self) -> bool {
        let unavailable = self.spec.max_unavailable.as_ref().map(text);
        let available = self.spec.min_available.as_ref().map(text);
        matches!(unavailable.as_deref(), Some("0" | "0%")) || available.as_deref() == Some("100%")
    }
}

/// Returns the number or percentage in its original spelling.
fn text(value: &IntOrString) -> String {
    match value {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

/// Returns the number of pods, or the percentage of `pods`, rounded up; `None` if the value is neither.
fn amount(value: &IntOrString, pods: i64) -> Option<i64> {
    match value {
        IntOrString::Int(number) => Some(i64::from(*number)),
        IntOrString::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            Some(pods.saturating_mul(percent).saturating_add(99).div_euclid(100))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn blocks_without_copy_needs_one_budget_that_keeps_all_healthy_pods() {
        let budget = |spec: Value, counts: [i32; 3]| -> PodDisruptionBudget {
            let [expected, desired, healthy] = counts;
            let status = json!({"expectedPods": expected, "desiredHealthy": desired, "currentHealthy": healthy});
            serde_json::from_value(json!({"spec": spec, "status": status})).unwrap()
        };
        let one = || json!({"minAvailable": 1});
        let rows = [
            ("one must stay", vec![budget(one(), [1, 1, 1])], true),
            ("all must stay, however many", vec![budget(json!({"minAvailable": "100%"}), [1, 1, 1])], false),
            ("none may ever go", vec![budget(json!({"maxUnavailable": 0}), [1, 1, 1])], false),
            ("it is not healthy", vec![budget(one(), [1, 1, 0])], false),
            ("the other pod is not ready", vec![budget(one(), [2, 1, 1])], false),
            ("two budgets", vec![budget(one(), [1, 1, 1]), budget(one(), [1, 1, 1])], false),
            ("no budget", Vec::new(), false),
        ];
        for (what, budgets, expected) in rows {
            assert_eq!(blocks_without_copy(&budgets.iter().collect::<Vec<_>>()), expected, "{what}");
        }
    }
}
