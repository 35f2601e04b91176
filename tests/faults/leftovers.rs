//! Objects without their counterpart: an instance whose NodeClaim is gone, a NodeClaim whose instance is gone.

use anyhow::{Context, Result, ensure};
use api::objects::Node;
use api::status::Conditioned;
use api::{NodeClaim, condition, label};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use world::eventually;

use super::scene::{LIMIT, Scene, instance_of, play};

async fn claim_in(scene: &Scene, zone: &str) -> Result<NodeClaim> {
    let claims = scene.claims().await?;
    let here = |claim: &&NodeClaim| {
        claim.metadata.labels.as_ref().and_then(|labels| labels.get(label::ZONE)).is_some_and(|found| found == zone)
    };
    let claim = claims.iter().find(here).with_context(|| format!("no claim in {zone}"))?;
    ensure!(claim.is_true(condition::INITIALIZED), "it is not initialized");
    Ok(claim.clone())
}

fn name(claim: &NodeClaim) -> &str {
    claim.metadata.name.as_deref().unwrap_or_default()
}

/// Deletes the NodeClaim without its finalizer, as an operator could.
async fn snatch(scene: &Scene, claim: &NodeClaim) -> Result<()> {
    let api = scene.api::<NodeClaim>();
    let free = json!({"metadata": {"finalizers": null}});
    api.delete(name(claim), &DeleteParams::default()).await?;
    api.patch(name(claim), &PatchParams::default(), &Patch::Merge(free)).await?;
    Ok(())
}

/// Writes the status that the node lifecycle controller writes when kubelet has sent no status for the grace period.
async fn lose_sight(scene: &Scene, node: &str) -> Result<()> {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let unknown = json!({"status": {"conditions": [{
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "kubelet is silent",
        "lastTransitionTime": now, "lastHeartbeatTime": now,
    }]}});
    scene.api::<Node>().patch_status(node, &PatchParams::default(), &Patch::Strategic(unknown)).await?;
    Ok(())
}

#[test]
fn gc_deletes_instances_and_nodeclaims_without_counterpart() {
    play(async |scene| {
        let (one, other) = ("us-west-2a", "us-west-2b");
        scene.pod("one", "1", json!({label::ZONE: one})).await?;
        scene.pod("other", "1", json!({label::ZONE: other})).await?;
        scene.runs("one").await?;
        let other_node = scene.runs("other").await?;
        let claims = eventually("both claims", LIMIT, async || {
            Ok(Some((claim_in(scene, one).await?, claim_in(scene, other).await?)))
        })
        .await?;
        // The intervals of gc grow with the uptime of the controller, so a restart shortens them.
        scene.stage.kill_controller()?;
        snatch(scene, &claims.0).await?;
        let first = instance_of(&claims.0)?;
        ensure!(scene.stage.ec2.kill(&instance_of(&claims.1)?), "EC2 does not know the second instance");
        lose_sight(scene, &other_node).await?;
        ensure!(scene.living().iter().any(|machine| machine.instance.id == first), "ended too early");
        scene.stage.start_controller()?;
        eventually("the instance without a claim to end", LIMIT, async || {
            let living = scene.living().iter().any(|machine| machine.instance.id == first);
            Ok((!living).then_some(()))
        })
        .await?;
        eventually("the claim without an instance to go", LIMIT, async || {
            Ok(scene.api::<NodeClaim>().get_opt(name(&claims.1)).await?.is_none().then_some(()))
        })
        .await?;
        eventually("its node to go", LIMIT, async || {
            Ok(scene.api::<Node>().get_opt(&other_node).await?.is_none().then_some(()))
        })
        .await
    });
}
