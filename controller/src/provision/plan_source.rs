//! Source of plans: the shipped planner, or the one that a simulation puts in its place.

use planner::{Plan, Snapshot, ValidatedCommands, ValidatedPlan, Validation};
use snapshot::SnapshotResult;

/// Source of plans. Simulations observe the planner through it, or compare its rules with those of a peer.
pub trait PlanSource: Send + Sync {
    /// Returns the valid part of a plan, with the findings of plan validation.
    fn plan(&self, built: &SnapshotResult) -> ValidatedPlan;

    /// Returns the commands of a plan that begin now, after consolidation validation.
    fn commands(&self, validation: &mut Validation, snapshot: &Snapshot, plan: &Plan) -> ValidatedCommands {
        validation.update(snapshot, plan)
    }

    /// Reports whether a plan without work remains valid until the snapshot changes.
    fn is_cacheable(&self) -> bool {
        true
    }
}

/// Kerf's planner.
pub struct KerfPlanner;

impl PlanSource for KerfPlanner {
    fn plan(&self, built: &SnapshotResult) -> ValidatedPlan {
        planner::checked(&built.snapshot, planner::plan(&built.snapshot))
    }
}
