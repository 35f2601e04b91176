//! Claims to volumes and attachments, as far as Kerf reads them: which volume a pod's claim is bound to, and what is
//! attached to a node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::meta::{nullable, slim};
use crate::annotation;

/// A volume that is attached to a node, or about to be.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::storage::v1::VolumeAttachment", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachment {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What is attached where.
    pub spec: VolumeAttachmentSpec,
}

/// What is attached where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentSpec {
    /// The node's name.
    pub node_name: String,
    /// The volume.
    pub source: VolumeAttachmentSource,
}

/// The volume of an attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentSource {
    /// Name of the PersistentVolume; empty for a volume that is written into the pod.
    pub persistent_volume_name: String,
}

/// A claim to a volume.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::PersistentVolumeClaim", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaim {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What it asks for and what it is bound to.
    pub spec: PersistentVolumeClaimSpec,
    /// What has become of it.
    pub status: PersistentVolumeClaimStatus,
}

/// What a claim asks for and what it is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimSpec {
    /// Name of the PersistentVolume; empty while nobody has chosen one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub volume_name: String,
    /// The class that makes the volume. Absent: the default class; empty: no class, only volumes that exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// How the volume may be mounted; `ReadWriteOncePod` allows one pod in the whole cluster.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<String>,
}

/// What has become of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimStatus {
    /// `Pending`, `Bound` or `Lost`; empty in an object that no API server has seen.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

impl PersistentVolumeClaim {
    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Name of the class: the old annotation's, which the API server puts first, or the field's. `None` stands for the
    /// default class, an empty name for none.
    #[must_use]
    pub fn storage_class(&self) -> Option<&str> {
        self.annotation(annotation::BETA_STORAGE_CLASS).or(self.spec.storage_class_name.as_deref())
    }

    /// Whether the volume has been lost for good.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.status.phase == "Lost"
    }

    /// Whether the binding to `spec.volumeName` is complete; before, a name there is only a wish.
    #[must_use]
    pub fn is_bind_completed(&self) -> bool {
        self.annotation(annotation::BIND_COMPLETED).is_some()
    }

    /// Whether someone has asked for the claim's end.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}
