//! Moments of plans that no change triggers: the periodic plan, and plans of low urgency.

use std::time::Duration;

use planner::{Millis, NodeVerdict, Plan, ValidatedCommands};
use snapshot::SnapshotResult;
use tokio::time::Instant;

use crate::provision::batcher::LOOK_AGAIN;

/// Minimum time between plans for nodes that may be disrupted: with many nodes, such moments are close together.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum share of time, as one part in this many, of such plans and of plans for repeatedly refused pods.
const PAUSES: u32 = 5;
/// Interval between attempts until all watches are synced and EC2 has returned its instance types.
const UNSYNCED_PAUSE: Duration = Duration::from_millis(100);

/// Time of the next plan.
#[derive(Clone, Copy, Debug)]
pub struct NextPass {
    /// Maximum delay.
    pub look: Duration,
    /// Minimum delay, unless a pod arrives that no plan has included.
    pub pause: Duration,
}

impl NextPass {
    /// Delays while the data for a plan is incomplete.
    pub const UNSYNCED: Self = Self { look: UNSYNCED_PAUSE, pause: UNSYNCED_PAUSE };
    /// Delays after a plan without a result.
    pub const REGULAR: Self = Self { look: LOOK_AGAIN, pause: LEAST_PAUSE };
}

/// Timer of plans without new pods.
#[derive(Clone, Copy, Debug)]
pub struct ReplanTimer {
    due: Instant,
    earliest: Instant,
    unhurried: Instant,
}

impl ReplanTimer {
    /// Creates a timer whose first plan is due at once.
    pub fn starting(now: Instant) -> Self {
        Self { due: now, earliest: now, unhurried: now }
    }

    /// Creates a timer after a plan that was just carried out.
    pub fn after(plan: NextPass, now: Instant) -> Self {
        Self { due: now + plan.look, earliest: now + plan.pause, unhurried: now + plan.pause.max(LEAST_PAUSE) }
    }

    /// Returns the time at which the next plan is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Requests a plan for a pod that an earlier plan has decided.
    pub fn ask_again(&mut self) {
        self.due = self.due.min(self.earliest);
    }

    /// Requests a plan for a freed node, which only saves money. All that is freed until `gathered` is planned together.
    pub fn ask_together(&mut self, gathered: Instant) {
        self.due = self.due.min(self.unhurried.max(gathered));
    }
}

/// Returns the pause after a plan that `took` this long.
pub fn pause_after(took: Duration) -> Duration {
    took.saturating_mul(PAUSES - 1).min(LOOK_AGAIN)
}

/// Returns the delay of the next plan: until the next node may be disrupted or the next command completes its validation, if
/// sooner than the periodic plan. `rests_until`, the end of a cached plan, replaces the search for nodes.
pub fn next_look(
    built: &SnapshotResult,
    plan: &Plan,
    ripe: &ValidatedCommands,
    pause: Duration,
    rests_until: Option<Millis>,
) -> Duration {
    let span = |millis: i64| u64::try_from(millis).ok().map(Duration::from_millis);
    let now = built.snapshot.now.0;
    let next = match rests_until {
        Some(until) => span(until.0 - now),
        None => soonest(built, plan).and_then(span),
    };
    next.into_iter()
        .chain(ripe.next)
        .min()
        .map_or(LOOK_AGAIN, |soonest| soonest.clamp(pause.max(LEAST_PAUSE), LOOK_AGAIN))
}

/// Returns the milliseconds until time alone changes the verdict of a node.
fn soonest(built: &SnapshotResult, plan: &Plan) -> Option<i64> {
    let named = plan.report.nodes.iter().filter_map(|(_, verdict)| match verdict {
        NodeVerdict::Quiet { remaining }
        | NodeVerdict::Resting { remaining, .. }
        | NodeVerdict::ReplacementsFail { remaining, .. }
        | NodeVerdict::AwaitsCanary { remaining: Some(remaining), .. } => Some(*remaining),
        _ => None,
    });
    let now = built.snapshot.now.0;
    let moments = built.snapshot.nodes.iter().filter(|node| node.leaving.is_none());
    let moments = moments.flat_map(|node| node.expires.into_iter().chain(node.unhealthy.as_ref().map(|it| it.due)));
    named.chain(moments.map(|at| at.0 - now).filter(|left| *left > 0)).min()
}

#[cfg(test)]
mod tests;
