//! A sample of twenty pods with our controller: everything that the whole run stands on, without the peer.

use std::collections::BTreeMap;

use api::NodeClaim;
use api::objects::Node;
use kube::api::{Api, ListParams};

use super::arena::Arena;
use super::scenarios;
use super::subject::{Fixtures, Side};

/// Of a thousand pods twenty.
const PERCENT: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_pods_get_the_machines_that_their_claims_promised() {
    let fixtures = Fixtures::make().await.unwrap();
    let mut scenario = scenarios::all(&fixtures, PERCENT).unwrap().remove(0);
    scenario.then = scenarios::Change::None;
    assert_eq!(scenario.workload.pods(), 20);
    let mut arena = Arena::open(Side::Kerf, &fixtures).await.unwrap();
    let figures = arena.play(&scenario).await.unwrap();
    assert!(figures.first_claim < figures.all_running, "{figures:?}");
    assert!((1..20).contains(&figures.nodes) && figures.cost > 0.0, "{figures:?}");
    assert!(figures.rss_peak_mib > 1.0 && figures.cpu > 0.0, "{figures:?}");
    let nodes = Api::<Node>::all(arena.client.clone()).list(&ListParams::default()).await.unwrap();
    let nodes: BTreeMap<_, _> = nodes.iter().map(|node| (node.spec.provider_id.clone(), node)).collect();
    for claim in Api::<NodeClaim>::all(arena.client.clone()).list(&ListParams::default()).await.unwrap() {
        let status = claim.status.unwrap();
        let node = nodes[&status.provider_id];
        for resource in ["cpu", "memory", "pods"] {
            let (told, found) = (&status.allocatable[resource], &node.status.allocatable[resource]);
            assert_eq!(told.amount(resource), found.amount(resource), "{resource} of {}", node.name());
        }
    }
    arena.close().await.unwrap();
}

#[tokio::test]
async fn both_sides_are_sold_the_same() {
    let fixtures = Fixtures::make().await.unwrap();
    let catalogue = &fixtures.catalogue;
    let kwok = catalogue.for_kwok().unwrap();
    assert_eq!(kwok.as_array().unwrap().len(), catalogue.names().len());
    let large = kwok.as_array().unwrap().iter().find(|it| it["name"] == "m5.large").unwrap();
    let (_, ours) = catalogue.sizes("m5.large").unwrap();
    let amount = |resource, value: &serde_json::Value| {
        api::quantity::amount(resource, value[resource].as_str().unwrap()).unwrap()
    };
    // kwok's provider takes these off again.
    assert_eq!(amount("cpu", &large["resources"]) - 100, amount("cpu", &ours));
    assert_eq!(amount("memory", &large["resources"]) - (10 << 20), amount("memory", &ours));
    assert_eq!(amount("pods", &large["resources"]), amount("pods", &ours));
    assert_eq!(large["offerings"].as_array().unwrap().len(), 3, "three zones");
    assert_eq!(large["offerings"][0]["Price"].as_f64(), catalogue.price("m5.large"));
}
