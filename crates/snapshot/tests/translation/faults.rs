//! Tests of problems: an invalid object is reported once for all objects with the same error, with its name and a hint.

use serde_json::{Value, json};
use snapshot::{SnapshotCache, SnapshotResult, Subject};

use crate::objects::{Cluster, guard, machine, merged, owned_by, pending, pool, ready, running, usage};

fn ignored_reasons(built: &SnapshotResult) -> Vec<String> {
    built.problems.iter().map(ToString::to_string).collect()
}

fn subjects(built: &SnapshotResult) -> Vec<(&'static str, String)> {
    let about = built.problems.iter().flat_map(|problem| problem.about());
    about.map(|Subject { kind, name }| (kind, name)).collect()
}

/// Returns a cluster of one node with these pods.
fn with(pods: Vec<Value>) -> Cluster {
    let (node, claim) = machine("n1", json!({}));
    Cluster {
        pods,
        pools: vec![pool("default", json!({}))],
        nodes: vec![node],
        claims: vec![claim],
        ..Cluster::default()
    }
}

fn annotated(key: &str, text: &str) -> Value {
    json!({"annotations": {key: text}})
}

#[test]
fn problems_name_invalid_do_not_disrupt_once_per_workload() {
    let asks = |text: &str| annotated("karpenter.sh/do-not-disrupt", text);
    let web = |name: &str, text: &str| running(name, "n1", "100m", merged(owned_by("ReplicaSet"), asks(text)));
    let daemon = running("agent", "n1", "100m", merged(owned_by("DaemonSet"), asks("yes")));
    let ends = merged(web("web-9", "-4h"), json!({"metadata": {"deletionTimestamp": "2026-01-01T11:59:00Z"}}));
    let waits = merged(pending("alone", "100m", json!({})), json!({"metadata": asks("soon")}));
    let built = with(vec![
        web("web-1", "-4h"),
        web("web-2", "-4h"),
        web("web-3", "4h"),
        running("plain", "n1", "100m", asks("false")),
        daemon,
        ends,
        waits,
    ])
    .build();
    let protects = r#"annotation karpenter.sh/do-not-disrupt is ignored:"#;
    let cure = "is neither true nor a duration above 0 since the start of the pod, such as 4h";
    assert_eq!(
        ignored_reasons(&built),
        [
            format!(r#"Pod default/agent: {protects} "yes" {cure}"#),
            format!(r#"Pod default/alone: {protects} "soon" {cure}"#),
            format!(r#"Pod default/web-1 and 1 other: {protects} "-4h" {cure}"#),
        ]
    );
    assert_eq!(subjects(&built)[2], ("Pod", "default/web-1".to_owned()));
    assert_eq!(built.problems[2].reason(), "InvalidDoNotDisruptAnnotation");
    let held = |name: &str| built.snapshot.nodes[0].pods.iter().any(|pod| pod.name == name && pod.do_not_disrupt);
    assert!(held("default/web-3") && !held("default/web-1"), "what cannot be read protects nothing");
}

#[test]
fn problems_name_invalid_annotations_once_per_workload() {
    let annotations = json!({"annotations": {
        "kerf.sh/disrupt-at-most-once-per": "-4h", "kerf.sh/resize": "no", "kerf.sh/surge": "yes",
    }});
    let of = |name: &str, owner: &str| {
        let owner = json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}]});
        running(name, "n1", "100m", merged(owner, annotations.clone()))
    };
    let built = with(vec![of("web-1", "web"), of("web-2", "web"), of("web-3", "web"), of("api-1", "api")]).build();
    let ignored_reasons = ignored_reasons(&built);
    assert_eq!(ignored_reasons.len(), 6, "{ignored_reasons:?}");
    assert!(ignored_reasons[..3].iter().all(|it| it.starts_with("Pod default/api-1: ")), "{ignored_reasons:?}");
    assert!(
        ignored_reasons[3..].iter().all(|it| it.starts_with("Pod default/web-1 and 2 others: ")),
        "{ignored_reasons:?}"
    );
    assert!(built.problems.iter().all(|it| it.reason() == "InvalidAnnotation"));
}

/// Rows: a budget's selector, its other metadata, and the expected problem.
#[test]
fn problems_name_a_budget_that_selects_no_pod() {
    let app = |name: &str| json!({"matchLabels": {"app": name}});
    let among = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]});
    let ended = merged(running("done", "n1", "1", json!({})), json!({"status": {"phase": "Succeeded"}}));
    let waits = merged(pending("new", "1", json!({})), json!({"metadata": {"labels": {"app": "new"}}}));
    let scaled = json!({
        "metadata": {"name": "rare", "namespace": "default"},
        "spec": {"replicas": 0, "selector": {}, "template": {"metadata": {"labels": {"app": "rare"}}, "spec": {"containers": []}}},
    });
    let compare = "compare its selector with the labels of its pods, unless they are scaled to zero";
    let write = "set spec.selector; an empty one, {}, selects all pods of its namespace";
    let (plain, elsewhere) = (json!({}), json!({"namespace": "other"}));
    let made = |at: &str| json!({"creationTimestamp": at});
    let rows = [
        (app("web"), plain.clone(), None),
        (app("new"), plain.clone(), None),
        (json!({}), plain.clone(), None),
        (app("rare"), plain.clone(), None),
        (app("wbe"), plain.clone(), Some(("default", compare))),
        (app("done"), plain.clone(), Some(("default", compare))),
        (among, plain.clone(), Some(("default", compare))),
        (app("web"), elsewhere.clone(), Some(("other", compare))),
        (json!({}), elsewhere, Some(("other", compare))),
        (json!(null), plain, Some(("default", write))),
        (app("wbe"), made("2026-01-01T11:50:00Z"), Some(("default", compare))),
        (app("wbe"), made("2026-01-01T11:50:01Z"), None),
    ];
    for (selector, metadata, expected) in rows {
        let budget = merged(guard("web", selector, json!({"disruptionsAllowed": 1})), json!({"metadata": metadata}));
        let pods = vec![running("web", "n1", "1", json!({})), ended.clone(), waits.clone()];
        let cluster = Cluster { budgets: vec![budget.clone()], deployments: vec![scaled.clone()], ..with(pods) };
        let built = cluster.build();
        let expected =
            expected.map(|(namespace, cure)| format!("PodDisruptionBudget {namespace}/web: selects no pod: {cure}"));
        assert_eq!(ignored_reasons(&built), Vec::from_iter(expected), "{budget}");
        assert!(subjects(&built).iter().all(|(kind, _)| *kind == "PodDisruptionBudget"));
    }
}

#[test]
fn problems_name_a_budget_while_it_selects_no_pod() {
    let mut memory = SnapshotCache::default();
    let budget = guard("web", json!({"matchLabels": {"app": "web"}}), json!({"disruptionsAllowed": 1}));
    let cluster = |pods: Vec<Value>| Cluster { budgets: vec![budget.clone()], ..with(pods) };
    let waits = merged(pending("web", "1", json!({})), json!({"metadata": {"labels": {"app": "web"}}}));
    let ignored_reasons: Vec<usize> = [vec![], vec![waits], vec![running("web", "n1", "1", json!({}))], vec![]]
        .into_iter()
        .map(|pods| cluster(pods).build_with(&mut memory).problems.len())
        .collect();
    assert_eq!(ignored_reasons, [1, 0, 0, 1]);
}

#[test]
fn problems_name_nodes_without_claim_once_per_pool() {
    let node = |name: &str, metadata: Value| machine(name, json!({"metadata": metadata})).0;
    let of = |pool: &str| json!({"labels": {"karpenter.sh/nodepool": pool}});
    let mut foreign = node("foreign", json!({}));
    foreign["metadata"]["labels"].as_object_mut().unwrap().remove("karpenter.sh/nodepool");
    let mut cluster = with(vec![]);
    cluster.nodes.extend([
        node("n2", of("default")),
        node("n3", of("default")),
        node("n4", of("other")),
        node("goes", merged(of("other"), json!({"deletionTimestamp": "2026-01-01T11:59:00Z"}))),
        node("fresh", merged(of("other"), json!({"creationTimestamp": "2026-01-01T11:55:00Z"}))),
        foreign,
    ]);
    let built = cluster.build();
    let cure =
        "but no NodeClaim exists, so it is never disrupted; add its NodeClaim, or delete the Node, or remove the label";
    assert_eq!(
        ignored_reasons(&built),
        [
            format!(r#"Node n2 and 1 other: label karpenter.sh/nodepool is "default", {cure}"#),
            format!(r#"Node n4: label karpenter.sh/nodepool is "other", {cure}"#),
        ]
    );
    assert_eq!(subjects(&built), [("Node", "n2".to_owned()), ("Node", "n4".to_owned())]);
}

#[test]
fn problems_name_nodes_with_invalid_do_not_disrupt() {
    let mut cluster = with(vec![]);
    for (name, text) in [("n2", "4h"), ("n3", "4h"), ("n4", "false"), ("n5", "true")] {
        let (node, claim) = machine(name, json!({"metadata": annotated("karpenter.sh/do-not-disrupt", text)}));
        cluster.nodes.push(node);
        cluster.claims.push(claim);
    }
    let built = cluster.build();
    let expected = r#"Node n2 and 1 other: annotation karpenter.sh/do-not-disrupt is ignored: "4h" is not true, and durations are supported on pods only"#;
    assert_eq!(ignored_reasons(&built), [expected]);
    let held: Vec<&str> =
        built.snapshot.nodes.iter().filter(|node| node.do_not_disrupt).map(|node| node.name.as_str()).collect();
    assert_eq!(held, ["n5"]);
}

#[test]
fn problems_name_pods_that_can_never_be_evicted() {
    let budget = |name: &str, app: &str, spec: Value, pods: i32| {
        let status = json!({"expectedPods": pods, "currentHealthy": pods, "desiredHealthy": 1});
        merged(guard(name, json!({"matchLabels": {"app": app}}), status), json!({"spec": spec}))
    };
    let labelled = |name: &str, app: &str| ready(running(name, "n1", "100m", json!({"labels": {"app": app}})));
    let cluster = Cluster {
        budgets: vec![
            budget("single", "db", json!({"minAvailable": 1}), 1),
            budget("all", "web", json!({"minAvailable": "100%"}), 3),
            budget("fine", "api", json!({"minAvailable": 1}), 2),
            budget("one", "twice", json!({"maxUnavailable": 1}), 1),
            budget("two", "twice", json!({"maxUnavailable": 1}), 1),
        ],
        ..with(vec![
            labelled("db-0", "db"),
            labelled("web-0", "web"),
            labelled("web-1", "web"),
            labelled("web-2", "web"),
            labelled("api-0", "api"),
            labelled("twice-0", "twice"),
        ])
    };
    let built = cluster.build();
    let never = "can never be evicted, so its node cannot be disrupted:";
    let cure = "add a replica, or set maxUnavailable: 1";
    assert_eq!(
        ignored_reasons(&built),
        [
            format!(
                "Pod default/db-0: {never} PodDisruptionBudget default/single allows no disruption: minAvailable is 1 and there is 1 pod; {cure}"
            ),
            format!(
                "Pod default/twice-0: {never} the API server evicts no pod that several PodDisruptionBudgets select (default/one and default/two); change them so that one selects it"
            ),
            format!(
                "Pod default/web-0 and 2 others: {never} PodDisruptionBudget default/all allows no disruption: minAvailable is 100% and there are 3 pods; set maxUnavailable: 1"
            ),
        ]
    );
    let each: Vec<(&str, Option<&str>)> =
        built.never_evicted.iter().map(|it| (it.pod.as_str(), it.pool.as_deref())).collect();
    let held = ["default/db-0", "default/twice-0", "default/web-0", "default/web-1", "default/web-2"];
    assert_eq!(each, held.map(|pod| (pod, Some("default"))));
    let foreign = Cluster { claims: vec![], pools: vec![], ..cluster }.build();
    assert_eq!(foreign.never_evicted, []);
    assert!(
        ignored_reasons(&foreign).iter().all(|it| !it.contains("evicted")),
        "a node without a claim is not released"
    );
    let about = ["default/single", "default/one", "default/two", "default/all"];
    assert_eq!(subjects(&built), about.map(|name| ("PodDisruptionBudget", name.to_owned())));
}

/// Rows: the reports of two nodes, the utilization policy of the NodePool, and the problems.
#[test]
fn problems_name_ignored_usage_reports_with_the_reason() {
    let fresh = "2026-01-01T11:59:00Z";
    let other = json!({"instance": "i-before"});
    let stale = "ignored: report is older than 15 minutes";
    let ahead = "ignored: report is more than 2 minutes in the future, check the clocks";
    let another = "ignored: report belongs to another instance that had the same name";
    let rows = [
        (usage("n1", fresh, json!({})), usage("n2", fresh, json!({})), "observe", vec![]),
        (
            usage("n1", "2026-01-01T11:45:00Z", json!({})),
            usage("n2", "2026-01-01T11:00:00Z", json!({})),
            "observe",
            vec![format!("NodeUsage n1 and 1 other: {stale}")],
        ),
        (
            usage("n1", "2026-01-01T12:02:00Z", json!({})),
            usage("n2", fresh, other.clone()),
            "pack",
            vec![format!("NodeUsage n1: {ahead}"), format!("NodeUsage n2: {another}")],
        ),
        (
            usage("n1", "2026-01-01T11:00:00Z", other),
            usage("n2", fresh, json!({})),
            "pack",
            vec![format!("NodeUsage n1: {another}")],
        ),
        (usage("n1", "2026-01-01T11:45:00Z", json!({})), usage("n3", fresh, json!({})), "ignore", vec![]),
    ];
    for (one, two, policy, expected) in rows {
        let mut cluster = with(vec![]);
        let (node, claim) = machine("n2", json!({}));
        cluster.nodes.push(node);
        cluster.claims.push(claim);
        cluster.usages = vec![one, two];
        cluster.pools[0]["metadata"]["annotations"] = json!({"kerf.sh/utilization": policy});
        assert_eq!(ignored_reasons(&cluster.build()), expected, "{policy}");
    }
}

#[test]
fn problems_name_settings_without_effect() {
    let of = |name: &str| {
        let keys = json!({"annotations": {"karpenter.sh/do-not-evict": "true"}, "labels": {"kerf.sh/spotshare": "70"}});
        running(name, "n1", "100m", merged(owned_by("ReplicaSet"), keys))
    };
    let mut cluster = with(vec![of("web-1"), of("web-2")]);
    let own = json!({"metadata": {"annotations": {"kerf.sh/node-fees": "1"}}, "spec": {"limits": {"cost": "5"}}});
    cluster.pools = vec![pool("default", json!({}))].into_iter().map(|pool| merged(pool, own.clone())).collect();
    let built = cluster.build();
    assert_eq!(
        ignored_reasons(&built),
        [
            "Pod default/web-1 and 1 other: metadata.annotations[karpenter.sh/do-not-evict] has no effect: only Karpenter before v1beta1 read it; write karpenter.sh/do-not-disrupt",
            "Pod default/web-1 and 1 other: metadata.labels[kerf.sh/spotshare] has no effect: did you mean kerf.sh/spot-share?",
            "NodePool default: metadata.annotations[kerf.sh/node-fees] has no effect: did you mean kerf.sh/node-fee?",
            "NodePool default: spec.limits[cost] has no effect: no node has such a resource; limit cpu, memory or nodes",
        ]
    );
    assert!(built.problems.iter().all(|problem| problem.reason() == "NoEffect"));
    assert_eq!(subjects(&built)[3], ("NodePool", "default".to_owned()));
}

#[test]
fn problems_name_undeclared_taints_of_starting_nodes() {
    let taints = json!({"spec": {"taints": [
        {"key": "node.cilium.io/agent-not-ready", "value": "true", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "declared", "effect": "NoSchedule"},
        {"key": "soft", "effect": "PreferNoSchedule"},
    ]}});
    let mut cluster = with(Vec::new());
    let declared =
        json!({"spec": {"template": {"spec": {"startupTaints": [{"key": "declared", "effect": "NoSchedule"}]}}}});
    cluster.pools = vec![merged(pool("default", json!({})), declared)];
    cluster.nodes = cluster.nodes.into_iter().map(|node| merged(node, taints.clone())).collect();
    let initialized = cluster.build();
    assert_eq!(ignored_reasons(&initialized), [""; 0]);
    for node in &mut cluster.nodes {
        let labels = node["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove("karpenter.sh/initialized");
    }
    let starting = cluster.build();
    assert_eq!(
        ignored_reasons(&starting),
        [
            "Node n1: taint node.cilium.io/agent-not-ready:NoExecute is neither in taints nor in startupTaints of NodePool \
          default, so pods that do not tolerate it get another node meanwhile; add it to spec.template.spec.startupTaints"
        ]
    );
    assert_eq!(starting.problems[0].reason(), "UndeclaredTaint");
}
