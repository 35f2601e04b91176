//! StorageClasses, CSINodes and VolumeAttachments, with the fields that Kerf uses: the volumes of a class, and the volumes that a
//! node has attached and can attach.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::meta::{nullable, slim};
use super::volume::EBS_DRIVER;
use crate::names::annotation;

/// Provisioner of EBS volumes before CSI drivers. Every cluster translates it to [`EBS_DRIVER`].
pub const IN_TREE_EBS: &str = "kubernetes.io/aws-ebs";
/// Provisioner of classes whose volumes are created manually, such as local disks.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

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
        let annotation_value = |key: &str| self.metadata.annotations.as_ref()?.get(key);
        [annotation::DEFAULT_STORAGE_CLASS, annotation::BETA_DEFAULT_STORAGE_CLASS]
            .iter()
            .any(|key| annotation_value(key).is_some_and(|value| value == annotation::TRUE))
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

/// VolumeAttachment: a volume that is attached to a node, or is being attached.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::storage::v1::VolumeAttachment", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachment {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Volume and node.
    pub spec: VolumeAttachmentSpec,
}

/// Volume and node of an attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentSpec {
    /// Name of the node.
    pub node_name: String,
    /// Attached volume.
    pub source: VolumeAttachmentSource,
}

/// Volume of an attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentSource {
    /// Name of the PersistentVolume. Empty for a volume in the specification of a pod.
    pub persistent_volume_name: String,
}
