//! Workloads, as far as Kerf reads them: how many pods there shall be, and what they are made from.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::meta::{nullable, slim};
use super::selector::LabelSelector;
use super::template::PodTemplateSpec;
use super::volume::PersistentVolumeClaim;

/// A Deployment, whose pods belong to ReplicaSets that belong to it.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::apps::v1::Deployment", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct Deployment {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What it runs.
    pub spec: ReplicatedSpec,
}

/// A ReplicaSet.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::apps::v1::ReplicaSet", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSet {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What it runs.
    pub spec: ReplicatedSpec,
}

/// What a Deployment or a ReplicaSet runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicatedSpec {
    /// Number of pods; absent for 1. Read it with [`ReplicatedSpec::replicas`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The pods that belong to it.
    pub selector: LabelSelector,
    /// What its pods are made from.
    pub template: PodTemplateSpec,
}

impl ReplicatedSpec {
    /// Number of pods that there shall be.
    #[must_use]
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }
}

/// A StatefulSet.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::apps::v1::StatefulSet", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSet {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What it runs.
    pub spec: StatefulSetSpec,
}

/// What a StatefulSet runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetSpec {
    /// Number of pods; absent for 1. Read it with [`StatefulSetSpec::replicas`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The pods that belong to it.
    pub selector: LabelSelector,
    /// What its pods are made from.
    pub template: PodTemplateSpec,
    /// Claims that every pod gets, named `<template>-<pod>`; a volume of the pod's own of that name gives way.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub volume_claim_templates: Vec<PersistentVolumeClaim>,
    /// Where the pods' numbers begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinals: Option<StatefulSetOrdinals>,
}

/// Where the numbers of a StatefulSet's pods begin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetOrdinals {
    /// Number of the first pod.
    pub start: i32,
}

impl StatefulSetSpec {
    /// Number of pods that there shall be.
    #[must_use]
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }

    /// Number of the first pod: `NAME-0` unless the set says otherwise.
    #[must_use]
    pub fn first_ordinal(&self) -> i32 {
        self.ordinals.as_ref().map_or(0, |ordinals| ordinals.start)
    }
}

/// A Job.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::batch::v1::Job", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct Job {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What it runs.
    pub spec: JobSpec,
    /// What has become of it.
    pub status: JobStatus,
}

/// What a Job runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    /// Number of pods at a time; absent for 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i32>,
    /// Number of pods that must succeed; absent where the first success ends the Job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<i32>,
    /// Whether the Job makes no pods for now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// The pods that belong to it; set by the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// What its pods are made from.
    pub template: PodTemplateSpec,
}

/// What has become of a Job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// Pods that have not ended.
    pub active: i32,
    /// Pods that have succeeded.
    pub succeeded: i32,
    /// What is true of the Job.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<JobCondition>,
}

/// One condition of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobCondition {
    /// Type of the condition; with `Complete` or `Failed` the Job has ended.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

impl Job {
    /// Number of pods that shall be there now: none once the Job has ended or while it is suspended, else as many side
    /// by side as are allowed and still needed.
    #[must_use]
    pub fn pods_wanted(&self) -> i32 {
        let ended = |c: &JobCondition| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True";
        if self.spec.suspend || self.status.conditions.iter().any(ended) {
            return 0;
        }
        let parallelism = self.spec.parallelism.unwrap_or(1);
        let succeeded = self.status.succeeded;
        let needed = match self.spec.completions {
            Some(completions) => completions.saturating_sub(succeeded),
            // The first success ends such a Job, though its other pods may run to their own end.
            None if succeeded > 0 => self.status.active,
            None => parallelism,
        };
        parallelism.min(needed).max(0)
    }
}
