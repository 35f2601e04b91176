//! Nodes that the planner replaces: two half-used nodes by a cheaper one, drifted nodes by nodes that match their NodePool. The
//! test kills the controller in between, and no pod may be evicted before the replacement is initialized.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use api::objects::{Node, Pod};
use api::status::Conditioned;
use api::{NodeClaim, NodePool, annotation, condition, label, reason};
use jiff::SignedDuration;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::eventually;

use super::fixture::{Fixture, LIMIT, run};

const POOL: &str = "packed";

fn types(names: &[&str]) -> Value {
    json!([
        {"key": label::ARCH, "operator": "In", "values": ["amd64"]},
        {"key": label::INSTANCE_TYPE, "operator": "In", "values": names},
        {"key": label::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
    ])
}

/// Creates a NodePool for one test, at first with m5.xlarge only.
async fn open_pool(fixture: &Fixture, consolidate_after: &str) -> Result<()> {
    fixture.environment.apply_value(pool(consolidate_after)).await
}

/// Creates the NodePool, and one node for each of these pods.
async fn open_pool_with_node_for_each(fixture: &Fixture, apps: &[&str]) -> Result<()> {
    open_pool(fixture, "Never").await?;
    for app in apps {
        fixture.pod(app, "2500m", json!({label::NODEPOOL: POOL})).await?;
        fixture.runs(app).await?;
    }
    Ok(())
}

fn pool(consolidate_after: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": POOL},
        "spec": {
            "disruption": {"consolidateAfter": consolidate_after, "budgets": [{"nodes": "100%"}]},
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": types(&["m5.xlarge"]),
            }},
        },
    })
}

async fn change_pool(fixture: &Fixture, change: &Value) -> Result<()> {
    fixture.api::<NodePool>().patch(POOL, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

async fn close_pool(fixture: &Fixture) -> Result<()> {
    fixture.api::<NodePool>().delete(POOL, &DeleteParams::default()).await?;
    Ok(())
}

/// Returns the nodes of all pods that are not terminating, by pod UID.
async fn staying(fixture: &Fixture) -> Result<BTreeMap<String, String>> {
    let pods: Vec<Pod> = fixture.pods().list(&ListParams::default()).await?.items;
    let staying = pods.into_iter().filter(|pod| !pod.is_terminating());
    Ok(staying.map(|pod| (pod.uid().unwrap_or_default(), pod.spec.node_name)).collect())
}

async fn settled(fixture: &Fixture, count: usize) -> Result<Vec<NodeClaim>> {
    eventually("the claims to be initialized", LIMIT, async || {
        let claims = fixture.claims().await?;
        let up = claims.iter().filter(|claim| claim.is_true(condition::INITIALIZED)).count();
        ensure!(claims.len() == count && up == count, "{up} of {} are up", claims.len());
        Ok(Some(claims))
    })
    .await
}

/// Waits for the NodeClaim that replaces all of these NodeClaims.
async fn successor(fixture: &Fixture, old: &[NodeClaim]) -> Result<NodeClaim> {
    let names: BTreeSet<String> = old.iter().map(ResourceExt::name_any).collect();
    eventually("a replacement", LIMIT, async || {
        let claims = fixture.claims().await?;
        let found = claims.into_iter().find(|claim| claim.replaces().next().is_some());
        let found = found.context("no claim replaces another")?;
        let replaced: BTreeSet<String> = found.replaces().map(str::to_owned).collect();
        ensure!(replaced == names, "it replaces {replaced:?}, to go are {names:?}");
        Ok(Some(found))
    })
    .await
}

/// Asserts that no pod leaves its node before the replacement is initialized. Pods are read first, so that an early eviction is
/// detected.
async fn no_pod_leaves_before(fixture: &Fixture, pods: &BTreeMap<String, String>, successor: &str) -> Result<()> {
    eventually("the replacement to be initialized", LIMIT, async || {
        let now = staying(fixture).await?;
        let up = fixture.api::<NodeClaim>().get(successor).await?.is_true(condition::INITIALIZED);
        ensure!(up || &now == pods, "pods left before {successor} was up: {pods:?} became {now:?}");
        Ok(up.then_some(()))
    })
    .await
}

async fn only_the_successor_is_left(fixture: &Fixture, successor: &str, apps: &[&str]) -> Result<NodeClaim> {
    eventually("what was replaced to go", LIMIT, async || {
        let claims: Vec<NodeClaim> = fixture.api().list(&ListParams::default()).await?.items;
        let names: Vec<String> = claims.iter().map(ResourceExt::name_any).collect();
        ensure!(names == [successor], "{names:?}");
        Ok(Some(()))
    })
    .await?;
    let claim = fixture.only_claim().await?;
    let node = claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
    for app in apps {
        let refuge = fixture.runs(app).await?;
        ensure!(refuge == node, "{app} runs on {refuge}, the replacement is {node}");
    }
    fixture.one_instance_each().await?;
    Ok(claim)
}

#[test]
fn consolidation_replaces_two_nodes_when_controller_is_killed() {
    run(async |fixture| {
        open_pool(fixture, "0s").await?;
        for app in ["half", "other"] {
            fixture.pod(app, "2500m", json!({label::NODEPOOL: POOL})).await?;
            fixture.runs(app).await?;
        }
        let old = settled(fixture, 2).await?;
        let pods = staying(fixture).await?;
        // Neither node alone has a cheaper replacement; both together have one.
        let wider = json!({"spec": {"template": {"spec": {"requirements": types(&["m5.xlarge", "c5.2xlarge"])}}}});
        change_pool(fixture, &wider).await?;
        let node = old[0].status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
        fixture.wait_for_event(&node, reason::CONSOLIDATION_CANDIDATE, "Underutilized").await?;
        let new = successor(fixture, &old).await?.name_any();
        fixture.environment.kill_controller()?;
        ensure!(staying(fixture).await? == pods, "pods left with the replacement hardly ordered");
        fixture.environment.start_controller()?;
        no_pod_leaves_before(fixture, &pods, &new).await?;
        fixture.environment.kill_controller()?;
        fixture.environment.start_controller()?;
        let claim = only_the_successor_is_left(fixture, &new, &["half", "other"]).await?;
        let kind = claim.labels().get(label::INSTANCE_TYPE).cloned().unwrap_or_default();
        ensure!(kind == "c5.2xlarge", "the replacement is a {kind}");
        ensure!(fixture.launched().len() == 3, "{} machines for one replacement", fixture.launched().len());
        close_pool(fixture).await
    });
}

#[test]
fn drift_replaces_node_when_requirements_change() {
    run(async |fixture| {
        open_pool(fixture, "Never").await?;
        fixture.pod("old-fashioned", "2500m", json!({label::NODEPOOL: POOL})).await?;
        fixture.runs("old-fashioned").await?;
        let old = settled(fixture, 1).await?;
        let pods = staying(fixture).await?;
        let narrowed = json!({"spec": {"template": {"spec": {"requirements": types(&["c5.xlarge"])}}}});
        change_pool(fixture, &narrowed).await?;
        drifted(fixture, &old[0], reason::REQUIREMENTS_DRIFTED).await?;
        let new = successor(fixture, &old).await?.name_any();
        no_pod_leaves_before(fixture, &pods, &new).await?;
        let claim = only_the_successor_is_left(fixture, &new, &["old-fashioned"]).await?;
        let kind = claim.labels().get(label::INSTANCE_TYPE).cloned().unwrap_or_default();
        ensure!(kind == "c5.xlarge", "the replacement is a {kind}");
        ensure!(!claim.is_true(condition::DRIFTED), "the replacement has drifted too");
        close_pool(fixture).await
    });
}

#[test]
fn drift_replaces_nodes_one_by_one_when_budget_is_one() {
    run(async |fixture| {
        let apps = ["red", "green", "blue"];
        open_pool_with_node_for_each(fixture, &apps).await?;
        let old: BTreeSet<String> = settled(fixture, apps.len()).await?.iter().map(ResourceExt::name_any).collect();
        let labelled = json!({"spec": {
            "disruption": {"budgets": [{"nodes": "1"}]},
            "template": {"metadata": {"labels": {"tier": "new"}}},
        }});
        change_pool(fixture, &labelled).await?;
        for left in (0..apps.len()).rev() {
            let fault = eventually(&format!("all but {left} nodes to be replaced"), LIMIT, async || {
                let claims: Vec<NodeClaim> = fixture.api().list(&ListParams::default()).await?.items;
                if let Some(fault) = haste(&claims, &old) {
                    return Ok(Some(Some(fault)));
                }
                let there = claims.iter().filter(|claim| old.contains(&claim.name_any())).count();
                ensure!(there <= left, "{there} of them are there");
                Ok(Some(None))
            })
            .await?;
            ensure!(fault.is_none(), "{}", fault.unwrap_or_default());
        }
        for app in apps {
            let node = fixture.api::<Node>().get(&fixture.runs(app).await?).await?;
            ensure!(node.label("tier") == Some("new"), "{app} runs on {} of the old kind", node.name());
        }
        fixture.one_instance_each().await?;
        ensure!(fixture.launched().len() == 2 * apps.len(), "{} machines for six", fixture.launched().len());
        close_pool(fixture).await
    });
}

/// The budget allows all nodes. The times of the API server say when each node came, so that no moment can be missed.
#[test]
fn drift_replaces_the_other_nodes_after_the_canary() {
    run(async |fixture| {
        let apps = ["red", "green", "blue"];
        open_pool_with_node_for_each(fixture, &apps).await?;
        let old = settled(fixture, apps.len()).await?;
        let healthy = SignedDuration::from_secs(20);
        let changed = json!({
            "metadata": {"annotations": {annotation::DRIFT_CANARY: "1 for 20s"}},
            "spec": {"template": {"metadata": {"labels": {"tier": "new"}}}},
        });
        change_pool(fixture, &changed).await?;
        let blocked: Vec<String> =
            old.iter().filter_map(|claim| Some(claim.status.as_ref()?.node_name.clone())).collect();
        eventually("a node that waits for the canary", LIMIT, async || {
            let mut messages = Vec::new();
            for node in &blocked {
                messages.extend(fixture.events_on(node).await?);
            }
            Ok(messages.iter().any(|message| message.contains("canary")).then_some(()))
        })
        .await?;
        let new = eventually("all nodes to be replaced", LIMIT, async || {
            let claims: Vec<NodeClaim> = fixture.claims_of(POOL).await?;
            let is_new = |claim: &&NodeClaim| old.iter().all(|former| former.name_any() != claim.name_any());
            let new: Vec<NodeClaim> = claims.iter().filter(is_new).cloned().collect();
            ensure!(claims.len() == apps.len() && new.len() == apps.len(), "{} of {} are new", new.len(), claims.len());
            Ok(Some(new))
        })
        .await?;
        let created = |claim: &NodeClaim| claim.metadata.creation_timestamp.as_ref().map(|created| created.0);
        let canary = new.iter().min_by_key(|claim| created(claim)).context("nothing is new")?;
        let initialized = api::status::find(canary.conditions(), condition::INITIALIZED).context("it never started")?;
        for claim in new.iter().filter(|claim| claim.name_any() != canary.name_any()) {
            let waited = created(claim).context("no creation")?.duration_since(initialized.last_transition_time.0);
            // Both times are in whole seconds.
            ensure!(waited > healthy - SignedDuration::from_secs(2), "{} came after {waited}", claim.name_any());
        }
        close_pool(fixture).await
    });
}

/// Returns the fault in the deletion of old NodeClaims, if there is one. Faults are more than one deletion at a time, and a
/// deletion before the replacement is initialized.
fn haste(claims: &[NodeClaim], old: &BTreeSet<String>) -> Option<String> {
    let is_up = |name: &str| claims.iter().any(|it| it.name_any() == name && it.is_true(condition::INITIALIZED));
    let former = || claims.iter().filter(|claim| old.contains(&claim.name_any()));
    let is_going = |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_some();
    // A NodeClaim whose instance is terminating does not count in the budget.
    let counts = |claim: &NodeClaim| !claim.is_true(condition::INSTANCE_TERMINATING);
    let going: Vec<String> = former()
        .filter(|claim| counts(claim) && (is_going(claim) || claim.replaced_by().is_some()))
        .map(ResourceExt::name_any)
        .collect();
    if going.len() > 1 {
        return Some(format!("{going:?} go at once"));
    }
    let early = former().filter(|claim| is_going(claim)).find(|claim| {
        let replacements = claim.replaced_by().map(|names| names.split(',').all(is_up));
        replacements != Some(true)
    });
    early.map(|claim| format!("{} goes before {:?} is up", claim.name_any(), claim.replaced_by()))
}

#[test]
fn drift_replaces_node_of_static_nodepool_one_for_one() {
    run(async |fixture| {
        let mut kept = pool("Never");
        kept["spec"]["replicas"] = 1.into();
        fixture.environment.apply_value(kept).await?;
        let old = settled(fixture, 1).await?;
        change_pool(fixture, &json!({"spec": {"template": {"metadata": {"labels": {"tier": "new"}}}}})).await?;
        drifted(fixture, &old[0], reason::NODEPOOL_DRIFTED).await?;
        let new = successor(fixture, &old).await?.name_any();
        no_pod_leaves_before(fixture, &BTreeMap::new(), &new).await?;
        let claim = only_the_successor_is_left(fixture, &new, &[]).await?;
        ensure!(claim.labels().get("tier").map(String::as_str) == Some("new"), "{:?}", claim.labels());
        ensure!(fixture.launched().len() == 2, "{} machines for two", fixture.launched().len());
        close_pool(fixture).await
    });
}

#[test]
fn consolidation_stops_when_pod_sets_do_not_disrupt() {
    run(async |fixture| {
        open_pool(fixture, "0s").await?;
        fixture.pod("first", "2500m", json!({label::NODEPOOL: POOL})).await?;
        let node = fixture.runs("first").await?;
        settled(fixture, 1).await?;
        let before = staying(fixture).await?;
        let cheaper = json!({"spec": {"template": {"spec": {"requirements": types(&["m5.xlarge", "c5.xlarge"])}}}});
        change_pool(fixture, &cheaper).await?;
        fixture.wait_for_event(&node, reason::CONSOLIDATION_CANDIDATE, "Underutilized").await?;
        let pod =
            fixture.pods().list(&ListParams::default().labels("app=first")).await?.items.pop().context("no pod")?;
        let asks = Patch::Merge(json!({"metadata": {"annotations": {annotation::DO_NOT_DISRUPT: "true"}}}));
        fixture.pods().patch(&pod.name_any(), &PatchParams::default(), &asks).await?;
        fixture.wait_for_event(&node, reason::CONSOLIDATION_REJECTED, "karpenter.sh/do-not-disrupt").await?;
        ensure!(staying(fixture).await? == before, "the pod had to leave");
        ensure!(fixture.claims().await?.len() == 1, "something was bought for nothing");
        close_pool(fixture).await
    });
}

/// Waits until the condition `Drifted` of the NodeClaim is True for this reason.
async fn drifted(fixture: &Fixture, claim: &NodeClaim, reason: &str) -> Result<()> {
    eventually(&format!("{} to drift", claim.name_any()), LIMIT, async || {
        let claim = fixture.api::<NodeClaim>().get(&claim.name_any()).await?;
        let reported = api::status::find(claim.conditions(), condition::DRIFTED).context("it says nothing of drift")?;
        ensure!(reported.is_true() && reported.reason == reason, "it says {} ({})", reported.status, reported.reason);
        Ok(Some(()))
    })
    .await
}
