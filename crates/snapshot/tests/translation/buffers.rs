//! Tests of the size of CapacityBuffers and the availability of their capacity.

use planner::{CapacityHolder, plan};
use serde_json::{Value, json};
use snapshot::{Provisioning, SnapshotResult, provisioning};

use crate::objects::{Cluster, machine, merged, pending, pool, running};

fn buffer(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")}, "spec": spec,
    })
}

fn template(name: &str, spec: Value) -> Value {
    let own = json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]});
    let volumes = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}]});
    let spec = merged(merged(own, volumes), spec);
    json!({
        "metadata": {"name": name, "namespace": "default", "generation": 4},
        "template": {"metadata": {"labels": {"app": "room"}}, "spec": spec},
    })
}

fn cluster(spec: Value) -> Cluster {
    let deployment = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 10, "selector": {}, "template": template("", json!({}))["template"]},
    });
    Cluster {
        buffers: vec![buffer("spare", spec)],
        pod_templates: vec![
            template("small", json!({})),
            template("away", json!({"nodeSelector": {"karpenter.sh/registered": "true"}})),
        ],
        deployments: vec![deployment],
        pools: vec![pool("default", json!({}))],
        ..Cluster::default()
    }
}

fn pods(built: &SnapshotResult) -> Vec<&str> {
    built.snapshot.pods.iter().map(|pod| pod.name.as_str()).collect()
}

#[test]
fn resolve_returns_the_size_of_a_buffer() {
    let of_template = |more: Value| merged(json!({"podTemplateRef": {"name": "small"}}), more);
    let of_web = |more: Value| merged(json!({"scalableRef": {"kind": "Deployment", "name": "web"}}), more);
    let rows: [(Value, Result<usize, &str>); 11] = [
        (of_template(json!({"replicas": 3})), Ok(3)),
        (of_template(json!({"replicas": 9, "limits": {"cpu": "2500m"}})), Ok(2)),
        (of_template(json!({"replicas": 0})), Ok(0)),
        (of_web(json!({"percentage": 25})), Ok(3)),
        (of_web(json!({"replicas": 4, "percentage": 25})), Ok(4)),
        (of_template(json!({"limits": {"example.com/a": "1"}})), Err("unknown number of pods")),
        (json!({"podTemplateRef": {"name": "gone"}, "replicas": 1}), Err("PodTemplate gone does not exist")),
        (
            json!({"scalableRef": {"kind": "StatefulSet", "name": "web"}, "replicas": 1}),
            Err("StatefulSet web does not exist"),
        ),
        (
            json!({"scalableRef": {"kind": "DaemonSet", "name": "web"}, "replicas": 1}),
            Err("unsupported kind DaemonSet"),
        ),
        (
            json!({"podTemplateRef": {"name": "away"}, "replicas": 1}),
            Err("label karpenter.sh/registered is restricted"),
        ),
        (json!({"replicas": 1}), Err("no pod template")),
    ];
    for (spec, expected) in rows {
        let built = cluster(spec.clone()).build();
        let [state] = built.buffers.as_slice() else { unreachable!("there is one buffer") };
        match (&state.resolved, expected) {
            (Ok(size), Ok(count)) => {
                assert_eq!((usize::try_from(size.replicas).unwrap(), pods(&built).len()), (count, count), "{spec}");
            }
            (Err(trouble), Err(part)) => assert!(trouble.to_string().contains(part), "{spec}: {trouble}"),
            (found, _) => unreachable!("{spec}: {found:?}"),
        }
    }
}

#[test]
fn buffer_pods_are_virtual_pods_without_volumes() {
    let built = cluster(json!({"podTemplateRef": {"name": "small"}, "replicas": 2})).build();
    assert_eq!(pods(&built), ["default/capacity-buffer-spare-0", "default/capacity-buffer-spare-1"]);
    let pod = &built.snapshot.pods[1];
    let spare = CapacityHolder::Buffer("default/spare".to_owned());
    assert_eq!((pod.uid.as_str(), pod.holder.clone()), ("uid-spare/capacity-buffer-spare-1", Some(spare)));
    assert!(pod.claims.is_empty() && built.ignored.is_empty());
    let [shape] = built.snapshot.shapes.as_slice() else { unreachable!("they are all alike") };
    assert_eq!((shape.priority, shape.namespace.as_str(), shape.volumes.len()), (i32::MIN, "default", 0));
    let size = built.buffers[0].resolved.clone().unwrap();
    assert_eq!((size.pod_template.as_deref(), size.pod_template_generation), (Some("small"), Some(4)));
}

#[test]
fn buffers_of_other_provisioning_strategies_are_ignored() {
    let built =
        cluster(json!({"provisioningStrategy": "other", "podTemplateRef": {"name": "small"}, "replicas": 2})).build();
    assert!(built.buffers.is_empty() && built.snapshot.pods.is_empty());
}

#[test]
fn provisioning_reports_the_availability_of_capacity() {
    let of = |replicas: i32| json!({"podTemplateRef": {"name": "small"}, "replicas": replicas});
    let rows = [
        (of(0), Provisioning::BufferEmpty, "False BufferEmpty"),
        (of(3), Provisioning::FitsExistingCapacity, "True FitsExistingCapacity"),
        (of(5), Provisioning::RequiresNewCapacity { missing: 2, of: 5 }, "False RequiresNewCapacity"),
        (
            json!({"podTemplateRef": {"name": "gone"}, "replicas": 1}),
            Provisioning::NotReadyForProvisioning,
            "False NotReadyForProvisioning",
        ),
    ];
    for (spec, expected, expected_text) in rows {
        let (node, claim) = machine("n1", json!({}));
        let mut cluster = cluster(spec.clone());
        (cluster.nodes, cluster.claims) = (vec![node], vec![claim]);
        let built = cluster.build();
        let plan = plan(&built.snapshot);
        let found = provisioning(&built, &plan);
        assert_eq!(found, [("default/spare".to_owned(), expected)], "{spec}");
        let status = if expected.is_true() { "True" } else { "False" };
        assert_eq!(format!("{status} {}", expected.reason()), expected_text);
    }
}

#[test]
fn buffer_pods_keep_labels_that_selectors_of_pods_use() {
    let mut cluster = cluster(json!({"podTemplateRef": {"name": "small"}, "replicas": 1}));
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "room"}}},
    ]}});
    cluster.pods = vec![pending("web", "1", json!({"affinity": apart}))];
    let snapshot = cluster.build().snapshot;
    let buffer_pod = snapshot.pods.iter().find(|pod| pod.holder.is_some()).unwrap();
    assert_eq!(snapshot.shapes[buffer_pod.shape].labels, [("app".to_owned(), "room".to_owned())].into());
}

#[test]
fn buffer_pods_equal_the_newest_real_pods_of_a_workload() {
    let of = |name: &str, cpu: &str, workload: &str, hash: &str, hour: u8| {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{workload}-{hash}"), "uid": hash, "controller": true});
        let created = format!("2026-01-01T{hour:02}:00:00Z");
        let labels = json!({"app": "room", "pod-template-hash": hash});
        running(name, "n1", cpu, json!({"labels": labels, "ownerReferences": [owner], "creationTimestamp": created}))
    };
    let mut cluster = cluster(json!({"scalableRef": {"kind": "Deployment", "name": "web"}, "limits": {"cpu": "8"}}));
    cluster.pods =
        vec![of("a", "2", "web", "7d9", 11), of("b", "9", "web", "5f4", 10), of("c", "9", "web-api", "7d9", 11)];
    let built = cluster.build();
    assert_eq!(pods(&built).len(), 4);
    assert_eq!(built.snapshot.shapes[0].requests.get(planner::Resources::CPU), 2000);
    cluster.pods = Vec::new();
    assert_eq!(pods(&cluster.build()).len(), 8, "the template requests one CPU");
}

#[test]
fn buffer_pods_are_admitted_as_the_api_server_would() {
    let mut cluster = cluster(json!({"podTemplateRef": {"name": "small"}, "limits": {"cpu": "4"}}));
    cluster.pod_templates = vec![template("small", json!({"runtimeClassName": "kata"}))];
    cluster.runtime_classes = vec![json!({
        "metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "1"}},
        "scheduling": {"nodeSelector": {"runtime": "kata"}},
    })];
    let built = cluster.build();
    assert_eq!((pods(&built).len(), built.snapshot.shapes[0].selector[0].key.as_str()), (2, "runtime"));
    let bounds = json!([{"type": "Container", "max": {"cpu": "500m"}}]);
    cluster.limit_ranges =
        vec![json!({"metadata": {"name": "low", "namespace": "default"}, "spec": {"limits": bounds}})];
    let error = cluster.build().buffers[0].resolved.clone().unwrap_err().to_string();
    assert!(error.contains("LimitRange default/low") && error.contains("request is 1"), "{error}");
}

#[test]
fn buffer_has_pods_only_at_its_active_times() {
    let active = |times: &str, now| {
        let mut cluster = cluster(json!({"podTemplateRef": {"name": "small"}, "replicas": 2}));
        cluster.buffers[0]["metadata"]["annotations"] = json!({"kerf.sh/active-times": times});
        Cluster { now: Some(now), ..cluster }.build()
    };
    let (times, day, night) = ("0 7 * * * for 11h in Europe/Berlin", "2026-11-21T12:00:00Z", "2026-11-21T18:00:00Z");
    assert_eq!(pods(&active(times, day)).len(), 2);
    let built = active(times, night);
    assert!(pods(&built).is_empty());
    let (_, state) = provisioning(&built, &plan(&built.snapshot)).remove(0);
    assert_eq!(state, Provisioning::OutsideActiveTimes);
    let error = active("at night", day).buffers[0].resolved.clone().unwrap_err().to_string();
    assert!(error.starts_with("annotation kerf.sh/active-times: \"at night\" names no times"), "{error}");
}
