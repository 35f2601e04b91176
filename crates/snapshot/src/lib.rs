//! Translation of Kubernetes objects into the planner's [`planner::Snapshot`]. No other crate does this.
//!
//! A live cluster and a folder of YAML use the same translation, so decisions can be reproduced offline. The translation is
//! pure: times are part of [`Input`]. An object that cannot be translated becomes an ignored pod or a problem, and never a
//! failure of the whole.

mod buffers;
mod cache;
mod catalogues;
mod input;
mod nodes;
mod overlays;
mod pods;
mod pools;
mod problem;
mod quantities;
mod requirements;
mod taints;

use std::collections::BTreeMap;

use api::objects::Unevictable;
use jiff::Timestamp;
use planner::{Millis, Snapshot};

pub use buffers::buffer::{BufferError, BufferSize, BufferState, Provisioning, provisioning};
pub use buffers::requests::{RequestCapacity, RequestError, RequestSize, RequestState, request_capacity};
pub use buffers::templates::TemplateError;
pub use cache::SnapshotCache;
pub use input::{Delays, FailedReplacements, Input, NodeRepair, Objects, Settings};
pub use nodes::{instance_capacity, node_usage, sizing, unhealthy};
pub use overlays::{Overlaid, OverlayError, OverlayVerdict};
pub use pods::admission::{Admission, AdmissionError, Bound, BoundViolation, MissingClass, Violated};
pub use pods::ignored::{Ignored, IgnoredReason, VolumeError};
pub use pools::commitments::{CommitmentState, CommitmentUse, UnusableCommitment};
pub use pools::spend::SpendState;
pub use pools::{launchable_types, packing_rules};
pub use problem::{
    Problem, Subject, UsageError, ineffective_in_buffer, ineffective_in_class, ineffective_in_overlay,
    ineffective_in_pool, ineffective_in_request,
};

/// A snapshot with the objects that are not part of it.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotResult {
    /// Input of the planner.
    pub snapshot: Snapshot,
    /// Pods that need a node but are not part of the snapshot, ordered by name.
    pub ignored: Vec<Ignored>,
    /// Objects that could not be translated completely.
    pub problems: Vec<Problem>,
    /// Pods on managed nodes that can never be evicted. The list has each pod; a problem covers all pods with the same reason.
    pub never_evicted: Vec<NeverEvicted>,
    /// Result of each NodeOverlay, by name.
    pub overlays: Vec<OverlayVerdict>,
    /// Instance types with overlays, by NodePool. NodeClaims of such types have annotations for them.
    pub overlaid: BTreeMap<String, Overlaid>,
    /// Result of each CapacityBuffer, by name, without those of other provisioning strategies.
    pub buffers: Vec<BufferState>,
    /// State of each ProvisioningRequest that Kerf handles, by name.
    pub requests: Vec<RequestState>,
    /// State of each SpendPolicy.
    pub spending: Vec<SpendState>,
    /// State of each Commitment, by name.
    pub commitments: Vec<CommitmentState>,
}

/// A pod that can never be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeverEvicted {
    /// Name of the pod, `namespace/name`.
    pub pod: String,
    /// NodePool of its node.
    pub pool: Option<String>,
    /// Reason with a hint.
    pub why: Unevictable,
}

/// Translates a cluster without a cache.
pub fn build(input: &Input<'_>) -> SnapshotResult {
    SnapshotCache::default().build(input)
}

fn millis(at: Timestamp) -> Millis {
    Millis(at.as_millisecond())
}
