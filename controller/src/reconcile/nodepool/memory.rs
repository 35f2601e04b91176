//! Annotations of a NodePool with facts that a restart or a change of the leader must not forget. Their state decides in this
//! process; the annotations are its copy.

use api::{NodePool, annotation};
use serde_json::{Map, Value, json};

use crate::write::writer::{Operation, Target};

/// Values of the annotations; `None` without a fact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolMemory {
    /// Removals by unconfirmed notices that still count.
    pub notice_removals: Option<String>,
    /// Failed launches and replacements, and nodes that no pod could use.
    pub failed_attempts: Option<String>,
}

impl PoolMemory {
    /// Returns the annotations of a NodePool, with the values of an earlier process.
    #[must_use]
    pub fn from_pool(pool: &NodePool) -> Self {
        let value = |key: &str| pool.metadata.annotations.as_ref()?.get(key).cloned();
        Self {
            notice_removals: value(annotation::NOTICE_REMOVALS),
            failed_attempts: value(annotation::FAILED_ATTEMPTS),
        }
    }

    /// Returns the patch of the annotations that differ.
    pub(super) fn patch(&self, pool: &NodePool) -> Option<Operation> {
        let written = Self::from_pool(pool);
        let pairs = [
            (annotation::NOTICE_REMOVALS, &self.notice_removals, written.notice_removals),
            (annotation::FAILED_ATTEMPTS, &self.failed_attempts, written.failed_attempts),
        ];
        let changed = pairs.into_iter().filter(|(_, wanted, written)| *wanted != written);
        let changed: Map<String, Value> = changed.map(|(key, wanted, _)| (key.to_owned(), json!(wanted))).collect();
        let name = pool.metadata.name.clone().unwrap_or_default();
        let patch = json!({"metadata": {"annotations": changed}});
        (!changed.is_empty()).then_some(Operation::Patch(Target::Pool(name), patch))
    }
}
