//! Volumes and what makes them, as far as Kerf reads them: where a volume can be reached, and how many a node takes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::affinity::NodeSelector;
use super::meta::{nullable, slim};
use crate::annotation;

/// Driver of EBS volumes.
pub const EBS_DRIVER: &str = "ebs.csi.aws.com";
/// Provisioner of EBS volumes from the time before drivers; every cluster translates it to [`EBS_DRIVER`].
pub const IN_TREE_EBS: &str = "kubernetes.io/aws-ebs";
/// Provisioner of classes whose volumes people make by hand, such as local disks.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A volume.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::PersistentVolume", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolume {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What it is and where it can be reached.
    pub spec: PersistentVolumeSpec,
    /// What has become of it.
    pub status: PersistentVolumeStatus,
}

/// What a volume is and where it can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeSpec {
    /// Nodes that can reach the volume; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<VolumeNodeAffinity>,
    /// Set where a driver attaches the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi: Option<CsiSource>,
    /// Set for an EBS volume from the time before drivers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws_elastic_block_store: Option<AwsElasticBlockStore>,
    /// Set for a disk of one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<OtherSource>,
    /// Set for a folder of one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_path: Option<OtherSource>,
    /// The claim that has the volume; absent while none has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<ClaimRef>,
    /// The class that made the volume; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub storage_class_name: String,
}

/// Nodes that can reach a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeNodeAffinity {
    /// Alternatives, of which one must hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<NodeSelector>,
}

/// A volume that a driver attaches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiSource {
    /// Name of the driver.
    pub driver: String,
    /// The driver's name of the volume: two PersistentVolumes with the same are one attachment.
    pub volume_handle: String,
}

/// An EBS volume from the time before drivers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AwsElasticBlockStore {
    /// `vol-...`, or `aws://ZONE/vol-...`.
    #[serde(rename = "volumeID")]
    pub volume_id: String,
}

/// A source of which only the presence matters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OtherSource {}

/// The claim that has a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimRef {
    /// Namespace of the claim.
    pub namespace: String,
    /// Name of the claim.
    pub name: String,
    /// UID of the claim; empty for a volume that was made for a claim to come.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// What has become of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeStatus {
    /// `Pending`, `Available`, `Bound`, `Released` or `Failed`; empty in an object that no API server has seen.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

impl PersistentVolume {
    /// The volume's name, empty only in objects that did not come from an API server.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Name of the driver that attaches the volume; `None` for one that nobody attaches, such as a local disk or NFS.
    #[must_use]
    pub fn driver(&self) -> Option<&str> {
        let translated = self.spec.aws_elastic_block_store.as_ref().map(|_| EBS_DRIVER);
        self.spec.csi.as_ref().map(|csi| csi.driver.as_str()).or(translated)
    }

    /// The driver's name of the volume, equal for PersistentVolumes that are one attachment.
    #[must_use]
    pub fn handle(&self) -> Option<&str> {
        let in_tree = self.spec.aws_elastic_block_store.as_ref().map(AwsElasticBlockStore::handle);
        self.spec.csi.as_ref().map(|csi| csi.volume_handle.as_str()).or(in_tree)
    }

    /// Whether the volume lives on one machine, so that a host name in its affinity says nothing of a new machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.spec.local.is_some() || self.spec.host_path.is_some()
    }

    /// Whether someone has asked for the volume's end.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

impl AwsElasticBlockStore {
    /// `vol-...`, whatever the zone in front of it.
    #[must_use]
    pub fn handle(&self) -> &str {
        self.volume_id.rsplit('/').next().unwrap_or_default()
    }
}

/// How volumes are made.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::storage::v1::StorageClass", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Who makes the volumes.
    pub provisioner: String,
    /// `Immediate`, which is also what empty means, or `WaitForFirstConsumer`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_binding_mode: String,
    /// Alternatives for where volumes may be made; empty for anywhere.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

/// Demands on the place of a volume that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySelectorTerm {
    /// Demands on labels of nodes.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_label_expressions: Vec<TopologySelectorLabel>,
}

/// One label of the place of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySelectorLabel {
    /// Label key.
    pub key: String,
    /// Values, of which one must be there.
    #[serde(deserialize_with = "nullable")]
    pub values: Vec<String>,
}

impl StorageClass {
    /// The class's name, empty only in objects that did not come from an API server.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Whether a volume is made only once its first pod has a node.
    #[must_use]
    pub fn waits_for_consumer(&self) -> bool {
        self.volume_binding_mode == "WaitForFirstConsumer"
    }

    /// Whether volumes of this class are made when they are asked for; otherwise a claim waits for one that exists.
    #[must_use]
    pub fn provisions(&self) -> bool {
        !self.provisioner.is_empty() && self.provisioner != NO_PROVISIONER
    }

    /// Whether claims without a class get this one; of several the youngest counts, then the first by name.
    #[must_use]
    pub fn is_default(&self) -> bool {
        let says = |key: &str| self.metadata.annotations.as_ref()?.get(key);
        [annotation::DEFAULT_STORAGE_CLASS, annotation::BETA_DEFAULT_STORAGE_CLASS]
            .iter()
            .any(|key| says(key).is_some_and(|value| value == annotation::TRUE))
    }

    /// Name of the driver that attaches the class's volumes; old EBS classes are translated.
    #[must_use]
    pub fn driver(&self) -> &str {
        if self.provisioner == IN_TREE_EBS { EBS_DRIVER } else { &self.provisioner }
    }
}

/// What the drivers on one node can do.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::storage::v1::CSINode", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct CSINode {
    /// Metadata without managed fields; the name is the node's.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// The drivers.
    pub spec: CSINodeSpec,
}

/// The drivers of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CSINodeSpec {
    /// One entry a driver.
    #[serde(deserialize_with = "nullable")]
    pub drivers: Vec<CSINodeDriver>,
}

/// One driver on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CSINodeDriver {
    /// Name of the driver.
    pub name: String,
    /// The driver's name of the node, for example the instance's id.
    #[serde(rename = "nodeID", skip_serializing_if = "String::is_empty")]
    pub node_id: String,
    /// How many volumes the driver attaches; absent for any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<VolumeNodeResources>,
}

/// How many volumes a driver attaches to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeNodeResources {
    /// Number of volumes; absent for any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
}

impl CSINode {
    /// How many volumes that driver attaches to this node; `None` for any number, also when it is not there.
    #[must_use]
    pub fn limit(&self, driver: &str) -> Option<i32> {
        self.spec.drivers.iter().find(|d| d.name == driver)?.allocatable.as_ref()?.count
    }
}
