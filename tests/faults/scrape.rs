//! Metrics of a running controller in Karpenter's detail.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use controller::metrics::detail::MetricsDetail;
use serde_json::json;
use testbed::controller::get;
use testbed::eventually;

use super::fixture::{Fixture, LIMIT, run};

/// Returns the lines of the series with this name.
fn lines<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'))).collect()
}

pub(super) async fn scrape(fixture: &Fixture) -> Result<String> {
    get(&fixture.environment.probes(), "/metrics").await
}

#[test]
fn scrape_has_series_of_each_node_and_pod_in_karpenter_detail() {
    run(async |fixture| {
        fixture.pod("measured", "1", json!({})).await?;
        let node = fixture.runs("measured").await?;
        let text = eventually("series of the node and its pod", LIMIT, async || {
            let text = scrape(fixture).await?;
            let name = format!("node_name=\"{node}\"");
            let allocatable = lines(&text, "karpenter_nodes_allocatable");
            let cpu = allocatable.iter().find(|line| line.contains(&name) && line.contains("resource_type=\"cpu\""));
            let cpu = cpu.with_context(|| format!("no CPU of {node}"))?;
            for label in ["nodepool=\"default\"", "managed=\"true\""] {
                ensure!(cpu.contains(label), "{label} is missing: {cpu}");
            }
            ensure!(!cpu.contains("instance_category=\"\""), "the labels of the node are missing: {cpu}");
            let states = lines(&text, "karpenter_pods_state");
            let owner = "owner=\"/apis/apps/v1/namespaces/default/replicasets/measured\"";
            let state = states.iter().find(|line| line.contains(owner)).context("no state of the pod")?;
            let place = format!("node=\"{node}\",scheduled=\"true\",nodepool=\"default\"");
            ensure!(state.contains(&place), "{state}");
            let ready = lines(&text, "operator_node_status_condition_count");
            ensure!(ready.iter().any(|line| line.contains(&format!("name=\"{node}\""))), "{ready:?}");
            Ok(Some(text))
        })
        .await?;
        let known: BTreeSet<&str> = MetricsDetail::Karpenter.table().iter().map(|metric| metric.name).collect();
        let is_known = |name: &str| known.contains(name) || known.contains(format!("{name}_total").as_str());
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        let unknown: Vec<&str> = types.filter(|name| !is_known(name)).collect();
        ensure!(unknown.is_empty(), "{unknown:?} are not in the table");
        for name in ["karpenter_scheduler_queue_depth", "karpenter_cloudprovider_batcher_batch_time_seconds_count"] {
            ensure!(!lines(&text, name).is_empty(), "no series of {name}");
        }
        ensure!(text.contains("karpenter_pods_startup_duration_seconds summary"), "no summary of pod starts");
        Ok(())
    });
}
