//! Tests that workloads, volumes and related objects parse, as an API server sends them and as people write them.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use api::objects::{
    CSINode, Deployment, Job, LimitRange, Namespace, PersistentVolume, PersistentVolumeClaim, Pod, PodSpec,
    PodTemplate, PreemptionPolicy, Priority, PriorityClass, RuntimeClass, StatefulSet, StorageClass, priority_of,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<K: DeserializeOwned>(object: &Value) -> K {
    serde_json::from_value(object.clone()).unwrap()
}

fn described(volume: &PersistentVolume) -> (Option<&str>, Option<&str>, bool) {
    (volume.driver(), volume.handle(), volume.is_local())
}

#[test]
fn volume_driver_and_handle_depend_on_its_source() {
    let csi = json!({ "csi": { "driver": "d", "volumeHandle": "vol-1", "fsType": "ext4" } });
    let rows = [
        (csi, (Some("d"), Some("vol-1"), false)),
        (
            json!({ "awsElasticBlockStore": { "volumeID": "aws://us-east-1a/vol-2" } }),
            (Some("ebs.csi.aws.com"), Some("vol-2"), false),
        ),
        (json!({ "awsElasticBlockStore": { "volumeID": "vol-3" } }), (Some("ebs.csi.aws.com"), Some("vol-3"), false)),
        (json!({ "nfs": { "server": "s", "path": "/" } }), (None, None, false)),
        (json!({ "local": { "path": "/mnt" } }), (None, None, true)),
        (json!({ "hostPath": { "path": "/mnt" } }), (None, None, true)),
    ];
    for (spec, expected) in rows {
        let volume: PersistentVolume = read(&json!({ "metadata": { "name": "v" }, "spec": spec }));
        assert_eq!(described(&volume), expected, "{spec}");
    }
}

#[test]
fn volume_reads_node_affinity_and_claim() {
    let volume: PersistentVolume = read(&json!({
        "metadata": { "name": "v", "deletionTimestamp": "2026-01-01T00:00:00Z" },
        "spec": {
            "capacity": { "storage": "1Gi" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                { "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"] }] }] } },
            "claimRef": { "kind": "PersistentVolumeClaim", "namespace": "n", "name": "c", "uid": "1" },
        },
        "status": { "phase": "Bound" },
    }));
    let terms = &volume.spec.node_affinity.as_ref().unwrap().required.as_ref().unwrap().node_selector_terms;
    assert_eq!(terms[0].match_expressions[0].values, ["a"]);
    assert_eq!(volume.spec.claim_ref.as_ref().unwrap().name, "c");
    assert_eq!((volume.name(), volume.status.phase.as_str(), volume.is_terminating()), ("v", "Bound", true));
}

#[test]
fn claim_reports_class_and_state() {
    let rows = [
        (json!({}), (None, false, false)),
        (json!({ "spec": { "storageClassName": "" } }), (Some(""), false, false)),
        (
            json!({ "spec": { "storageClassName": "gp3", "volumeName": "v" }, "status": { "phase": "Lost" } }),
            (Some("gp3"), true, false),
        ),
        (
            json!({
                "metadata": { "annotations": {
                    "pv.kubernetes.io/bind-completed": "yes", "volume.beta.kubernetes.io/storage-class": "old" } },
                "spec": { "storageClassName": "gp3" },
            }),
            (Some("old"), false, true),
        ),
    ];
    for (object, expected) in rows {
        let claim: PersistentVolumeClaim = read(&object);
        assert_eq!((claim.storage_class(), claim.is_lost(), claim.is_bind_completed()), expected, "{object}");
    }
}

#[test]
fn storage_class_reads_binding_and_topology() {
    let class: StorageClass = read(&json!({
        "metadata": { "name": "gp2", "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } },
        "provisioner": "kubernetes.io/aws-ebs",
        "parameters": { "type": "gp2" },
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{ "matchLabelExpressions": [{ "key": "topology.ebs.csi.aws.com/zone", "values": ["a"] }] }],
    }));
    assert!(class.is_default() && class.waits_for_consumer());
    assert_eq!((class.name(), class.driver()), ("gp2", "ebs.csi.aws.com"));
    assert_eq!(class.allowed_topologies[0].match_label_expressions[0].values, ["a"]);
    let plain: StorageClass = read(&json!({ "metadata": {}, "provisioner": "p", "allowedTopologies": null }));
    assert!(!plain.is_default() && !plain.waits_for_consumer());
    assert_eq!((plain.driver(), plain.provisions()), ("p", true));
    let manual: StorageClass = read(&json!({ "metadata": {}, "provisioner": "kubernetes.io/no-provisioner" }));
    assert!(!manual.provisions());
}

#[test]
fn csi_node_limit_returns_the_count_of_the_driver() {
    let node: CSINode = read(&json!({
        "metadata": { "name": "n" },
        "spec": { "drivers": [
            { "name": "a", "nodeID": "i-1", "topologyKeys": ["z"], "allocatable": { "count": 25 } },
            { "name": "b", "nodeID": "i-1", "topologyKeys": null },
        ] },
    }));
    assert_eq!([node.limit("a"), node.limit("b"), node.limit("c")], [Some(25), None, None]);
    assert_eq!(read::<CSINode>(&json!({ "metadata": {}, "spec": { "drivers": null } })), CSINode::default());
}

#[test]
fn namespace_labels_include_its_name() {
    let namespace: Namespace = read(&json!({ "metadata": { "name": "n", "labels": { "team": "a" } } }));
    assert_eq!(json!(namespace.labels()), json!({ "team": "a", "kubernetes.io/metadata.name": "n" }));
}

#[test]
fn priority_of_finds_the_class_by_name() {
    let classes: [PriorityClass; 3] = [
        read(&json!({ "metadata": { "name": "high" }, "value": 1000, "preemptionPolicy": "Never" })),
        read(&json!({ "metadata": { "name": "one" }, "value": 20, "globalDefault": true })),
        read(&json!({ "metadata": { "name": "two" }, "value": 10, "globalDefault": true })),
    ];
    let preempting = |value| Priority { value, preemption_policy: PreemptionPolicy::PreemptLowerPriority };
    let rows = [
        ("high", Some(Priority { value: 1000, preemption_policy: PreemptionPolicy::Never })),
        ("", Some(preempting(10))),
        ("system-node-critical", Some(preempting(2_000_001_000))),
        ("unknown", None),
    ];
    for (name, expected) in rows {
        assert_eq!(priority_of(name, &classes), expected, "{name}");
    }
    assert_eq!(priority_of("", &[]), Some(preempting(0)));
}

#[test]
fn limit_range_defaults_come_from_bounds() {
    let range: LimitRange = read(&json!({
        "metadata": { "name": "limits", "namespace": "team" },
        "spec": { "limits": [{
            "type": "Container", "default": { "cpu": "1" }, "defaultRequest": { "memory": "1Gi" },
            "max": { "cpu": "4", "memory": "4Gi" }, "min": { "cpu": "100m", "example.com/a": 1 },
        }] },
    }));
    let [item] = range.spec.limits.as_slice() else { unreachable!("one item") };
    assert!(item.is_for_containers() && !item.is_for_pods());
    assert_eq!(json!(item.default_limits()), json!({ "cpu": "1", "memory": "4Gi" }));
    assert_eq!(json!(item.default_requests()), json!({ "cpu": "1", "memory": "1Gi", "example.com/a": "1" }));
    assert_eq!(range.full_name(), "team/limits");
}

#[test]
fn runtime_class_reads_overhead_and_scheduling() {
    let class: RuntimeClass = read(&json!({
        "metadata": { "name": "kata" }, "handler": "kata", "overhead": { "podFixed": { "cpu": "250m" } },
        "scheduling": { "nodeSelector": { "runtime": "kata" }, "tolerations": [{ "key": "kata", "operator": "Exists" }] },
    }));
    assert_eq!(json!(class.overhead.unwrap().pod_fixed), json!({ "cpu": "250m" }));
    let scheduling = class.scheduling.unwrap();
    assert_eq!(
        (scheduling.node_selector["runtime"].as_str(), scheduling.tolerations[0].key.as_str()),
        ("kata", "kata")
    );
}

#[test]
fn workloads_read_replicas_and_templates() {
    let deployment: Deployment = read(&json!({ "metadata": {}, "spec": { "template": { "spec": {} } } }));
    assert_eq!(deployment.spec.replicas(), 1);
    let scaled: Deployment = read(&json!({ "metadata": {}, "spec": { "replicas": 0 } }));
    assert_eq!(scaled.spec.replicas(), 0);
    let set: StatefulSet = read(&json!({
        "metadata": {},
        "spec": {
            "replicas": 3, "serviceName": "s", "ordinals": { "start": 5 },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": { "storageClassName": "gp3" } }],
        },
    }));
    assert_eq!((set.spec.replicas(), set.spec.first_ordinal()), (3, 5));
    assert_eq!(set.spec.volume_claim_templates[0].storage_class(), Some("gp3"));
    let template: PodTemplate = read(&json!({
        "metadata": { "name": "t" }, "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "priority": 7 } },
    }));
    assert_eq!(template.template.spec.priority, Some(7));
}

#[test]
fn desired_pods_is_zero_when_the_job_has_ended() {
    let ended = json!([{ "type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    let rows = [
        ("nothing said", json!({}), json!({}), 1),
        ("side by side", json!({ "parallelism": 3, "completions": 10 }), json!({}), 3),
        ("the last ones", json!({ "parallelism": 3, "completions": 10 }), json!({ "succeeded": 8, "active": 2 }), 2),
        ("more done than asked", json!({ "completions": 1 }), json!({ "succeeded": 2 }), 0),
        ("a queue", json!({ "parallelism": 4 }), json!({ "active": 4 }), 4),
        ("a queue that has an answer", json!({ "parallelism": 4 }), json!({ "succeeded": 1, "active": 2 }), 2),
        ("suspended", json!({ "suspend": true }), json!({}), 0),
        ("ended", json!({}), json!({ "conditions": ended }), 0),
        ("not yet ended", json!({}), json!({ "conditions": [{ "type": "Complete", "status": "False" }] }), 1),
        ("paused by hand", json!({ "parallelism": 0 }), json!({}), 0),
    ];
    for (name, spec, status, expected) in rows {
        let job: Job = read(&json!({ "metadata": {}, "spec": spec, "status": status }));
        assert_eq!(job.desired_pods(), expected, "{name}");
    }
}

fn ports(spec: &Value) -> Vec<String> {
    let spec: PodSpec = read(spec);
    spec.host_ports().iter().map(|p| format!("{}:{}/{}", p.ip, p.port, p.protocol)).collect()
}

#[test]
fn host_ports_lists_ports_of_containers_and_sidecars() {
    let http = json!({ "containerPort": 8080, "hostPort": 80 });
    let dns = json!({ "containerPort": 53, "hostPort": 53, "hostIP": "10.0.0.1", "protocol": "UDP" });
    let inner = json!({ "containerPort": 9090 });
    let rows = [
        (json!({ "containers": [{ "ports": [inner] }] }), vec![]),
        (json!({ "containers": [{ "ports": [http, inner] }, { "ports": [http] }] }), vec!["0.0.0.0:80/TCP"]),
        (json!({ "containers": [{ "ports": [dns, http] }] }), vec!["0.0.0.0:80/TCP", "10.0.0.1:53/UDP"]),
        (json!({ "initContainers": [{ "ports": [http] }] }), vec![]),
        (json!({ "initContainers": [{ "restartPolicy": "Always", "ports": [http] }] }), vec!["0.0.0.0:80/TCP"]),
        (json!({ "hostNetwork": true, "containers": [{ "ports": [inner] }] }), vec!["0.0.0.0:9090/TCP"]),
    ];
    for (spec, expected) in rows {
        assert_eq!(ports(&spec), expected, "{spec}");
    }
}

#[test]
fn pod_keeps_the_fields_of_scheduling() {
    let spec = json!({
        "affinity": {
            "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
                { "weight": 3, "preference": { "matchExpressions": [{ "key": "a", "operator": "Exists" }] } }] },
            "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
                "labelSelector": { "matchLabels": { "a": "b" } }, "namespaces": ["n"], "namespaceSelector": {},
                "topologyKey": "z", "matchLabelKeys": ["k"], "mismatchLabelKeys": ["m"] }] },
            "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
                { "weight": 9, "podAffinityTerm": { "topologyKey": "z" } }] },
        },
        "containers": [{ "name": "c", "resources": {}, "ports": [
            { "containerPort": 1, "hostPort": 2, "hostIP": "::", "protocol": "UDP" }] }],
        "overhead": { "cpu": "1" },
        "resources": { "requests": { "cpu": "2" } },
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {},
            "minDomains": 2, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["k"] }],
        "volumes": [
            { "name": "e", "ephemeral": { "volumeClaimTemplate": { "spec": {
                "storageClassName": "gp3", "accessModes": ["ReadWriteOncePod"] } } } },
            { "name": "o", "awsElasticBlockStore": { "volumeID": "vol-1" } },
        ],
        "schedulingGates": [{ "name": "g" }],
        "priority": 5,
        "priorityClassName": "high",
    });
    let object = json!({
        "metadata": { "labels": { "a": "b" } }, "spec": spec, "status": { "nominatedNodeName": "n" },
    });
    let pod: Pod = read(&object);
    assert_eq!(serde_json::to_value(&pod).unwrap(), object);
}
