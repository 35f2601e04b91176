//! PersistentVolumeClaims and VolumeAttachments, with the fields that Kerf uses: the volume of a claim, and the volumes that
//! are attached to a node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::meta::{nullable, slim};
use crate::annotation;

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
