//! Objects that a plan depends on, with their types.

use std::sync::Arc;

use api::objects::{
    CSINode, DaemonSet, Deployment, Job, LimitRange, Namespace, Node, NodeReport, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, PodTemplate, PriorityClass, ReplicaSet, RuntimeClass, StatefulSet,
    StorageClass,
};
use api::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, validate};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::InputError;
use super::kinds::Kind;
use super::raw::Raw;

/// Objects by kind, each list sorted by namespace and name. Every object has a name, and a namespace if its kind is namespaced.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "each list holds the kind of its element type")]
pub struct Objects {
    pub classes: Vec<Arc<EC2NodeClass>>,
    pub pools: Vec<Arc<NodePool>>,
    pub overlays: Vec<Arc<NodeOverlay>>,
    pub claims: Vec<Arc<NodeClaim>>,
    pub buffers: Vec<Arc<CapacityBuffer>>,
    pub nodes: Vec<Arc<Node>>,
    pub usages: Vec<Arc<NodeReport>>,
    pub pods: Vec<Arc<Pod>>,
    pub pod_templates: Vec<Arc<PodTemplate>>,
    pub deployments: Vec<Arc<Deployment>>,
    pub replica_sets: Vec<Arc<ReplicaSet>>,
    pub stateful_sets: Vec<Arc<StatefulSet>>,
    pub daemon_sets: Vec<Arc<DaemonSet>>,
    pub jobs: Vec<Arc<Job>>,
    pub budgets: Vec<Arc<PodDisruptionBudget>>,
    pub volume_claims: Vec<Arc<PersistentVolumeClaim>>,
    pub volumes: Vec<Arc<PersistentVolume>>,
    pub storage_classes: Vec<Arc<StorageClass>>,
    pub csi_nodes: Vec<Arc<CSINode>>,
    pub namespaces: Vec<Arc<Namespace>>,
    pub limit_ranges: Vec<Arc<LimitRange>>,
    pub runtime_classes: Vec<Arc<RuntimeClass>>,
    pub priority_classes: Vec<Arc<PriorityClass>>,
}

impl Objects {
    /// Parses one object and adds it to the list of its kind.
    pub(super) fn add(&mut self, mut raw: Raw) -> Result<(), Vec<InputError>> {
        if raw.kind.is_namespaced() {
            raw.value["metadata"]["namespace"] = Value::from(raw.namespace.clone());
        }
        match raw.kind {
            Kind::EC2NodeClass => self.classes.push(Arc::new(typed(&raw)?)),
            Kind::NodePool => self.pools.push(Arc::new(valid(&raw, typed(&raw)?, validate::node_pool)?)),
            Kind::NodeOverlay => self.overlays.push(Arc::new(valid(&raw, typed(&raw)?, validate::node_overlay)?)),
            Kind::NodeClaim => self.claims.push(Arc::new(typed(&raw)?)),
            Kind::CapacityBuffer => {
                let buffer: CapacityBuffer = typed(&raw)?;
                self.buffers.push(Arc::new(valid(&raw, buffer, |buffer| validate::capacity_buffer(&buffer.spec))?));
            }
            Kind::Node => self.nodes.push(Arc::new(typed(&raw)?)),
            Kind::NodeUsage => self.usages.push(Arc::new(typed(&raw)?)),
            Kind::Pod => self.pods.push(Arc::new(typed(&raw)?)),
            Kind::PodTemplate => self.pod_templates.push(Arc::new(typed(&raw)?)),
            Kind::Deployment => self.deployments.push(Arc::new(typed(&raw)?)),
            Kind::ReplicaSet => self.replica_sets.push(Arc::new(typed(&raw)?)),
            Kind::StatefulSet => self.stateful_sets.push(Arc::new(typed(&raw)?)),
            Kind::DaemonSet => self.daemon_sets.push(Arc::new(typed(&raw)?)),
            Kind::Job => self.jobs.push(Arc::new(typed(&raw)?)),
            Kind::PodDisruptionBudget => self.budgets.push(Arc::new(typed(&raw)?)),
            Kind::PersistentVolumeClaim => self.volume_claims.push(Arc::new(typed(&raw)?)),
            Kind::PersistentVolume => self.volumes.push(Arc::new(typed(&raw)?)),
            Kind::StorageClass => self.storage_classes.push(Arc::new(typed(&raw)?)),
            Kind::CSINode => self.csi_nodes.push(Arc::new(typed(&raw)?)),
            Kind::Namespace => self.namespaces.push(Arc::new(typed(&raw)?)),
            Kind::LimitRange => self.limit_ranges.push(Arc::new(typed(&raw)?)),
            Kind::RuntimeClass => self.runtime_classes.push(Arc::new(typed(&raw)?)),
            Kind::PriorityClass => self.priority_classes.push(Arc::new(typed(&raw)?)),
        }
        Ok(())
    }
}

fn typed<T: DeserializeOwned>(raw: &Raw) -> Result<T, Vec<InputError>> {
    serde_path_to_error::deserialize(&raw.value).map_err(|error| {
        let path = error.path().to_string();
        let problem = error.inner().to_string();
        vec![raw.fault(&path, &problem, cure(raw, &path, &problem))]
    })
}

/// Returns the fix for the most common mistake, else the `kubectl explain` command for the field.
fn cure(raw: &Raw, path: &str, problem: &str) -> String {
    if problem.contains("expected a string") && !problem.contains("sequence") && !problem.contains("map") {
        return "write the value in quotes".to_owned();
    }
    let plain: String = path.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect();
    format!("see `kubectl explain {}.{plain}`", raw.kind.to_string().to_lowercase())
}

/// Returns the object if it is valid, else the errors that its controller would write into a condition.
fn valid<T>(raw: &Raw, object: T, validate: impl Fn(&T) -> Vec<validate::Fault>) -> Result<T, Vec<InputError>> {
    let cure = "correct it";
    let faults = validate(&object);
    if faults.is_empty() {
        return Ok(object);
    }
    Err(faults.iter().map(|fault| raw.fault(&fault.path, &fault.problem, cure)).collect())
}
