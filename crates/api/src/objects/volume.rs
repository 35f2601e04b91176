//! Volumes, as far as Kerf reads them: what is attached to a node, and which volume a pod's claim is bound to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::meta::slim;

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
    /// What it is bound to.
    pub spec: PersistentVolumeClaimSpec,
}

/// What a claim is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimSpec {
    /// Name of the PersistentVolume; empty while it is not bound.
    pub volume_name: String,
}
