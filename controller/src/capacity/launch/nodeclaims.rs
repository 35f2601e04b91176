//! NodeClaims that wait for a launch, and the instances that they have.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::status::Conditioned;
use api::{NodeClaim, annotation, condition, finalizer};
use cloud::Instance;
use cloud::launch::{ClaimId, HeldInstance, LaunchChoice, Token};
use serde_json::{Value, json};

use crate::state::index::Index;
use crate::write::patches;

/// Returns the instances that no NodeClaim has. The status of a NodeClaim takes precedence over tags.
pub(super) fn unclaimed(index: &Index, instances: &[Instance]) -> Vec<Instance> {
    let claimed: BTreeSet<&str> = index.claims.values().filter_map(|claim| claim.provider_id()).collect();
    instances.iter().filter(|one| !claimed.contains(one.provider_id().as_str())).cloned().collect()
}

fn is_waiting(claim: &NodeClaim) -> bool {
    let ours = patches::has_finalizer(&claim.metadata, finalizer::TERMINATION);
    ours && !claim.is_true(condition::LAUNCHED) && claim.metadata.deletion_timestamp.is_none()
}

/// Reports whether the NodeClaim needs a launch and has no token yet.
pub(super) fn wants_token(claim: &NodeClaim) -> bool {
    is_waiting(claim) && claim.launch_token().is_none()
}

/// Returns the NodeClaims that wait for the launch with this token.
pub(super) fn waiting(index: &Index, token: &str) -> Vec<Arc<NodeClaim>> {
    index.claims_of_launch(token).filter(|claim| is_waiting(claim)).cloned().collect()
}

/// Returns name and UID of a NodeClaim.
pub(super) fn id(claim: &NodeClaim) -> ClaimId {
    ClaimId {
        name: claim.metadata.name.clone().unwrap_or_default(),
        uid: claim.metadata.uid.clone().unwrap_or_default(),
    }
}

/// Returns the token and the instance of a NodeClaim.
pub(super) fn hold(claim: &NodeClaim) -> HeldInstance {
    HeldInstance {
        claim: id(claim),
        token: Token::read(claim.launch_token().unwrap_or_default()),
        instance: claim.provider_id().and_then(cloud::launch::claim::instance_id).map(str::to_owned),
    }
}

/// Returns the patch of NodeClaims that a choice is made for: the token, and a mark where the launch lowered `minValues`.
pub(super) fn chosen_patch(token: &str, choice: &LaunchChoice) -> Value {
    let mut annotations = json!({annotation::LAUNCH_TOKEN: token});
    if choice.min_values_relaxed {
        annotations[annotation::MIN_VALUES_RELAXED] = json!(annotation::TRUE);
    }
    json!({"metadata": {"annotations": annotations}})
}

#[cfg(test)]
mod tests {
    use planner::CapacityType;

    use super::*;

    #[test]
    fn chosen_patch_marks_lowered_min_values() {
        let choice = |min_values_relaxed| LaunchChoice {
            capacity_type: CapacityType::Spot,
            reservation_kind: None,
            reservations: Default::default(),
            templates: Vec::new(),
            configs: Vec::new(),
            tags: Default::default(),
            context: None,
            prioritized: false,
            omits_own_tags: false,
            addresses: 0,
            min_values_relaxed,
        };
        let annotations = |relaxed| chosen_patch("t", &choice(relaxed))["metadata"]["annotations"].clone();
        assert_eq!(annotations(false), json!({annotation::LAUNCH_TOKEN: "t"}), "the plan's mark stays");
        let marked = json!({annotation::LAUNCH_TOKEN: "t", annotation::MIN_VALUES_RELAXED: "true"});
        assert_eq!(annotations(true), marked);
    }
}
