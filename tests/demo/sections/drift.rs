//! Drift after a change of the NodePool's template: the old node is replaced, and no pod is lost.

use anyhow::{Context, Result, ensure};
use api::status::Conditioned;
use api::{NodePool, condition};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use testbed::eventually;

use super::consolidation::{HALF, POOL, only_is_left, successor};
use super::{Demo, PATIENCE};

/// New label in the template.
const TEAM: &str = "team";

pub async fn run(demo: &mut Demo) -> Result<()> {
    demo.reporter.section("7. Drift");
    let started = Timestamp::now();
    let old = demo.cluster.claims_of(POOL).await?;
    drifted(demo).await?;
    let new = successor(demo, &old, "a NodeClaim is created to replace it").await?;
    only_is_left(demo, &new, started).await?;
    labelled(demo).await?;
    pool_goes(demo).await
}

async fn drifted(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, environment, cluster, .. } = demo;
    let pools: Api<NodePool> = Api::all(environment.client.clone());
    let labels = json!({"spec": {"template": {"metadata": {"labels": {TEAM: "batch"}}}}});
    let changed = async { Ok(pools.patch(POOL, &PatchParams::default(), &Patch::Merge(labels)).await?) };
    reporter.line("a label is added to the NodePool's template", changed).await?;
    let drifted = eventually("drift", PATIENCE, async || {
        let claims = cluster.claims_of(POOL).await?;
        Ok(claims.iter().any(|claim| claim.is_true(condition::DRIFTED)).then_some(()))
    });
    reporter.line("the NodeClaim without it is Drifted", drifted).await
}

async fn labelled(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, cluster, .. } = demo;
    let labelled = async {
        let claim = cluster.claims_of(POOL).await?.pop().context("no claim is left")?;
        let node = claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
        let node = cluster.node(&node).await?.with_context(|| format!("there is no Node {node}"))?;
        ensure!(node.labels().get(TEAM).is_some_and(|team| team == "batch"), "{} has no label", node.name());
        Ok(())
    };
    reporter.line("the new Node has the label", labelled).await
}

/// Deletes this chapter's NodePool, because the last chapter expects only one.
async fn pool_goes(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, environment, cluster, .. } = demo;
    let client = environment.client.clone();
    let gone = async {
        Api::<Deployment>::namespaced(client.clone(), "default").delete(HALF, &DeleteParams::default()).await?;
        Api::<NodePool>::all(client).delete(POOL, &DeleteParams::default()).await?;
        eventually("the pool's node to go", PATIENCE, async || {
            let left = cluster.claims_of(POOL).await?.len();
            ensure!(left == 0, "{left} NodeClaims are left");
            Ok(Some(()))
        })
        .await
    };
    reporter.line("the NodePool is deleted, and its node is removed", gone).await
}
