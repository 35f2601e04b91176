//! Tests of DaemonSet overhead: from real pods of a DaemonSet, else from its template as the API server would admit it.

use planner::{Daemon, Operator, Requirement, Resources, Toleration};
use serde_json::{Value, json};
use snapshot::{Problem, SnapshotCache};

use crate::expression;
use crate::objects::{Cluster, merged, running};

/// Returns a DaemonSet in kube-system, with changes merged into its template's spec.
fn set(name: &str, spec: Value) -> Value {
    let own = json!({"containers": [{"name": "main"}]});
    json!({
        "metadata": {"name": name, "namespace": "kube-system", "uid": format!("uid-{name}")},
        "spec": {"selector": {}, "template": {"metadata": {"labels": {"app": name}}, "spec": merged(own, spec)}},
    })
}

/// Returns a pod of a DaemonSet, with changes merged into the pod.
fn pod(name: &str, of: &str, cpu: &str, changes: Value) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": of, "uid": format!("uid-{of}"), "controller": true});
    let metadata = json!({
        "namespace": "kube-system", "labels": {"app": of}, "ownerReferences": [owner],
        "creationTimestamp": "2026-01-01T10:00:00Z",
    });
    merged(running(name, "n1", cpu, metadata), changes)
}

/// Returns changes for a pod of a revision that was created at an hour.
fn revision(hash: &str, hour: u8) -> Value {
    let created = format!("2026-01-01T{hour:02}:00:00Z");
    json!({"metadata": {"labels": {"controller-revision-hash": hash}, "creationTimestamp": created}})
}

fn daemon(cluster: &Cluster) -> Daemon {
    let mut built = cluster.build();
    assert_eq!((built.snapshot.daemons.len(), built.problems.as_slice()), (1, &[][..]));
    built.snapshot.daemons.remove(0)
}

fn requests(cluster: &Cluster) -> (i64, i64) {
    let requests = daemon(cluster).shape.requests;
    (requests.get(Resources::CPU), requests.get(Resources::MEMORY))
}

fn with(set: Value, pods: Vec<Value>) -> Cluster {
    Cluster { daemon_sets: vec![set], pods, ..Cluster::default() }
}

#[test]
fn requests_come_from_real_pods_of_a_daemonset() {
    let container = |cpu: &str| json!([{"name": "main", "resources": {"requests": {"cpu": cpu}}}]);
    let two = set("log", json!({"containers": container("2")}));
    let sidecar = json!([{"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}]);
    let ended = json!({"status": {"phase": "Failed"}});
    let uid =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "log", "uid": "before", "controller": true}]);
    let pending = json!({"spec": {"nodeName": null}, "status": {"phase": "Pending"}});
    let rows = [
        ("no pods", vec![], 2000),
        ("a LimitRange raised it", vec![pod("a", "log", "3", json!({}))], 3000),
        ("a VPA lowered it", vec![pod("a", "log", "100m", json!({}))], 100),
        ("an injected sidecar", vec![pod("a", "log", "100m", json!({"spec": {"initContainers": sidecar}}))], 600),
        ("overhead of a runtime", vec![pod("a", "log", "100m", json!({"spec": {"overhead": {"cpu": "250m"}}}))], 350),
        ("a pod that waits for its node", vec![pod("a", "log", "3", pending)], 3000),
        ("a pod that ended", vec![pod("a", "log", "3", ended)], 2000),
        ("a pod of another DaemonSet", vec![pod("a", "other", "3", json!({}))], 2000),
        (
            "a pod of a former DaemonSet",
            vec![pod("a", "log", "3", json!({"metadata": {"ownerReferences": uid}}))],
            2000,
        ),
        ("an unreadable pod", vec![pod("a", "log", "three", json!({}))], 2000),
    ];
    for (what, pods, expected) in rows {
        assert_eq!(requests(&with(two.clone(), pods)).0, expected, "{what}");
    }
}

#[test]
fn requests_are_the_maximum_of_the_newest_revision() {
    let memory = |amount: &str| json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "100m", "memory": amount}}}]}});
    let pods = vec![
        pod("a", "log", "9", revision("first", 9)),
        pod("b", "log", "100m", revision("second", 10)),
        pod("c", "log", "300m", revision("second", 8)),
        pod("d", "log", "", merged(revision("second", 8), memory("1Gi"))),
    ];
    let mut cluster = with(set("log", json!({})), pods);
    assert_eq!(requests(&cluster), (300, 1 << 30));
    cluster.pods.truncate(1);
    assert_eq!(requests(&cluster), (9000, 0), "no pod of the new revision yet");
}

#[test]
fn requests_of_a_newer_template_count_where_greater() {
    let at = |generation: &str| json!({"metadata": {"labels": {"pod-template-generation": generation}}});
    let container = |cpu: &str| json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]});
    let annotated = json!({"metadata": {"annotations": {"deprecated.daemonset.template.generation": "2"}}});
    for (of_pod, of_template, expected) in [("2", "2", 100), ("1", "2", 2000), ("1", "50m", 100)] {
        let set = merged(set("log", container(of_template)), annotated.clone());
        let cluster = with(set, vec![pod("a", "log", "100m", at(of_pod))]);
        assert_eq!(requests(&cluster).0, expected, "pod of generation {of_pod}, template of {of_template}");
    }
}

#[test]
fn constraints_come_from_pods_and_affinity_from_the_template() {
    let template = expression("kubernetes.io/arch", "In", json!(["arm64"]));
    let node = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]);
    let real = json!({"spec": {
        "nodeSelector": {"runtime": "kata"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": node}}},
    }});
    let shape = daemon(&with(set("log", template), vec![pod("a", "log", "1", real)])).shape;
    assert_eq!(shape.affinity, [vec![Requirement::new(api::label::ARCH, Operator::In, ["arm64"])]]);
    assert_eq!(shape.selector, [Requirement::new("runtime", Operator::In, ["kata"])]);
    let keys: Vec<Option<&str>> = shape.tolerations.iter().map(|it: &Toleration| it.key.as_deref()).collect();
    assert!(keys.contains(&Some("sandbox")) && keys.contains(&Some(api::taint::NOT_READY)), "{keys:?}");
}

#[test]
fn template_is_admitted_when_a_daemonset_has_no_pods() {
    let limits = json!([{"type": "Container", "defaultRequest": {"cpu": "500m"}}]);
    let range = |namespace: &str, limits: &Value| json!({"metadata": {"name": "limits", "namespace": namespace}, "spec": {"limits": limits}});
    let mut cluster = Cluster {
        limit_ranges: vec![range("kube-system", &limits)],
        runtime_classes: vec![json!({"metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "250m"}}})],
        ..with(set("log", json!({"runtimeClassName": "kata"})), vec![])
    };
    assert_eq!(requests(&cluster).0, 750);
    cluster.limit_ranges = vec![range("default", &limits)];
    assert_eq!(requests(&cluster).0, 250, "a LimitRange of another namespace");
    cluster.limit_ranges = vec![range("kube-system", &json!([{"type": "Pod", "min": {"memory": "1Gi"}}]))];
    let built = cluster.build();
    assert!(built.snapshot.daemons.is_empty(), "its pods never exist");
    let [problem @ Problem::Daemon { name, .. }] = built.problems.as_slice() else { unreachable!("{built:?}") };
    assert_eq!(name, "kube-system/log");
    let text = problem.to_string();
    assert!(
        text.contains("LimitRange kube-system/limits") && text.contains("set resources.requests[memory]"),
        "{text}"
    );
}

#[test]
fn overhead_follows_real_pods_that_come_and_go() {
    let mut memory = SnapshotCache::default();
    let mut cluster = with(set("log", json!({})), vec![]);
    let histories = [
        vec![],
        vec![pod("a", "log", "1", revision("first", 9))],
        vec![pod("a", "log", "1", revision("first", 9)), pod("b", "log", "2", revision("second", 10))],
        vec![pod("b", "log", "3", revision("second", 10))],
        vec![],
    ];
    let mut found = Vec::new();
    for pods in histories {
        cluster.pods = pods;
        let built = cluster.build_with(&mut memory);
        assert_eq!(built, cluster.build());
        found.push(built.snapshot.daemons[0].shape.requests.get(Resources::CPU));
    }
    assert_eq!(found, [0, 1000, 2000, 3000, 0]);
}

#[test]
fn daemon_used_distinguishes_daemonsets() {
    let cluster = Cluster {
        nodes: vec![crate::objects::machine("n1", json!({})).0],
        pods: vec![
            pod("a", "log", "1", json!({})),
            pod("b", "cni", "200m", json!({})),
            running("web", "n1", "1", json!({})),
        ],
        ..Cluster::default()
    };
    let built = cluster.build();
    let used = built.snapshot.nodes[0].daemon_used.iter();
    let used: Vec<(&str, i64)> = used.map(|(name, used)| (name.as_str(), used.get(Resources::CPU))).collect();
    assert_eq!(used, [("kube-system/cni", 200), ("kube-system/log", 1000)]);
}

#[test]
fn daemons_have_tolerations_of_the_daemonset_controller() {
    let template = json!({"spec": {
        "containers": [{"name": "main", "resources": {"limits": {"cpu": "200m"}}}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
             "matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]},
        ]}}},
    }});
    let set = |name: &str, template: Value| json!({"metadata": {"name": name, "namespace": "kube-system"}, "spec": {"template": template}});
    let broken = json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "x"}}}]}});
    let daemon_sets = vec![set("cni", template), set("broken", broken)];
    let built = Cluster { daemon_sets, ..Cluster::default() }.build();
    let [daemon] = built.snapshot.daemons.as_slice() else { unreachable!("one DaemonSet can be read") };
    assert_eq!((daemon.name.as_str(), daemon.shape.requests.get(Resources::CPU)), ("kube-system/cni", 200));
    assert_eq!(daemon.shape.affinity, [vec![Requirement::new(api::label::ARCH, Operator::In, ["arm64"])]]);
    let not_ready = planner::Taint {
        key: api::taint::NOT_READY.to_owned(),
        value: String::new(),
        effect: planner::Effect::NoExecute,
    };
    assert!(daemon.shape.tolerations.iter().any(|it| it.tolerates(&not_ready)));
    assert!(matches!(built.problems.as_slice(), [Problem::Daemon { name, .. }] if name == "kube-system/broken"));
}

#[test]
fn daemons_ignore_requirements_on_initialization_labels() {
    let mut affinity = expression("karpenter.sh/initialized", "Exists", json!([]));
    affinity["nodeSelector"] = json!({"karpenter.sh/registered": "true", "team": "a"});
    let spec = merged(affinity, json!({"containers": [{"name": "main"}]}));
    let built = Cluster { daemon_sets: vec![set("cni", spec)], ..Cluster::default() }.build();
    let [daemon] = built.snapshot.daemons.as_slice() else { unreachable!("{:?}", built.problems) };
    assert_eq!(daemon.shape.selector, [Requirement::new("team", Operator::In, ["a"])]);
    assert_eq!(daemon.shape.affinity, [vec![]]);
}
