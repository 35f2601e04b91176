//! The objects that a plan looks at, typed.

use api::objects::{
    CSINode, DaemonSet, Deployment, Job, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, PodTemplate, PriorityClass, ReplicaSet, StatefulSet, StorageClass,
};
use api::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, validate};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Raw;
use super::error::InputError;
use super::kinds::Kind;

/// Objects by kind, each list in the order of namespaces and names. Everything has a name, and a namespace where its kind
/// has one.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "each list holds the kind of its element type")]
pub struct Objects {
    pub classes: Vec<EC2NodeClass>,
    pub pools: Vec<NodePool>,
    pub overlays: Vec<NodeOverlay>,
    pub claims: Vec<NodeClaim>,
    pub buffers: Vec<CapacityBuffer>,
    pub nodes: Vec<Node>,
    pub pods: Vec<Pod>,
    pub pod_templates: Vec<PodTemplate>,
    pub deployments: Vec<Deployment>,
    pub replica_sets: Vec<ReplicaSet>,
    pub stateful_sets: Vec<StatefulSet>,
    pub daemon_sets: Vec<DaemonSet>,
    pub jobs: Vec<Job>,
    pub budgets: Vec<PodDisruptionBudget>,
    pub volume_claims: Vec<PersistentVolumeClaim>,
    pub volumes: Vec<PersistentVolume>,
    pub storage_classes: Vec<StorageClass>,
    pub csi_nodes: Vec<CSINode>,
    pub namespaces: Vec<Namespace>,
    pub priority_classes: Vec<PriorityClass>,
}

impl Objects {
    /// Reads one object into the list of its kind.
    pub(super) fn add(&mut self, mut raw: Raw) -> Result<(), InputError> {
        if raw.kind.is_namespaced() {
            raw.value["metadata"]["namespace"] = Value::from(raw.namespace.clone());
        }
        match raw.kind {
            Kind::EC2NodeClass => self.classes.push(typed(&raw)?),
            Kind::NodePool => self.pools.push(valid(&raw, typed(&raw)?, validate::node_pool)?),
            Kind::NodeOverlay => self.overlays.push(valid(&raw, typed(&raw)?, validate::node_overlay)?),
            Kind::NodeClaim => self.claims.push(typed(&raw)?),
            Kind::CapacityBuffer => {
                let buffer: CapacityBuffer = typed(&raw)?;
                self.buffers.push(valid(&raw, buffer, |buffer| validate::capacity_buffer(&buffer.spec))?);
            }
            Kind::Node => self.nodes.push(typed(&raw)?),
            Kind::Pod => self.pods.push(typed(&raw)?),
            Kind::PodTemplate => self.pod_templates.push(typed(&raw)?),
            Kind::Deployment => self.deployments.push(typed(&raw)?),
            Kind::ReplicaSet => self.replica_sets.push(typed(&raw)?),
            Kind::StatefulSet => self.stateful_sets.push(typed(&raw)?),
            Kind::DaemonSet => self.daemon_sets.push(typed(&raw)?),
            Kind::Job => self.jobs.push(typed(&raw)?),
            Kind::PodDisruptionBudget => self.budgets.push(typed(&raw)?),
            Kind::PersistentVolumeClaim => self.volume_claims.push(typed(&raw)?),
            Kind::PersistentVolume => self.volumes.push(typed(&raw)?),
            Kind::StorageClass => self.storage_classes.push(typed(&raw)?),
            Kind::CSINode => self.csi_nodes.push(typed(&raw)?),
            Kind::Namespace => self.namespaces.push(typed(&raw)?),
            Kind::PriorityClass => self.priority_classes.push(typed(&raw)?),
        }
        Ok(())
    }
}

fn typed<T: DeserializeOwned>(raw: &Raw) -> Result<T, InputError> {
    serde_path_to_error::deserialize(&raw.value).map_err(|error| {
        let path = error.path().to_string();
        let problem = error.inner().to_string();
        InputError::field(raw, &path, &problem, cure(raw, &path, &problem))
    })
}

/// What helps against the commonest mistake, else where to read what belongs there.
fn cure(raw: &Raw, path: &str, problem: &str) -> String {
    if problem.contains("expected a string") && !problem.contains("sequence") && !problem.contains("map") {
        return "write the value in quotes".to_owned();
    }
    let plain: String = path.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect();
    format!("see `kubectl explain {}.{plain}`", raw.kind.to_string().to_lowercase())
}

/// The object, unless something is wrong with it that its controller would put into a condition.
fn valid<T>(raw: &Raw, object: T, validate: impl Fn(&T) -> Vec<String>) -> Result<T, InputError> {
    let faults = validate(&object);
    if faults.is_empty() {
        return Ok(object);
    }
    Err(InputError::field(raw, "spec", &faults.join("; "), "correct it, no controller would use the object"))
}
