//! Workloads, with the fields that Kerf uses: their number of pods and their pod templates.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::meta::{nullable, slim};
use super::pod::template::PodTemplateSpec;
use super::selector::LabelSelector;
use super::volume::PersistentVolumeClaim;

/// Deployment, which owns ReplicaSets, which own its pods.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::apps::v1::Deployment", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct Deployment {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Specification of the Deployment.
    pub spec: ReplicatedSpec,
}

/// ReplicaSet.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::apps::v1::ReplicaSet", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSet {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Specification of the ReplicaSet.
    pub spec: ReplicatedSpec,
}

/// Specification of a Deployment or a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicatedSpec {
    /// Number of pods; absent means 1. [`ReplicatedSpec::replicas`] applies the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Selector of its pods.
    pub selector: LabelSelector,
    /// Template of its pods.
    pub template: PodTemplateSpec,
}

impl ReplicatedSpec {
    /// Returns the desired number of pods.
    #[must_use]
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }
}

/// StatefulSet.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::apps::v1::StatefulSet", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSet {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Specification of the StatefulSet.
    pub spec: StatefulSetSpec,
}

/// Specification of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetSpec {
    /// Number of pods; absent means 1. [`StatefulSetSpec::replicas`] applies the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Selector of its pods.
    pub selector: LabelSelector,
    /// Template of its pods.
    pub template: PodTemplateSpec,
    /// Claims of every pod, named `<template>-<pod>`. Each claim replaces a volume of the pod template with the same name.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub volume_claim_templates: Vec<PersistentVolumeClaim>,
    /// Numbering of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinals: Option<StatefulSetOrdinals>,
}

/// Numbering of a StatefulSet's pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetOrdinals {
    /// Number of the first pod.
    pub start: i32,
}

impl StatefulSetSpec {
    /// Returns the desired number of pods.
    #[must_use]
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }

    /// Returns the number of the first pod. The default is 0, as in `NAME-0`.
    #[must_use]
    pub fn first_ordinal(&self) -> i32 {
        self.ordinals.as_ref().map_or(0, |ordinals| ordinals.start)
    }
}

/// DaemonSet.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::apps::v1::DaemonSet", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSet {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Specification of the DaemonSet.
    pub spec: DaemonSetSpec,
    /// Observed state of the DaemonSet.
    pub status: DaemonSetStatus,
}

/// Specification of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetSpec {
    /// Selector of its pods.
    pub selector: LabelSelector,
    /// Template of its pods.
    pub template: PodTemplateSpec,
}

/// Observed state of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    /// Number of nodes that should run one of its pods.
    pub desired_number_scheduled: i32,
    /// Number of nodes that run one of its pods, ready.
    pub number_ready: i32,
}

/// Job.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::batch::v1::Job", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct Job {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Specification of the Job.
    pub spec: JobSpec,
    /// Observed state of the Job.
    pub status: JobStatus,
}

/// Specification of a Job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    /// Maximum number of concurrent pods; absent means 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i32>,
    /// Number of pods that must succeed. Absent: the first success completes the Job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<i32>,
    /// True if the Job creates no pods for now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// Selector of its pods, set by the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Template of its pods.
    pub template: PodTemplateSpec,
}

/// Observed state of a Job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// Number of pods that have not ended.
    pub active: i32,
    /// Number of pods that have succeeded.
    pub succeeded: i32,
    /// Conditions of the Job.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<JobCondition>,
}

/// Condition of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobCondition {
    /// Type of the condition. `Complete` and `Failed` mean that the Job has ended.
    #[serde(rename = "type")]
    pub type_: String,
    /// Status: `True`, `False` or `Unknown`.
    pub status: String,
}

impl Job {
    /// Returns the desired number of pods now. A suspended or ended Job has none. Otherwise the number is limited by the
    /// parallelism and by the completions that are still needed.
    #[must_use]
    pub fn desired_pods(&self) -> i32 {
        let ended = |c: &JobCondition| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True";
        if self.spec.suspend || self.status.conditions.iter().any(ended) {
            return 0;
        }
        let parallelism = self.spec.parallelism.unwrap_or(1);
        let succeeded = self.status.succeeded;
        let needed = match self.spec.completions {
            Some(completions) => completions.saturating_sub(succeeded),
            // The first success completes such a Job, but its other pods may run to their own end.
            None if succeeded > 0 => self.status.active,
            None => parallelism,
        };
        parallelism.min(needed).max(0)
    }
}
