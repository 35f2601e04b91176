//! The hashes by which machines drift from their class and their pool: on class and pool as they are now, and on their claims as
//! they were (aws 1.7, core 1.9).

use std::collections::BTreeMap;
use std::sync::Arc;

use api::status::Conditioned;
use api::{NodeClaim, annotation, condition, hash};
use kube::api::ObjectMeta;
use serde_json::json;

use crate::write::writer::{Operation, Target};

/// Where a hash stands, and by which version of its recipe we make it.
#[derive(Clone, Copy, Debug)]
pub struct HashAnnotation {
    hash: &'static str,
    version: &'static str,
    ours: &'static str,
}

/// Of an EC2NodeClass.
pub const OF_CLASS: HashAnnotation = HashAnnotation {
    hash: annotation::EC2_NODE_CLASS_HASH,
    version: annotation::EC2_NODE_CLASS_HASH_VERSION,
    ours: hash::EC2_NODE_CLASS_VERSION,
};

/// Of a NodePool.
pub const OF_POOL: HashAnnotation = HashAnnotation {
    hash: annotation::NODEPOOL_HASH,
    version: annotation::NODEPOOL_HASH_VERSION,
    ours: hash::NODEPOOL_VERSION,
};

impl HashAnnotation {
    /// Writes the hash where another stands. `hash` is the owner's as it is now, `claims` were made from it.
    ///
    /// A hash of another recipe, such as the one of the Karpenter that ran here before, says nothing to us. The claim takes
    /// ours, as if it had been launched from its owner as it is now: a switch replaces no machine. Only one that is known to
    /// have drifted keeps its hash, so that it stays drifted. Claims go first: while the owner carries the old version,
    /// whoever begins again finds what is left to do.
    #[must_use]
    pub fn steps<'a>(
        self,
        owner: &ObjectMeta,
        target: Target,
        claims: impl IntoIterator<Item = &'a Arc<NodeClaim>>,
        hash: &str,
    ) -> Vec<Operation> {
        let migrates = written(owner, self.version) != Some(self.ours);
        let foreign = |claim: &&Arc<NodeClaim>| match written(&claim.metadata, self.version) {
            Some(version) => version != self.ours,
            // Claims that never had one were planned before their owner got its own: only a migration speaks for them.
            None => migrates,
        };
        let stamp = |claim: &Arc<NodeClaim>| {
            let hash = (!claim.is_true(condition::DRIFTED)).then_some(hash);
            let name = claim.metadata.name.clone().unwrap_or_default();
            Operation::Patch(Target::Claim(name), json!({"metadata": {"annotations": self.stamp(hash)}}))
        };
        let mut steps: Vec<Operation> = claims.into_iter().filter(foreign).map(stamp).collect();
        if migrates || written(owner, self.hash) != Some(hash) {
            steps.push(Operation::Patch(target, json!({"metadata": {"annotations": self.stamp(Some(hash))}})));
        }
        steps
    }

    /// The annotations that carry a hash, or only its version.
    #[must_use]
    pub fn stamp(self, hash: Option<&str>) -> BTreeMap<&'static str, String> {
        let hash = hash.map(|hash| (self.hash, hash.to_owned()));
        hash.into_iter().chain([(self.version, self.ours.to_owned())]).collect()
    }

    /// Whether the claim carries a hash of our recipe, and another one than its owner's is now.
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
