//! Growth of the planning time with pods, with distinct shapes, and with unschedulable pods.

#[expect(dead_code, reason = "the planner's benchmark has more kinds of workloads than the curve")]
#[path = "../../../crates/planner/benches/workload.rs"]
mod workload;

use std::time::Duration;

use planner::Snapshot;

use crate::compare::fastest;
use workload::Workload;

/// Planning times with one row per number of pods and one column per number of shapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Number of distinct shapes of each column.
    pub shapes: Vec<usize>,
    /// Number of pods of each row, with a time for each column; `None` if there are more shapes than pods.
    pub rows: Vec<(usize, Vec<Option<Duration>>)>,
}

/// Notable snapshot, with the time for its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedSnapshot {
    /// Description of the snapshot.
    pub about: String,
    /// Number of pending pods.
    pub pods: usize,
    /// Number of scheduled pods.
    pub scheduled: usize,
    /// Planning time.
    pub took: Duration,
}

/// Measures the curve.
#[must_use]
pub fn curve(pods: &[usize], shapes: &[usize]) -> Curve {
    let point = |pods: usize, shapes: usize| {
        (shapes <= pods).then(|| measure("", &Workload::empty().plain(pods, shapes).finish()).took)
    };
    let row = |pods: &usize| (*pods, shapes.iter().map(|shapes| point(*pods, *shapes)).collect());
    Curve { shapes: shapes.to_vec(), rows: pods.iter().map(row).collect() }
}

/// Measures the cost of unschedulable pods: `pods` of 100 shapes alone, with half as many unschedulable ones, and with a
/// NodePool that is at its limit.
#[must_use]
pub fn strangers(pods: usize) -> Vec<TimedSnapshot> {
    let placeable = || Workload::empty().plain(pods, 100.min(pods));
    let lost = pods / 2;
    vec![
        measure("alone", &placeable().finish()),
        measure(
            &format!("beside {lost} pods of 50 shapes that fit nowhere"),
            &placeable().with_unplaceable(lost, 50).finish(),
        ),
        measure(
            &format!("beside {lost} pods of {lost} shapes that fit nowhere"),
            &placeable().with_unplaceable(lost, lost).finish(),
        ),
        measure("beside a pool of greater weight that is at its limit", &placeable().with_full_pool().finish()),
    ]
}

fn measure(about: &str, snapshot: &Snapshot) -> TimedSnapshot {
    let (plan, took) = fastest(|| planner::plan(snapshot));
    TimedSnapshot { about: about.to_owned(), pods: snapshot.pods.len(), scheduled: plan.report.order.len(), took }
}
