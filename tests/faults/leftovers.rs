//! Objects without their counterpart: an instance whose NodeClaim is gone, a NodeClaim whose instance is gone.

use anyhow::{Context, Result, ensure};
use api::objects::Node;
use api::status::Conditioned;
use api::{NodeClaim, condition, label};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use testbed::eventually;

use super::fixture::{Fixture, LIMIT, instance_of, run};

async fn claim_in(fixture: &Fixture, zone: &str) -> Result<NodeClaim> {
    let claims = fixture.claims().await?;
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
async fn snatch(fixture: &Fixture, claim: &NodeClaim) -> Result<()> {
    let api = fixture.api::<NodeClaim>();
    let free = json!({"metadata": {"finalizers": null}});
    api.delete(name(claim), &DeleteParams::default()).await?;
    api.patch(name(claim), &PatchParams::default(), &Patch::Merge(free)).await?;
    Ok(())
}

/// Writes the status that the node lifecycle controller writes when kubelet has sent no status for the grace period.
async fn delete_node(fixture: &Fixture, node: &str) -> Result<()> {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let unknown = json!({"status": {"conditions": [{
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "kubelet is silent",
        "lastTransitionTime": now, "lastHeartbeatTime": now,
    }]}});
    fixture.api::<Node>().patch_status(node, &PatchParams::default(), &Patch::Strategic(unknown)).await?;
    Ok(())
}

#[test]
fn gc_deletes_instances_and_nodeclaims_without_counterpart() {
    run(async |fixture| {
        let (one, other) = ("us-west-2a", "us-west-2b");
        fixture.pod("one", "1", json!({label::ZONE: one})).await?;
        fixture.pod("other", "1", json!({label::ZONE: other})).await?;
        fixture.runs("one").await?;
        let other_node = fixture.runs("other").await?;
        let claims = eventually("both claims", LIMIT, async || {
            Ok(Some((claim_in(fixture, one).await?, claim_in(fixture, other).await?)))
        })
        .await?;
        // The intervals of gc grow with the uptime of the controller, so a restart shortens them.
        fixture.environment.kill_controller()?;
        snatch(fixture, &claims.0).await?;
        let first = instance_of(&claims.0)?;
        ensure!(fixture.environment.ec2.kill(&instance_of(&claims.1)?), "EC2 does not know the second instance");
        delete_node(fixture, &other_node).await?;
        ensure!(fixture.running_instances().iter().any(|machine| machine.instance.id == first), "ended too early");
        fixture.environment.start_controller()?;
        eventually("the instance without a claim to end", LIMIT, async || {
            let running_instances = fixture.running_instances().iter().any(|machine| machine.instance.id == first);
            Ok((!running_instances).then_some(()))
        })
        .await?;
        eventually("the claim without an instance to go", LIMIT, async || {
            Ok(fixture.api::<NodeClaim>().get_opt(name(&claims.1)).await?.is_none().then_some(()))
        })
        .await?;
        eventually("its node to go", LIMIT, async || {
            Ok(fixture.api::<Node>().get_opt(&other_node).await?.is_none().then_some(()))
        })
        .await
    });
}
