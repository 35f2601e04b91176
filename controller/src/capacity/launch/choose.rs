//! Choice of the offerings for one NodeClaim, and its alternatives: no launch for the EC2NodeClass, or no choice yet.

use std::sync::Arc;

use api::{NodeClaim, annotation};
use cloud::launch::{LaunchChoice, LaunchOffer, LaunchRefusal, LaunchRequest};
use jiff::Timestamp;
use serde_json::json;

use super::Launcher;
use super::nodeclaims::id;
use crate::metrics::counters;
use crate::state::class_readiness::{ClassReadiness, NOT_READY};
use crate::write::writer::{Operation, Target, WriteError};

impl Launcher {
    /// Returns the launch choice, or `None` while the EC2NodeClass or its offerings are not loaded.
    pub(super) fn choose(
        &self,
        claim: &NodeClaim,
        ask: &LaunchRequest,
        now: Timestamp,
    ) -> Option<Result<LaunchChoice, LaunchRefusal>> {
        let class = self.offerings.class(&claim.spec.node_class_ref.name)?;
        let catalogue = self.offerings.catalogue_of(claim, now)?;
        let (shortages, in_flight) = self.offerings.knowledge(now);
        let settings = self.offerings.cluster().today();
        let offer = LaunchOffer {
            class: &class,
            catalogue: &catalogue,
            shortages: &shortages,
            in_flight: &in_flight,
            settings: &settings,
            now,
        };
        Some(cloud::launch::choose(ask, &offer))
    }

    /// Deletes a NodeClaim whose EC2NodeClass cannot launch, and reports whether it did.
    pub(super) async fn is_refused_by_class(&self, claim: &NodeClaim) -> Result<bool, WriteError> {
        let readiness = self.cluster.read(|index| ClassReadiness::from_index(index, &claim.spec.node_class_ref.name));
        let Some(steps) = readiness.deletion_of(claim) else { return Ok(false) };
        self.writer.run_all(steps).await?;
        counters::disrupted(&self.metrics, claim, NOT_READY);
        Ok(true)
    }

    /// Reports whether the EC2NodeClass of any of the NodeClaims cannot launch.
    pub(super) fn is_class_unusable(&self, claims: &[Arc<NodeClaim>]) -> bool {
        let class = |claim: &Arc<NodeClaim>| claim.spec.node_class_ref.name.clone();
        self.cluster.read(|index| {
            claims.iter().any(|claim| ClassReadiness::from_index(index, &class(claim)).refusal().is_some())
        })
    }

    pub(super) async fn give_token_back(&self, claim: &NodeClaim) -> Result<(), WriteError> {
        if claim.launch_token().is_none() {
            return Ok(());
        }
        let patch = json!({"metadata": {"annotations": {annotation::LAUNCH_TOKEN: null}}});
        self.writer.run(Operation::Patch(Target::Claim(id(claim).name), patch)).await
    }
}
