//! Results of the last plan for NodeOverlays, CapacityBuffers, ProvisioningRequests, SpendPolicies and Commitments, until their status
//! has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use planner::Plan;
use snapshot::{
    BufferState, CommitmentState, OverlayError, Provisioning, RequestCapacity, RequestState, SnapshotResult,
    SpendState, provisioning, request_capacity,
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
/// State of a Commitment, with its generation.
pub type CommitmentStateAtGeneration = AtGeneration<CommitmentState>;

/// Results for the objects of one kind, by their keys.
type Results<T> = BTreeMap<String, AtGeneration<T>>;

/// Results of one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanResults {
    overlays: Results<Option<OverlayError>>,
    buffers: Results<BufferResult>,
    requests: Results<RequestResult>,
    spend_policies: Results<SpendState>,
    commitments: Results<CommitmentState>,
}

/// Generations of the objects of one kind, by their keys.
#[derive(Clone, Debug, Default)]
struct GenerationsOfKind(BTreeMap<String, i64>);

/// Generations that a pass is about to evaluate.
#[derive(Clone, Debug, Default)]
pub struct Generations {
    overlays: GenerationsOfKind,
    buffers: GenerationsOfKind,
    requests: GenerationsOfKind,
    spend_policies: GenerationsOfKind,
    commitments: GenerationsOfKind,
}

impl Generations {
    /// Reads the generations of the index, under the same lock as the snapshot.
    #[must_use]
    pub fn from_index(index: &Index) -> Self {
        Self {
            overlays: GenerationsOfKind::new(&index.overlays),
            buffers: GenerationsOfKind::new(&index.buffers),
            requests: GenerationsOfKind::new(&index.requests),
            spend_policies: GenerationsOfKind::new(&index.spend_policies),
            commitments: GenerationsOfKind::new(&index.commitments),
        }
    }
}

impl GenerationsOfKind {
    fn new<K: Indexed>(table: &Table<K>) -> Self {
        let generation = |object: &Arc<K>| object.meta().generation.unwrap_or_default();
        Self(table.keys().zip(table.values()).map(|(key, object)| (key.clone(), generation(object))).collect())
    }

    /// Returns the results for objects that still exist, by their keys.
    fn results<T>(&self, found: impl Iterator<Item = (String, T)>) -> Results<T> {
        let result = |(key, verdict): (String, T)| {
            let generation = *self.0.get(&key)?;
            Some((key, AtGeneration { generation, verdict }))
        };
        found.filter_map(result).collect()
    }
}

impl PlanResults {
    /// Returns the results of a plan of this snapshot.
    #[must_use]
    pub fn new(generations: &Generations, built: &SnapshotResult, plan: &Plan) -> Self {
        let overlays = built.overlays.iter().map(|found| (found.overlay.clone(), found.error.clone()));
        let buffers = built.buffers.iter().zip(provisioning(built, plan)).map(|(state, (_, provisioning))| {
            (state.buffer.clone(), BufferResult { state: state.clone(), provisioning })
        });
        let requests = built
            .requests
            .iter()
            .zip(request_capacity(built, plan))
            .map(|(state, capacity)| (state.request.clone(), RequestResult { state: state.clone(), capacity }));
        let policies = built.spending.iter().map(|state| (state.policy.clone(), state.clone()));
        let commitments = built.commitments.iter().map(|state| (state.commitment.clone(), state.clone()));
        Self {
            overlays: generations.overlays.results(overlays),
            buffers: generations.buffers.results(buffers),
            requests: generations.requests.results(requests),
            spend_policies: generations.spend_policies.results(policies),
            commitments: generations.commitments.results(commitments),
        }
    }
}

/// Returns the work items of objects whose result changed.
fn changed<'r, T: PartialEq>(
    held: &'r Results<T>,
    found: &'r Results<T>,
    item: fn(String) -> WorkItem,
) -> impl Iterator<Item = WorkItem> + 'r {
    let is_new = |(key, result): &(&String, &AtGeneration<T>)| held.get(*key) != Some(*result);
    found.iter().filter(is_new).map(move |(key, _)| item(key.clone()))
}

/// Results of the last pass.
#[derive(Debug, Default)]
pub struct PlanResultStore(Mutex<PlanResults>);

impl PlanResultStore {
    /// Replaces the results, and returns the work items of objects whose result changed.
    pub fn replace(&self, found: PlanResults) -> Vec<WorkItem> {
        let mut held = self.held();
        let work = changed(&held.overlays, &found.overlays, WorkItem::Overlay)
            .chain(changed(&held.buffers, &found.buffers, WorkItem::Buffer))
            .chain(changed(&held.requests, &found.requests, WorkItem::Request))
            .chain(changed(&held.spend_policies, &found.spend_policies, WorkItem::SpendPolicy))
            .chain(changed(&held.commitments, &found.commitments, WorkItem::Commitment))
            .collect();
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

    /// Returns the state of a Commitment.
    #[must_use]
    pub fn commitment(&self, name: &str) -> Option<CommitmentStateAtGeneration> {
        self.held().commitments.get(name).cloned()
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
