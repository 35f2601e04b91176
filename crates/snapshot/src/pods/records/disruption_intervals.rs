//! Times until which workloads with `kerf.sh/disrupt-at-most-once-per` are not disrupted: the period from the start of their
//! newest pod.
//!
//! An evicted pod starts again, so the newest start is the time of the last disruption. The newest start is also the time of a
//! rollout or a scale-up, when the workload changes by itself and is protected too. The rule therefore needs no stored state
//! and holds after any event.

use std::collections::{BTreeMap, BTreeSet};

use api::objects::Pod;
use jiff::Timestamp;
use planner::Millis;

use crate::millis;
use crate::pods::workload;

/// End times by workload, one for each of its pods with the annotation.
#[derive(Debug, Default)]
pub(super) struct DisruptionIntervals(BTreeMap<String, BTreeSet<(Timestamp, u32)>>);

impl DisruptionIntervals {
    pub(super) fn add(&mut self, id: u32, pod: &Pod) {
        if let Some((workload, until)) = interval_end(pod) {
            self.0.entry(workload).or_default().insert((until, id));
        }
    }

    pub(super) fn remove(&mut self, id: u32, pod: &Pod) {
        let Some((workload, until)) = interval_end(pod) else { return };
        let Some(ends) = self.0.get_mut(&workload) else { return };
        ends.remove(&(until, id));
        if ends.is_empty() {
            self.0.remove(&workload);
        }
    }

    /// Returns the last end time of each workload.
    pub(super) fn ends_by_workload(&self) -> BTreeMap<String, Millis> {
        let last =
            |(workload, ends): (&String, &BTreeSet<(Timestamp, u32)>)| Some((workload.clone(), millis(ends.last()?.0)));
        self.0.iter().filter_map(last).collect()
    }
}

/// Returns the workload of a live pod with the annotation, and the pod's own end time.
fn interval_end(pod: &Pod) -> Option<(String, Timestamp)> {
    let until = pod.rests_until().ok().flatten().filter(|_| !pod.is_terminal() && !pod.is_terminating())?;
    Some((workload(pod), until))
}
