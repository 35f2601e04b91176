//! Times of the first decisions of plans about pending pods, for metrics of their waits before and after.

use std::collections::{BTreeMap, BTreeSet};

use daemon::metric::{Metrics, NoLabels};
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use planner::{Plan, Pod, PodVerdict, Snapshot};

use crate::metrics;

/// Age after which a decision is dropped: a pod that no plan contained for so long runs or is gone.
const KEPT: SignedDuration = SignedDuration::from_hours(1);

/// Decisions by the UID of the pod.
#[derive(Debug)]
pub struct PodDecisions {
    /// Start of this process. An earlier process decided about older pods.
    since: Timestamp,
    known: Mutex<BTreeMap<String, PodDecision>>,
}

#[derive(Clone, Copy, Debug)]
struct PodDecision {
    seen: Timestamp,
    placed: Option<Timestamp>,
}

impl PodDecisions {
    /// Creates the measurement of pods that were created since `since`.
    #[must_use]
    pub fn new(since: Timestamp) -> Self {
        Self { since, known: Mutex::default() }
    }

    /// Records the verdicts of a plan about pending pods, and measures the wait of pods with their first verdict.
    pub fn note(&self, snapshot: &Snapshot, plan: &Plan, metrics: &Metrics, now: Timestamp) {
        let mut known = self.known();
        for (pod, verdict) in snapshot.pods.iter().zip(&plan.report.pods) {
            if pod.holder.is_some() || pod.leaving_node.is_some() || *verdict == PodVerdict::Postponed {
                continue;
            }
            let decided = known.entry(pod.uid.clone()).or_insert_with(|| {
                self.measure(pod, metrics, now);
                PodDecision { seen: now, placed: None }
            });
            decided.seen = now;
            let has_place = matches!(verdict, PodVerdict::Existing { .. } | PodVerdict::Launch { .. });
            decided.placed = decided.placed.or(has_place.then_some(now));
        }
        known.retain(|_, decided| now.duration_since(decided.seen) < KEPT);
    }

    fn measure(&self, pod: &Pod, metrics: &Metrics, now: Timestamp) {
        let created = Timestamp::from_millisecond(pod.created.0).ok().filter(|created| *created >= self.since);
        if let Some(created) = created {
            metrics.observe(&metrics::DECISION, NoLabels, now.duration_since(created).as_secs_f64().max(0.0));
        }
    }

    /// Reports whether any plan has decided about the pod.
    #[must_use]
    pub fn has(&self, uid: &str) -> bool {
        self.known().contains_key(uid)
    }

    /// Returns the time at which a plan first had a node for the pod.
    #[must_use]
    pub fn placed(&self, uid: &str) -> Option<Timestamp> {
        self.known().get(uid)?.placed
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, PodDecision>> {
        self.known.lock()
    }
}

/// Zone of pods that may run in several zones, as Karpenter names it.
const FLEXIBLE: &str = "flexible";

/// Counts pending pods by the only zone in which each may run, else by [`FLEXIBLE`].
#[must_use]
pub fn by_zone(snapshot: &Snapshot) -> BTreeMap<String, u32> {
    let waiting = snapshot.pods.iter().filter(|pod| pod.holder.is_none() && pod.leaving_node.is_none());
    let mut counts = BTreeMap::new();
    for pod in waiting {
        *counts.entry(zone(&snapshot.shapes[pod.shape])).or_default() += 1;
    }
    counts
}

fn zone(shape: &planner::PodShape) -> String {
    let ways: Vec<&[planner::Requirement]> = match shape.affinity.as_slice() {
        [] => vec![&[]],
        ways => ways.iter().map(Vec::as_slice).collect(),
    };
    let only = |way: &[planner::Requirement]| {
        let asked: planner::Requirements = shape.selector.iter().chain(way).collect();
        asked.get(planner::label::ZONE).and_then(planner::ValueSet::single).map(str::to_owned)
    };
    let zones: BTreeSet<Option<String>> = ways.into_iter().map(only).collect();
    let mut zones = zones.into_iter();
    match (zones.next(), zones.next()) {
        (Some(Some(zone)), None) => zone,
        _ => FLEXIBLE.to_owned(),
    }
}

#[cfg(test)]
mod tests;
