//! Volumes and storage classes, with the fields that Kerf uses: nodes that can reach a volume, and volumes that a node can
//! attach.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::affinity::NodeSelector;
use super::meta::{nullable, slim};
use crate::annotation;

/// CSI driver of EBS volumes.
pub const EBS_DRIVER: &str = "ebs.csi.aws.com";
/// Provisioner of EBS volumes before CSI drivers. Every cluster translates it to [`EBS_DRIVER`].
pub const IN_TREE_EBS: &str = "kubernetes.io/aws-ebs";
/// Provisioner of classes whose volumes are created manually, such as local disks.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// PersistentVolume.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::PersistentVolume", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolume {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Specification of the volume.
    pub spec: PersistentVolumeSpec,
    /// Observed state of the volume.
    pub status: PersistentVolumeStatus,
}

/// Specification of a volume: its source and the nodes that can reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeSpec {
    /// Nodes that can reach the volume. Absent: all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<VolumeNodeAffinity>,
    /// Source of a volume that a CSI driver attaches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi: Option<CsiSource>,
    /// Source of an EBS volume in the form that preceded CSI drivers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws_elastic_block_store: Option<AwsElasticBlockStore>,
    /// Source of a disk of one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<OtherSource>,
    /// Source of a directory of one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_path: Option<OtherSource>,
    /// Claim that is bound to the volume; absent while there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<ClaimRef>,
    /// Name of the StorageClass; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub storage_class_name: String,
}

/// Nodes that can reach a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeNodeAffinity {
    /// Alternative terms, of which one must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<NodeSelector>,
}

/// Volume that a CSI driver attaches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiSource {
    /// Name of the driver.
    pub driver: String,
    /// The driver's name of the volume. PersistentVolumes with the same handle share one attachment.
    pub volume_handle: String,
}

/// EBS volume in the form that preceded CSI drivers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AwsElasticBlockStore {
    /// Volume id: `vol-...`, or `aws://ZONE/vol-...`.
    #[serde(rename = "volumeID")]
    pub volume_id: String,
}

/// Source whose details Kerf does not use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OtherSource {}

/// Reference to the claim that is bound to a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimRef {
    /// Namespace of the claim.
    pub namespace: String,
    /// Name of the claim.
    pub name: String,
    /// UID of the claim. Empty for a volume that is reserved for a future claim.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// Observed state of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeStatus {
    /// Phase: `Pending`, `Available`, `Bound`, `Released` or `Failed`. Empty in an object that did not come from an API server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

impl PersistentVolume {
    /// Returns the name of the volume, empty only in objects that did not come from an API server.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the name of the driver that attaches the volume; `None` for a volume without attachment, such as a local disk or
    /// NFS.
    #[must_use]
    pub fn driver(&self) -> Option<&str> {
        let translated = self.spec.aws_elastic_block_store.as_ref().map(|_| EBS_DRIVER);
        self.spec.csi.as_ref().map(|csi| csi.driver.as_str()).or(translated)
    }

    /// Returns the driver's name of the volume, equal for PersistentVolumes that share one attachment.
    #[must_use]
    pub fn handle(&self) -> Option<&str> {
        let in_tree = self.spec.aws_elastic_block_store.as_ref().map(AwsElasticBlockStore::handle);
        self.spec.csi.as_ref().map(|csi| csi.volume_handle.as_str()).or(in_tree)
    }

    /// Reports whether the volume is on one node. The host name in its affinity then has no meaning for a new node.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.spec.local.is_some() || self.spec.host_path.is_some()
    }

    /// Reports whether the deletion of the volume was requested.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

impl AwsElasticBlockStore {
    /// Returns `vol-...`, without the zone.
    #[must_use]
    pub fn handle(&self) -> &str {
        self.volume_id.rsplit('/').next().unwrap_or_default()
    }
}

/// StorageClass.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::storage::v1::StorageClass", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Provisioner of the volumes.
    pub provisioner: String,
    /// Binding mode: `Immediate` (also if empty) or `WaitForFirstConsumer`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_binding_mode: String,
    /// Alternative topologies in which volumes may be created. Empty: anywhere.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

/// Requirements on the topology of a volume that must all match.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySelectorTerm {
    /// Requirements on node labels.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_label_expressions: Vec<TopologySelectorLabel>,
}

/// Requirement on one label in the topology of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySelectorLabel {
    /// Label key.
    pub key: String,
    /// Allowed values.
    #[serde(deserialize_with = "nullable")]
    pub values: Vec<String>,
}

impl StorageClass {
    /// Returns the name of the class, empty only in objects that did not come from an API server.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Reports whether a volume is created only after its first pod has a node.
    #[must_use]
    pub fn waits_for_consumer(&self) -> bool {
        self.volume_binding_mode == "WaitForFirstConsumer"
    }

    /// Reports whether volumes of this class are provisioned on request. Otherwise a claim waits for an existing volume.
    #[must_use]
    pub fn provisions(&self) -> bool {
        !self.provisioner.is_empty() && self.provisioner != NO_PROVISIONER
    }

    /// Reports whether this class is the default of claims without a class. Of several default classes the newest counts, then
    /// the first by name.
    #[must_use]
    pub fn is_default(&self) -> bool {
        let says = |key: &str| self.metadata.annotations.as_ref()?.get(key);
        [annotation::DEFAULT_STORAGE_CLASS, annotation::BETA_DEFAULT_STORAGE_CLASS]
            .iter()
            .any(|key| says(key).is_some_and(|value| value == annotation::TRUE))
    }

    /// Returns the name of the driver that attaches volumes of the class. EBS classes that preceded CSI drivers are translated.
    #[must_use]
    pub fn driver(&self) -> &str {
        if self.provisioner == IN_TREE_EBS { EBS_DRIVER } else { &self.provisioner }
    }
}

/// CSI drivers of one node.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::storage::v1::CSINode", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct CSINode {
    /// Metadata without managed fields. The name is that of the node.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Specification with the drivers.
    pub spec: CSINodeSpec,
}

/// Drivers of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CSINodeSpec {
    /// One entry for each driver.
    #[serde(deserialize_with = "nullable")]
    pub drivers: Vec<CSINodeDriver>,
}

/// Driver of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CSINodeDriver {
    /// Name of the driver.
    pub name: String,
    /// The driver's name of the node, for example the instance id.
    #[serde(rename = "nodeID", skip_serializing_if = "String::is_empty")]
    pub node_id: String,
    /// Number of volumes that the driver can attach. Absent: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<VolumeNodeResources>,
}

/// Number of volumes that a driver can attach to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeNodeResources {
    /// Number of volumes. Absent: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
}

impl CSINode {
    /// Returns the number of volumes that the driver can attach to this node. `None` means unlimited, also if the driver is
    /// absent.
    #[must_use]
    pub fn limit(&self, driver: &str) -> Option<i32> {
        self.spec.drivers.iter().find(|d| d.name == driver)?.allocatable.as_ref()?.count
    }
}
