//! Slim Kubernetes objects: only the fields that Kerf uses, parsed directly from JSON.
//!
//! A full Pod takes tens of kilobytes of memory and five times as long to parse. These types ignore all other fields and drop
//! `metadata.managedFields`. Never write such an object back as a whole: patch it.

mod admission;
mod affinity;
mod meta;
mod namespace;
mod node;
mod pdb;
mod pod;
mod report;
pub(crate) mod selector;
mod storage;
mod volume;
mod workload;

use std::collections::BTreeMap;

pub use admission::{LimitRange, LimitRangeItem, LimitRangeSpec, RuntimeClass, RuntimeOverhead, RuntimeScheduling};
pub use affinity::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, PodAffinity, PodAffinityTerm, PreferredSchedulingTerm,
    WeightedPodAffinityTerm,
};
pub use namespace::{Namespace, cost_label};
pub use node::{Node, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo};
pub use pdb::unevictable::Unevictable;
pub use pdb::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus, blocks_without_copy};
pub use pod::container::{Container, ContainerPort, ContainerStatus, HostPort, ResizePolicy, ResourceRequirements};
pub use pod::group::{InvalidGroup, RequestedGroup, consumed_request, pod_group};
pub use pod::priority::{PreemptionPolicy, Priority, PriorityClass, priority_of};
pub use pod::requests::{pod_requests, resource_totals};
pub use pod::resize::{InvalidRequested, Requested};
pub use pod::shared_spec::SharedPodSpec;
pub use pod::surge::{PoolSurge, Surged, misread_surge, surges};
pub use pod::template::{PodTemplate, PodTemplateSpec};
pub use pod::{
    EphemeralVolume, PersistentVolumeClaimSource, Pod, PodCondition, PodResourceClaim, PodSpec, PodStatus,
    SchedulingGate, Toleration, TopologySpreadConstraint, Volume, VolumeClaimTemplate,
};
pub use report::NodeReport;
pub use selector::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement};
pub use storage::{
    CSINode, CSINodeDriver, CSINodeSpec, IN_TREE_EBS, StorageClass, TopologySelectorLabel, TopologySelectorTerm,
    VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec, VolumeNodeResources,
};
pub use volume::{
    AwsElasticBlockStore, ClaimRef, CsiSource, EBS_DRIVER, OtherSource, PersistentVolume, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, PersistentVolumeClaimStatus, PersistentVolumeSpec, PersistentVolumeStatus,
    VolumeNodeAffinity,
};
pub use workload::{
    DaemonSet, DaemonSetSpec, DaemonSetStatus, Deployment, Job, JobCondition, JobSpec, JobStatus, ReplicaSet,
    ReplicatedSpec, StatefulSet, StatefulSetOrdinals, StatefulSetSpec,
};

use crate::units::quantity::Quantity;

/// Quantities by resource, as text.
pub type ResourceList = BTreeMap<String, Quantity>;
