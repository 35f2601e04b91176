//! Drift after a change of the NodePool's template: the old node is replaced, and no pod is lost.

use anyhow::{Context, Result, ensure};
use api::status::Conditioned;
use api::{NodePool, condition};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use world::eventually;

use super::consolidation::{HALF, POOL, only_is_left, successor};
use super::{PATIENCE, Told};

/// New label in the template.
const TEAM: &str = "team";

pub async fn tell(told: &mut Told) -> Result<()> {
    told.teller.chapter("7. Drift");
    let started = Timestamp::now();
    let old = told.look.claims_of(POOL).await?;
    drifted(told).await?;
    let new = successor(told, &old, "a NodeClaim is created to replace it").await?;
    only_is_left(told, &new, started).await?;
    labelled(told).await?;
    pool_goes(told).await
}

async fn drifted(told: &mut Told) -> Result<()> {
    let Told { teller, stage, look, .. } = told;
    let pools: Api<NodePool> = Api::all(stage.client.clone());
    let labels = json!({"spec": {"template": {"metadata": {"labels": {TEAM: "batch"}}}}});
    let changed = async { Ok(pools.patch(POOL, &PatchParams::default(), &Patch::Merge(labels)).await?) };
    teller.line("a label is added to the NodePool's template", changed).await?;
    let drifted = eventually("drift", PATIENCE, async || {
        let claims = look.claims_of(POOL).await?;
        Ok(claims.iter().any(|claim| claim.is_true(condition::DRIFTED)).then_some(()))
    });
    teller.line("the NodeClaim without it is Drifted", drifted).await
}

async fn labelled(told: &mut Told) -> Result<()> {
    let Told { teller, look, .. } = told;
    let labelled = async {
        let claim = look.claims_of(POOL).await?.pop().context("no claim is left")?;
        let node = claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
        let node = look.node(&node).await?.with_context(|| format!("there is no Node {node}"))?;
        ensure!(node.labels().get(TEAM).is_some_and(|team| team == "batch"), "{} has no label", node.name());
        Ok(())
    };
    teller.line("the new Node has the label", labelled).await
}

/// Deletes this chapter's NodePool, because the last chapter expects only one.
async fn pool_goes(told: &mut Told) -> Result<()> {
    let Told { teller, stage, look, .. } = told;
    let client = stage.client.clone();
    let gone = async {
        Api::<Deployment>::namespaced(client.clone(), "default").delete(HALF, &DeleteParams::default()).await?;
        Api::<NodePool>::all(client).delete(POOL, &DeleteParams::default()).await?;
        eventually("the pool's node to go", PATIENCE, async || {
            let left = look.claims_of(POOL).await?.len();
            ensure!(left == 0, "{left} NodeClaims are left");
            Ok(Some(()))
        })
        .await
    };
    teller.line("the NodePool is deleted, and its node is removed", gone).await
}
