//! Labels that say what was launched. A node can change them on its Node, and kube-scheduler believes them: one Node in a zone that
//! does not exist keeps pods with a required spread over zones pending in the whole cluster.

use std::collections::BTreeMap;

use api::objects::Node;
use api::status::Conditioned;
use api::{NodeClaim, condition, label, reason};
use serde_json::json;

use super::{NodeClaimDecision, NodeClaimView};
use crate::write::events::{Event, ObjectReference};
use crate::write::writer::{Operation, Target};

/// Restores the labels of the registered Node that differ from those of its NodeClaim.
pub(super) fn restore(view: &NodeClaimView, decision: &mut NodeClaimDecision) {
    let Some(node) = view.nodes.first().filter(|_| view.claim.is_true(condition::REGISTERED)) else { return };
    let changed = changed_labels(&view.claim, node);
    if changed.is_empty() {
        return;
    }
    let found = |key: &str| node.label(key).map_or_else(|| format!("no label {key}"), |value| format!("{key}={value}"));
    let found: Vec<String> = changed.keys().map(|key| found(key)).collect();
    let message = format!("the node has {}; restored the labels of its NodeClaim", found.join(", "));
    let event = Event::warning(ObjectReference::to(node.as_ref()), reason::LABELS_RESTORED, message);
    let patch = json!({"metadata": {"labels": changed}});
    decision.steps.extend([Operation::Patch(Target::Node(node.name().to_owned()), patch), Operation::Note(event)]);
}

/// Returns the labels of the NodeClaim that its Node lacks or contradicts.
fn changed_labels<'a>(claim: &'a NodeClaim, node: &Node) -> BTreeMap<&'a str, &'a str> {
    let launched = claim.metadata.labels.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    launched.filter(|(key, value)| label::is_well_known(key) && node.label(key) != Some(value)).collect()
}
