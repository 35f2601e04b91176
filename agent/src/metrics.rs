//! Metrics of the agent: their names, labels and meanings. Names without our prefix are those of AWS's Node Termination Handler
//! with the same meaning, so that its dashboards and alerts continue to work.
//!
//! A module with a new metric adds its constant here and to [`TABLE`]; `run/local.rs` sets the value from the reports of the
//! lifecycle.

use daemon::metric::{Kind, Metric, Metrics};

use crate::report::ConditionUpdate;
use crate::timeline::Timeline;

/// Actions on the Node by success or error, as the Node Termination Handler counts them.
pub const ACTIONS: Metric = Metric {
    name: "actions_total",
    help: "Actions on this Node for an event (cordon, cordon-and-drain), by success or error",
    kind: Kind::Counter,
    labels: &["node_action", "node_status"],
};
/// Errors with events by source, as the Node Termination Handler counts them.
pub const EVENTS_ERROR: Metric = Metric {
    name: "events_error_total",
    help: "Errors in reading or handling events, by source: imds, api, journal",
    kind: Kind::Counter,
    labels: &["event_error_where"],
};
/// Stages of the timeline.
pub const STAGE: Metric = Metric {
    name: "kerf_agent_stage_seconds",
    help: "Seconds from the agent's first start in this boot to each stage of the node's start",
    kind: Kind::Gauge,
    labels: &["stage"],
};
/// Conditions of the Node that the agent reports.
pub const CONDITION: Metric = Metric {
    name: "kerf_agent_condition",
    help: "1 for the status that each condition of the agent has, 0 for the others",
    kind: Kind::Gauge,
    labels: &["condition", "status"],
};
/// Responses of the API server to the agent.
pub const API_ANSWERS: Metric = Metric {
    name: "kerf_agent_api_answers",
    help: "1 while the API server responds to the agent, else 0",
    kind: Kind::Gauge,
    labels: &[],
};

/// All metrics of the agent.
pub const TABLE: &[Metric] = &[ACTIONS, EVENTS_ERROR, STAGE, CONDITION, API_ANSWERS];

const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// Sets the metrics of the conditions.
pub fn show_conditions(metrics: &Metrics, said: &[ConditionUpdate]) {
    for statement in said {
        for status in STATUSES {
            let is = f64::from(u8::from(statement.status == status));
            metrics.set(&CONDITION, &[statement.kind, status], is);
        }
    }
}

/// Sets the metrics of the timeline.
pub fn show_timeline(metrics: &Metrics, timeline: &Timeline) {
    for (stage, at) in timeline.steps() {
        // The milliseconds of a start are far below the exact range of a float.
        metrics.set(&STAGE, &[stage], at as f64 / 1000.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_matches_the_metrics_of_the_agent_page() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/agent.md");
        let page = std::fs::read_to_string(page).unwrap_or_default();
        for metric in TABLE {
            let kind = match metric.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram(_) => "histogram",
            };
            let row = format!("| `{}` | {kind} | {} | {} |", metric.name, metric.labels.join(", "), metric.help);
            assert!(page.contains(&row), "docs/agent.md lacks: {row}");
        }
    }
}
