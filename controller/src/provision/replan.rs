//! Moments of plans that no change triggers: the periodic plan, and plans of low urgency.

use std::time::Duration;

use planner::{Millis, NodeVerdict, Plan, ValidatedCommands};
use snapshot::SnapshotResult;
use tokio::time::Instant;

use crate::provision::batcher::LOOK_AGAIN;

/// Time between looks at nodes that may go, at least: moments at which nodes may go lie close together where there are many.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
/// Such looks, and plans for whom kube-scheduler refuses again and again, take at most one part in so many of the time.
const PAUSES: u32 = 5;
/// Time between looks while the watches have not listed everything, or EC2 has not reported what there is.
const UNSYNCED_PAUSE: Duration = Duration::from_millis(100);

/// What a plan says of when the next one is made.
#[derive(Clone, Copy, Debug)]
pub struct NextPass {
    /// After so long at the latest.
    pub look: Duration,
    /// After so long at the earliest, unless someone comes whom no plan has seen.
    pub pause: Duration,
}

impl NextPass {
    /// While too little is known for a plan.
    pub const UNSYNCED: Self = Self { look: UNSYNCED_PAUSE, pause: UNSYNCED_PAUSE };
    /// After a plan that came to nothing.
    pub const REGULAR: Self = Self { look: LOOK_AGAIN, pause: LEAST_PAUSE };
}

/// When the next plan is made though no pod waits that is new.
#[derive(Clone, Copy, Debug)]
pub struct ReplanTimer {
    due: Instant,
    earliest: Instant,
    unhurried: Instant,
}

impl ReplanTimer {
    /// The first one is made at once.
    pub fn starting(now: Instant) -> Self {
        Self { due: now, earliest: now, unhurried: now }
    }

    /// After a plan that has just been carried out.
    pub fn after(plan: NextPass, now: Instant) -> Self {
        Self { due: now + plan.look, earliest: now + plan.pause, unhurried: now + plan.pause.max(LEAST_PAUSE) }
    }

    /// When it is made as things stand.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Somebody asks whom a plan has answered before.
    pub fn ask_again(&mut self) {
        self.due = self.due.min(self.earliest);
    }

    /// Something was freed that saves money only: what else is freed until `gathered` is planned for together with it.
    pub fn ask_together(&mut self, gathered: Instant) {
        self.due = self.due.min(self.unhurried.max(gathered));
    }
}

/// After a plan that `took` so long.
pub fn pause_after(took: Duration) -> Duration {
    took.saturating_mul(PAUSES - 1).min(LOOK_AGAIN)
}

/// When the next node may go that may not go yet, or the next move is ripe, if that is sooner than the regular look; a cluster at rest
/// knows the moment itself.
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

/// Milliseconds until time alone changes what becomes of a node.
fn soonest(built: &SnapshotResult, plan: &Plan) -> Option<i64> {
    let named = plan.report.nodes.iter().filter_map(|(_, verdict)| match verdict {
        NodeVerdict::Quiet { remaining } | NodeVerdict::Resting { remaining, .. } => Some(*remaining),
        _ => None,
    });
    let now = built.snapshot.now.0;
    let moments = built.snapshot.nodes.iter().filter(|node| node.leaving.is_none());
    let moments = moments.flat_map(|node| node.expires.into_iter().chain(node.sick.as_ref().map(|sick| sick.due)));
    named.chain(moments.map(|at| at.0 - now).filter(|left| *left > 0)).min()
}

#[cfg(test)]
mod tests;
