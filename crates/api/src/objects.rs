//! Slim Kubernetes objects: only the fields that Kerf reads, parsed straight from JSON.
//!
//! A full Pod is tens of kilobytes in memory and five times as slow to parse. These types ignore every field
//! they do not name and drop `metadata.managedFields`, so an object read with them must never be written
//! back whole: patch it.

mod affinity;
mod daemonset;
mod meta;
mod node;
mod pdb;
mod pod;
mod requests;
mod selector;
mod volume;

pub use affinity::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, PodAffinity, PodAffinityTerm, PreferredSchedulingTerm,
    WeightedPodAffinityTerm,
};
pub use daemonset::{DaemonSet, DaemonSetSpec, DaemonSetStatus, PodTemplate};
pub use node::{Node, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo};
pub use pdb::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
pub use pod::{
    Container, ContainerPort, EphemeralVolume, PersistentVolumeClaimSource, Pod, PodCondition, PodResourceClaim,
    PodSpec, PodStatus, ResourceRequirements, SchedulingGate, Toleration, TopologySpreadConstraint, Volume,
};
pub use requests::pod_requests;
pub use selector::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement};
pub use volume::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec,
};

/// Amounts by resource, as text.
pub type ResourceList = std::collections::BTreeMap<String, crate::Quantity>;
