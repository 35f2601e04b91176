//! Metrics of node conditions, exported by the controller, so that nodes need no scrape. Computed at each scrape.

use std::collections::BTreeMap;

use api::objects::Node;
use api::{condition, label};
use daemon::metric::{Metrics, Series};

use crate::metrics::bounded_names::BoundedNames;
use crate::metrics::gauge_set::{GaugeSet, Sample};
use crate::metrics::{ByNodePoolConditionReason, ByNodePoolGate, GATES_CLOSED, NODES_UNHEALTHY};

/// Metrics of node conditions.
#[derive(Debug, Default)]
pub struct NodeConditionMetrics {
    exported: GaugeSet,
    names: BoundedNames,
}

impl NodeConditionMetrics {
    /// Counts the conditions of these nodes.
    pub fn count<'n>(&self, nodes: impl Iterator<Item = &'n Node>, metrics: &Metrics) {
        let samples = counts(nodes, &self.names).into_iter();
        self.exported.replace(metrics, samples.map(|(series, value)| Sample { series, value }).collect());
    }
}

fn counts<'n>(nodes: impl Iterator<Item = &'n Node>, names: &BoundedNames) -> BTreeMap<Series, f64> {
    let mut counts = BTreeMap::new();
    let mut count = |series: Series| *counts.entry(series).or_default() += 1.0;
    for node in nodes {
        let pool = node.label(label::NODEPOOL).unwrap_or_default();
        for found in node.status.conditions.iter().filter(|found| found.status == condition::FALSE) {
            let kind = found.type_.as_str();
            let reasons = found.reason.split(',').filter(|reason| !reason.is_empty());
            let reasons = reasons.map(|reason| names.label(kind, reason));
            if kind == condition::AGENT_READY {
                reasons.for_each(|gate| count(GATES_CLOSED.series(&ByNodePoolGate { nodepool: pool, gate })));
            } else if condition::HEALTH.contains(&kind) {
                reasons.for_each(|reason| {
                    count(NODES_UNHEALTHY.series(&ByNodePoolConditionReason {
                        nodepool: pool,
                        condition: kind,
                        reason,
                    }));
                });
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::fixture;
    use crate::metrics::table;

    fn node(conditions: &Value) -> Arc<Node> {
        let labels = json!({"karpenter.sh/nodepool": "blue"});
        fixture::node(&json!({"metadata": {"labels": labels}, "status": {"conditions": conditions}}))
    }

    #[test]
    fn count_removes_series_when_node_conditions_end() {
        let (metrics, reexport) = (Metrics::new(&table()), NodeConditionMetrics::default());
        let closed = json!([{"type": "kerf.sh/Ready", "status": "False", "reason": "CNI,Probe"}]);
        let ill = json!([
            {"type": "kerf.sh/Ready", "status": "False", "reason": "CNI"},
            {"type": "StorageReady", "status": "False", "reason": "DiskFull"},
            {"type": "KernelReady", "status": "True", "reason": "KernelIsReady"},
            {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure"},
        ]);
        let nodes = [node(&closed), node(&ill)];
        reexport.count(nodes.iter().map(AsRef::as_ref), &metrics);
        let has_line = |text: &str, line: &str| text.contains(line);
        let text = metrics.render();
        assert!(has_line(&text, r#"kerf_nodes_gate_closed{nodepool="blue",gate="CNI"} 2.0"#), "{text}");
        assert!(has_line(&text, r#"kerf_nodes_gate_closed{nodepool="blue",gate="Probe"} 1.0"#), "{text}");
        let disk = r#"kerf_nodes_unhealthy{nodepool="blue",condition="StorageReady",reason="DiskFull"} 1.0"#;
        assert!(has_line(&text, disk), "{text}");
        assert!(!has_line(&text, "DiskPressure") && !has_line(&text, "KernelIsReady"), "{text}");
        reexport.count(std::iter::empty(), &metrics);
        assert!(!has_line(&metrics.render(), "blue"));
    }
}
