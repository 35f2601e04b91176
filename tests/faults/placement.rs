//! Pods with placement constraints. Planner and kube-scheduler must interpret the constraints alike, or the pods stay pending
//! beside nodes that were launched for them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use api::objects::{Node, PersistentVolumeClaim};
use api::{NodeClaim, label};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use testbed::eventually;

use super::fixture::{Fixture, LIMIT, run};

/// Returns the zone of each node with a pod of `app`, once `count` pods run; each pod must have a node of its own.
async fn zones_of(fixture: &Fixture, app: &str, count: usize) -> Result<BTreeMap<String, String>> {
    eventually(&format!("{count} pods of {app} to run"), LIMIT, async || {
        let pods = fixture.pods().list(&ListParams::default().labels(&format!("app={app}"))).await?.items;
        let running = pods.iter().filter(|pod| pod.status.phase == "Running").count();
        ensure!(running == count && pods.len() == count, "{running} of {} run", pods.len());
        let mut zones = BTreeMap::new();
        for pod in &pods {
            let node = fixture.api::<Node>().get(&pod.spec.node_name).await?;
            let zone = node.label(label::ZONE).context("a node without zone")?.to_owned();
            ensure!(zones.insert(pod.spec.node_name.clone(), zone).is_none(), "two pods share a node");
        }
        Ok(Some(zones))
    })
    .await
}

/// Three pods each need a node and a zone of their own, although one node would be cheapest.
#[test]
fn plan_spreads_pods_over_zones_and_nodes() {
    run(async |fixture| {
        let app = json!({"app": "wide"});
        let spread = json!([{
            "maxSkew": 1, "topologyKey": label::ZONE, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": app},
        }]);
        let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": label::HOSTNAME, "labelSelector": {"matchLabels": app},
        }]}});
        let pod = json!({
            "affinity": apart, "topologySpreadConstraints": spread, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "500m"}}}],
        });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "wide", "namespace": "default"},
            "spec": {"replicas": 3, "selector": {"matchLabels": app}, "template": {"metadata": {"labels": app}, "spec": pod}},
        });
        fixture.environment.apply_value(deployment).await?;
        let zones = zones_of(fixture, "wide", 3).await?;
        let mut distinct: Vec<&String> = zones.values().collect();
        distinct.sort();
        distinct.dedup();
        ensure!(distinct.len() == 3, "the pods run in {zones:?}");
        fixture.one_instance_each().await?;
        ensure!(fixture.launched().len() == 3, "{} instances were launched", fixture.launched().len());
        let deployments: Api<Deployment> = Api::namespaced(fixture.client.clone(), "default");
        deployments.delete("wide", &DeleteParams::background()).await?;
        Ok(())
    });
}

/// Returns a StorageClass that binds volumes to the node of the first consumer, but only in one zone.
fn class(zone: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": label::ZONE, "values": [zone]}]}],
    })
}

/// Returns a volume of that StorageClass with node affinity for one zone.
fn volume(name: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "late",
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": label::ZONE, "operator": "In", "values": [zone]}]},
            ]}},
        },
    })
}

/// At first the StorageClass determines the zone; when the pod is evicted, its bound volume does.
#[test]
fn plan_follows_zone_of_storage_class_and_volume() {
    run(async |fixture| {
        let zone = "us-west-2c";
        fixture.environment.apply_value(class(zone)).await?;
        fixture.environment.apply_value(volume("disk", zone)).await?;
        let app = json!({"app": "database"});
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "database", "namespace": "default"},
            "spec": {
                "replicas": 1, "serviceName": "database", "selector": {"matchLabels": app},
                "template": {"metadata": {"labels": app}, "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}}}],
                }},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "late",
                    "resources": {"requests": {"storage": "1Gi"}},
                }}],
            },
        });
        fixture.environment.apply_value(set).await?;
        let first = zones_of(fixture, "database", 1).await?;
        ensure!(first.values().all(|found| found == zone), "the pod runs in {first:?}");
        fixture.one_instance_each().await?;
        ensure!(fixture.launched().len() == 1, "{} instances were launched", fixture.launched().len());
        let claim = fixture.only_claim().await?.name_any();
        fixture.api::<NodeClaim>().delete(&claim, &DeleteParams::default()).await?;
        let second = eventually("the pod to run on another node", LIMIT, async || {
            let zones = zones_of(fixture, "database", 1).await?;
            ensure!(zones.keys().all(|node| !first.contains_key(node)), "it runs on the first one still");
            Ok(Some(zones))
        })
        .await?;
        ensure!(second.values().all(|found| found == zone), "the pod runs in {second:?}");
        tidy_up(fixture).await
    });
}

async fn tidy_up(fixture: &Fixture) -> Result<()> {
    let sets: Api<StatefulSet> = Api::namespaced(fixture.client.clone(), "default");
    sets.delete("database", &DeleteParams::background()).await?;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(fixture.client.clone(), "default");
    for claim in claims.list(&ListParams::default()).await?.items {
        ensure!(claim.spec.volume_name == "disk", "{} is bound to {}", claim.name_any(), claim.spec.volume_name);
        claims.delete(&claim.name_any(), &DeleteParams::default()).await?;
    }
    fixture.api::<PersistentVolume>().delete("disk", &DeleteParams::default()).await?;
    fixture.api::<StorageClass>().delete("late", &DeleteParams::default()).await?;
    Ok(())
}
