//! The metrics of conditions and ends, one set a kind: Karpenter's names, without the objects' names.

use daemon::metric::{Kind, Metric};

use super::ENDS;

/// From a second to a day: most conditions turn once in a machine's life.
const HELD: &[f64] = &[1.0, 10.0, 60.0, 600.0, 86_400.0];

/// What is told of the objects of one kind.
pub struct Conditions {
    /// Objects by condition.
    pub count: Metric,
    /// Conditions that turned.
    pub transitions: Metric,
    /// For how long they had been otherwise.
    pub held: Metric,
    /// For how long they are so.
    pub current: Metric,
    /// For how long the slowest is going.
    pub ending: Metric,
    /// How long those took that are gone.
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
                help: concat!("Conditions of ", $objects, " that turned, or came to be, by what they say since"),
                kind: Kind::Counter,
                labels: &["type", "status", "reason"],
            },
            held: Metric {
                name: concat!("operator_", $kind, "_status_condition_transition_seconds"),
                help: concat!("For how long conditions of ", $objects, " had a status when they turned, in seconds"),
                kind: Kind::Histogram(HELD),
                labels: &["type", "status"],
            },
            current: Metric {
                name: concat!("operator_", $kind, "_status_condition_current_status_seconds"),
                help: concat!(
                    "For how long a condition has been so, in seconds, of the one of all ",
                    $objects,
                    " that has longest"
                ),
                kind: Kind::Gauge,
                labels: &["type", "status", "reason"],
            },
            ending: Metric {
                name: concat!("operator_", $kind, "_termination_current_time_seconds"),
                help: concat!(
                    "For how long the one of all ",
                    $objects,
                    " that has been going longest is on its way out, in seconds"
                ),
                kind: Kind::Gauge,
                labels: &[],
            },
            ended: Metric {
                name: concat!("operator_", $kind, "_termination_duration_seconds"),
                help: concat!("From the deletion of ", $objects, " to their end, in seconds"),
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
