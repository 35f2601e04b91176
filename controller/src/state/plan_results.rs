//! What the last plan made of NodeOverlays and CapacityBuffers, until their statuses say it.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};
use planner::Plan;
use snapshot::{BufferState, OverlayError, Provisioning, SnapshotResult, provisioning};

use crate::reconcile::work::WorkItem;
use crate::state::index::Index;

/// A verdict on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtGeneration<T> {
    /// The object's generation that was evaluated: of a later one nothing is known yet.
    pub generation: i64,
    /// What was found.
    pub verdict: T,
}

/// What was found of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferResult {
    /// What it was resolved to.
    pub state: BufferState,
    /// Whether its room is there.
    pub provisioning: Provisioning,
}

/// What was found of an overlay: why it does not count, if it does not.
pub type OverlayResultAtGeneration = AtGeneration<Option<OverlayError>>;
/// What was found of a buffer.
pub type BufferResultAtGeneration = AtGeneration<BufferResult>;

/// What one pass found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanResults {
    overlays: BTreeMap<String, OverlayResultAtGeneration>,
    buffers: BTreeMap<String, BufferResultAtGeneration>,
}

/// The generations that a pass is about to judge, by the objects' keys.
#[derive(Clone, Debug, Default)]
pub struct Generations {
    overlays: BTreeMap<String, i64>,
    buffers: BTreeMap<String, i64>,
}

impl Generations {
    /// Those of the index. To be taken under the same lock as the snapshot.
    #[must_use]
    pub fn from_index(index: &Index) -> Self {
        let overlays = index.overlays.keys().zip(index.overlays.values());
        let buffers = index.buffers.keys().zip(index.buffers.values());
        Self {
            overlays: overlays
                .map(|(key, overlay)| (key.clone(), overlay.metadata.generation.unwrap_or_default()))
                .collect(),
            buffers: buffers
                .map(|(key, buffer)| (key.clone(), buffer.metadata.generation.unwrap_or_default()))
                .collect(),
        }
    }
}

impl PlanResults {
    /// What a plan of that snapshot says of overlays and buffers.
    #[must_use]
    pub fn new(generations: &Generations, built: &SnapshotResult, plan: &Plan) -> Self {
        let overlay = |found: &snapshot::OverlayVerdict| {
            let generation = *generations.overlays.get(&found.overlay)?;
            Some((found.overlay.clone(), AtGeneration { generation, verdict: found.trouble.clone() }))
        };
        let buffer = |(state, (_, provisioning)): (&BufferState, (String, Provisioning))| {
            let generation = *generations.buffers.get(&state.buffer)?;
            let verdict = BufferResult { state: state.clone(), provisioning };
            Some((state.buffer.clone(), AtGeneration { generation, verdict }))
        };
        Self {
            overlays: built.overlays.iter().filter_map(overlay).collect(),
            buffers: built.buffers.iter().zip(provisioning(built, plan)).filter_map(buffer).collect(),
        }
    }
}

/// The findings of the last pass.
#[derive(Debug, Default)]
pub struct PlanResultStore(Mutex<PlanResults>);

impl PlanResultStore {
    /// Takes over what a pass found and returns what to look at: objects of which something else was found than before.
    pub fn replace(&self, found: PlanResults) -> Vec<WorkItem> {
        let mut held = self.held();
        let overlays = found.overlays.iter().filter(|(key, it)| held.overlays.get(*key) != Some(*it));
        let buffers = found.buffers.iter().filter(|(key, it)| held.buffers.get(*key) != Some(*it));
        let work = overlays.map(|(key, _)| WorkItem::Overlay(key.clone()));
        let work = work.chain(buffers.map(|(key, _)| WorkItem::Buffer(key.clone()))).collect();
        *held = found;
        work
    }

    /// What is known of an overlay.
    #[must_use]
    pub fn overlay(&self, name: &str) -> Option<OverlayResultAtGeneration> {
        self.held().overlays.get(name).cloned()
    }

    /// What is known of a buffer.
    #[must_use]
    pub fn buffer(&self, key: &str) -> Option<BufferResultAtGeneration> {
        self.held().buffers.get(key).cloned()
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
    fn only_news_are_looked_at() {
        let found = |generation| {
            let judged = AtGeneration { generation, verdict: None };
            PlanResults { overlays: [("a".to_owned(), judged)].into(), ..PlanResults::default() }
        };
        let verdicts = PlanResultStore::default();
        assert_eq!(verdicts.replace(found(1)), [WorkItem::Overlay("a".to_owned())]);
        assert_eq!(verdicts.replace(found(1)), []);
        assert_eq!(verdicts.replace(found(2)), [WorkItem::Overlay("a".to_owned())]);
        assert_eq!(verdicts.replace(PlanResults::default()), []);
        assert_eq!(verdicts.overlay("a"), None);
    }
}
