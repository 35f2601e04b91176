//! What a claim asks for, in the words of the shop.

use api::nodeclass::EC2NodeClassSpec;
use api::{NodeClaim, annotation};
use cloud::launch::LaunchRequest;
use planner::{Requirements, Resources};

use crate::reconcile::nodeclaim::pool;

/// Whether the claim carries a switch that is on.
fn says(claim: &NodeClaim, key: &str) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(key)).is_some_and(|value| value == annotation::TRUE)
}

/// Whether the claim's machine has the interfaces for EFA that its type can have: someone asked for them, or the class
/// lists interfaces, which are the type's then.
pub(super) fn got_efa(claim: &NodeClaim, class: Option<&EC2NodeClassSpec>) -> bool {
    let listed = class.is_some_and(|class| class.network_interfaces.is_some());
    listed || claim.spec.resources.requests.contains_key(cloud::launch::EFA)
}

/// What the claim asks for, in the words of the shop.
pub(super) fn ask(claim: &NodeClaim) -> LaunchRequest {
    let requests: Resources = claim
        .spec
        .resources
        .requests
        .iter()
        .map(|(name, amount)| (name.clone(), amount.amount(name).unwrap_or(0)))
        .collect();
    let requirements: Requirements = cloud::types::requirements(&claim.spec.requirements);
    LaunchRequest {
        pool: pool(claim).to_owned(),
        requirements,
        requests,
        labels: claim.metadata.labels.clone().unwrap_or_default(),
        taints: claim.spec.taints.clone().unwrap_or_default(),
        startup_taints: claim.spec.startup_taints.clone().unwrap_or_default(),
        overlay_priced: says(claim, annotation::PRICE_OVERLAY_APPLIED),
        min_values_relaxed: says(claim, annotation::MIN_VALUES_RELAXED),
    }
}

#[cfg(test)]
mod tests {
    use api::nodeclass::EC2NodeClassSpec;
    use serde_json::{Value, json};

    use super::got_efa;
    use crate::fixture;

    /// Rows: what the claim asks for, the interfaces that the class lists, and whether its machine has some for EFA.
    #[test]
    fn a_machine_has_interfaces_for_efa_where_somebody_asked_or_the_class_lists_interfaces() {
        let listed = json!([{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}]);
        let rows = [
            (json!({}), Value::Null, false),
            (json!({cloud::launch::EFA: "1"}), Value::Null, true),
            (json!({}), listed, true),
        ];
        for (requests, interfaces, expected) in rows {
            let claim = fixture::claim(&json!({"spec": {"resources": {"requests": requests}}}));
            let spec: EC2NodeClassSpec = serde_json::from_value(json!({
                "subnetSelectorTerms": [], "securityGroupSelectorTerms": [], "amiSelectorTerms": [],
                "networkInterfaces": interfaces,
            }))
            .unwrap();
            assert_eq!(got_efa(&claim, Some(&spec)), expected, "{requests} {interfaces}");
        }
        assert!(!got_efa(&fixture::claim(&json!({})), None), "a class that is gone lists nothing");
    }
}
