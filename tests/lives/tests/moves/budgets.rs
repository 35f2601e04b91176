//! Budgets hold at every moment of the replacement of a whole fleet, not only when commands begin.

use lives::surroundings::Workload;
use lives::town::{Town, pool};
use serde_json::json;

use super::judge;

const NODES: usize = 12;

/// Twelve nodes drift at once, with budgets of three for all reasons, two for drift, and none for consolidation.
#[tokio::test(start_paused = true)]
async fn drift_respects_the_budget_of_its_reason_at_every_moment() {
    let budgets =
        json!([{"nodes": "3"}, {"nodes": "2", "reasons": ["Drifted"]}, {"nodes": "0", "reasons": ["Underutilized"]}]);
    let town =
        Town::new(pool(&["m5.large"], json!({"consolidateAfter": "0s", "budgets": budgets})), Default::default());
    let _life = town.life();
    town.want("web", Workload::of(NODES, 1500));
    town.until("the fleet", |town| town.is_settled(NODES, NODES)).await;
    let old: Vec<String> = town.claims().into_iter().filter_map(|claim| claim.metadata.name).collect();
    town.server.judged_by(judge::of(2));
    let labelled = json!({"spec": {"template": {"metadata": {"labels": {"tier": "new"}}}}});
    town.server.change("nodepools", "default", &labelled);
    town.until("another fleet", |town| {
        let left = town.claims().iter().filter(|claim| old.contains(claim.metadata.name.as_ref().unwrap())).count();
        if left > 0 { Err(format!("{left} of {NODES} are left")) } else { town.is_settled(NODES, NODES) }
    })
    .await;
    assert_eq!(town.server.faults(), [] as [String; 0]);
    assert_eq!(town.ec2.machines().len(), 2 * NODES, "machines ever");
}
