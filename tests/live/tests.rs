//! A sample of twenty pods with Kerf's controller: every part of the whole run, without the peer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::ensure;
use api::NodeClaim;
use api::objects::{Node, Pod, ResourceList};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use testbed::eventually;

use super::benchmark::Benchmark;
use super::subject::{Fixtures, Side};
use super::{pool, scenarios};

/// Percentage of pods: 20 of 1000.
const PERCENT: usize = 2;
/// Startup taint that makes a node unschedulable for pods.
const HOLD: &str = "example.com/hold";
const LIMIT: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_have_allocatable_that_their_nodeclaims_promised() {
    let fixtures = Fixtures::make().await.unwrap();
    let mut scenario = scenarios::all(&fixtures, PERCENT).unwrap().remove(0);
    scenario.then = scenarios::Change::None;
    assert_eq!(scenario.workload.pods(), 20);
    let mut benchmark = Benchmark::open(Side::Kerf, &fixtures).await.unwrap();
    let figures = benchmark.run(&scenario).await.unwrap();
    let ran = figures.ran.unwrap();
    assert!(figures.first_claim < ran.took, "{figures:?}");
    assert!((1..20).contains(&ran.nodes) && ran.cost > 0.0, "{figures:?}");
    assert!(figures.rss_peak_mib > 1.0 && figures.cpu > 0.0, "{figures:?}");
    let nodes = Api::<Node>::all(benchmark.client.clone()).list(&ListParams::default()).await.unwrap();
    let nodes: BTreeMap<_, _> = nodes.iter().map(|node| (node.spec.provider_id.clone(), node)).collect();
    for claim in Api::<NodeClaim>::all(benchmark.client.clone()).list(&ListParams::default()).await.unwrap() {
        let status = claim.status.unwrap();
        let node = nodes[&status.provider_id];
        for resource in ["cpu", "memory", "pods"] {
            let (promised, found) = (&status.allocatable[resource], &node.status.allocatable[resource]);
            assert_eq!(promised.amount(resource), found.amount(resource), "{resource} of {}", node.name());
        }
    }
    benchmark.close().await.unwrap();
}

/// Nodes register one by one, and kube-scheduler could bind small pods to capacity for large ones. Here a node becomes
/// schedulable only when every pending pod has a nomination.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controller_launches_no_extra_nodes_when_nodes_open_in_turn() {
    let fixtures = Fixtures::make().await.unwrap();
    let scenario = scenarios::all(&fixtures, PERCENT).unwrap().remove(0);
    let mut benchmark = Benchmark::open(Side::Kerf, &fixtures).await.unwrap();
    let mut held = pool::object(&benchmark.class, 1).unwrap();
    held["spec"]["template"]["spec"]["startupTaints"] = json!([{"key": HOLD, "effect": "NoSchedule"}]);
    // A replacement would have the taint too, and this test does not remove it.
    held["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    testbed::apply(&benchmark.client, held).await.unwrap();
    benchmark.waiting_pods(&scenario).await.unwrap();
    let (pods, nodes) =
        (Api::<Pod>::default_namespaced(benchmark.client.clone()), Api::<Node>::all(benchmark.client.clone()));
    let (mut opened, mut nominated) = (0, BTreeMap::new());
    while let Some(node) = next_closed_node(&pods, &nodes, &mut nominated).await {
        let taints: Vec<_> = node.spec.taints.iter().filter(|taint| taint.key != HOLD).collect();
        let open = Patch::Merge(json!({"spec": {"taints": taints}}));
        nodes.patch(node.name(), &PatchParams::default(), &open).await.unwrap();
        opened += 1;
    }
    assert!(opened > 2, "{opened} machines are no row");
    let all = scenario.workload.pods();
    let run = benchmark.until("all pods to run", |seen| {
        ensure!(seen.running() == all, "{} of {all} run", seen.running());
        Ok(())
    });
    run.await.unwrap();
    let claims = list(&Api::<NodeClaim>::all(benchmark.client.clone())).await.unwrap();
    let pods = list(&pods).await.unwrap();
    // kube-scheduler clears a nomination when the node is unschedulable, possibly just before another node becomes
    // schedulable. A pod on a node that was nominated for another pod can cost one more node for the largest pod.
    let elsewhere = pods.iter().filter(|pod| nominated.get(pod.name()) != Some(&pod.spec.node_name)).count();
    assert!(elsewhere < all / 2, "kube-scheduler bound {elsewhere} of {all} pods to other nodes than nominated");
    for resource in ["cpu", "memory"] {
        let of = |requests: &ResourceList| requests[resource].amount(resource).unwrap();
        let bought: i64 = claims.iter().map(|claim| of(&claim.spec.resources.requests)).sum();
        let containers = pods.iter().flat_map(|pod| &pod.spec.containers);
        let each: Vec<i64> = containers.map(|container| of(&container.resources.requests)).collect();
        let (asked, largest): (i64, i64) = (each.iter().sum(), each.iter().copied().max().unwrap_or_default());
        let most = asked + largest * i64::try_from(elsewhere).unwrap();
        assert!(
            bought <= most,
            "{resource}: pods request {asked}, NodeClaims {bought}; {elsewhere} pods are on other nodes than nominated"
        );
    }
    benchmark.close().await.unwrap();
}

/// Waits until every pending pod is nominated to an existing node, and records the nominations by pod name. Returns a node that
/// is still unschedulable; `None` once all pods are bound.
async fn next_closed_node(
    pods: &Api<Pod>,
    nodes: &Api<Node>,
    nominated: &mut BTreeMap<String, String>,
) -> Option<Node> {
    eventually("a closed node for the pending pods, and a nomination for each of them", LIMIT, async || {
        let known = list(nodes).await?;
        let pending: Vec<Pod> = list(pods).await?.into_iter().filter(|pod| !pod.is_bound()).collect();
        if pending.is_empty() {
            return Ok(Some(None));
        }
        let names: BTreeSet<&str> = known.iter().map(Node::name).collect();
        let missing = pending.iter().filter(|pod| !names.contains(pod.status.nominated_node_name.as_str())).count();
        ensure!(missing == 0, "{missing} pods have no nomination");
        let nominations = pending.iter().map(|pod| (pod.name().to_owned(), pod.status.nominated_node_name.clone()));
        nominated.extend(nominations);
        let closed = known.into_iter().find(|node| node.has_taint(HOLD, "NoSchedule"));
        ensure!(closed.is_some(), "{} pods are pending and no node is closed", pending.len());
        Ok(Some(closed))
    })
    .await
    .unwrap()
}

async fn list<K>(api: &Api<K>) -> anyhow::Result<Vec<K>>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    Ok(api.list(&ListParams::default()).await?.items)
}

#[tokio::test]
async fn catalogue_offers_the_same_types_to_both_sides() {
    let fixtures = Fixtures::make().await.unwrap();
    let catalogue = &fixtures.catalogue;
    let kwok = catalogue.for_kwok().unwrap();
    assert_eq!(kwok.as_array().unwrap().len(), catalogue.names().len());
    let large = kwok.as_array().unwrap().iter().find(|it| it["name"] == "m5.large").unwrap();
    let (_, ours) = catalogue.sizes("m5.large").unwrap();
    let amount = |resource, value: &serde_json::Value| {
        api::quantity::amount(resource, value[resource].as_str().unwrap()).unwrap()
    };
    // kwok's provider subtracts these amounts.
    assert_eq!(amount("cpu", &large["resources"]) - 100, amount("cpu", &ours));
    assert_eq!(amount("memory", &large["resources"]) - (10 << 20), amount("memory", &ours));
    assert_eq!(amount("pods", &large["resources"]), amount("pods", &ours));
    assert_eq!(large["offerings"].as_array().unwrap().len(), 3, "three zones");
    assert_eq!(large["offerings"][0]["Price"].as_f64(), catalogue.price("m5.large"));
}
