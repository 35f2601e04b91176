//! Metrics of conditions and terminations, one set per kind: Karpenter's names, without the names of objects.

use daemon::metric::{Kind, Metric};

use super::ENDS;

/// Buckets from a second to a day, in seconds: most conditions change once in the life of a node.
const HELD: &[f64] = &[1.0, 10.0, 60.0, 600.0, 86_400.0];

/// Metrics of the objects of one kind.
pub struct Conditions {
    /// Objects by condition.
    pub count: Metric,
    /// Transitions of conditions.
    pub transitions: Metric,
    /// Duration of the previous status.
    pub held: Metric,
    /// Duration of the current status.
    pub current: Metric,
    /// Duration of the longest current termination.
    pub ending: Metric,
    /// Durations of ended terminations.
    pub ended: Metric,
}

macro_rules! conditions {
    ($name:ident, $kind:literal, $objects:literal) => {
        #[doc = concat!("Conditions of ", $objects, ".")]
        pub static $name: Conditions = Conditions {
            count: Metric {
                name: concat!("operator_", $kind, "_status_condition_count"),
                help: concat!($objects, " by condition"),
                kind: Kind::Gauge,
                labels: &["type", "status", "reason"],
            },
            transitions: Metric {
                name: concat!("operator_", $kind, "_status_condition_transitions_total"),
                help: concat!("Conditions of ", $objects, " that changed, by their new status"),
                kind: Kind::Counter,
                labels: &["type", "status", "reason"],
            },
            held: Metric {
                name: concat!("operator_", $kind, "_status_condition_transition_seconds"),
                help: concat!("Seconds that conditions of ", $objects, " had their previous status"),
                kind: Kind::Histogram(HELD),
                labels: &["type", "status"],
            },
            current: Metric {
                name: concat!("operator_", $kind, "_status_condition_current_status_seconds"),
                help: concat!(
                    "Seconds since the last transition of a condition, of the one of all ",
                    $objects,
                    " with the oldest transition"
                ),
                kind: Kind::Gauge,
                labels: &["type", "status", "reason"],
            },
            ending: Metric {
                name: concat!("operator_", $kind, "_termination_current_time_seconds"),
                help: concat!(
                    "Seconds since the deletion of the one of all ",
                    $objects,
                    " that has been terminating for longest"
                ),
                kind: Kind::Gauge,
                labels: &[],
            },
            ended: Metric {
                name: concat!("operator_", $kind, "_termination_duration_seconds"),
                help: concat!("Seconds from the deletion of ", $objects, " to their removal"),
                kind: Kind::Histogram(ENDS),
                labels: &[],
            },
        };
    };
}

conditions!(CLAIMS, "nodeclaim", "NodeClaims");
conditions!(NODES, "node", "Nodes");
conditions!(POOLS, "nodepool", "NodePools");
conditions!(CLASSES, "ec2nodeclass", "EC2NodeClasses");
