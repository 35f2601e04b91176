//! Recorded facts of a cluster: pods with their times, nodes with their costs, and all other objects over time.

mod builder;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::NodeClaim;
use api::objects::{Node, Pod};
use jiff::{SignedDuration, Timestamp};
use snapshot::Objects;

pub use builder::HistoryBuilder;

/// Demands on a cluster, and the events in it.
#[derive(Clone, Debug)]
pub struct History {
    /// Time of the first state.
    pub begin: Timestamp,
    /// Time of the last change.
    pub end: Timestamp,
    /// Pods of workloads, in the order of their creation.
    pub pods: Vec<RecordedPod>,
    /// Nodes of NodePools, in the order of their creation.
    pub nodes: Vec<RecordedNode>,
    /// Changes that a replay takes over, in order.
    pub changes: Vec<(Timestamp, Change)>,
}

/// Recorded change that does not depend on decisions about nodes of NodePools.
#[derive(Clone, Debug)]
pub enum Change {
    /// New state of all objects other than pods, Nodes and NodeClaims.
    Objects(Arc<Objects>),
    /// State of a Node without a NodePool.
    Node(Arc<Node>),
    /// A Node without a NodePool was deleted.
    NodeGone(String),
    /// State of a pod that belongs to its node: of a DaemonSet, or static.
    NodePod(Arc<Pod>),
    /// Such a pod was deleted; its namespace and name.
    NodePodGone(String),
}

/// Pod of a workload.
#[derive(Clone, Debug)]
pub struct RecordedPod {
    /// The pod as it was created.
    pub pod: Arc<Pod>,
    /// Time from which kube-scheduler could bind it: its creation, or the removal of its last gate.
    pub created: Timestamp,
    /// Time at which it was bound.
    pub bound: Option<Timestamp>,
    /// Node that it was bound to.
    pub node: String,
    /// Time from which it was ready.
    pub ready: Option<Timestamp>,
    /// Time at which its deletion was requested, or at which it ended by itself.
    pub leaves: Option<Timestamp>,
    /// Time at which it was gone.
    pub gone: Option<Timestamp>,
    /// True if all its containers ended without an error.
    pub succeeded: bool,
    /// True if it was evicted.
    pub evicted: bool,
}

/// Node of a NodePool, by its NodeClaim.
#[derive(Clone, Debug)]
pub struct RecordedNode {
    /// Name of the NodeClaim.
    pub claim: String,
    /// Labels of the NodeClaim, with instance type, zone and capacity type.
    pub labels: BTreeMap<String, String>,
    /// Name of the EC2NodeClass.
    pub class: String,
    /// Name of the Node, empty before its registration.
    pub node: String,
    /// Time of the NodeClaim's creation.
    pub created: Timestamp,
    /// Time of the launch.
    pub launched: Option<Timestamp>,
    /// Time of the initialization.
    pub initialized: Option<Timestamp>,
    /// Time of an interruption by EC2.
    pub interrupted: Option<Timestamp>,
    /// Reason of the command that removed it.
    pub disrupted: Option<String>,
    /// Time at which its instance ended.
    pub ended: Option<Timestamp>,
    /// NodeClaim and Node in the first state.
    pub at_begin: Option<(Arc<NodeClaim>, Option<Arc<Node>>)>,
}

impl RecordedPod {
    /// Returns how long the pod waited for its node; `None` if it never got one.
    #[must_use]
    pub fn waited(&self) -> Option<SignedDuration> {
        Some(self.bound?.duration_since(self.created).max(SignedDuration::ZERO))
    }
}
