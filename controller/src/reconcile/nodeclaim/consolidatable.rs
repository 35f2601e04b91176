//! Condition Consolidatable: the node had no pod event for `consolidateAfter`. The planner computes this itself. The condition
//! is for users and their tools.

use std::time::Duration;

use api::status::Conditioned;
use api::{NodeClaim, NodePool, condition};
use jiff::Timestamp;

use super::{NodeClaimDecision, NodeClaimView, time_left};

/// Sets or clears the condition, and requests a reconcile for the moment of its change. Nodes of static NodePools are not
/// consolidated and have no condition.
pub(super) fn follow(view: &NodeClaimView, claim: &mut NodeClaim, decision: &mut NodeClaimDecision) {
    let Some(pool) = view.pool.as_ref().filter(|pool| pool.spec.replicas.is_none()) else { return };
    match quiet_in(claim, pool, view.now) {
        Some(Duration::ZERO) => drop(claim.set_true(condition::CONSOLIDATABLE, view.now)),
        left => {
            left.into_iter().for_each(|left| decision.wake(left));
            claim.clear(condition::CONSOLIDATABLE, view.now);
        }
    }
}

/// Returns the time until the node had no pod event for long enough. Returns `None` if that never happens, or the node is not
/// initialized.
fn quiet_in(claim: &NodeClaim, pool: &NodePool, now: Timestamp) -> Option<Duration> {
    Some(time_left(claim.quiet_since()?, quiet_time(pool)?, now))
}

/// Returns `consolidateAfter` of the NodePool, or `None` if it is `Never` or invalid.
pub fn quiet_time(pool: &NodePool) -> Option<Duration> {
    let asked = pool.spec.disruption.consolidate_after.nanos().ok().flatten()?;
    Some(Duration::from_nanos(u64::try_from(asked).unwrap_or_default()))
}
