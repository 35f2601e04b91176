//! Changes during consolidation. A change during consolidation validation cancels the command of that node only, with its
//! reason. A change while a replacement starts cancels the command too, if the drain could otherwise never end.

use std::collections::BTreeSet;
use std::time::Duration;

use api::{annotation, reason, taint};
use serde_json::{Value, json};
use simulator::api_server::{BUDGETS, PODS};
use simulator::cluster::{ModelCluster, pool};
use simulator::controller_run::ControllerRun;
use simulator::surroundings::Workload;

/// Returns a cluster with two nodes whose pods each have a cheaper node type, before their commands begin.
async fn two_that_are_to_go() -> (ModelCluster, ControllerRun) {
    let disruption = json!({"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]});
    let cluster = ModelCluster::new(pool(&["m5.xlarge"], disruption), Default::default());
    let controller_run = cluster.controller_run();
    for app in ["one", "two"] {
        cluster.want(app, Workload::of(1, 2500));
        cluster
            .until(app, |cluster| if running(cluster, app).is_some() { Ok(()) } else { Err("it waits".to_owned()) })
            .await;
    }
    cluster.until("two nodes", |cluster| cluster.is_settled(2, 2)).await;
    // Nodes of the other type cost less, and each pod needs one of its own, since none takes both.
    let both = json!({"spec": {"template": {"spec": {"requirements": [
        {"key": api::label::INSTANCE_TYPE, "operator": "In", "values": ["m5.xlarge", "c5.xlarge"]},
        {"key": api::label::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
    ]}}}});
    cluster.server.change("nodepools", "default", &both);
    cluster
        .until("both to be named", |_| {
            // The Node and its NodeClaim have the same event.
            let events = controller_run.events();
            let named: BTreeSet<&String> =
                events.iter().filter(|it| it.starts_with(reason::CONSOLIDATION_CANDIDATE)).collect();
            if named.len() == 2 { Ok(()) } else { Err(format!("{named:?} are")) }
        })
        .await;
    assert_eq!(cluster.claims().len(), 2, "nothing is bought yet");
    (cluster, controller_run)
}

/// Returns the node and the key of the running pod of an app.
fn running(cluster: &ModelCluster, app: &str) -> Option<(String, String)> {
    let pods = cluster.pods();
    let pod = pods.iter().find(|pod| pod.is_ready() && pod.name().starts_with(app))?;
    Some((pod.spec.node_name.clone(), format!("default/{}", pod.name())))
}

/// Waits until the other node is replaced, and asserts that this node is not.
async fn only_the_other_went(cluster: &ModelCluster, controller_run: &ControllerRun, why: &str) {
    let before = running(cluster, "one").unwrap();
    cluster
        .until("the other to go", |cluster| {
            let on = |app| running(cluster, app).map(|(node, _)| node);
            let kind = |node: Option<String>| {
                cluster
                    .nodes()
                    .iter()
                    .find(|it| Some(it.name()) == node.as_deref())?
                    .label(api::label::INSTANCE_TYPE)
                    .map(str::to_owned)
            };
            match kind(on("two")).as_deref() {
                Some("c5.xlarge") => cluster.is_settled(2, 2),
                other => Err(format!("it runs on {other:?}")),
            }
        })
        .await;
    assert_eq!(running(cluster, "one"), Some(before), "it was moved all the same");
    let events = controller_run.events();
    assert!(
        events.iter().any(|event| event.starts_with(reason::CONSOLIDATION_REJECTED) && event.contains(why)),
        "{events:#?}"
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
    let (cluster, controller_run) = two_that_are_to_go().await;
    let (_, pod) = running(&cluster, "one").unwrap();
    cluster.server.change(PODS, &pod, &json!({"metadata": {"annotations": {annotation::DO_NOT_DISRUPT: "true"}}}));
    only_the_other_went(&cluster, &controller_run, "has annotation karpenter.sh/do-not-disrupt").await;
}

#[tokio::test(start_paused = true)]
async fn consolidation_stops_when_budget_blocks_the_pod() {
    let (cluster, controller_run) = two_that_are_to_go().await;
    cluster.server.create(BUDGETS, budget_of("one"));
    only_the_other_went(&cluster, &controller_run, "one").await;
}

#[tokio::test(start_paused = true)]
async fn consolidation_stops_when_new_pod_leaves_no_cheaper_type() {
    let (cluster, controller_run) = two_that_are_to_go().await;
    let (node, _) = running(&cluster, "one").unwrap();
    let beside = json!({"spec": {"nodeSelector": {api::label::HOSTNAME: node}}});
    cluster.want("beside", Workload { template: beside, ..Workload::of(1, 900) });
    cluster
        .until(
            "it to run",
            |cluster| if running(cluster, "beside").is_some() { Ok(()) } else { Err("it waits".to_owned()) },
        )
        .await;
    let (before, other) = (running(&cluster, "one").unwrap(), running(&cluster, "two").unwrap());
    cluster
        .until("the other to go", |cluster| match running(cluster, "two") {
            Some(two) if two != other => cluster.is_settled(2, 3),
            two => Err(format!("it is where it was: {two:?}")),
        })
        .await;
    assert_eq!(running(&cluster, "one"), Some(before), "it was moved all the same");
    let events = controller_run.events();
    assert!(events.iter().any(|event| event.starts_with(reason::CONSOLIDATION_REJECTED)), "{events:#?}");
}

/// With a replacement in progress, a pod that can never be evicted would keep its node unschedulable forever.
#[tokio::test(start_paused = true)]
async fn replacement_rolls_back_when_pod_has_two_budgets() {
    let (cluster, _controller_run) = two_that_are_to_go().await;
    let (node, _) = running(&cluster, "one").unwrap();
    let is_closed = |cluster: &ModelCluster| {
        cluster.nodes().iter().any(|it| it.name() == node && it.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE))
    };
    cluster
        .until("the move to begin", |cluster| if is_closed(cluster) { Ok(()) } else { Err("it is open".to_owned()) })
        .await;
    cluster.server.create(BUDGETS, budget_of("one"));
    let mut second = budget_of("one");
    second["metadata"]["name"] = "another".into();
    cluster.server.create(BUDGETS, second);
    cluster
        .until(
            "the node to open again",
            |cluster| if is_closed(cluster) { Err("it is closed".to_owned()) } else { Ok(()) },
        )
        .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(running(&cluster, "one").map(|it| it.0), Some(node), "it was moved all the same");
}
