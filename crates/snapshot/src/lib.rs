//! Kubernetes objects become the planner's [`planner::Snapshot`], here and nowhere else.
//!
//! A live cluster and a folder of YAML take the same way, so that a decision can be repeated at a desk. The
//! translation is pure: instants come in with [`Input`], and what cannot be translated comes out by name, as an
//! ignored pod or as a problem, never as a failure of the whole.

mod annotation_errors;
mod budget;
mod buffers;
mod cache;
mod capacity_splits;
mod catalogues;
mod daemons;
mod ignored;
mod input;
mod nodes;
mod overlays;
mod pdb_index;
mod pools;
mod problem;
mod quantities;
mod records;
mod rescheduling;
mod reserved;
mod shapes;
mod terms;
mod unclaimed_nodes;
mod volumes;

use std::collections::BTreeMap;

use api::objects::Unevictable;
use jiff::Timestamp;
use planner::{Millis, Snapshot};

pub use buffers::{BufferError, BufferSize, BufferState, Provisioning, provisioning};
pub use cache::SnapshotCache;
pub use ignored::{Ignored, IgnoredReason, VolumeError};
pub use input::{Input, Settings};
pub use nodes::{node_usage, sick, sizing};
pub use overlays::{Overlaid, OverlayError, OverlayVerdict};
pub use pools::rules as packing_rules;
pub use problem::{Problem, Subject, UsageError};

/// A snapshot with what did not go into it.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotResult {
    /// The planner's input.
    pub snapshot: Snapshot,
    /// Pods that need a place and that the planner will not see, in the order of their names.
    pub ignored: Vec<Ignored>,
    /// Objects that could not be read in full.
    pub problems: Vec<Problem>,
    /// Pods on managed nodes that no eviction will ever take: each by itself, where a problem speaks of all that are held alike.
    pub never_evicted: Vec<NeverEvicted>,
    /// What became of each NodeOverlay, by name.
    pub overlays: Vec<OverlayVerdict>,
    /// Instance types that overlays speak of, by pool; claims of such types say so in annotations.
    pub overlaid: BTreeMap<String, Overlaid>,
    /// What each CapacityBuffer was resolved to, by name; those for other programs are left out.
    pub buffers: Vec<BufferState>,
}

/// A pod that no eviction will ever take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeverEvicted {
    /// `namespace/name`.
    pub pod: String,
    /// The pool of its node.
    pub pool: Option<String>,
    /// Whose word that is, and what to do.
    pub why: Unevictable,
}

/// Translates a cluster that nothing is known of yet.
pub fn build(input: &Input<'_>) -> SnapshotResult {
    SnapshotCache::default().build(input)
}

fn millis(at: Timestamp) -> Millis {
    Millis(at.as_millisecond())
}
