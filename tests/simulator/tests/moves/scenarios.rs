//! Scenarios of nodes, without the crashes: a settled cluster, a change of it, and the required result.

use std::collections::BTreeSet;

use api::label;
use serde_json::{Value, json};
use simulator::api_server::{BUDGETS, CLAIMS};
use simulator::cluster::{ModelCluster, pool};
use simulator::surroundings::Workload;

/// One scenario.
pub struct Scenario {
    pub name: &'static str,
    /// Instance types of the NodePool; below them, its `spec.disruption`.
    types: &'static [&'static str],
    disruption: fn() -> Value,
    /// Workloads before the change, by name, with number of pods and CPU request in millicores.
    pods: &'static [(&'static str, usize, i64)],
    /// Number of NodeClaims before the change.
    claims: usize,
    change: fn(&ModelCluster),
    /// Number of nodes and of pods at the end, and total number of instances ever launched.
    pub end: (usize, usize, usize),
    /// Highest number of nodes that may be disrupted at once.
    pub most_disturbed: usize,
}

impl Scenario {
    /// Returns the cluster before the change: a first controller run has settled it and has ended.
    pub async fn settled(&self) -> ModelCluster {
        let cluster = ModelCluster::new(pool(self.types, (self.disruption)()), Default::default());
        let controller_run = cluster.controller_run();
        for (app, replicas, cpu) in self.pods {
            // The workloads are created one after another, so that each gets the node that the scenario intends.
            cluster.want(app, Workload::of(*replicas, *cpu));
            let wanted = cluster.pods().len();
            cluster
                .until(app, |cluster| {
                    let running = cluster.pods().iter().filter(|pod| pod.is_ready()).count();
                    if running >= wanted.max(*replicas) { Ok(()) } else { Err(format!("{running} run")) }
                })
                .await;
        }
        let pods = self.pods.iter().map(|(_, replicas, _)| replicas).sum();
        cluster.until(self.name, |cluster| cluster.is_settled(self.claims, pods)).await;
        controller_run.kill();
        cluster
    }

    /// Changes the cluster.
    pub fn changes(&self, cluster: &ModelCluster) {
        (self.change)(cluster);
    }

    /// Waits until the result is reached.
    pub async fn ends(&self, cluster: &ModelCluster) {
        let (claims, pods, machines) = self.end;
        cluster
            .until(self.name, |cluster| match cluster.ec2.machines().len() {
                ever if ever < machines => Err(format!("{ever} machines of {machines} were bought")),
                _ => cluster.is_settled(claims, pods),
            })
            .await;
    }
}

fn at_once() -> Value {
    json!({"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})
}

fn one_by_one() -> Value {
    json!({"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]})
}

fn in_pool(cluster: &ModelCluster, change: &Value) {
    cluster.server.change("nodepools", "default", change);
}

fn only_these(types: &[&str]) -> Value {
    let one_of = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let requirements = [
        one_of(label::ARCH, &[label::ARCH_AMD64]),
        one_of(label::INSTANCE_TYPE, types),
        one_of(label::CAPACITY_TYPE, &[label::CAPACITY_ON_DEMAND]),
    ];
    json!({"spec": {"template": {"spec": {"requirements": requirements}}}})
}

/// Every scenario.
pub const ALL: [Scenario; 4] = [
    Scenario {
        name: "two nodes that drift, one after the other",
        types: &["m5.xlarge"],
        disruption: one_by_one,
        pods: &[("red", 1, 2500), ("green", 1, 2500)],
        claims: 2,
        change: |cluster| in_pool(cluster, &json!({"spec": {"template": {"metadata": {"labels": {"tier": "new"}}}}})),
        end: (2, 2, 4),
        most_disturbed: 1,
    },
    Scenario {
        name: "two half-used nodes that become one cheaper one",
        types: &["m5.xlarge"],
        disruption: at_once,
        pods: &[("half", 1, 2500), ("other", 1, 2500)],
        claims: 2,
        change: |cluster| in_pool(cluster, &only_these(&["m5.xlarge", "c5.2xlarge"])),
        end: (1, 2, 3),
        most_disturbed: 2,
    },
    Scenario {
        name: "a node whose pods have room on another",
        types: &["m5.xlarge"],
        disruption: at_once,
        pods: &[("stays", 1, 1500), ("large", 1, 2400), ("small", 1, 1400)],
        claims: 2,
        change: |cluster| cluster.want("large", Workload::of(0, 2400)),
        end: (1, 2, 2),
        most_disturbed: 2,
    },
    Scenario {
        name: "a claim that a user deletes, with a budget that lets one pod go at a time",
        types: &["m5.xlarge"],
        disruption: one_by_one,
        pods: &[("guarded", 3, 1000)],
        claims: 1,
        change: |cluster| {
            let budget = json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "guarded", "namespace": "default"},
                "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "guarded"}}},
            });
            cluster.server.create(BUDGETS, budget);
            let names: BTreeSet<String> =
                cluster.claims().into_iter().filter_map(|claim| claim.metadata.name).collect();
            names.iter().for_each(|name| cluster.server.delete(CLAIMS, name));
        },
        end: (1, 3, 2),
        most_disturbed: 1,
    },
];
