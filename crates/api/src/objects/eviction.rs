//! Pods that no eviction will ever take: whoever wrote their budgets has to change them, or nothing but force empties their node.

use std::fmt;

use jiff::Timestamp;

use super::{Pod, PodDisruptionBudget};

/// Phase of a pod whose containers have never run.
const PENDING: &str = "Pending";

/// Why no eviction of a pod will ever pass, as its budgets and its workload are now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unevictable {
    /// Its only budget wants all of its pods to stay.
    Budget {
        /// `namespace/name`.
        budget: String,
        /// What of the budget says so, as a sentence's end.
        why: String,
        /// What to do, as another.
        cure: &'static str,
    },
    /// More than one budget selects it, which the API server refuses whatever they allow: `namespace/name`, by name.
    Several(Vec<String>),
}

impl Unevictable {
    /// `namespace/name` of the budgets, by name.
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

impl Pod {
    /// Whether none of its containers has ever run; the API server evicts such a pod whatever its budgets say.
    #[must_use]
    pub fn has_never_run(&self) -> bool {
        self.status.phase == PENDING
    }

    /// Why no eviction of the pod will ever pass, if none will. `own` are the budgets that select it, and `surges` says whether a
    /// copy of it is to be up before it goes: such a pod its budget lets go beside the copy. A pod that nobody wants to evict, or
    /// that may go now, is none of them.
    #[must_use]
    pub fn unevictable(&self, own: &[&PodDisruptionBudget], surges: bool, now: Timestamp) -> Option<Unevictable> {
        if self.has_never_run() || !self.is_evictable(now) {
            return None;
        }
        match own {
            [] => None,
            [only] => {
                let stays = only.wants_all_to_stay() && !only.lets_go(self) && (!surges || only.blocks_for_ever());
                stays.then(|| Unevictable::Budget {
                    budget: only.full_name(),
                    why: only.why_all_stay(),
                    cure: cure(only.blocks_for_ever(), self.can_surge()),
                })
            }
            several => {
                let mut budgets: Vec<String> = several.iter().map(|budget| budget.full_name()).collect();
                budgets.sort();
                Some(Unevictable::Several(budgets))
            }
        }
    }
}

/// What lets a pod go whose budget wants it to stay: `always`, or because there are no more pods than must stay.
fn cure(always: bool, can_surge: bool) -> &'static str {
    match (always, can_surge) {
        (true, _) => "set maxUnavailable: 1",
        (false, false) => "add a replica, or set maxUnavailable: 1",
        (false, true) => "add a replica, set maxUnavailable: 1, or start a copy first (annotation kerf.sh/surge)",
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

    /// Rows: what the budget says, of how many pods, and whether all of them must stay; percentages are rounded up.
    #[test]
    fn a_budget_wants_all_to_stay_when_as_many_must_as_there_are() {
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
            // Nobody has counted yet.
            (json!({"minAvailable": 1}), 0, false),
            (json!({"minAvailable": "100%"}), 0, true),
            (json!({"maxUnavailable": 0}), 0, true),
        ];
        for (spec, pods, expected) in rows {
            let none = json!({"disruptionsAllowed": 0, "expectedPods": pods, "currentHealthy": pods});
            assert_eq!(budget("b", spec.clone(), none).wants_all_to_stay(), expected, "{spec} of {pods}");
            let some = json!({"disruptionsAllowed": 1, "expectedPods": pods, "currentHealthy": pods});
            assert!(!budget("b", spec.clone(), some).wants_all_to_stay(), "{spec}: who allows one keeps not all");
        }
    }

    #[test]
    fn who_is_never_let_go_is_named_with_the_budget_and_the_cure() {
        let single = budget(
            "db",
            json!({"minAvailable": 1}),
            json!({"expectedPods": 1, "currentHealthy": 1, "desiredHealthy": 1}),
        );
        let never = budget("nobody", json!({"maxUnavailable": 0}), json!({"expectedPods": 3}));
        let spare = budget("spare", json!({"minAvailable": 1}), json!({"expectedPods": 2, "disruptionsAllowed": 1}));
        let cure = "add a replica, or set maxUnavailable: 1";
        let of_single =
            format!("PodDisruptionBudget shop/db allows no disruption: minAvailable is 1 and there is 1 pod; {cure}");
        let of_never =
            "PodDisruptionBudget shop/nobody allows no disruption: maxUnavailable is 0; set maxUnavailable: 1";
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
            let found = runs().unevictable(&own, surges, now());
            assert_eq!(found.as_ref().map(ToString::to_string).as_deref(), expected, "{own:?} {surges}");
        }
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "db", "uid": "rs", "controller": true});
        let metadata = json!({"name": "db-0", "labels": {"pod-template-hash": "7d9"}, "ownerReferences": [owner]});
        let deployed = pod("Running", "True", metadata, json!({}));
        let told = |own| deployed.unevictable(&[own], false, now()).map(|it| it.to_string()).unwrap_or_default();
        let copy = "add a replica, set maxUnavailable: 1, or start a copy first (annotation kerf.sh/surge)";
        assert_eq!(told(&single), of_single.replace(cure, copy));
        assert_eq!(told(&never), of_never);
        let several = runs().unevictable(&[&spare, &single], false, now());
        assert_eq!(several.map(|it| it.budgets().to_vec()), Some(vec!["shop/db".to_owned(), "shop/spare".to_owned()]));
    }

    #[test]
    fn who_may_go_or_whom_nobody_evicts_is_none_of_them() {
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
            ("asks to stay itself", pod("Running", "True", annotated, json!({})), "IfHealthyBudget", false),
            ("stays on a node that goes", pod("Running", "True", named(), bears), "IfHealthyBudget", false),
        ];
        for (what, pod, policy, expected) in rows {
            assert_eq!(pod.unevictable(&[&single(policy)], false, now()).is_some(), expected, "{what}");
        }
    }
}
