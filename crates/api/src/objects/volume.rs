//! PersistentVolumes and PersistentVolumeClaims, with the fields that Kerf uses: the volume of a claim, and the nodes that can
//! reach a volume.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::affinity::NodeSelector;
use super::meta::{nullable, slim};
use crate::names::annotation;

/// CSI driver of EBS volumes.
pub const EBS_DRIVER: &str = "ebs.csi.aws.com";

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
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

/// PersistentVolumeClaim.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::PersistentVolumeClaim", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaim {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Specification of the claim.
    pub spec: PersistentVolumeClaimSpec,
    /// Observed state of the claim.
    pub status: PersistentVolumeClaimStatus,
}

/// Specification of a claim, with the volume that it is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimSpec {
    /// Name of the PersistentVolume; empty while none is chosen.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_name: String,
    /// Name of the StorageClass. Absent: the default class. Empty: no class, only existing volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Access modes. `ReadWriteOncePod` allows one pod in the whole cluster.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<String>,
}

/// Observed state of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimStatus {
    /// Phase: `Pending`, `Bound` or `Lost`. Empty in an object that did not come from an API server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

impl PersistentVolumeClaim {
    /// Returns the value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns the name of the StorageClass. The beta annotation takes precedence over the field, as in the API server. `None`
    /// means the default class, an empty name means no class.
    #[must_use]
    pub fn storage_class(&self) -> Option<&str> {
        self.annotation(annotation::BETA_STORAGE_CLASS).or(self.spec.storage_class_name.as_deref())
    }

    /// Reports whether the volume of the claim is lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.status.phase == "Lost"
    }

    /// Reports whether the binding to `spec.volumeName` is complete. Before that, the name is only a request.
    #[must_use]
    pub fn is_bind_completed(&self) -> bool {
        self.annotation(annotation::BIND_COMPLETED).is_some()
    }

    /// Reports whether the deletion of the claim was requested.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}
