//! Removal of a node with the only pod of a Deployment, whose budget permits no eviction. A copy of the pod starts elsewhere
//! first, and a pod is ready at every moment.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use api::objects::{Node, Pod};
use api::{NodeClaim, annotation, reason};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use testbed::eventually;

use super::fixture::{Fixture, LIMIT, run};

async fn deploy(fixture: &Fixture, app: &str, annotations: &Value) -> Result<()> {
    let labels = json!({"app": app});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}],
                },
            },
        },
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    });
    fixture.environment.apply_value(deployment).await?;
    fixture.environment.apply_value(budget).await
}

async fn pods(fixture: &Fixture, app: &str) -> Result<Vec<Pod>> {
    Ok(fixture.pods().list(&ListParams::default().labels(&format!("app={app}"))).await?.items)
}

/// Runs the test with these annotations of the pod, and deletes its objects.
pub async fn a_copy_comes_first(fixture: &Fixture, app: &str, annotations: &Value) -> Result<()> {
    deploy(fixture, app, annotations).await?;
    let node = fixture.runs(app).await?;
    let (claim, _) = fixture.settled_claim().await?;
    let old = pods(fixture, app).await?.pop().context("no pod")?;
    fixture.api::<NodeClaim>().delete(&claim.name_any(), &DeleteParams::default()).await?;
    let unanswered = AtomicBool::new(false);
    eventually("the node to go", LIMIT, async || {
        let found = pods(fixture, app).await?;
        let answers = found.iter().any(|pod| pod.is_ready() && !pod.is_terminating());
        unanswered.fetch_or(!answers, Ordering::Relaxed);
        Ok(fixture.api::<Node>().get_opt(&node).await?.is_none().then_some(()))
    })
    .await?;
    ensure!(!unanswered.into_inner(), "for a moment no pod of {app} was ready");
    let left = pods(fixture, app).await?;
    ensure!(left.len() == 1 && left[0].uid() != old.uid(), "{} pods are left", left.len());
    ensure!(left[0].spec.node_name != node && left[0].replica_set().is_some(), "the copy is not the Deployment's");
    fixture.wait_for_event(old.name(), reason::SURGING, "after a copy is ready").await?;
    ensure!(fixture.launched().len() == 2, "{} machines for one pod that moved", fixture.launched().len());
    fixture.one_instance_each().await?;
    let at_once = DeleteParams::default();
    Api::<Deployment>::namespaced(fixture.client.clone(), "default").delete(app, &at_once).await?;
    Api::<PodDisruptionBudget>::namespaced(fixture.client.clone(), "default").delete(app, &at_once).await?;
    fixture.api::<NodeClaim>().delete_collection(&at_once, &ListParams::default()).await?;
    Ok(())
}

#[test]
fn surge_evicts_single_pod_when_its_copy_is_ready() {
    run(async |fixture| a_copy_comes_first(fixture, "single", &json!({annotation::SURGE: "true"})).await);
}

/// Without an annotation the pod gets a copy, because its budget would block the drain for ever.
#[test]
fn surge_is_the_default_where_a_budget_blocks_the_only_pod() {
    run(async |fixture| a_copy_comes_first(fixture, "blocked", &json!({})).await);
}
