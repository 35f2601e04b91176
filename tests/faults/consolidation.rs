//! Nodes that are replaced because the planner says so: two half-used ones by one cheaper one, a drifted one by one of its kind.
//! The controller is killed on the way, and nobody has to leave before the replacement is initialized.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use api::objects::Pod;
use api::status::Conditioned;
use api::{NodeClaim, NodePool, annotation, condition, label, reason};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use world::eventually;

use crate::scene::{LIMIT, Scene, play};

const POOL: &str = "packed";

fn types(names: &[&str]) -> Value {
    json!([
        {"key": label::ARCH, "operator": "In", "values": ["amd64"]},
        {"key": label::INSTANCE_TYPE, "operator": "In", "values": names},
        {"key": label::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
    ])
}

/// A pool of its own for a scenario, which buys nothing but m5.xlarge at first.
async fn open_pool(scene: &Scene, consolidate_after: &str) -> Result<()> {
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": POOL},
        "spec": {
            "disruption": {"consolidateAfter": consolidate_after, "budgets": [{"nodes": "100%"}]},
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": types(&["m5.xlarge"]),
            }},
        },
    });
    scene.stage.apply_value(pool).await
}

async fn close_pool(scene: &Scene) -> Result<()> {
    scene.api::<NodePool>().delete(POOL, &DeleteParams::default()).await?;
    Ok(())
}

/// Pods with the nodes that they run on, by UID, of those that nobody has asked to go.
async fn staying(scene: &Scene) -> Result<BTreeMap<String, String>> {
    let pods: Vec<Pod> = scene.pods().list(&ListParams::default()).await?.items;
    let staying = pods.into_iter().filter(|pod| !pod.is_terminating());
    Ok(staying.map(|pod| (pod.uid().unwrap_or_default(), pod.spec.node_name)).collect())
}

async fn settled(scene: &Scene, count: usize) -> Result<Vec<NodeClaim>> {
    eventually("the claims to be initialized", LIMIT, async || {
        let claims = scene.claims().await?;
        let up = claims.iter().filter(|claim| claim.is_true(condition::INITIALIZED)).count();
        ensure!(claims.len() == count && up == count, "{up} of {} are up", claims.len());
        Ok(Some(claims))
    })
    .await
}

/// The claim that is to replace all of these.
async fn successor(scene: &Scene, old: &[NodeClaim]) -> Result<NodeClaim> {
    let names: BTreeSet<String> = old.iter().map(ResourceExt::name_any).collect();
    eventually("a replacement", LIMIT, async || {
        let claims = scene.claims().await?;
        let found = claims.into_iter().find(|claim| claim.replaces().next().is_some());
        let found = found.context("no claim replaces another")?;
        let replaced: BTreeSet<String> = found.replaces().map(str::to_owned).collect();
        ensure!(replaced == names, "it replaces {replaced:?}, to go are {names:?}");
        Ok(Some(found))
    })
    .await
}

/// Every pod stays where it is until the replacement is initialized. Pods are looked at first: had one been sent away before,
/// that would show.
async fn nobody_leaves_before(scene: &Scene, pods: &BTreeMap<String, String>, successor: &str) -> Result<()> {
    eventually("the replacement to be initialized", LIMIT, async || {
        let now = staying(scene).await?;
        let up = scene.api::<NodeClaim>().get(successor).await?.is_true(condition::INITIALIZED);
        ensure!(up || &now == pods, "pods left before {successor} was up: {pods:?} became {now:?}");
        Ok(up.then_some(()))
    })
    .await
}

async fn only_the_successor_is_left(scene: &Scene, successor: &str, apps: &[&str]) -> Result<NodeClaim> {
    eventually("what was replaced to go", LIMIT, async || {
        let claims: Vec<NodeClaim> = scene.api().list(&ListParams::default()).await?.items;
        let names: Vec<String> = claims.iter().map(ResourceExt::name_any).collect();
        ensure!(names == [successor], "{names:?}");
        Ok(Some(()))
    })
    .await?;
    let claim = scene.only_claim().await?;
    let node = claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
    for app in apps {
        let refuge = scene.runs(app).await?;
        ensure!(refuge == node, "{app} runs on {refuge}, the replacement is {node}");
    }
    scene.one_instance_each().await?;
    Ok(claim)
}

#[test]
fn two_half_used_nodes_become_one_cheaper_one_though_the_controller_is_killed_twice() {
    play(async |scene| {
        open_pool(scene, "0s").await?;
        for app in ["half", "other"] {
            scene.pod(app, "2500m", json!({label::NODEPOOL: POOL})).await?;
            scene.runs(app).await?;
        }
        let old = settled(scene, 2).await?;
        let pods = staying(scene).await?;
        // Alone, neither node has anything cheaper; together they have.
        let wider = json!({"spec": {"template": {"spec": {"requirements": types(&["m5.xlarge", "c5.2xlarge"])}}}});
        scene.api::<NodePool>().patch(POOL, &PatchParams::default(), &Patch::Merge(wider)).await?;
        let node = old[0].status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
        scene.told(&node, reason::CONSOLIDATION_CANDIDATE, "Underutilized").await?;
        let new = successor(scene, &old).await?.name_any();
        scene.stage.kill_controller()?;
        ensure!(staying(scene).await? == pods, "pods left with the replacement hardly ordered");
        scene.stage.start_controller()?;
        nobody_leaves_before(scene, &pods, &new).await?;
        scene.stage.kill_controller()?;
        scene.stage.start_controller()?;
        let claim = only_the_successor_is_left(scene, &new, &["half", "other"]).await?;
        let kind = claim.labels().get(label::INSTANCE_TYPE).cloned().unwrap_or_default();
        ensure!(kind == "c5.2xlarge", "the replacement is a {kind}");
        ensure!(scene.launched().len() == 3, "{} machines for one replacement", scene.launched().len());
        close_pool(scene).await
    });
}

#[test]
fn a_drifted_node_is_replaced_before_it_goes() {
    play(async |scene| {
        open_pool(scene, "Never").await?;
        scene.pod("old-fashioned", "2500m", json!({label::NODEPOOL: POOL})).await?;
        scene.runs("old-fashioned").await?;
        let old = settled(scene, 1).await?;
        let pods = staying(scene).await?;
        drift(scene, &old[0].name_any()).await?;
        let new = successor(scene, &old).await?.name_any();
        nobody_leaves_before(scene, &pods, &new).await?;
        let claim = only_the_successor_is_left(scene, &new, &["old-fashioned"]).await?;
        ensure!(!claim.is_true(condition::DRIFTED), "the replacement has drifted too");
        close_pool(scene).await
    });
}

#[test]
fn a_pod_that_asks_to_be_left_alone_calls_a_planned_move_off() {
    play(async |scene| {
        open_pool(scene, "0s").await?;
        scene.pod("first", "2500m", json!({label::NODEPOOL: POOL})).await?;
        let node = scene.runs("first").await?;
        settled(scene, 1).await?;
        let before = staying(scene).await?;
        let cheaper = json!({"spec": {"template": {"spec": {"requirements": types(&["m5.xlarge", "c5.xlarge"])}}}});
        scene.api::<NodePool>().patch(POOL, &PatchParams::default(), &Patch::Merge(cheaper)).await?;
        scene.told(&node, reason::CONSOLIDATION_CANDIDATE, "Underutilized").await?;
        let pod = scene.pods().list(&ListParams::default().labels("app=first")).await?.items.pop().context("no pod")?;
        let asks = Patch::Merge(json!({"metadata": {"annotations": {annotation::DO_NOT_DISRUPT: "true"}}}));
        scene.pods().patch(&pod.name_any(), &PatchParams::default(), &asks).await?;
        scene.told(&node, reason::CONSOLIDATION_REJECTED, "asks not to be disrupted").await?;
        ensure!(staying(scene).await? == before, "the pod had to leave");
        ensure!(scene.claims().await?.len() == 1, "something was bought for nothing");
        close_pool(scene).await
    });
}

/// What whoever compares claims with their pool writes on one that differs.
async fn drift(scene: &Scene, name: &str) -> Result<()> {
    let mut claim = scene.api::<NodeClaim>().get(name).await?;
    claim.set(condition::DRIFTED, condition::TRUE, reason::NODEPOOL_DRIFTED, "", jiff::Timestamp::now());
    let status = json!({"status": {"conditions": claim.conditions()}});
    scene.api::<NodeClaim>().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}
