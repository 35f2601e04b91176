//! Capacity without pending pods, at other prices than EC2's, or within limits of the cost: static NodePools, CapacityBuffers,
//! NodeOverlays, SpendPolicies.

use anyhow::{Context, Result, ensure};
use api::status::{self, Conditioned};
use api::{
    CapacityBuffer, Commitment, NodeClaim, NodeOverlay, NodePool, SpendPolicy, annotation, condition, label, reason,
};
use cloud::ZonalShift;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::environment::CLUSTER;
use testbed::eventually;

use super::fixture::{Fixture, LIMIT, run};

/// Waits for `count` initialized NodeClaims of a NodePool.
async fn initialized(fixture: &Fixture, pool: &str, count: usize) -> Result<Vec<NodeClaim>> {
    eventually(&format!("{count} initialized claims of {pool}"), LIMIT, async || {
        let claims = fixture.claims_of(pool).await?;
        let ready = claims.iter().filter(|claim| claim.is_true(condition::INITIALIZED)).count();
        ensure!(claims.len() == count && ready == count, "{ready} of {} are initialized", claims.len());
        Ok(Some(claims))
    })
    .await
}

#[test]
fn static_nodepool_replaces_a_deleted_nodeclaim() {
    run(async |fixture| {
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
        fixture.environment.apply_value(pool).await?;
        let claims = initialized(fixture, "fixed", 2).await?;
        for claim in &claims {
            let on_demand =
                claim.labels().get(label::CAPACITY_TYPE).is_some_and(|one| one == label::CAPACITY_ON_DEMAND);
            ensure!(on_demand, "a template without a word on it means on-demand: {:?}", claim.labels());
            let asked: Vec<&str> = claim.spec.requirements.iter().map(|one| one.key.as_str()).collect();
            ensure!(asked == [label::ARCH, label::INSTANCE_TYPE, label::CAPACITY_TYPE], "it asks for {asked:?}");
        }
        let lost = claims[0].name_any();
        fixture.api::<NodeClaim>().delete(&lost, &DeleteParams::default()).await?;
        let claims = initialized(fixture, "fixed", 2).await?;
        ensure!(claims.iter().all(|claim| claim.name_any() != lost), "{lost} is still there");
        let reported = fixture.api::<NodePool>().get("fixed").await?.status.unwrap_or_default().nodes;
        ensure!((2..=3).contains(&reported), "the pool counts {reported} nodes");
        Ok(())
    });
}

/// Waits until a condition of the buffer has this reason.
async fn wait_for_buffer_condition(fixture: &Fixture, type_: &str, reason: &str) -> Result<CapacityBuffer> {
    eventually(&format!("{type_} with {reason}"), LIMIT, async || {
        let buffers: Api<CapacityBuffer> = Api::namespaced(fixture.client.clone(), "default");
        let buffer = buffers.get("spare").await?;
        let status = buffer.status.clone().unwrap_or_default();
        let found = status::find(&status.conditions, type_).context("no such condition")?;
        ensure!(found.reason == reason, "it is {} because of {}: {}", found.status, found.reason, found.message);
        Ok(Some(buffer))
    })
    .await
}

/// Capacity exists before it is needed, a new pod uses it, and no event refers to a placeholder pod.
#[test]
fn capacity_buffer_launches_capacity_before_pods_need_it() {
    run(async |fixture| {
        let buffer = json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"name": "spare", "namespace": "default"},
            "spec": {"podTemplateRef": {"name": "guest"}, "replicas": 2},
        });
        fixture.environment.apply_value(buffer).await?;
        wait_for_buffer_condition(fixture, condition::READY_FOR_PROVISIONING, reason::POD_TEMPLATE_NOT_FOUND).await?;
        ensure!(fixture.launched().is_empty(), "something was launched for unknown pods");
        let template = json!({
            "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "guest", "namespace": "default"},
            "template": {"metadata": {"labels": {"app": "guest"}}, "spec": {
                "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}],
            }},
        });
        fixture.environment.apply_value(template).await?;
        wait_for_buffer_condition(fixture, condition::READY_FOR_PROVISIONING, reason::RESOLVED).await?;
        let buffer =
            wait_for_buffer_condition(fixture, condition::PROVISIONING, reason::FITS_EXISTING_CAPACITY).await?;
        let status = buffer.status.unwrap_or_default();
        ensure!(status.replicas == Some(2), "{:?} replicas", status.replicas);
        ensure!(status.pod_template_ref.is_some_and(|named| named.name == "guest"), "no template is named");
        let capacity = initialized(fixture, "default", 1).await?;
        fixture.pod("guest", "1", json!({})).await?;
        let node = fixture.runs("guest").await?;
        let host = capacity[0].status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
        ensure!(node == host, "the pod runs on {node}, the room was on {host}");
        let reported = fixture.events_on("capacity-buffer-").await?;
        ensure!(reported.is_empty(), "events on pods that do not exist: {reported:?}");
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
async fn wait_for_overlay_condition(fixture: &Fixture, name: &str, reason: &str) -> Result<String> {
    eventually(&format!("{reason} on overlay {name}"), LIMIT, async || {
        let overlay = fixture.api::<NodeOverlay>().get(name).await?;
        let found = status::find(overlay.conditions(), condition::VALIDATION_SUCCEEDED).context("no condition")?;
        ensure!(found.reason == reason, "it is {} because of {}", found.status, found.reason);
        ensure!(overlay.is_true(condition::READY) == found.is_true(), "Ready says something else");
        Ok(Some(found.message.clone()))
    })
    .await
}

/// Launches a node of one of two types for one pod; returns its NodeClaim.
async fn bought(fixture: &Fixture, pod: &str) -> Result<NodeClaim> {
    let before: Vec<String> = fixture.claims().await?.iter().map(ResourceExt::name_any).collect();
    fixture.pod(pod, "3", json!({label::NODEPOOL: "two"})).await?;
    fixture.runs(pod).await?;
    let claims = fixture.claims().await?;
    claims.into_iter().find(|claim| !before.contains(&claim.name_any())).context("no new claim")
}

/// EC2 does not see the overlay: the other type is launched only if the launch itself uses the overlay's price.
#[test]
fn node_overlay_price_changes_the_launched_type() {
    run(async |fixture| {
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
        fixture.environment.apply_value(pool).await?;
        let kind = |claim: &NodeClaim| claim.labels().get(label::INSTANCE_TYPE).cloned().unwrap_or_default();
        let plain = bought(fixture, "plain").await?;
        ensure!(kind(&plain) == "c5.xlarge", "the cheaper one is {}", kind(&plain));
        fixture.environment.apply_value(overlay("dear", "c5.xlarge", "+50%")).await?;
        wait_for_overlay_condition(fixture, "dear", condition::VALIDATION_SUCCEEDED).await?;
        let moved = bought(fixture, "moved").await?;
        ensure!(kind(&moved) == "m5.xlarge", "with the overlay it is {}", kind(&moved));
        let marked =
            moved.annotations().get(annotation::PRICE_OVERLAY_APPLIED).is_some_and(|on| on == annotation::TRUE);
        ensure!(marked, "the claim does not say so: {:?}", moved.annotations());
        // Overlays of equal weight are evaluated in reverse order of names, so `another` is the one in conflict.
        fixture.environment.apply_value(overlay("another", "c5.xlarge", "-50%")).await?;
        let message = wait_for_overlay_condition(fixture, "another", reason::CONFLICT).await?;
        ensure!(message.contains("NodeOverlay dear"), "{message}");
        let heavier = Patch::Merge(json!({"spec": {"weight": 10}}));
        fixture.api::<NodeOverlay>().patch("another", &PatchParams::default(), &heavier).await?;
        wait_for_overlay_condition(fixture, "another", condition::VALIDATION_SUCCEEDED).await?;
        Ok(())
    });
}

/// During a zonal shift nothing is launched in the zone, and the pod that needs the zone waits with the reason.
#[test]
fn zonal_shift_keeps_launches_out_of_its_zone() {
    run(async |fixture| {
        let zone = json!({label::ZONE: "us-west-2a"});
        // A node from before the shift would take the pod. It goes now, because the controller leaves instances in a shifted zone alone.
        fixture.remove_nodes().await?;
        let shift = ZonalShift { zone_id: "usw2-az1".to_owned(), expires: None, applied: true };
        fixture.environment.ec2.set_zonal_shifts(CLUSTER, Some(vec![shift]));
        fixture.wait_for_event("default", reason::ZONAL_SHIFT_ACTIVE, "excludes zone us-west-2a (usw2-az1)").await?;
        fixture.pod("pinned", "1", zone).await?;
        let pod = eventually("the pinned pod", LIMIT, async || {
            let pods = fixture.pods().list(&ListParams::default().labels("app=pinned")).await?.items;
            Ok(pods.first().map(ResourceExt::name_any))
        })
        .await?;
        fixture.wait_for_event(&pod, reason::FAILED_SCHEDULING, "a zonal shift excludes zone us-west-2a").await?;
        fixture.pod("free", "1", json!({})).await?;
        fixture.runs("free").await?;
        let zones: Vec<String> = fixture.launched().into_iter().map(|machine| machine.instance.zone).collect();
        ensure!(!zones.is_empty() && zones.iter().all(|zone| zone != "us-west-2a"), "launched in {zones:?}");

        fixture.environment.ec2.set_zonal_shifts(CLUSTER, Some(Vec::new()));
        fixture.wait_for_event("default", reason::ZONAL_SHIFT_CLEARED, "us-west-2a").await?;
        fixture.runs("pinned").await?;
        Ok(())
    });
}

/// Pods beyond the limit wait with the reason, also after a restart of the controller. A raised limit lets them start.
#[test]
fn limit_of_the_cost_holds_over_a_restart_until_it_is_raised() {
    run(async |fixture| {
        // An m5.xlarge costs 0.192 dollars per hour, its volume about a cent.
        let limited = |dollars: &str| {
            json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
                "metadata": {"name": "limited", "annotations": {annotation::MAX_COST_PER_HOUR: dollars}},
                "spec": {"disruption": {"consolidateAfter": "Never"}, "template": {
                    "metadata": {"labels": {"team": "limited"}},
                    "spec": {
                        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                        "requirements": [
                            {"key": label::INSTANCE_TYPE, "operator": "In", "values": ["m5.xlarge"]},
                            {"key": label::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
                        ],
                    },
                }},
            })
        };
        fixture.environment.apply_value(limited("0.30")).await?;
        let team = json!({"team": "limited"});
        fixture.pod("first", "3", team.clone()).await?;
        fixture.runs("first").await?;
        fixture.pod("second", "3", team).await?;
        let reason = "a new node would exceed the limit for kerf.sh/max-cost-per-hour";
        fixture.wait_for_event("second", reason::FAILED_SCHEDULING, reason).await?;
        fixture.environment.kill_controller()?;
        fixture.environment.start_controller()?;
        // The restarted controller has planned for all pods once the new pod runs on a node of another NodePool.
        fixture.pod("free", "1", json!({})).await?;
        fixture.runs("free").await?;
        ensure!(fixture.claims_of("limited").await?.len() == 1, "the limit was exceeded");

        fixture.environment.apply_value(limited("0.50")).await?;
        fixture.runs("second").await?;
        ensure!(fixture.claims_of("limited").await?.len() == 2, "a node for each pod");
        Ok(())
    });
}

#[test]
fn spend_policy_limits_its_pools_and_reports_their_cost() {
    run(async |fixture| {
        let policies = fixture.api::<SpendPolicy>();
        let policy = |spec: Value| json!({"apiVersion": "kerf.sh/v1alpha1", "kind": "SpendPolicy", "metadata": {"name": "research"}, "spec": spec});
        let selector = json!({"matchLabels": {"team": "research"}});
        let limited = |dollars: &str| policy(json!({"nodePoolSelector": selector, "maxCostPerHour": dollars}));
        fixture.environment.apply_value(limited("0.30")).await?;
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "research", "labels": {"team": "research"}},
            "spec": {"disruption": {"consolidateAfter": "Never"}, "template": {
                "metadata": {"labels": {"group": "research"}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": [
                        {"key": label::INSTANCE_TYPE, "operator": "In", "values": ["m5.xlarge"]},
                        {"key": label::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
                    ],
                },
            }},
        });
        fixture.environment.apply_value(pool).await?;
        let group = json!({"group": "research"});
        fixture.pod("first", "3", group.clone()).await?;
        fixture.runs("first").await?;
        fixture.pod("second", "3", group).await?;
        let reason = "a new node would exceed the limit for the cost of SpendPolicy research";
        fixture.wait_for_event("second", reason::FAILED_SCHEDULING, reason).await?;
        let status = eventually("a status with the cost of one node", LIMIT, async || {
            let status = policies.get("research").await?.status.unwrap_or_default();
            let cost = status.cost_per_hour.as_deref().unwrap_or("0").parse::<f64>()?;
            Ok((cost > 0.0).then_some(status))
        })
        .await?;
        ensure!(status.node_pools == 1 && status.max_cost_per_hour.as_deref() == Some("0.3"), "{status:?}");
        let is_within = status::is_true(&status.conditions, condition::WITHIN_LIMITS);
        ensure!(is_within && status::is_true(&status.conditions, condition::READY), "{status:?}");

        let windows = json!([{"schedule": "at night", "duration": "8h", "maxCostPerHour": "5"}]);
        let odd = policy(json!({"nodePoolSelector": selector, "maxCostPerHour": "9", "windows": windows}));
        fixture.environment.apply_value(odd).await?;
        eventually("a policy that is not ready", LIMIT, async || {
            let status = policies.get("research").await?.status.unwrap_or_default();
            let ready = status::find(&status.conditions, condition::READY).cloned();
            Ok(ready.filter(|ready| ready.is_false() && ready.message.contains("spec.windows[0].schedule")))
        })
        .await?;
        ensure!(fixture.claims_of("research").await?.len() == 1, "an invalid policy permits no launch");

        fixture.environment.apply_value(limited("0.50")).await?;
        fixture.runs("second").await?;
        Ok(())
    });
}

/// A NodePool with spot and on-demand launches on-demand nodes for what a Commitment pays, then spot. When the Commitment ends, consolidation
/// replaces its node by spot.
#[test]
fn commitment_is_used_first_and_consolidated_after_its_end() {
    run(async |fixture| {
        let commitments = fixture.api::<Commitment>();
        let commitment = |spec: Value| json!({"apiVersion": "kerf.sh/v1alpha1", "kind": "Commitment", "metadata": {"name": "bought"}, "spec": spec});
        let reserved = json!({"instanceType": "m5.xlarge", "count": 1});
        fixture.environment.apply_value(commitment(json!({"reservedInstances": reserved}))).await?;
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "mixed"},
            "spec": {"disruption": {"consolidateAfter": "5s"}, "template": {
                "metadata": {"labels": {"group": "mixed"}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": [
                        {"key": label::INSTANCE_TYPE, "operator": "In", "values": ["m5.xlarge"]},
                        {"key": label::CAPACITY_TYPE, "operator": "In", "values": ["on-demand", "spot"]},
                    ],
                },
            }},
        });
        fixture.environment.apply_value(pool).await?;
        let group = json!({"group": "mixed"});
        fixture.pod("first", "3", group.clone()).await?;
        fixture.runs("first").await?;
        fixture.pod("second", "3", group).await?;
        fixture.runs("second").await?;
        let capacity_types = async || -> Result<Vec<String>> {
            let claims = fixture.claims_of("mixed").await?;
            let label = |claim: &NodeClaim| claim.metadata.labels.as_ref()?.get(label::CAPACITY_TYPE).cloned();
            let mut types: Vec<String> = claims.iter().filter_map(label).collect();
            types.sort();
            Ok(types)
        };
        ensure!(capacity_types().await? == ["on-demand", "spot"], "{:?}", capacity_types().await?);
        let status = eventually("a status with the node", LIMIT, async || {
            let status = commitments.get("bought").await?.status.unwrap_or_default();
            Ok((status.nodes == 1).then_some(status))
        })
        .await?;
        let shown = (status.pays_for.as_deref(), status.used.as_deref());
        ensure!(shown == (Some("1 m5.xlarge"), Some("100.0%")), "{status:?}");
        ensure!(status::is_true(&status.conditions, condition::READY), "{status:?}");
        let family = super::scrape::scrape(fixture).await?;
        let metric = "kerf_commitment_used_ratio{commitment=\"bought\"} 1";
        ensure!(family.contains(metric), "no line {metric}");

        let ended = json!({"reservedInstances": reserved, "endTime": "2026-01-01T00:00:00Z"});
        fixture.environment.apply_value(commitment(ended)).await?;
        eventually("two spot nodes", LIMIT, async || {
            let types = capacity_types().await?;
            ensure!(types == ["spot", "spot"], "{types:?}");
            Ok(Some(()))
        })
        .await?;
        let status = commitments.get("bought").await?.status.unwrap_or_default();
        let ready = status::find(&status.conditions, condition::READY).cloned();
        ensure!(ready.is_some_and(|ready| ready.reason == reason::ENDED), "{status:?}");
        Ok(())
    });
}

/// At the end of its active times a NodePool loses all nodes together, whatever its budgets. Its pods wait until the times begin again.
#[test]
fn nodepool_has_nodes_only_at_its_active_times() {
    run(async |fixture| {
        let pool = |times: &str| {
            json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
                "metadata": {"name": "office", "annotations": {annotation::ACTIVE_TIMES: times}},
                "spec": {"disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}, "template": {
                    "metadata": {"labels": {"group": "office"}},
                    "spec": {
                        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                        "requirements": [{"key": label::INSTANCE_TYPE, "operator": "In", "values": ["m5.xlarge"]}],
                    },
                }},
            })
        };
        // A day in a leap year is never now.
        let (always, never) = ("* * * * * for 1h", "0 0 29 2 * for 1m");
        fixture.environment.apply_value(pool(always)).await?;
        for name in ["first", "second"] {
            fixture.pod(name, "3", json!({"group": "office"})).await?;
            fixture.runs(name).await?;
        }
        fixture.environment.apply_value(pool(never)).await?;
        eventually("the nodes to go", LIMIT, async || {
            let claims = fixture.claims_of("office").await?;
            ensure!(claims.is_empty(), "{} NodeClaims are left", claims.len());
            Ok(Some(()))
        })
        .await?;
        let reason = "it has no active time now (kerf.sh/active-times)";
        fixture.wait_for_event("first", reason::FAILED_SCHEDULING, reason).await?;
        fixture.environment.apply_value(pool(always)).await?;
        fixture.runs("first").await?;
        fixture.runs("second").await?;
        Ok(())
    });
}
