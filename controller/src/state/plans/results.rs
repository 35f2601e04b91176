//! Results of the last plan for NodeOverlays, CapacityBuffers, ProvisioningRequests and SpendPolicies, until their status has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use planner::Plan;
use snapshot::{
    BufferState, OverlayError, Provisioning, RequestCapacity, RequestState, SnapshotResult, SpendState, provisioning,
    request_capacity,
};

use crate::reconcile::work::WorkItem;
use crate::state::index::{Index, Indexed, Table};

/// Result for one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtGeneration<T> {
    /// Generation of the evaluated object. Later generations have no result yet.
    pub generation: i64,
    /// Result of the evaluation.
    pub verdict: T,
}

/// Result for a CapacityBuffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferResult {
    /// Resolution of the CapacityBuffer.
    pub state: BufferState,
    /// State of its capacity.
    pub provisioning: Provisioning,
}

/// Result for a ProvisioningRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestResult {
    /// Resolution of the ProvisioningRequest.
    pub state: RequestState,
    /// State of its capacity.
    pub capacity: RequestCapacity,
}

/// Result for a NodeOverlay: the error that disables the overlay, if any.
pub type OverlayResultAtGeneration = AtGeneration<Option<OverlayError>>;
/// Result for a CapacityBuffer, with its generation.
pub type BufferResultAtGeneration = AtGeneration<BufferResult>;
/// Result for a ProvisioningRequest, with its generation.
pub type RequestResultAtGeneration = AtGeneration<RequestResult>;
/// State of a SpendPolicy, with its generation.
pub type SpendStateAtGeneration = AtGeneration<SpendState>;

/// Results of one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanResults {
    overlays: BTreeMap<String, OverlayResultAtGeneration>,
    buffers: BTreeMap<String, BufferResultAtGeneration>,
    requests: BTreeMap<String, RequestResultAtGeneration>,
    spend_policies: BTreeMap<String, SpendStateAtGeneration>,
}

/// Generations that a pass is about to evaluate, by the keys of the objects.
#[derive(Clone, Debug, Default)]
pub struct Generations {
    overlays: BTreeMap<String, i64>,
    buffers: BTreeMap<String, i64>,
    requests: BTreeMap<String, i64>,
    spend_policies: BTreeMap<String, i64>,
}

impl Generations {
    /// Reads the generations of the index, under the same lock as the snapshot.
    #[must_use]
    pub fn from_index(index: &Index) -> Self {
        Self {
            overlays: generations(&index.overlays),
            buffers: generations(&index.buffers),
            requests: generations(&index.requests),
            spend_policies: generations(&index.spend_policies),
        }
    }
}

fn generations<K: Indexed>(table: &Table<K>) -> BTreeMap<String, i64> {
    let generation = |object: &Arc<K>| object.meta().generation.unwrap_or_default();
    table.keys().zip(table.values()).map(|(key, object)| (key.clone(), generation(object))).collect()
}

impl PlanResults {
    /// Returns the results of a plan of this snapshot.
    #[must_use]
    pub fn new(generations: &Generations, built: &SnapshotResult, plan: &Plan) -> Self {
        let overlay = |found: &snapshot::OverlayVerdict| {
            let generation = *generations.overlays.get(&found.overlay)?;
            Some((found.overlay.clone(), AtGeneration { generation, verdict: found.error.clone() }))
        };
        let buffer = |(state, (_, provisioning)): (&BufferState, (String, Provisioning))| {
            let generation = *generations.buffers.get(&state.buffer)?;
            let verdict = BufferResult { state: state.clone(), provisioning };
            Some((state.buffer.clone(), AtGeneration { generation, verdict }))
        };
        let request = |(state, capacity): (&RequestState, RequestCapacity)| {
            let generation = *generations.requests.get(&state.request)?;
            let verdict = RequestResult { state: state.clone(), capacity };
            Some((state.request.clone(), AtGeneration { generation, verdict }))
        };
        let spend_policy = |state: &SpendState| {
            let generation = *generations.spend_policies.get(&state.policy)?;
            Some((state.policy.clone(), AtGeneration { generation, verdict: state.clone() }))
        };
        Self {
            spend_policies: built.spending.iter().filter_map(spend_policy).collect(),
            overlays: built.overlays.iter().filter_map(overlay).collect(),
            buffers: built.buffers.iter().zip(provisioning(built, plan)).filter_map(buffer).collect(),
            requests: built.requests.iter().zip(request_capacity(built, plan)).filter_map(request).collect(),
        }
    }
}

/// Results of the last pass.
#[derive(Debug, Default)]
pub struct PlanResultStore(Mutex<PlanResults>);

impl PlanResultStore {
    /// Replaces the results, and returns the work items of objects whose result changed.
    pub fn replace(&self, found: PlanResults) -> Vec<WorkItem> {
        let mut held = self.held();
        let overlays = found.overlays.iter().filter(|(key, it)| held.overlays.get(*key) != Some(*it));
        let buffers = found.buffers.iter().filter(|(key, it)| held.buffers.get(*key) != Some(*it));
        let policies = found.spend_policies.iter().filter(|(key, it)| held.spend_policies.get(*key) != Some(*it));
        let policies = policies.map(|(key, _)| WorkItem::SpendPolicy(key.clone()));
        let requests = found.requests.iter().filter(|(key, it)| held.requests.get(*key) != Some(*it));
        let requests = requests.map(|(key, _)| WorkItem::Request(key.clone()));
        let work = overlays.map(|(key, _)| WorkItem::Overlay(key.clone()));
        let work = work.chain(buffers.map(|(key, _)| WorkItem::Buffer(key.clone())));
        let work = work.chain(requests).chain(policies).collect();
        *held = found;
        work
    }

    /// Returns the result for a NodeOverlay.
    #[must_use]
    pub fn overlay(&self, name: &str) -> Option<OverlayResultAtGeneration> {
        self.held().overlays.get(name).cloned()
    }

    /// Returns the result for a CapacityBuffer.
    #[must_use]
    pub fn buffer(&self, key: &str) -> Option<BufferResultAtGeneration> {
        self.held().buffers.get(key).cloned()
    }

    /// Returns the result for a ProvisioningRequest.
    #[must_use]
    pub fn request(&self, key: &str) -> Option<RequestResultAtGeneration> {
        self.held().requests.get(key).cloned()
    }

    /// Returns the state of a SpendPolicy.
    #[must_use]
    pub fn spend_policy(&self, name: &str) -> Option<SpendStateAtGeneration> {
        self.held().spend_policies.get(name).cloned()
    }

    fn held(&self) -> MutexGuard<'_, PlanResults> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::{AtGeneration, PlanResultStore, PlanResults};
    use crate::reconcile::work::WorkItem;

    #[test]
    fn replace_returns_work_only_when_a_result_changed() {
        let found = |generation| {
            let finding = AtGeneration { generation, verdict: None };
            PlanResults { overlays: [("a".to_owned(), finding)].into(), ..PlanResults::default() }
        };
        let plan_results = PlanResultStore::default();
        assert_eq!(plan_results.replace(found(1)), [WorkItem::Overlay("a".to_owned())]);
        assert_eq!(plan_results.replace(found(1)), []);
        assert_eq!(plan_results.replace(found(2)), [WorkItem::Overlay("a".to_owned())]);
        assert_eq!(plan_results.replace(PlanResults::default()), []);
        assert_eq!(plan_results.overlay("a"), None);
    }
}
