//! Metrics of conditions and terminations, one set per kind. They have Karpenter's names, and only in detail the names of objects.

use daemon::metric::{Counter, Description, Gauge, Histogram, Kind, NoLabels};

use super::buckets::ENDS;
use super::labels::{ByTypeStatus, ByTypeStatusReason};

/// Buckets for the duration of a status, from a second to a day: most conditions change once in the life of an instance.
const HELD: &[f64] = &[1.0, 10.0, 60.0, 600.0, 86_400.0];

/// Metrics of the objects of one kind.
#[derive(Debug)]
pub struct Conditions {
    /// Objects by condition.
    pub count: Gauge<ByTypeStatusReason<'static>>,
    /// Transitions of conditions.
    pub transitions: Counter<ByTypeStatusReason<'static>>,
    /// Seconds for which conditions had their previous status.
    pub held: Histogram<ByTypeStatus<'static>>,
    /// Seconds for which conditions have had their status.
    pub current: Gauge<ByTypeStatusReason<'static>>,
    /// Seconds since the deletion of the object that has been terminating for longest.
    pub ending: Gauge<NoLabels>,
    /// Seconds from the deletion of objects to their removal.
    pub ended: Histogram<NoLabels>,
    detailed: ConditionLabels,
}

/// Labels of the metrics of one kind.
#[derive(Clone, Copy, Debug)]
pub struct ConditionLabels {
    /// Labels of gauges of conditions.
    pub gauge: &'static [&'static str],
    /// Labels of the counter of transitions.
    pub transitions: &'static [&'static str],
    /// Labels of the histogram of previous statuses.
    pub held: &'static [&'static str],
    /// Labels of the gauge of terminations.
    pub ending: &'static [&'static str],
    /// Labels of the histogram of terminations.
    pub ended: &'static [&'static str],
}

impl Conditions {
    /// Returns the labels of sums.
    pub(in crate::metrics) const fn aggregated_labels(&self) -> ConditionLabels {
        ConditionLabels {
            gauge: self.count.description().labels,
            transitions: self.transitions.description().labels,
            held: self.held.description().labels,
            ending: self.ending.description().labels,
            ended: self.ended.description().labels,
        }
    }

    /// Returns the labels of each object.
    pub(in crate::metrics) const fn object_labels(&self) -> ConditionLabels {
        self.detailed
    }

    /// Returns the descriptions of the metrics.
    pub(super) const fn descriptions(&self) -> [Description; 6] {
        [
            self.count.description(),
            self.transitions.description(),
            self.held.description(),
            self.current.description(),
            self.ending.description(),
            self.ended.description(),
        ]
    }

    /// Returns the descriptions of the metrics with the labels of each object, and histograms with these buckets.
    pub(super) fn detailed_descriptions(&self, buckets: &'static [f64]) -> [Description; 6] {
        let ConditionLabels { gauge, transitions, held, ending, ended } = self.detailed;
        let [count, turned, before, current, terminating, terminated] = self.descriptions();
        let kind = Kind::Histogram(buckets);
        [
            Description { labels: gauge, help: "1 for each condition of each object", ..count },
            Description { labels: transitions, ..turned },
            Description { labels: held, kind, ..before },
            Description { labels: gauge, help: "Seconds since the last transition of a condition", ..current },
            Description { labels: ending, help: "Seconds since the deletion of an object", ..terminating },
            Description { labels: ended, kind, ..terminated },
        ]
    }
}

macro_rules! conditions {
    ($name:ident, $kind:literal, $objects:literal, [$($label:literal),*]) => {
        #[doc = concat!("Conditions of ", $objects, ".")]
        pub static $name: Conditions = Conditions {
            count: Gauge::new(
                concat!("operator_", $kind, "_status_condition_count"),
                concat!($objects, " by condition"),
            ),
            transitions: Counter::new(
                concat!("operator_", $kind, "_status_condition_transitions_total"),
                concat!("Conditions of ", $objects, " that changed, by their new status"),
            ),
            held: Histogram::new(
                concat!("operator_", $kind, "_status_condition_transition_seconds"),
                concat!("Seconds that conditions of ", $objects, " had their previous status"),
                HELD,
            ),
            current: Gauge::new(
                concat!("operator_", $kind, "_status_condition_current_status_seconds"),
                concat!(
                    "Seconds since the last transition of a condition, of the one of all ",
                    $objects,
                    " with the oldest transition"
                ),
            ),
            ending: Gauge::new(
                concat!("operator_", $kind, "_termination_current_time_seconds"),
                concat!(
                    "Seconds since the deletion of the one of all ",
                    $objects,
                    " that has been terminating for longest"
                ),
            ),
            ended: Histogram::new(
                concat!("operator_", $kind, "_termination_duration_seconds"),
                concat!("Seconds from the deletion of ", $objects, " to their removal"),
                ENDS,
            ),
            detailed: ConditionLabels {
                gauge: &["namespace", "name", "type", "status", "reason" $(, $label)*],
                transitions: &["type", "status", "reason" $(, $label)*],
                held: &["type", "status" $(, $label)*],
                ending: &["namespace", "name" $(, $label)*],
                ended: &[$($label),*],
            },
        };
    };
}

conditions!(CLAIMS, "nodeclaim", "NodeClaims", ["karpenter_k8s_aws_ec2nodeclass", "karpenter_sh_nodepool"]);
conditions!(
    NODES,
    "node",
    "Nodes",
    ["karpenter_k8s_aws_ec2nodeclass", "karpenter_sh_nodepool", "karpenter_sh_initialized"]
);
conditions!(POOLS, "nodepool", "NodePools", []);
conditions!(CLASSES, "ec2nodeclass", "EC2NodeClasses", []);

/// Metrics of all kinds.
pub(super) static ALL: [&Conditions; 4] = [&CLAIMS, &NODES, &POOLS, &CLASSES];
