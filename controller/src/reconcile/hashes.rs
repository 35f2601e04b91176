//! Hashes that detect drift from EC2NodeClass and NodePool. The owner has its current hash, and NodeClaims have the hash of
//! their creation.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::status::Conditioned;
use api::{NodeClaim, annotation, condition, hash};
use jiff::Timestamp;
use kube::api::ObjectMeta;
use serde_json::json;

use crate::write::writer::{Operation, Target};

/// Annotations of a hash, and the version that Kerf computes.
#[derive(Clone, Copy, Debug)]
pub struct HashAnnotation {
    hash: &'static str,
    version: &'static str,
    ours: &'static str,
}

/// Annotations of the hash of an EC2NodeClass.
pub const OF_CLASS: HashAnnotation = HashAnnotation {
    hash: annotation::EC2_NODE_CLASS_HASH,
    version: annotation::EC2_NODE_CLASS_HASH_VERSION,
    ours: hash::EC2_NODE_CLASS_VERSION,
};

/// Annotations of the hash of a NodePool.
pub const OF_POOL: HashAnnotation = HashAnnotation {
    hash: annotation::NODEPOOL_HASH,
    version: annotation::NODEPOOL_HASH_VERSION,
    ours: hash::NODEPOOL_VERSION,
};

impl HashAnnotation {
    /// Returns the patches that update hashes. `hash` is the current hash of the owner, and `claims` were created from the
    /// owner.
    ///
    /// A hash of another version, such as that of an earlier Karpenter, cannot be compared. The NodeClaim receives Kerf's hash,
    /// as if it had been launched from the current owner, so that a migration replaces no node. Only a drifted NodeClaim keeps
    /// its hash, so that it remains drifted. `adopted` is the time of the takeover to note on these NodeClaims, which delays
    /// their consolidation. NodeClaims are patched first: while the owner has the old version, a repeated call finds the rest.
    #[must_use]
    pub fn steps<'a>(
        self,
        owner: &ObjectMeta,
        target: Target,
        claims: impl IntoIterator<Item = &'a Arc<NodeClaim>>,
        hash: &str,
        adopted: Option<Timestamp>,
    ) -> Vec<Operation> {
        let migrates = written(owner, self.version) != Some(self.ours);
        let foreign = |claim: &&Arc<NodeClaim>| match written(&claim.metadata, self.version) {
            Some(version) => version != self.ours,
            // NodeClaims without a hash were planned before their owner had one: only a migration updates them.
            None => migrates,
        };
        let stamp = |claim: &Arc<NodeClaim>| {
            let hash = (!claim.is_true(condition::DRIFTED)).then_some(hash);
            let name = claim.metadata.name.clone().unwrap_or_default();
            let mut annotations = self.stamp(hash);
            annotations.extend(adopted.map(|at| (annotation::ADOPTED_AT, at.to_string())));
            Operation::Patch(Target::Claim(name), json!({"metadata": {"annotations": annotations}}))
        };
        let mut steps: Vec<Operation> = claims.into_iter().filter(foreign).map(stamp).collect();
        if migrates || written(owner, self.hash) != Some(hash) {
            steps.push(Operation::Patch(target, json!({"metadata": {"annotations": self.stamp(Some(hash))}})));
        }
        steps
    }

    /// Returns the annotations of a hash, or only of its version.
    #[must_use]
    pub fn stamp(self, hash: Option<&str>) -> BTreeMap<&'static str, String> {
        let hash = hash.map(|hash| (self.hash, hash.to_owned()));
        hash.into_iter().chain([(self.version, self.ours.to_owned())]).collect()
    }

    /// Reports whether the NodeClaim has a hash of Kerf's version that differs from the owner's current one.
    #[must_use]
    pub fn differs(self, claim: &NodeClaim, hash: &str) -> bool {
        let meta = &claim.metadata;
        written(meta, self.version) == Some(self.ours) && written(meta, self.hash).is_some_and(|found| found != hash)
    }
}

fn written<'m>(meta: &'m ObjectMeta, key: &str) -> Option<&'m str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests;
