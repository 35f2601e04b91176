//! Budgets hold at every moment of the replacement of a whole fleet, not only when commands begin.

use serde_json::json;
use simulator::cluster::{ModelCluster, pool};
use simulator::surroundings::Workload;

use super::check;

const NODES: usize = 12;

/// Twelve nodes drift at once, with budgets of three for all reasons, two for drift, and none for consolidation.
#[tokio::test(start_paused = true)]
async fn drift_respects_the_budget_of_its_reason_at_every_moment() {
    let budgets =
        json!([{"nodes": "3"}, {"nodes": "2", "reasons": ["Drifted"]}, {"nodes": "0", "reasons": ["Underutilized"]}]);
    let cluster = ModelCluster::new(
        pool(&["m5.large"], json!({"consolidateAfter": "0s", "budgets": budgets})),
        Default::default(),
    );
    let _controller_run = cluster.controller_run();
    cluster.want("web", Workload::of(NODES, 1500));
    cluster.until("the fleet", |cluster| cluster.is_settled(NODES, NODES)).await;
    let old: Vec<String> = cluster.claims().into_iter().filter_map(|claim| claim.metadata.name).collect();
    cluster.server.checked_by(check::of(2));
    let labelled = json!({"spec": {"template": {"metadata": {"labels": {"tier": "new"}}}}});
    cluster.server.change("nodepools", "default", &labelled);
    cluster
        .until("another fleet", |cluster| {
            let left =
                cluster.claims().iter().filter(|claim| old.contains(claim.metadata.name.as_ref().unwrap())).count();
            if left > 0 { Err(format!("{left} of {NODES} are left")) } else { cluster.is_settled(NODES, NODES) }
        })
        .await;
    assert_eq!(cluster.server.faults(), [] as [String; 0]);
    assert_eq!(cluster.ec2.machines().len(), 2 * NODES, "machines ever");
}
