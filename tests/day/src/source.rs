//! Plans of the simulated controller: the shipped planner, or the rules of its peer. Every plan is recorded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use controller::provision::plan_source::{KerfPlanner, PlanSource};
use nix::time::{ClockId, clock_gettime};
use planner::{Plan, Snapshot, ValidatedCommands, ValidatedPlan, Validation};
use snapshot::{Problem, SnapshotResult};

use crate::clock::span;
use replay::KarpenterRules;

/// Records of plans since the last look.
#[derive(Debug, Default)]
pub struct Plans {
    /// Number of plans.
    pub count: usize,
    /// CPU time of the plans, with their validation.
    pub processor: Duration,
    /// Number of plans with a finding of plan validation.
    pub refused: usize,
    /// First finding, with the snapshot as JSON.
    pub evidence: Option<(String, String)>,
    /// Problems of written objects.
    pub problems: Vec<String>,
    /// Snapshot of the last plan.
    pub snapshot: Option<Snapshot>,
}

/// Source of plans that records them.
pub struct Witness {
    peer: Option<Mutex<KarpenterRules>>,
    plans: Mutex<Plans>,
}

impl Witness {
    /// Creates a source with Kerf's rules, or with those of the peer.
    #[must_use]
    pub fn new(peer: Option<KarpenterRules>) -> Arc<Self> {
        Arc::new(Self { peer: peer.map(Mutex::new), plans: Mutex::default() })
    }

    /// Returns the records for reading and resetting.
    pub fn plans(&self) -> MutexGuard<'_, Plans> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn peer(&self) -> Option<MutexGuard<'_, KarpenterRules>> {
        Some(self.peer.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PlanSource for Witness {
    fn plan(&self, built: &SnapshotResult) -> ValidatedPlan {
        let begun = processor_time();
        let checked = match self.peer() {
            None => KerfPlanner.plan(built),
            Some(mut peer) => {
                let mut plan = peer.plan(&built.snapshot, built.snapshot.now.0);
                plan.resizes.clear();
                ValidatedPlan { sound: Some(plan), findings: Vec::new() }
            }
        };
        let mut plans = self.plans();
        plans.processor += processor_time().saturating_sub(begun);
        plans.count += 1;
        let problems = built.problems.iter().filter(|problem| !comes_and_goes(problem));
        plans.problems.extend(problems.map(ToString::to_string));
        if let Some(first) = checked.findings.first() {
            plans.refused += 1;
            let snapshot = || serde_json::to_string(&built.snapshot).unwrap_or_default();
            plans.evidence.get_or_insert_with(|| (first.to_string(), snapshot()));
        }
        plans.snapshot = Some(built.snapshot.clone());
        checked
    }

    fn commands(&self, validation: &mut Validation, snapshot: &Snapshot, plan: &Plan) -> ValidatedCommands {
        let Some(peer) = self.peer() else { return validation.update(snapshot, plan) };
        ValidatedCommands {
            begin: (0..plan.moves.len()).collect(),
            next: Some(span(peer.next() - snapshot.now.0)),
            ..ValidatedCommands::default()
        }
    }

    fn is_cacheable(&self) -> bool {
        self.peer.is_none()
    }
}

/// Returns the CPU time of this thread, which other programs do not change.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Reports whether a problem belongs to normal operation, such as an agent without reports, and not to a written object.
fn comes_and_goes(problem: &Problem) -> bool {
    let machines = matches!(problem, Problem::Usage { .. } | Problem::Unclaimed { .. });
    machines || matches!(problem, Problem::SelectsNothing { .. } | Problem::NeverEvicted { .. })
}
