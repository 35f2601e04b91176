//! Whether a node has been quiet for as long as its pool asks: the condition Consolidatable (core 3.6). The planner counts for itself;
//! people and their tools look here.

use std::time::Duration;

use api::status::Conditioned;
use api::{NodeClaim, NodePool, condition};
use jiff::Timestamp;

use super::{NodeClaimDecision, NodeClaimView, time_left};

/// Says so on the claim, takes that back, and asks for a look at the moment in which that changes. Static pools keep their nodes,
/// quiet or not: of theirs nothing is said.
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

/// What is left until the node has been quiet for long enough; `None` where it never will have been, or is not up yet.
fn quiet_in(claim: &NodeClaim, pool: &NodePool, now: Timestamp) -> Option<Duration> {
    Some(time_left(claim.quiet_since()?, quiet_time(pool)?, now))
}

/// How long the pool's nodes have to be quiet before they may go; `None` where they never may, or nobody can tell.
pub fn quiet_time(pool: &NodePool) -> Option<Duration> {
    let asked = pool.spec.disruption.consolidate_after.nanos().ok().flatten()?;
    Some(Duration::from_nanos(u64::try_from(asked).unwrap_or_default()))
}
