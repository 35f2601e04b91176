//! Slim Kubernetes objects: only the fields that Kerf uses, parsed directly from JSON.
//!
//! A full Pod takes tens of kilobytes of memory and five times as long to parse. These types ignore all other fields and drop
//! `metadata.managedFields`. Never write such an object back as a whole: patch it.

mod affinity;
mod daemonset;
mod eviction;
mod meta;
mod namespace;
mod node;
mod pdb;
mod peace;
mod pod;
mod ports;
mod priority;
mod report;
mod selector;
mod storage;
mod surge;
mod template;
mod volume;
mod workload;

pub use affinity::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, PodAffinity, PodAffinityTerm, PreferredSchedulingTerm,
    WeightedPodAffinityTerm,
};
pub use daemonset::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
pub use eviction::Unevictable;
pub use namespace::Namespace;
pub use node::{Node, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo};
pub use pdb::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
pub use pod::container::{Container, ContainerPort, ContainerStatus, ResizePolicy, ResourceRequirements};
pub use pod::requests::pod_requests;
pub use pod::resize::{InvalidRequested, Requested};
pub use pod::{
    EphemeralVolume, PersistentVolumeClaimSource, Pod, PodCondition, PodResourceClaim, PodSpec, PodStatus,
    SchedulingGate, Toleration, TopologySpreadConstraint, Volume, VolumeClaimTemplate,
};
pub use ports::HostPort;
pub use priority::{PriorityClass, priority_of};
pub use report::NodeReport;
pub use selector::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement};
pub use storage::{
    AwsElasticBlockStore, CSINode, CSINodeDriver, CSINodeSpec, ClaimRef, CsiSource, EBS_DRIVER, IN_TREE_EBS,
    OtherSource, PersistentVolume, PersistentVolumeSpec, PersistentVolumeStatus, StorageClass, TopologySelectorLabel,
    TopologySelectorTerm, VolumeNodeAffinity, VolumeNodeResources,
};
pub use surge::Surged;
pub use template::{PodTemplate, PodTemplateSpec};
pub use volume::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus, VolumeAttachment,
    VolumeAttachmentSource, VolumeAttachmentSpec,
};
pub use workload::{
    Deployment, Job, JobCondition, JobSpec, JobStatus, ReplicaSet, ReplicatedSpec, StatefulSet, StatefulSetOrdinals,
    StatefulSetSpec,
};

/// Quantities by resource, as text.
pub type ResourceList = std::collections::BTreeMap<String, crate::Quantity>;
