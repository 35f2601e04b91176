//! Pods whose eviction will never be allowed. Only a change of their PodDisruptionBudgets or deletion by force can drain their
//! node.

use std::fmt;

use jiff::Timestamp;

use super::PodDisruptionBudget;
use crate::objects::pod::Pod;
use crate::objects::pod::surge::can_surge;

/// Reason why no eviction of a pod will ever be allowed with its current budgets and workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unevictable {
    /// The only budget of the pod requires all of its pods to stay.
    Budget {
        /// Budget as `namespace/name`.
        budget: String,
        /// Setting of the budget that causes this, as the end of a sentence.
        why: String,
        /// Remedy, as the end of a sentence.
        cure: &'static str,
    },
    /// More than one budget selects the pod, which the API server refuses regardless of their settings. Budgets as
    /// `namespace/name`, sorted.
    Several(Vec<String>),
}

impl Unevictable {
    /// Returns the reason why no eviction of the pod will ever be allowed, if there is one. `own` are the budgets that select
    /// the pod. `surges` means that a copy of the pod is ready before its eviction; the budget then counts the copy. Returns
    /// `None` for pods that Kerf does not evict, and for pods that may be evicted now.
    #[must_use]
    pub fn from_pod(pod: &Pod, own: &[&PodDisruptionBudget], surges: bool, now: Timestamp) -> Option<Self> {
        if pod.has_never_run() || !pod.is_evictable(now) {
            return None;
        }
        match own {
            [] => None,
            [only] if only.is_uncountable(pod) && !only.never_allows_eviction() && !only.allows_eviction(pod) => {
                let kind = pod.controller().map_or("", |owner| owner.kind.as_str());
                Some(Self::Budget {
                    budget: only.full_name(),
                    why: format!(
                        "its pods belong to a {kind}, which has no replicas that maxUnavailable or a percentage could refer to"
                    ),
                    cure: "set minAvailable to a number of pods",
                })
            }
            [only] => {
                let stays =
                    only.requires_all_pods() && !only.allows_eviction(pod) && (!surges || only.never_allows_eviction());
                stays.then(|| Self::Budget {
                    budget: only.full_name(),
                    why: only.blocking_setting(),
                    cure: cure(only.never_allows_eviction(), can_surge(pod)),
                })
            }
            several => {
                let mut budgets: Vec<String> = several.iter().map(|budget| budget.full_name()).collect();
                budgets.sort();
                Some(Self::Several(budgets))
            }
        }
    }

    /// Returns the budgets as `namespace/name`, sorted.
    #[must_use]
    pub fn budgets(&self) -> &[String] {
        match self {
            Self::Budget { budget, .. } => std::slice::from_ref(budget),
            Self::Several(budgets) => budgets,
        }
    }
}

impl fmt::Display for Unevictable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget { budget, why, cure } => {
                write!(out, "PodDisruptionBudget {budget} allows no disruption: {why}; {cure}")
            }
            Self::Several(budgets) => write!(
                out,
                "the API server evicts no pod that several PodDisruptionBudgets select ({}); change them so that \
                 one selects it",
                budgets.join(" and ")
            ),
        }
    }
}

/// Returns the remedy for a pod whose budget requires it to stay. `always` means that the budget itself never allows an
/// eviction; otherwise the workload has no more pods than must stay.
fn cure(always: bool, can_surge: bool) -> &'static str {
    match (always, can_surge) {
        (true, _) => "set maxUnavailable: 1",
        (false, false) => "add a replica, or set maxUnavailable: 1",
        (false, true) => {
            "add a replica, set maxUnavailable: 1, or start a copy first (kerf.surge.enabled of the chart)"
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn budget(name: &str, spec: Value, status: Value) -> PodDisruptionBudget {
        let metadata = json!({"name": name, "namespace": "shop"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn pod(phase: &str, ready: &str, metadata: Value, spec: Value) -> Pod {
        let status = json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready}]});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn runs() -> Pod {
        pod("Running", "True", json!({"name": "db-0", "namespace": "shop"}), json!({}))
    }

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    /// Rows: specification of the budget, kind of the pod's owner, and true if the budget can never allow an eviction.
    #[test]
    fn from_pod_names_owners_without_replicas() {
        let rows = [
            (json!({"maxUnavailable": 1}), "Job", true),
            (json!({"maxUnavailable": "50%"}), "DaemonSet", true),
            (json!({"minAvailable": "50%"}), "Job", true),
            (json!({"minAvailable": 1}), "Job", false),
            (json!({"maxUnavailable": 1}), "ReplicaSet", false),
        ];
        for (spec, kind, expected) in rows {
            let none = json!({"disruptionsAllowed": 0, "expectedPods": 3, "currentHealthy": 3});
            let owner = json!([{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "o", "controller": true}]);
            let metadata = json!({"name": "p", "namespace": "shop", "ownerReferences": owner});
            let found = Unevictable::from_pod(
                &pod("Running", "True", metadata, json!({})),
                &[&budget("b", spec.clone(), none)],
                false,
                now(),
            );
            assert_eq!(found.is_some(), expected, "{spec} of a {kind}: {found:?}");
            let message = found.map(|found| found.to_string()).unwrap_or_default();
            assert_eq!(message.contains("set minAvailable to a number of pods"), expected, "{message}");
        }
    }

    /// Rows: specification of the budget, number of its pods, and true if all of them must stay. Percentages are rounded up.
    #[test]
    fn requires_all_pods_compares_min_available_with_pods() {
        let rows = [
            (json!({"minAvailable": 1}), 1, true),
            (json!({"minAvailable": 1}), 2, false),
            (json!({"minAvailable": 2}), 2, true),
            (json!({"minAvailable": 3}), 2, true),
            (json!({"minAvailable": 0}), 1, false),
            (json!({"minAvailable": "50%"}), 1, true),
            (json!({"minAvailable": "1%"}), 1, true),
            (json!({"minAvailable": "50%"}), 2, false),
            (json!({"minAvailable": "51%"}), 2, true),
            (json!({"minAvailable": "99%"}), 99, true),
            (json!({"minAvailable": "99%"}), 100, false),
            (json!({"minAvailable": "100%"}), 7, true),
            (json!({"minAvailable": "0%"}), 1, false),
            (json!({"minAvailable": "most"}), 1, false),
            (json!({"maxUnavailable": 0}), 7, true),
            (json!({"maxUnavailable": "0%"}), 7, true),
            (json!({"maxUnavailable": 1}), 1, false),
            (json!({"maxUnavailable": "1%"}), 1, false),
            // The disruption controller has not counted the pods yet.
            (json!({"minAvailable": 1}), 0, false),
            (json!({"minAvailable": "100%"}), 0, true),
            (json!({"maxUnavailable": 0}), 0, true),
        ];
        for (spec, pods, expected) in rows {
            let none = json!({"disruptionsAllowed": 0, "expectedPods": pods, "currentHealthy": pods});
            assert_eq!(budget("b", spec.clone(), none).requires_all_pods(), expected, "{spec} of {pods}");
            let some = json!({"disruptionsAllowed": 1, "expectedPods": pods, "currentHealthy": pods});
            assert!(!budget("b", spec.clone(), some).requires_all_pods(), "{spec}: one allowed disruption");
        }
    }

    #[test]
    fn unevictable_names_the_budget_and_the_remedy() {
        let single = budget(
            "db",
            json!({"minAvailable": 1}),
            json!({"expectedPods": 1, "currentHealthy": 1, "desiredHealthy": 1}),
        );
        let never = budget("never", json!({"maxUnavailable": 0}), json!({"expectedPods": 3}));
        let spare = budget("spare", json!({"minAvailable": 1}), json!({"expectedPods": 2, "disruptionsAllowed": 1}));
        let cure = "add a replica, or set maxUnavailable: 1";
        let of_single =
            format!("PodDisruptionBudget shop/db allows no disruption: minAvailable is 1 and there is 1 pod; {cure}");
        let of_never =
            "PodDisruptionBudget shop/never allows no disruption: maxUnavailable is 0; set maxUnavailable: 1";
        let both = "the API server evicts no pod that several PodDisruptionBudgets select (shop/db and shop/spare); change them so that one selects it";
        let rows = [
            (vec![], false, None),
            (vec![&spare], false, None),
            (vec![&single], false, Some(of_single.as_str())),
            (vec![&single], true, None),
            (vec![&never], false, Some(of_never)),
            (vec![&never], true, Some(of_never)),
            (vec![&spare, &single], false, Some(both)),
            (vec![&spare, &single], true, Some(both)),
        ];
        for (own, surges, expected) in rows {
            let found = Unevictable::from_pod(&runs(), &own, surges, now());
            assert_eq!(found.as_ref().map(ToString::to_string).as_deref(), expected, "{own:?} {surges}");
        }
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "db", "uid": "rs", "controller": true});
        let metadata = json!({"name": "db-0", "labels": {"pod-template-hash": "7d9"}, "ownerReferences": [owner]});
        let deployed = pod("Running", "True", metadata, json!({}));
        let message =
            |own| Unevictable::from_pod(&deployed, &[own], false, now()).map(|it| it.to_string()).unwrap_or_default();
        let copy = "add a replica, set maxUnavailable: 1, or start a copy first (kerf.surge.enabled of the chart)";
        assert_eq!(message(&single), of_single.replace(cure, copy));
        assert_eq!(message(&never), of_never);
        let several = Unevictable::from_pod(&runs(), &[&spare, &single], false, now());
        assert_eq!(several.map(|it| it.budgets().to_vec()), Some(vec!["shop/db".to_owned(), "shop/spare".to_owned()]));
    }

    #[test]
    fn unevictable_is_none_for_pods_that_may_be_evicted() {
        let named = || json!({"name": "db-0", "namespace": "shop"});
        let single = |policy: &str| {
            budget(
                "db",
                json!({"minAvailable": 1, "unhealthyPodEvictionPolicy": policy}),
                json!({"expectedPods": 1, "desiredHealthy": 1}),
            )
        };
        let annotated =
            json!({"name": "db-0", "namespace": "shop", "annotations": {"karpenter.sh/do-not-disrupt": "true"}});
        let ending = json!({"name": "db-0", "namespace": "shop", "deletionTimestamp": "2026-01-01T11:59:00Z"});
        let bears = json!({"tolerations": [{"key": "karpenter.sh/disrupted", "operator": "Exists"}]});
        let rows = [
            ("runs", pod("Running", "True", named(), json!({})), "IfHealthyBudget", true),
            ("is not ready", pod("Running", "False", named(), json!({})), "IfHealthyBudget", true),
            ("may go while it is not ready", pod("Running", "False", named(), json!({})), "AlwaysAllow", false),
            ("is ready, whatever would be else", pod("Running", "True", named(), json!({})), "AlwaysAllow", true),
            ("has never run", pod("Pending", "False", named(), json!({})), "IfHealthyBudget", false),
            ("has ended", pod("Succeeded", "False", named(), json!({})), "IfHealthyBudget", false),
            ("ends", pod("Running", "True", ending, json!({})), "IfHealthyBudget", false),
            ("is do-not-disrupt", pod("Running", "True", annotated, json!({})), "IfHealthyBudget", false),
            ("stays on a node that goes", pod("Running", "True", named(), bears), "IfHealthyBudget", false),
        ];
        for (what, pod, policy, expected) in rows {
            assert_eq!(Unevictable::from_pod(&pod, &[&single(policy)], false, now()).is_some(), expected, "{what}");
        }
    }
}
