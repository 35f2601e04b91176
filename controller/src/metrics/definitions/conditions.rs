//! Metrics of conditions and terminations, one set per kind. They have Karpenter's names, without the names of objects.

use daemon::metric::{Counter, Description, Gauge, Histogram, NoLabels};

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
}

impl Conditions {
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
}

macro_rules! conditions {
    ($name:ident, $kind:literal, $objects:literal) => {
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
        };
    };
}

conditions!(CLAIMS, "nodeclaim", "NodeClaims");
conditions!(NODES, "node", "Nodes");
conditions!(POOLS, "nodepool", "NodePools");
conditions!(CLASSES, "ec2nodeclass", "EC2NodeClasses");

/// Metrics of all kinds.
pub(super) static ALL: [&Conditions; 4] = [&CLAIMS, &NODES, &POOLS, &CLASSES];
