//! Hostile nodes in a cluster of honest ones. Programs take the place of kubelet and agent on one to three nodes, and write what
//! they like (`simulator::hostile_node`). They may cost the cluster those nodes, and nothing more. Each seed runs twice, once
//! without the programs, and the difference must be bounded.
//!
//! `make hostile` runs 500 seeds (`KERF_HOSTILE_SEEDS`, and `KERF_HOSTILE_SEED` for the first one).
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "hostile/invariants.rs"]
mod invariants;
#[path = "hostile/metrics.rs"]
mod metrics;
#[path = "hostile/outcome.rs"]
mod outcome;
#[path = "hostile/run.rs"]
mod run;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::objects::Node;
use api::{NodeClaim, condition, reason};
use serde_json::json;
use simulator::api_server::NODES as NODES_PLURAL;
use simulator::cluster::{ModelCluster, pool};
use simulator::surroundings::Workload;
use tokio::runtime::Builder;

use run::Setting;

/// Returns a number from the environment, or `usual`, the value of the daily tests.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Runs one seed with and without hostile nodes, on a clock of its own, and returns the violations.
fn violations(seed: u64) -> Vec<String> {
    let setting = Setting::new(seed);
    let runtime = || Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let honest = runtime().block_on(run::outcome(setting, false));
    assert_eq!(honest.violations, [] as [String; 0], "seed {seed} without hostile nodes");
    let found = runtime().block_on(run::outcome(setting, true)).differences(&honest);
    found.into_iter().map(|violation| format!("seed {seed}: {violation}")).collect()
}

#[test]
fn cluster_is_unaffected_when_nodes_are_hostile() {
    let (first, seeds) = (number("KERF_HOSTILE_SEED", 1), number("KERF_HOSTILE_SEEDS", 10));
    let next = AtomicU64::new(first);
    let worker = || {
        let mut found = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + seeds {
                return found;
            }
            found.extend(violations(seed));
            println!("seed {seed}: {} violations so far", found.len());
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let found: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

/// A program on all nodes of a NodePool announces their end, which EC2 does not confirm: a fault of an agent, or an attacker with
/// many nodes. At most a fifth of the NodePool may end before a person looks at it.
#[tokio::test(start_paused = true)]
async fn a_fifth_of_a_nodepool_ends_when_all_agents_report_notices() {
    const NODES: usize = 20;
    let disruption = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]});
    let cluster = ModelCluster::new(pool(&["m5.large"], disruption), Default::default());
    let _run = cluster.controller_run();
    cluster.want("web", Workload::of(NODES, 1500));
    cluster.until("the fleet", |cluster| cluster.is_settled(NODES, NODES)).await;
    for (number, node) in cluster.nodes().iter().enumerate() {
        let reason = [reason::INSTANCE_SHUTDOWN, reason::SPOT_INTERRUPTION, reason::ASG_LIFECYCLE][number % 3];
        let stated = json!({"type": condition::INTERRUPTED, "status": condition::TRUE, "reason": reason});
        let conditions = json!([{"type": condition::READY, "status": condition::TRUE}, stated]);
        cluster.server.change(NODES_PLURAL, node.name(), &json!({"status": {"conditions": conditions}}));
    }
    tokio::time::sleep(Duration::from_secs(240)).await;
    let claims = cluster.claims();
    let left = claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none());
    let old = left.filter(|claim| cluster.nodes().iter().any(|node| is_noticed(node, claim))).count();
    assert!(old >= NODES - NODES / 5, "{old} of {NODES} NodeClaims are left");
}

fn is_noticed(node: &Node, claim: &NodeClaim) -> bool {
    Some(node.spec.provider_id.as_str()) == claim.provider_id() && node.interruption().is_some()
}
