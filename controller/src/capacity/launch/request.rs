//! Conversion of a NodeClaim into a launch request.

use api::nodeclass::EC2NodeClassSpec;
use api::{NodeClaim, annotation};
use cloud::launch::LaunchRequest;
use planner::{Requirements, Resources};

/// Reports whether the annotation of the NodeClaim is `true`.
fn says(claim: &NodeClaim, key: &str) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(key)).is_some_and(|value| value == annotation::TRUE)
}

/// Reports whether the instance has the EFA interfaces of its instance type. The NodeClaim requests EFA, or the EC2NodeClass
/// lists network interfaces, which then define those of the type.
pub(super) fn got_efa(claim: &NodeClaim, class: Option<&EC2NodeClassSpec>) -> bool {
    let listed = class.is_some_and(|class| class.network_interfaces.is_some());
    listed || claim.spec.resources.requests.contains_key(cloud::types::EFA)
}

/// Converts a NodeClaim into a launch request.
pub(super) fn ask(claim: &NodeClaim) -> LaunchRequest {
    let requests: Resources = claim
        .spec
        .resources
        .requests
        .iter()
        .map(|(name, amount)| (name.clone(), amount.amount(name).unwrap_or(0)))
        .collect();
    let requirements: Requirements = cloud::requirements(&claim.spec.requirements);
    LaunchRequest {
        pool: claim.nodepool().to_owned(),
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

    /// Rows: requests of the NodeClaim, network interfaces of the EC2NodeClass, and whether the instance has EFA interfaces.
    #[test]
    fn got_efa_returns_true_when_requested_or_listed_by_class() {
        let listed = json!([{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}]);
        let rows = [
            (json!({}), Value::Null, false),
            (json!({cloud::types::EFA: "1"}), Value::Null, true),
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
