//! The running plan, for Karpenter's metrics of work that is not finished yet.

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use planner::Snapshot;

use crate::metrics;
use crate::metrics::gauge_set::Sample;

/// Label of metrics of plans: in Karpenter the controller that schedules pods.
pub const PROVISIONER: metrics::ByController<'static> = metrics::ByController { controller: "provisioner" };

/// The last plan that began.
#[derive(Debug, Default)]
pub struct PlanProgress {
    running: Mutex<Option<Progress>>,
    /// End of the last pass of the provisioner.
    last_pass: Mutex<Option<Timestamp>>,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Id of the plan.
    id: u64,
    /// Pending pods.
    pods: usize,
    /// Start of the plan; `None` after its end.
    since: Option<Timestamp>,
}

/// A plan that runs. Its drop is the end of the plan.
#[must_use]
#[derive(Debug)]
pub struct RunningPlan<'a>(&'a PlanProgress);

impl Drop for RunningPlan<'_> {
    fn drop(&mut self) {
        if let Some(progress) = self.0.running.lock().as_mut() {
            progress.since = None;
        }
    }
}

impl PlanProgress {
    /// Records the start of a plan.
    pub fn begin(&self, snapshot: &Snapshot, now: Timestamp) -> RunningPlan<'_> {
        let pods = snapshot.pods.iter().filter(|pod| pod.holder.is_none() && pod.leaving_node.is_none()).count();
        *self.running.lock() = Some(Progress { id: snapshot.seed, pods, since: Some(now) });
        RunningPlan(self)
    }

    /// Records the end of a pass of the provisioner, with or without a plan.
    pub fn pass_ended(&self, now: Timestamp) {
        *self.last_pass.lock() = Some(now);
    }

    /// Returns the time since the last pass; `None` before the first.
    #[must_use]
    pub fn since_pass(&self, now: Timestamp) -> Option<SignedDuration> {
        Some(now.duration_since((*self.last_pass.lock())?))
    }

    /// Returns the pods that wait in the running plan, and its duration until `now`. After a plan no pod waits in it.
    #[must_use]
    pub fn samples(&self, now: Timestamp) -> Vec<Sample> {
        let Some(Progress { id, pods, since }) = *self.running.lock() else { return Vec::new() };
        let id = id.to_string();
        let labels =
            metrics::ByControllerSchedulingId { controller: PROVISIONER.controller, scheduling_id: id.as_str() };
        let waiting = if since.is_some() { pods as f64 } else { 0.0 };
        let mut samples = vec![Sample::new(&metrics::QUEUE_DEPTH, labels, waiting)];
        samples.extend(since.map(|since| {
            let seconds = now.duration_since(since).as_secs_f64().max(0.0);
            Sample::new(&metrics::UNFINISHED_WORK, labels, seconds)
        }));
        samples
    }
}

#[cfg(test)]
mod tests {
    use planner::Pod;

    use super::{PlanProgress, Snapshot};
    use crate::fixture::at;

    #[test]
    fn samples_show_pods_and_duration_only_while_the_plan_runs() {
        let progress = PlanProgress::default();
        let values = |now| {
            let samples = progress.samples(at(now)).into_iter();
            samples.map(|sample| (sample.series.labels[1].1.clone(), sample.value)).collect::<Vec<_>>()
        };
        assert!(values(0).is_empty(), "no plan began yet");
        let snapshot = Snapshot { seed: 7, pods: vec![Pod::default(); 3], ..Snapshot::default() };
        let running = progress.begin(&snapshot, at(10));
        assert_eq!(values(12), [("7".to_owned(), 3.0), ("7".to_owned(), 2.0)]);
        drop(running);
        assert_eq!(values(13), [("7".to_owned(), 0.0)]);
    }
}
