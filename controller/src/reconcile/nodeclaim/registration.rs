//! Registration of a node: the node receives the metadata of its NodeClaim, and loses the taint that kept pods away.

pub(super) mod partition;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::objects::Node;
use api::status::Conditioned;
use api::{NodeClaim, Taint, annotation, condition, finalizer, label, reason, taint};
use serde_json::{Value, json};

use super::{NodeClaimDecision, NodeClaimView, nominated_pods};
use crate::state::registration_health::Registration;
use crate::write::events::{Event, ObjectReference};
use crate::write::writer::{Operation, Target};

/// Registers the only node of the NodeClaim.
pub(super) fn register(view: &NodeClaimView, claim: &mut NodeClaim, decision: &mut NodeClaimDecision) {
    match view.nodes.as_slice() {
        [] => {
            let message = "no Node with the provider id of the instance registered yet";
            claim.set_unknown(condition::REGISTERED, reason::NODE_NOT_FOUND, message, view.now);
        }
        [_] if partition::is_awaited(view) => {
            let message = "EC2 does not report the partition of the instance in its placement group yet";
            claim.set_unknown(condition::REGISTERED, reason::PARTITION_NOT_FOUND, message, view.now);
            decision.wake(partition::NEXT_LOOK);
        }
        [node] => {
            if !node.has_taint(taint::UNREGISTERED, taint::NO_EXECUTE) && !node.is_registered() {
                let message = "Node registered without the taint karpenter.sh/unregistered:NoExecute, pods may \
                               have started too early: check the kubelet configuration of the image";
                let note =
                    Event::warning(ObjectReference::to(claim), reason::UNREGISTERED_TAINT_MISSING, message.to_owned());
                decision.steps.push(Operation::Note(note));
            }
            nominated_pods::annotate(view, node, decision);
            decision.steps.push(Operation::Patch(Target::Node(node.name().to_owned()), node_patch(claim, node)));
            claim.status.get_or_insert_default().node_name = node.name().to_owned();
            claim.set_true(condition::REGISTERED, view.now);
            decision.registration = Some(Registration::Good);
        }
        several => {
            let names: Vec<&str> = several.iter().map(|node| node.name()).collect();
            let message = format!("several Nodes have the same provider id: {}", names.join(", "));
            claim.set_false(condition::REGISTERED, reason::MULTIPLE_NODES_FOUND, &message, view.now);
        }
    }
}

/// Returns all changes of the registration as one patch with optimistic concurrency.
fn node_patch(claim: &NodeClaim, node: &Arc<Node>) -> Value {
    let mut labels: BTreeMap<&str, &str> =
        claim.metadata.labels.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    labels.insert(label::REGISTERED, label::TRUE);
    let ours = [annotation::LAUNCH_TOKEN, annotation::TIMELINE];
    let annotations: BTreeMap<&String, &String> =
        claim.metadata.annotations.iter().flatten().filter(|(key, _)| !ours.contains(&key.as_str())).collect();
    let mut finalizers = node.metadata.finalizers.clone().unwrap_or_default();
    if !finalizers.iter().any(|name| name == finalizer::TERMINATION) {
        finalizers.push(finalizer::TERMINATION.to_owned());
    }
    json!({
        "metadata": {
            "resourceVersion": node.metadata.resource_version,
            "labels": labels,
            "annotations": annotations,
            "finalizers": finalizers,
            "ownerReferences": [owner(claim)],
        },
        "spec": {"taints": taints(claim, node)},
    })
}

fn owner(claim: &NodeClaim) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "name": claim.metadata.name,
        "uid": claim.metadata.uid,
        "blockOwnerDeletion": true,
    })
}

/// Reports whether an earlier registration made the NodeClaim the owner of the node.
fn is_owned(claim: &NodeClaim, node: &Node) -> bool {
    let owners = node.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| Some(&owner.uid) == claim.metadata.uid.as_ref())
}

/// Returns the node's taints without the unregistered one, with those of the NodeClaim that the image did not set itself. Where the
/// image sets taints, a program may have removed a startup taint already; also since an earlier registration whose status was not
/// written. The taints of the NodePool stay: a node can label itself.
fn taints(claim: &NodeClaim, node: &Node) -> Vec<Taint> {
    let mut taints: Vec<Taint> =
        node.spec.taints.iter().filter(|found| found.key != taint::UNREGISTERED).cloned().collect();
    let may_lack = node.label(label::DO_NOT_SYNC_TAINTS) == Some(label::TRUE) || is_owned(claim, node);
    let of_start = claim.spec.startup_taints.iter().flatten().filter(|_| !may_lack);
    for wanted in claim.spec.taints.iter().flatten().chain(of_start) {
        let known = taints.iter().any(|found| found.key == wanted.key && found.effect == wanted.effect);
        if !known {
            taints.push(wanted.clone());
        }
    }
    taints
}
