//! Budgets hold at every moment of a whole fleet's renewal, not only when moves begin.

use lives::surroundings::Workload;
use lives::town::{Town, pool};
use serde_json::json;

use super::judge;

const NODES: usize = 12;

/// Twelve nodes drift at once, by budgets of three, of two for drift and of none for what only saves money.
#[tokio::test(start_paused = true)]
async fn a_fleet_that_drifts_goes_no_faster_than_its_budget_for_drift() {
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
