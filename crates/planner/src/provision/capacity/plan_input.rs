//! Input of a plan: the snapshot, and what all solutions of the plan have in common.

use std::sync::Arc;

use super::pool_template::{self, PoolTemplate};
use crate::Snapshot;
use crate::provision::demand::capacity_split::{SplitPart, split_parts};
use crate::provision::demand::dimensions::Dimensions;

/// Input of a plan, which its solutions share.
#[derive(Clone)]
pub(in crate::provision) struct PlanInput<'a> {
    pub(in crate::provision) snapshot: &'a Snapshot,
    pub(in crate::provision) dimensions: Arc<Dimensions>,
    pub(in crate::provision) pool_templates: Arc<[PoolTemplate<'a>]>,
    /// Each pod's part in the capacity split of its workload.
    pub(in crate::provision) parts: Arc<[SplitPart]>,
}

impl<'a> PlanInput<'a> {
    pub(in crate::provision) fn new(snapshot: &'a Snapshot) -> Self {
        let dimensions = Dimensions::new(snapshot);
        let pool_templates = pool_template::in_order(snapshot, &dimensions).into();
        Self { snapshot, dimensions: Arc::new(dimensions), pool_templates, parts: split_parts(snapshot) }
    }

    /// Returns the same input with other parts of the capacity splits.
    pub(in crate::provision) fn with_parts(&self, parts: Arc<[SplitPart]>) -> Self {
        Self { parts, ..self.clone() }
    }
}
