//! The hash by which machines of a class drift, on the class and on its claims (aws 1.7, core 1.9).

use std::sync::Arc;

use api::status::Conditioned;
use api::{EC2NodeClass, NodeClaim, annotation, condition, hash};
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::target;
use crate::act::{Step, Target};

/// Writes the hash where another stands. `hash` is the class's as it is now.
///
/// A hash of another recipe, such as the one of the Karpenter that ran here before, says nothing to us. The claim takes
/// ours, as if it had been launched from the class as it is now: a switch replaces no machine. Only one that is known to
/// have drifted keeps its hash, so that it stays drifted. Claims go first: while the class carries the old version,
/// whoever begins again finds what is left to do.
pub(super) fn steps(class: &EC2NodeClass, claims: &[Arc<NodeClaim>], hash: &str) -> Vec<Step> {
    let ours = hash::EC2_NODE_CLASS_VERSION;
    let version = |meta: &ObjectMeta| written(meta, annotation::EC2_NODE_CLASS_HASH_VERSION).map(str::to_owned);
    let of_class = version(&class.metadata);
    let migrates = of_class.as_deref() != Some(ours);
    let mut steps = Vec::new();
    for claim in claims {
        let foreign = match version(&claim.metadata) {
            Some(version) => version != ours,
            // Claims that never had one were planned before the class got its own: only a migration speaks for them.
            None => migrates,
        };
        if foreign {
            let hash = (!claim.is_true(condition::DRIFTED)).then_some(hash);
            let name = claim.metadata.name.clone().unwrap_or_default();
            steps.push(Step::Patch(Target::Claim(name), body(hash)));
        }
    }
    if migrates || written(&class.metadata, annotation::EC2_NODE_CLASS_HASH) != Some(hash) {
        steps.push(Step::Patch(target(class), body(Some(hash))));
    }
    steps
}

fn written<'m>(meta: &'m ObjectMeta, key: &str) -> Option<&'m str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

fn body(hash: Option<&str>) -> Value {
    let mut annotations = json!({annotation::EC2_NODE_CLASS_HASH_VERSION: hash::EC2_NODE_CLASS_VERSION});
    if let Some(hash) = hash {
        annotations[annotation::EC2_NODE_CLASS_HASH] = hash.into();
    }
    json!({"metadata": {"annotations": annotations}})
}
