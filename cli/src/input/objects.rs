//! Objects that a plan depends on, with their types.

use std::sync::Arc;

use api::{CapacityBuffer, Commitment, SpendPolicy, validate};
use serde::de::DeserializeOwned;
use serde_json::Value;
use snapshot::Objects;

use super::error::InputError;
use super::kinds::Kind;
use super::raw::Raw;

/// Parses one object and adds it to the list of its kind.
pub(super) fn add(objects: &mut Objects, mut raw: Raw) -> Result<(), Vec<InputError>> {
    if raw.kind.is_namespaced() {
        raw.value["metadata"]["namespace"] = Value::from(raw.namespace.clone());
    }
    match raw.kind {
        Kind::EC2NodeClass => objects.classes.push(Arc::new(typed(&raw)?)),
        Kind::NodePool => objects.pools.push(Arc::new(valid(&raw, typed(&raw)?, validate::node_pool)?)),
        Kind::NodeOverlay => objects.overlays.push(Arc::new(valid(&raw, typed(&raw)?, validate::node_overlay)?)),
        Kind::NodeClaim => objects.claims.push(Arc::new(typed(&raw)?)),
        Kind::CapacityBuffer => {
            let buffer: CapacityBuffer = typed(&raw)?;
            objects.buffers.push(Arc::new(valid(&raw, buffer, |buffer| validate::capacity_buffer(&buffer.spec))?));
        }
        Kind::ProvisioningRequest => objects.requests.push(Arc::new(typed(&raw)?)),
        Kind::SpendPolicy => {
            let policy: SpendPolicy = typed(&raw)?;
            let policy = valid(&raw, policy, |policy| validate::spend_policy(&policy.spec))?;
            objects.spend_policies.push(Arc::new(policy));
        }
        Kind::Commitment => {
            let commitment: Commitment = typed(&raw)?;
            let commitment = valid(&raw, commitment, |commitment| validate::commitment(&commitment.spec))?;
            objects.commitments.push(Arc::new(commitment));
        }
        Kind::Node => objects.nodes.push(Arc::new(typed(&raw)?)),
        Kind::NodeUsage => objects.usages.push(Arc::new(typed(&raw)?)),
        Kind::Pod => objects.pods.push(Arc::new(typed(&raw)?)),
        Kind::PodTemplate => objects.pod_templates.push(Arc::new(typed(&raw)?)),
        Kind::Deployment => objects.deployments.push(Arc::new(typed(&raw)?)),
        Kind::ReplicaSet => objects.replica_sets.push(Arc::new(typed(&raw)?)),
        Kind::StatefulSet => objects.stateful_sets.push(Arc::new(typed(&raw)?)),
        Kind::DaemonSet => objects.daemon_sets.push(Arc::new(typed(&raw)?)),
        Kind::Job => objects.jobs.push(Arc::new(typed(&raw)?)),
        Kind::PodDisruptionBudget => objects.budgets.push(Arc::new(typed(&raw)?)),
        Kind::PersistentVolumeClaim => objects.volume_claims.push(Arc::new(typed(&raw)?)),
        Kind::PersistentVolume => objects.volumes.push(Arc::new(typed(&raw)?)),
        Kind::StorageClass => objects.storage_classes.push(Arc::new(typed(&raw)?)),
        Kind::CSINode => objects.csi_nodes.push(Arc::new(typed(&raw)?)),
        Kind::Namespace => objects.namespaces.push(Arc::new(typed(&raw)?)),
        Kind::LimitRange => objects.limit_ranges.push(Arc::new(typed(&raw)?)),
        Kind::RuntimeClass => objects.runtime_classes.push(Arc::new(typed(&raw)?)),
        Kind::PriorityClass => objects.priority_classes.push(Arc::new(typed(&raw)?)),
    }
    Ok(())
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
