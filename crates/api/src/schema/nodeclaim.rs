//! The laws of NodeClaim.

use serde_json::json;

use super::laws::{Keys, conditions, lifetimes, node_class_ref, requirements, rule, rules, taints};
use super::{Law, law};

/// Everything that the API server holds of a NodeClaim beyond the types of its fields.
pub(super) fn laws() -> Vec<Law> {
    let mut laws = vec![
        law("spec", json!({ "required": ["nodeClassRef", "requirements"] })),
        law("spec", rules([rule("self == oldSelf", "spec is immutable")])),
    ];
    laws.extend(node_class_ref("spec.nodeClassRef"));
    laws.extend(requirements("spec.requirements", Keys::OfClaim));
    laws.extend(taints("spec.taints"));
    laws.extend(taints("spec.startupTaints"));
    laws.extend(lifetimes("spec"));
    // Claims that earlier versions wrote have no reason; refusing their status would strand their machines.
    laws.extend(conditions(&["lastTransitionTime", "status", "type"]));
    laws
}
