//! What a claim asks for, in the words of the shop.

use api::{NodeClaim, annotation};
use cloud::launch::Ask;
use cloud::nodeclass::ResolvedClass;
use planner::{Requirements, Resources};

use crate::lifecycle::pool;

/// Whether the claim carries a switch that is on.
fn says(claim: &NodeClaim, key: &str) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(key)).is_some_and(|value| value == annotation::TRUE)
}

/// Whether the claim's machine has the interfaces for EFA that its type can have: somebody asked for them, or the class
/// lists interfaces, which are the type's then.
pub(super) fn got_efa(claim: &NodeClaim, class: Option<&ResolvedClass>) -> bool {
    let listed = class.is_some_and(|class| class.spec.network_interfaces.is_some());
    listed || claim.spec.resources.requests.contains_key(cloud::launch::EFA)
}

/// What the claim asks for, in the words of the shop.
pub(super) fn ask(claim: &NodeClaim) -> Ask {
    let requests: Resources = claim
        .spec
        .resources
        .requests
        .iter()
        .map(|(name, amount)| (name.clone(), amount.amount(name).unwrap_or(0)))
        .collect();
    let requirements: Requirements = cloud::types::requirements(&claim.spec.requirements);
    Ask {
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
