//! Tests that slim objects parse the objects of an API server, with all fields that Kerf ignores.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::fmt::Debug;

use api::objects::{
    CSINode, DaemonSet, Deployment, Job, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, PodTemplate, PriorityClass, ReplicaSet, RuntimeClass, StatefulSet, StorageClass, Toleration,
};
use api::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, Taint};
use kube_core::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn pod(patch: impl FnOnce(&mut Value)) -> Pod {
    let mut pod = json!({
        "metadata": {
            "name": "a", "namespace": "default", "uid": "1",
            "managedFields": [{ "manager": "kubectl", "operation": "Update" }],
            "ownerReferences": [
                { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "2", "controller": true },
            ],
        },
        "spec": { "containers": [{ "name": "main", "image": "i", "env": [{ "name": "A" }] }] },
        "status": {
            "phase": "Pending",
            "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }],
            "containerStatuses": [],
        },
    });
    patch(&mut pod);
    serde_json::from_value(pod).unwrap()
}

fn owned(kind: &str) -> Value {
    let version = if kind == "Node" { "v1" } else { "apps/v1" };
    json!([{ "apiVersion": version, "kind": kind, "name": "n", "uid": "3", "controller": true }])
}

/// Name of a pod, the expected result of `is_unschedulable`, and the change of the pod.
type Row = (&'static str, bool, fn(&mut Value));

#[test]
fn is_unschedulable_matches_pods_that_need_a_node() {
    let rows: [Row; 11] = [
        ("one that found no place", true, |_| ()),
        ("of another scheduler", true, |p| p["spec"]["schedulerName"] = json!("mine")),
        ("bound", false, |p| p["spec"]["nodeName"] = json!("n")),
        ("not yet looked at", false, |p| p["status"]["conditions"] = Value::Null),
        ("gated", false, |p| {
            p["status"]["conditions"][0]["reason"] = json!("SchedulingGated");
        }),
        ("expected on a node", true, |p| p["status"]["nominatedNodeName"] = json!("n")),
        ("of a DaemonSet", false, |p| p["metadata"]["ownerReferences"] = owned("DaemonSet")),
        ("of a StatefulSet", true, |p| p["metadata"]["ownerReferences"] = owned("StatefulSet")),
        ("of a Node", false, |p| p["metadata"]["ownerReferences"] = owned("Node")),
        ("ended", false, |p| p["status"]["phase"] = json!("Failed")),
        ("ending", false, |p| {
            p["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }),
    ];
    for (name, expected, patch) in rows {
        assert_eq!(pod(patch).is_unschedulable(), expected, "{name}");
    }
}

#[test]
fn pod_predicates_report_state_and_owner() {
    let plain = pod(|_| ());
    assert!(!plain.is_terminal() && !plain.is_terminating() && !plain.is_bound());
    assert!(!plain.is_daemon() && !plain.is_static() && !plain.is_stateful());
    assert_eq!(plain.controller().unwrap().kind, "ReplicaSet");
    assert!(pod(|p| p["status"]["phase"] = json!("Succeeded")).is_terminal());
    assert!(pod(|p| p["metadata"]["ownerReferences"] = owned("StatefulSet")).is_stateful());
    let mirror = |p: &mut Value| {
        p["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "x" });
    };
    assert!(pod(mirror).is_static());
}

#[test]
fn is_do_not_disrupt_reads_true_and_durations() {
    let now = "2026-01-01T01:00:00Z".parse().unwrap();
    let rows = [
        (json!("true"), true),
        (json!("false"), false),
        (json!("90m"), true),
        (json!("60m"), false),
        (json!("30m"), false),
        (json!("-90m"), false),
        (json!("soon"), false),
        (json!(""), false),
    ];
    for (value, expected) in rows {
        let pod = pod(|p| {
            p["metadata"]["annotations"] = json!({ "karpenter.sh/do-not-disrupt": value });
            p["status"]["startTime"] = json!("2026-01-01T00:00:00Z");
        });
        assert_eq!(pod.is_do_not_disrupt(now), expected, "{value}");
    }
    assert!(!pod(|_| ()).is_do_not_disrupt(now));
}

#[test]
fn pod_drops_managed_fields() {
    assert_eq!(pod(|_| ()).metadata.managed_fields, None);
}

#[test]
fn pod_deserializes_without_spec_and_status() {
    let empty: Pod = serde_json::from_value(json!({ "metadata": {} })).unwrap();
    assert_eq!(empty, Pod::default());
}

#[test]
fn pod_survives_serialization() {
    let full = pod(|p| {
        p["spec"] = json!({
            "nodeName": "n",
            "nodeSelector": { "a": "b" },
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "a", "operator": "Gt", "values": ["1"] }] }] } } },
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "main", "resources": { "requests": { "cpu": "1" } }, "ports": [{ "containerPort": 1, "hostPort": 2 }] }],
            "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule" }],
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "c" } }, { "name": "e", "ephemeral": {} }],
            "priority": 5,
        });
    });
    let again: Pod = serde_json::from_value(serde_json::to_value(&full).unwrap()).unwrap();
    assert_eq!(again, full);
}

#[test]
fn tolerates_compares_key_value_and_effect() {
    let taint = Taint { value: Some("v".to_owned()), ..Taint::new("k", "NoSchedule") };
    let rows = [
        (json!({ "operator": "Exists" }), true),
        (json!({ "key": "k", "operator": "Exists" }), true),
        (json!({ "key": "k", "value": "v" }), true),
        (json!({ "key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule" }), true),
        (json!({ "key": "k", "value": "w" }), false),
        (json!({ "key": "k" }), false),
        (json!({ "key": "l", "operator": "Exists" }), false),
        (json!({ "key": "k", "operator": "Exists", "effect": "NoExecute" }), false),
        (json!({}), false),
    ];
    for (json, expected) in rows {
        let toleration: Toleration = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(toleration.tolerates(&taint), expected, "{json}");
    }
}

#[test]
fn node_predicates_report_state() {
    let node: Node = serde_json::from_value(json!({
        "metadata": {
            "name": "n",
            "labels": { "karpenter.sh/registered": "true", "karpenter.sh/initialized": "false" },
            "annotations": { "karpenter.sh/do-not-disrupt": "true" },
        },
        "spec": { "providerID": "aws:///z/i-1", "taints": [{ "key": "k", "effect": "NoExecute" }] },
        "status": {
            "conditions": [{ "type": "Ready", "status": "True", "lastHeartbeatTime": null }],
            "capacity": { "cpu": "4", "memory": "8Gi" },
            "images": [{ "names": ["a"] }],
            "nodeInfo": { "bootID": "b", "kubeletVersion": "v1.36.3", "machineID": "m" },
        },
    }))
    .unwrap();
    assert!(node.is_ready() && node.is_registered() && !node.is_initialized());
    assert!(node.is_do_not_disrupt());
    assert!(node.has_taint("k", "NoExecute") && !node.has_taint("k", "NoSchedule"));
    assert_eq!(node.spec.provider_id, "aws:///z/i-1");
    assert_eq!(node.status.node_info.boot_id, "b");
    assert!(!Node::default().is_ready());
}

#[test]
fn blocks_for_ever_matches_budgets_that_allow_nothing() {
    let rows = [
        (json!({ "maxUnavailable": 0 }), true),
        (json!({ "maxUnavailable": "0%" }), true),
        (json!({ "minAvailable": "100%" }), true),
        (json!({ "maxUnavailable": 1 }), false),
        (json!({ "minAvailable": 1 }), false),
        (json!({}), false),
    ];
    for (spec, expected) in rows {
        let budget = json!({ "metadata": {}, "spec": spec, "status": { "disruptionsAllowed": 0 } });
        let budget: PodDisruptionBudget = serde_json::from_value(budget).unwrap();
        assert_eq!(budget.never_allows_eviction(), expected, "{:?}", budget.spec);
    }
}

/// Returns the URL path of a type. A client of `kube` uses the same function; this crate does not depend on `kube`.
fn served<K>() -> String
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    K::url_path(&(), None)
}

#[test]
fn types_have_the_url_paths_of_the_api_server() {
    assert_eq!(served::<Pod>(), "/api/v1/pods");
    assert_eq!(served::<Node>(), "/api/v1/nodes");
    assert_eq!(served::<DaemonSet>(), "/apis/apps/v1/daemonsets");
    assert_eq!(served::<PodDisruptionBudget>(), "/apis/policy/v1/poddisruptionbudgets");
    assert_eq!(served::<Namespace>(), "/api/v1/namespaces");
    assert_eq!(served::<PodTemplate>(), "/api/v1/podtemplates");
    assert_eq!(served::<PersistentVolume>(), "/api/v1/persistentvolumes");
    assert_eq!(served::<PersistentVolumeClaim>(), "/api/v1/persistentvolumeclaims");
    assert_eq!(served::<StorageClass>(), "/apis/storage.k8s.io/v1/storageclasses");
    assert_eq!(served::<CSINode>(), "/apis/storage.k8s.io/v1/csinodes");
    assert_eq!(served::<PriorityClass>(), "/apis/scheduling.k8s.io/v1/priorityclasses");
    assert_eq!(served::<LimitRange>(), "/api/v1/limitranges");
    assert_eq!(served::<RuntimeClass>(), "/apis/node.k8s.io/v1/runtimeclasses");
    assert_eq!(served::<Deployment>(), "/apis/apps/v1/deployments");
    assert_eq!(served::<ReplicaSet>(), "/apis/apps/v1/replicasets");
    assert_eq!(served::<StatefulSet>(), "/apis/apps/v1/statefulsets");
    assert_eq!(served::<Job>(), "/apis/batch/v1/jobs");
    assert_eq!(served::<NodePool>(), "/apis/karpenter.sh/v1/nodepools");
    assert_eq!(served::<NodeClaim>(), "/apis/karpenter.sh/v1/nodeclaims");
    assert_eq!(served::<NodeOverlay>(), "/apis/karpenter.sh/v1alpha1/nodeoverlays");
    assert_eq!(served::<CapacityBuffer>(), "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers");
    assert_eq!(served::<EC2NodeClass>(), "/apis/karpenter.k8s.aws/v1/ec2nodeclasses");
}
