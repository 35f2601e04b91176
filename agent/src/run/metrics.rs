//! Metrics of the agent: the one place for their names, labels and meanings.
//!
//! Names without our prefix are those of the AWS Node Termination Handler, with the same meaning, so that its dashboards and
//! alerts keep working. `run/local.rs` sets the values.

use daemon::metric::{Counter, Gauge, Metrics, NoLabels};
use daemon::{labels, metrics};

use crate::bootstrap::timeline::Timeline;
use crate::cluster::ConditionUpdate;

labels! {
    ByNodeActionNodeStatus { node_action, node_status }
    ByEventErrorWhere { event_error_where }
    ByStage { stage }
    ByConditionStatus { condition, status }
}

metrics! {
    table TABLE;
    ACTIONS: Counter<ByNodeActionNodeStatus> = (
        "actions_total",
        "Actions on this Node for an event (cordon, cordon-and-drain), by success or error"
    );
    EVENTS_ERROR: Counter<ByEventErrorWhere> = (
        "events_error_total",
        "Errors in reading or handling events, by source: imds, api, journal"
    );
    STAGE: Gauge<ByStage> = (
        "kerf_agent_stage_seconds",
        "Seconds from the agent's first start in this boot to each stage of the node's start; negative for kernel and systemd"
    );
    CONDITION: Gauge<ByConditionStatus> = (
        "kerf_agent_condition",
        "1 for the status that each condition of the agent has, 0 for the others"
    );
    API_ANSWERS: Gauge<NoLabels> = (
        "kerf_agent_api_answers",
        "1 while the API server responds to the agent, else 0"
    );
}

const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// Shows the conditions.
pub fn show_conditions(metrics: &Metrics, updates: &[ConditionUpdate]) {
    for update in updates {
        for status in STATUSES {
            let is = f64::from(u8::from(update.status == status));
            metrics.set(&CONDITION, ByConditionStatus { condition: update.kind, status }, is);
        }
    }
}

/// Shows the timeline.
pub fn show_timeline(metrics: &Metrics, timeline: &Timeline) {
    for (stage, at) in timeline.steps() {
        // Milliseconds of a start are far below what a float holds exactly.
        metrics.set(&STAGE, ByStage { stage }, at as f64 / 1000.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `kerf convert` checks the metrics and labels of queries by this list.
    #[test]
    fn table_matches_the_metrics_of_convert() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/src/convert/monitoring/agent.csv");
        let line = |metric: &daemon::metric::Description| {
            format!("{},{},{}\n", metric.name, metric.kind.as_str(), metric.labels.join(" "))
        };
        let wanted: String = TABLE.iter().map(line).collect();
        if std::env::var_os("BLESS").is_some() {
            let _ = std::fs::write(&path, &wanted);
        }
        assert_eq!(
            std::fs::read_to_string(&path).unwrap_or_default(),
            wanted,
            "{}; review with BLESS=1",
            path.display()
        );
    }

    #[test]
    fn table_matches_the_metrics_of_the_agent_page() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/agent.md");
        let page = std::fs::read_to_string(page).unwrap_or_default();
        for metric in TABLE {
            let row = format!(
                "| `{}` | {} | {} | {} |",
                metric.name,
                metric.kind.as_str(),
                metric.labels.join(", "),
                metric.help
            );
            assert!(page.contains(&row), "docs/agent.md lacks: {row}");
        }
    }
}
