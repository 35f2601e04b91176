//! Division of the cost of small recordings.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::NodeClaim;
use jiff::SignedDuration;
use planner::{CapacityType, Catalogue, InstanceType, MicroDollars, Offering};
use serde_json::{Value, json};
use snapshot::Objects;

use super::*;
use crate::figures::Figures;
use crate::history::HistoryBuilder;

const GIBIBYTE: i64 = 1 << 30;
/// Midnight of a day, in seconds.
const MIDNIGHT: i64 = 1_780_012_800;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(MIDNIGHT + second).unwrap()
}

/// Returns a market in which a node of 10 CPUs and 40 GiB costs one dollar per hour.
fn market() -> Market {
    let amounts = [(Resources::CPU, 10_000), (Resources::MEMORY, 40 * GIBIBYTE)];
    let offering = Offering {
        zone: "a".to_owned(),
        capacity_type: CapacityType::OnDemand,
        price: MicroDollars(1_000_000),
        premium: MicroDollars(0),
        available: true,
        labels: BTreeMap::new(),
        reservation: None,
    };
    let kind = InstanceType {
        name: "large".to_owned(),
        allocatable: amounts.into_iter().collect(),
        offerings: vec![offering],
        ..InstanceType::default()
    };
    let catalogue = Catalogue { name: "default".to_owned(), types: vec![kind], ..Catalogue::default() };
    Market { catalogues: vec![(at(0), BTreeMap::from([("default".to_owned(), Arc::new(catalogue))]))] }
}

/// Returns the NodeClaim of node `n1`, launched at this second.
fn node(launched: i64) -> Objects {
    let since = at(launched).to_string();
    let claim: NodeClaim = serde_json::from_value(json!({
        "metadata": {"name": "claim-1", "creationTimestamp": since, "labels": {
            "karpenter.sh/nodepool": "general", "node.kubernetes.io/instance-type": "large",
            "topology.kubernetes.io/zone": "a", "karpenter.sh/capacity-type": "on-demand",
        }},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [], "resources": {},
        },
        "status": {"nodeName": "n1", "conditions": [
            {"type": "Launched", "status": "True", "lastTransitionTime": since, "reason": "Launched", "message": ""},
        ]},
    }))
    .unwrap();
    Objects { claims: vec![Arc::new(claim)], ..Objects::default() }
}

/// Returns a running pod on node `n1`, bound at this second.
fn pod(name: &str, change: Value, cpu: &str, memory: &str, bound: i64) -> Objects {
    let since = at(bound).to_string();
    let mut pod = json!({
        "metadata": {"namespace": "shop", "name": name, "uid": name, "creationTimestamp": since},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
        },
        "status": {"phase": "Running", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": since},
        ]},
    });
    for (pointer, value) in change.as_object().into_iter().flatten() {
        pod["metadata"][pointer] = value.clone();
    }
    Objects { pods: vec![Arc::new(serde_json::from_value(pod).unwrap())], ..Objects::default() }
}

fn team(name: &str) -> Value {
    json!({"labels": {"team": name}})
}

fn daemon() -> Value {
    json!({"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "uid": "logs", "controller": true},
    ]})
}

fn shares(history: &History, every: SignedDuration) -> Vec<CostShare> {
    let team = |pod: &Pod| pod.metadata.labels.as_ref().and_then(|all| all.get("team")).cloned().unwrap_or_default();
    cost_shares(history, &market(), every, team)
}

/// Returns owner, its three parts in thousandths of a dollar, and the minutes of its pods.
fn row(share: &CostShare) -> (Option<&str>, [i64; 3], i64) {
    let parts = [share.requested, share.daemons, share.unrequested].map(|micro| micro / 1000);
    (share.owner.as_deref(), parts, share.pod_seconds / 60)
}

#[test]
fn cost_of_a_node_is_divided_by_requests() {
    let mut builder = HistoryBuilder::default();
    builder.set(at(0), node(0));
    // A tenth, and three tenths of the node: the mean of the shares of CPU and memory.
    builder.set(at(1), pod("a", team("red"), "1", "4Gi", 0));
    builder.set(at(1), pod("b", team("blue"), "2", "16Gi", 0));
    builder.set(at(1), pod("logs", daemon(), "2", "8Gi", 1));
    let history = builder.finish(at(3600));
    let found = shares(&history, SignedDuration::from_hours(24));
    let rows: Vec<_> = found.iter().map(row).collect();
    assert_eq!(rows, [(Some("blue"), [300, 149, 300], 60), (Some("red"), [100, 49, 100], 60)]);
    let sum: i64 = found.iter().map(CostShare::cost).sum();
    let whole = Figures::recorded(&history, &market()).cost;
    assert!((whole - sum).abs() <= 2, "{sum} of {whole}");
}

#[test]
fn idle_time_of_a_node_has_no_owner() {
    let mut builder = HistoryBuilder::default();
    builder.set(at(0), node(0));
    builder.set(at(900), pod("a", team("red"), "10", "40Gi", 900));
    builder.remove(at(1800), "Pod", "shop", "a");
    let history = builder.finish(at(3600));
    let rows: Vec<CostShare> = shares(&history, SignedDuration::from_hours(24));
    let rows: Vec<_> = rows.iter().map(row).collect();
    assert_eq!(rows, [(None, [0, 0, 750], 0), (Some("red"), [250, 0, 0], 15)]);
}

#[test]
fn periods_begin_at_full_hours() {
    let mut builder = HistoryBuilder::default();
    builder.set(at(1800), node(1800));
    builder.set(at(1800), pod("a", team("red"), "10", "40Gi", 1800));
    let history = builder.finish(at(9000));
    let found = shares(&history, SignedDuration::from_hours(1));
    let rows: Vec<_> = found.iter().map(|share| (share.from, share.cost() / 1000)).collect();
    assert_eq!(rows, [(at(1800), 500), (at(3600), 1000), (at(7200), 500)]);
}

/// EC2 gives the names of nodes again: a pod of the earlier node pays nothing for the later one.
#[test]
fn pod_pays_only_for_its_own_node_when_a_name_returns() {
    let mut builder = HistoryBuilder::default();
    builder.set(at(0), pod("a", team("red"), "10", "40Gi", 0));
    builder.remove(at(900), "Pod", "shop", "a");
    builder.set(at(1800), node(1800));
    builder.set(at(1800), pod("b", team("blue"), "10", "40Gi", 1800));
    let rows = shares(&builder.finish(at(3600)), SignedDuration::from_hours(24));
    let rows: Vec<_> = rows.iter().map(row).collect();
    assert_eq!(rows, [(Some("blue"), [500, 0, 0], 30)]);
}

/// More requests than the node has, as after a change of its type: each pod pays its part, and nothing is left.
#[test]
fn requests_above_the_node_share_it_alone() {
    let mut builder = HistoryBuilder::default();
    builder.set(at(0), node(0));
    builder.set(at(0), pod("a", team("red"), "15", "60Gi", 0));
    builder.set(at(0), pod("b", team("blue"), "5", "20Gi", 0));
    let rows = shares(&builder.finish(at(3600)), SignedDuration::from_hours(24));
    let rows: Vec<_> = rows.iter().map(row).collect();
    assert_eq!(rows, [(Some("blue"), [250, 0, 0], 60), (Some("red"), [750, 0, 0], 60)]);
}
