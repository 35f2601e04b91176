//! Changes during consolidation. A change during consolidation validation cancels the command of that node only, with its
//! reason. A change while a replacement starts cancels the command too, if the drain could otherwise never end.

use std::collections::BTreeSet;
use std::time::Duration;

use api::{annotation, reason, taint};
use lives::api_server::{BUDGETS, PODS};
use lives::life::Life;
use lives::surroundings::Workload;
use lives::town::{Town, pool};
use serde_json::{Value, json};

/// Returns a cluster with two nodes whose pods each have a cheaper node type, before their commands begin.
async fn two_that_are_to_go() -> (Town, Life) {
    let disruption = json!({"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]});
    let town = Town::new(pool(&["m5.xlarge"], disruption), Default::default());
    let life = town.life();
    for app in ["one", "two"] {
        town.want(app, Workload::of(1, 2500));
        town.until(app, |town| if running(town, app).is_some() { Ok(()) } else { Err("it waits".to_owned()) }).await;
    }
    town.until("two nodes", |town| town.is_settled(2, 2)).await;
    // Nodes of the other type cost less, and each pod needs one of its own, since none takes both.
    let both = json!({"spec": {"template": {"spec": {"requirements": [
        {"key": api::label::INSTANCE_TYPE, "operator": "In", "values": ["m5.xlarge", "c5.xlarge"]},
        {"key": api::label::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
    ]}}}});
    town.server.change("nodepools", "default", &both);
    town.until("both to be named", |_| {
        // The Node and its NodeClaim have the same event.
        let told = life.told();
        let named: BTreeSet<&String> =
            told.iter().filter(|it| it.starts_with(reason::CONSOLIDATION_CANDIDATE)).collect();
        if named.len() == 2 { Ok(()) } else { Err(format!("{named:?} are")) }
    })
    .await;
    assert_eq!(town.claims().len(), 2, "nothing is bought yet");
    (town, life)
}

/// Returns the node and the key of the running pod of an app.
fn running(town: &Town, app: &str) -> Option<(String, String)> {
    let pods = town.pods();
    let pod = pods.iter().find(|pod| pod.is_ready() && pod.name().starts_with(app))?;
    Some((pod.spec.node_name.clone(), format!("default/{}", pod.name())))
}

/// Waits until the other node is replaced, and asserts that this node is not.
async fn only_the_other_went(town: &Town, life: &Life, why: &str) {
    let before = running(town, "one").unwrap();
    town.until("the other to go", |town| {
        let on = |app| running(town, app).map(|(node, _)| node);
        let kind = |node: Option<String>| {
            town.nodes()
                .iter()
                .find(|it| Some(it.name()) == node.as_deref())?
                .label(api::label::INSTANCE_TYPE)
                .map(str::to_owned)
        };
        match kind(on("two")).as_deref() {
            Some("c5.xlarge") => town.is_settled(2, 2),
            other => Err(format!("it runs on {other:?}")),
        }
    })
    .await;
    assert_eq!(running(town, "one"), Some(before), "it was moved all the same");
    let told = life.told();
    assert!(
        told.iter().any(|said| said.starts_with(reason::CONSOLIDATION_REJECTED) && said.contains(why)),
        "{told:#?}"
    );
}

fn budget_of(app: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
    })
}

#[tokio::test(start_paused = true)]
async fn consolidation_stops_when_pod_sets_do_not_disrupt() {
    let (town, life) = two_that_are_to_go().await;
    let (_, pod) = running(&town, "one").unwrap();
    town.server.change(PODS, &pod, &json!({"metadata": {"annotations": {annotation::DO_NOT_DISRUPT: "true"}}}));
    only_the_other_went(&town, &life, "has annotation karpenter.sh/do-not-disrupt").await;
}

#[tokio::test(start_paused = true)]
async fn consolidation_stops_when_budget_blocks_the_pod() {
    let (town, life) = two_that_are_to_go().await;
    town.server.create(BUDGETS, budget_of("one"));
    only_the_other_went(&town, &life, "one").await;
}

#[tokio::test(start_paused = true)]
async fn consolidation_stops_when_new_pod_leaves_no_cheaper_type() {
    let (town, life) = two_that_are_to_go().await;
    let (node, _) = running(&town, "one").unwrap();
    let beside = json!({"spec": {"nodeSelector": {api::label::HOSTNAME: node}}});
    town.want("beside", Workload { template: beside, ..Workload::of(1, 900) });
    town.until("it to run", |town| if running(town, "beside").is_some() { Ok(()) } else { Err("it waits".to_owned()) })
        .await;
    let (before, other) = (running(&town, "one").unwrap(), running(&town, "two").unwrap());
    town.until("the other to go", |town| match running(town, "two") {
        Some(two) if two != other => town.is_settled(2, 3),
        two => Err(format!("it is where it was: {two:?}")),
    })
    .await;
    assert_eq!(running(&town, "one"), Some(before), "it was moved all the same");
    let told = life.told();
    assert!(told.iter().any(|said| said.starts_with(reason::CONSOLIDATION_REJECTED)), "{told:#?}");
}

/// With a replacement in progress, a pod that can never be evicted would keep its node unschedulable forever.
#[tokio::test(start_paused = true)]
async fn replacement_rolls_back_when_pod_has_two_budgets() {
    let (town, _life) = two_that_are_to_go().await;
    let (node, _) = running(&town, "one").unwrap();
    let is_closed = |town: &Town| {
        town.nodes().iter().any(|it| it.name() == node && it.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE))
    };
    town.until("the move to begin", |town| if is_closed(town) { Ok(()) } else { Err("it is open".to_owned()) }).await;
    town.server.create(BUDGETS, budget_of("one"));
    let mut second = budget_of("one");
    second["metadata"]["name"] = "another".into();
    town.server.create(BUDGETS, second);
    town.until("the node to open again", |town| if is_closed(town) { Err("it is closed".to_owned()) } else { Ok(()) })
        .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(running(&town, "one").map(|it| it.0), Some(node), "it was moved all the same");
}
