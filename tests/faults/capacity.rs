//! Capacity without pending pods, or with other prices than EC2's: static NodePools, CapacityBuffers, NodeOverlays.

use anyhow::{Context, Result, ensure};
use api::status::Conditioned;
use api::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool, annotation, condition, label, reason};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use world::eventually;

use super::scene::{LIMIT, Scene, play};

/// Returns the NodeClaims of a NodePool that are not being deleted.
async fn claims_of(scene: &Scene, pool: &str) -> Result<Vec<NodeClaim>> {
    let mut claims = scene.claims().await?;
    claims.retain(|claim| claim.labels().get(label::NODEPOOL).is_some_and(|found| found == pool));
    Ok(claims)
}

/// Waits for `count` initialized NodeClaims of a NodePool.
async fn initialized(scene: &Scene, pool: &str, count: usize) -> Result<Vec<NodeClaim>> {
    eventually(&format!("{count} initialized claims of {pool}"), LIMIT, async || {
        let claims = claims_of(scene, pool).await?;
        let ready = claims.iter().filter(|claim| claim.is_true(condition::INITIALIZED)).count();
        ensure!(claims.len() == count && ready == count, "{ready} of {} are initialized", claims.len());
        Ok(Some(claims))
    })
    .await
}

#[test]
fn static_nodepool_replaces_a_deleted_nodeclaim() {
    play(async |scene| {
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "fixed"},
            "spec": {
                "replicas": 2,
                "limits": {"nodes": "3"},
                "template": {"spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": [
                        {"key": label::ARCH, "operator": "In", "values": ["amd64"]},
                        {"key": label::INSTANCE_TYPE, "operator": "In", "values": ["c5.xlarge", "m5.xlarge"]},
                    ],
                }},
            },
        });
        scene.stage.apply_value(pool).await?;
        let claims = initialized(scene, "fixed", 2).await?;
        for claim in &claims {
            let on_demand =
                claim.labels().get(label::CAPACITY_TYPE).is_some_and(|one| one == label::CAPACITY_ON_DEMAND);
            ensure!(on_demand, "a template without a word on it means on-demand: {:?}", claim.labels());
            let asked: Vec<&str> = claim.spec.requirements.iter().map(|one| one.key.as_str()).collect();
            ensure!(asked == [label::ARCH, label::INSTANCE_TYPE, label::CAPACITY_TYPE], "it asks for {asked:?}");
        }
        let lost = claims[0].name_any();
        scene.api::<NodeClaim>().delete(&lost, &DeleteParams::default()).await?;
        let claims = initialized(scene, "fixed", 2).await?;
        ensure!(claims.iter().all(|claim| claim.name_any() != lost), "{lost} is still there");
        let told = scene.api::<NodePool>().get("fixed").await?.status.unwrap_or_default().nodes;
        ensure!((2..=3).contains(&told), "the pool counts {told} nodes");
        scene.api::<NodePool>().delete("fixed", &DeleteParams::default()).await?;
        Ok(())
    });
}

/// Waits until a condition of the buffer has this reason.
async fn buffer_says(scene: &Scene, type_: &str, reason: &str) -> Result<CapacityBuffer> {
    eventually(&format!("{type_} with {reason}"), LIMIT, async || {
        let buffers: Api<CapacityBuffer> = Api::namespaced(scene.client.clone(), "default");
        let buffer = buffers.get("spare").await?;
        let status = buffer.status.clone().unwrap_or_default();
        let found = api::status::find(&status.conditions, type_).context("no such condition")?;
        ensure!(found.reason == reason, "it is {} because of {}: {}", found.status, found.reason, found.message);
        Ok(Some(buffer))
    })
    .await
}

/// Capacity exists before it is needed, a new pod uses it, and no event refers to a placeholder pod.
#[test]
fn capacity_buffer_launches_capacity_before_pods_need_it() {
    play(async |scene| {
        let buffer = json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"name": "spare", "namespace": "default"},
            "spec": {"podTemplateRef": {"name": "guest"}, "replicas": 2},
        });
        scene.stage.apply_value(buffer).await?;
        buffer_says(scene, condition::READY_FOR_PROVISIONING, reason::POD_TEMPLATE_NOT_FOUND).await?;
        ensure!(scene.launched().is_empty(), "something was launched for pods that nobody knows");
        let template = json!({
            "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "guest", "namespace": "default"},
            "template": {"metadata": {"labels": {"app": "guest"}}, "spec": {
                "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}],
            }},
        });
        scene.stage.apply_value(template).await?;
        buffer_says(scene, condition::READY_FOR_PROVISIONING, reason::RESOLVED).await?;
        let buffer = buffer_says(scene, condition::PROVISIONING, reason::FITS_EXISTING_CAPACITY).await?;
        let status = buffer.status.unwrap_or_default();
        ensure!(status.replicas == Some(2), "{:?} replicas", status.replicas);
        ensure!(status.pod_template_ref.is_some_and(|named| named.name == "guest"), "no template is named");
        let room = initialized(scene, "default", 1).await?;
        scene.pod("guest", "1", json!({})).await?;
        let node = scene.runs("guest").await?;
        let host = room[0].status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
        ensure!(node == host, "the pod runs on {node}, the room was on {host}");
        let buffers: Api<CapacityBuffer> = Api::namespaced(scene.client.clone(), "default");
        buffers.delete("spare", &DeleteParams::default()).await?;
        let told = scene.events_on("capacity-buffer-").await?;
        ensure!(told.is_empty(), "events on pods that do not exist: {told:?}");
        Ok(())
    });
}

fn overlay(name: &str, instance_type: &str, change: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name},
        "spec": {
            "requirements": [{"key": label::INSTANCE_TYPE, "operator": "In", "values": [instance_type]}],
            "priceAdjustment": change,
        },
    })
}

/// Waits until `ValidationSucceeded` of an overlay has this reason.
async fn overlay_says(scene: &Scene, name: &str, reason: &str) -> Result<String> {
    eventually(&format!("{reason} on overlay {name}"), LIMIT, async || {
        let overlay = scene.api::<NodeOverlay>().get(name).await?;
        let found = api::status::find(overlay.conditions(), condition::VALIDATION_SUCCEEDED).context("no condition")?;
        ensure!(found.reason == reason, "it is {} because of {}", found.status, found.reason);
        ensure!(overlay.is_true(condition::READY) == found.is_true(), "Ready says something else");
        Ok(Some(found.message.clone()))
    })
    .await
}

/// Launches a node of one of two types for one pod; returns its NodeClaim.
async fn bought(scene: &Scene, pod: &str) -> Result<NodeClaim> {
    let before: Vec<String> = scene.claims().await?.iter().map(ResourceExt::name_any).collect();
    scene.pod(pod, "3", json!({label::NODEPOOL: "two"})).await?;
    scene.runs(pod).await?;
    let claims = scene.claims().await?;
    claims.into_iter().find(|claim| !before.contains(&claim.name_any())).context("no new claim")
}

/// EC2 does not see the overlay: the other type is launched only if the launch itself uses the overlay's price.
#[test]
fn node_overlay_price_changes_the_launched_type() {
    play(async |scene| {
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "two"},
            "spec": {"disruption": {"consolidateAfter": "Never"}, "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": label::ARCH, "operator": "In", "values": ["amd64"]},
                    {"key": label::INSTANCE_TYPE, "operator": "In", "values": ["c5.xlarge", "m5.xlarge"]},
                    {"key": label::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
                ],
            }}},
        });
        scene.stage.apply_value(pool).await?;
        let kind = |claim: &NodeClaim| claim.labels().get(label::INSTANCE_TYPE).cloned().unwrap_or_default();
        let plain = bought(scene, "plain").await?;
        ensure!(kind(&plain) == "c5.xlarge", "the cheaper one is {}", kind(&plain));
        scene.stage.apply_value(overlay("dear", "c5.xlarge", "+50%")).await?;
        overlay_says(scene, "dear", condition::VALIDATION_SUCCEEDED).await?;
        let moved = bought(scene, "moved").await?;
        ensure!(kind(&moved) == "m5.xlarge", "with the overlay it is {}", kind(&moved));
        let marked =
            moved.annotations().get(annotation::PRICE_OVERLAY_APPLIED).is_some_and(|on| on == annotation::TRUE);
        ensure!(marked, "the claim does not say so: {:?}", moved.annotations());
        // Overlays of equal weight are evaluated in reverse order of names, so `another` is the one in conflict.
        scene.stage.apply_value(overlay("another", "c5.xlarge", "-50%")).await?;
        let message = overlay_says(scene, "another", reason::CONFLICT).await?;
        ensure!(message.contains("NodeOverlay dear"), "{message}");
        let heavier = Patch::Merge(json!({"spec": {"weight": 10}}));
        scene.api::<NodeOverlay>().patch("another", &PatchParams::default(), &heavier).await?;
        overlay_says(scene, "another", condition::VALIDATION_SUCCEEDED).await?;
        for name in ["dear", "another"] {
            scene.api::<NodeOverlay>().delete(name, &DeleteParams::default()).await?;
        }
        scene.api::<NodePool>().delete("two", &DeleteParams::default()).await?;
        Ok(())
    });
}
