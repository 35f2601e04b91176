//! Spans of the log: the object, plan or task that all lines of a piece of work belong to. A span's fields are in each of its
//! lines, also in those of libraries.
//!
//! A kind of Kubernetes has one key everywhere. `docs/runbook.md` lists the keys.

use tracing::{Span, info_span};

/// Returns the span of an object: its kind as in a manifest, and its name, or `namespace/name`. The span of a NodeUsage also has
/// the key of its Node, which has the same name.
#[must_use]
pub fn object(kind: &str, name: &str) -> Span {
    match kind {
        "NodeClaim" => info_span!("object", nodeclaim = name),
        "Node" => info_span!("object", node = name),
        "NodeUsage" => info_span!("object", nodeusage = name, node = name),
        "NodePool" => info_span!("object", nodepool = name),
        "EC2NodeClass" => info_span!("object", nodeclass = name),
        "NodeOverlay" => info_span!("object", nodeoverlay = name),
        "Commitment" => info_span!("object", commitment = name),
        "SpendPolicy" => info_span!("object", spendpolicy = name),
        "ProvisioningRequest" => info_span!("object", provisioningrequest = name),
        "CapacityBuffer" => info_span!("object", capacitybuffer = name),
        "Pod" => info_span!("object", pod = name),
        kind => info_span!("object", kind, name),
    }
}

/// Returns the span of a plan.
#[must_use]
pub fn plan(id: u64) -> Span {
    // As text, because many readers of JSON round whole numbers of this size.
    info_span!("plan", plan = %id)
}

/// Returns the span of a background task.
#[must_use]
pub fn task(name: &str) -> Span {
    info_span!("task", task = name)
}
