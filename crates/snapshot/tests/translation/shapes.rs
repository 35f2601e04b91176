//! Tests of constraints between pods, host ports and preferred nodes.

use std::sync::Arc;

use planner::{HostPort, NodePreference, Operator, PodShape, PodTerm, Requirement, Selector, Spread};
use serde_json::{Value, json};
use snapshot::IgnoredReason;

use crate::objects::{Cluster, machine, merged, owned_by, pending, running};

fn shape(spec: Value, labels: Value) -> Arc<PodShape> {
    let pod = merged(pending("web", "1", spec), json!({"metadata": {"labels": labels}}));
    let built = Cluster { pods: vec![pod], ..Cluster::default() }.build();
    assert!(built.ignored.is_empty(), "{:?}", built.ignored);
    Arc::clone(&built.snapshot.shapes[0])
}

fn is(key: &str, value: &str) -> Requirement {
    Requirement::new(key, Operator::In, [value])
}

#[test]
fn spread_contains_all_fields_of_the_constraint() {
    let own = || Spread {
        key: api::label::ZONE.to_owned(),
        max_skew: 1,
        min_domains: None,
        selector: Some(Selector(vec![is("app", "web")])),
        hard: true,
        honor_affinity: true,
        honor_taints: false,
    };
    let selector = json!({"labelSelector": {"matchLabels": {"app": "web"}}});
    let revision = || Some(Selector(vec![is("app", "web"), is("revision", "2")]));
    let rows = [
        (selector.clone(), own()),
        (merged(selector.clone(), json!({"whenUnsatisfiable": "ScheduleAnyway"})), Spread { hard: false, ..own() }),
        (
            merged(selector.clone(), json!({"maxSkew": 3, "minDomains": 2})),
            Spread { max_skew: 3, min_domains: Some(2), ..own() },
        ),
        (merged(selector.clone(), json!({"nodeAffinityPolicy": "Ignore"})), Spread { honor_affinity: false, ..own() }),
        (merged(selector.clone(), json!({"nodeTaintsPolicy": "Honor"})), Spread { honor_taints: true, ..own() }),
        (
            merged(selector.clone(), json!({"matchLabelKeys": ["revision", "absent"]})),
            Spread { selector: revision(), ..own() },
        ),
        // The API server has already merged the key.
        (
            json!({"labelSelector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "revision", "operator": "In", "values": ["2"]}]}, "matchLabelKeys": ["revision"]}),
            Spread { selector: revision(), ..own() },
        ),
        (json!({"matchLabelKeys": ["revision"]}), Spread { selector: None, ..own() }),
        (json!({"labelSelector": {}}), Spread { selector: Some(Selector(vec![])), ..own() }),
    ];
    for (constraint, expected) in rows {
        let own = json!({"maxSkew": 1, "topologyKey": "failure-domain.beta.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"});
        let spec = json!({"topologySpreadConstraints": [merged(own, constraint.clone())]});
        assert_eq!(shape(spec, json!({"app": "web", "revision": "2"})).spread, [expected], "{constraint}");
    }
}

#[test]
fn near_and_apart_contain_all_fields_of_pod_affinity() {
    let own = || PodTerm {
        key: api::label::HOSTNAME.to_owned(),
        selector: Some(Selector(vec![is("app", "db")])),
        ..PodTerm::default()
    };
    let rows = [
        (json!({}), own()),
        (json!({"namespaces": ["b", "a", "b"]}), PodTerm { namespaces: vec!["a".to_owned(), "b".to_owned()], ..own() }),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "x"}}}),
            PodTerm { namespace_selector: Some(Selector(vec![is("team", "x")])), ..own() },
        ),
        (json!({"namespaceSelector": {}}), PodTerm { namespace_selector: Some(Selector(vec![])), ..own() }),
        (
            json!({"matchLabelKeys": ["revision"], "mismatchLabelKeys": ["tenant", "absent"]}),
            PodTerm {
                selector: Some(Selector(vec![
                    is("app", "db"),
                    is("revision", "2"),
                    Requirement::new("tenant", Operator::NotIn, ["a"]),
                ])),
                ..own()
            },
        ),
        (json!({"labelSelector": null, "matchLabelKeys": ["revision"]}), PodTerm { selector: None, ..own() }),
    ];
    for (change, expected) in rows {
        let own = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}});
        let term = merged(own, change.clone());
        let both = json!({
            "requiredDuringSchedulingIgnoredDuringExecution": [term],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": term}],
        });
        let spec = json!({"affinity": {"podAffinity": both, "podAntiAffinity": both}});
        let shape = shape(spec, json!({"app": "web", "revision": "2", "tenant": "a"}));
        assert_eq!(shape.near, std::slice::from_ref(&expected), "{change}");
        assert_eq!(shape.apart, std::slice::from_ref(&expected), "{change}");
        let preferred =
            |list: &[planner::PodPreference]| list.iter().map(|it| (it.weight, it.term.clone())).collect::<Vec<_>>();
        assert_eq!(preferred(&shape.prefers_near), [(7, expected.clone())], "{change}");
        assert_eq!(preferred(&shape.prefers_apart), [(7, expected)], "{change}");
    }
}

#[test]
fn preferred_contains_only_terms_that_nodes_can_meet() {
    let zone = || NodePreference { weight: 5, term: vec![is(api::label::ZONE, "a")] };
    let expression = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let rows = [
        (expression("topology.ebs.csi.aws.com/zone", "In", json!(["a"])), vec![zone()]),
        (json!({}), vec![]),
        (json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}), vec![]),
        (expression("cpus", "Gt", json!(["many"])), vec![]),
    ];
    for (term, expected) in rows {
        let preferred = json!([{"weight": 5, "preference": term}]);
        let spec =
            json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}});
        assert_eq!(shape(spec, json!({})).preferred, expected, "{term}");
    }
}

#[test]
fn ports_contain_host_ports() {
    let spec = json!({
        "containers": [{"name": "main", "ports": [
            {"containerPort": 80, "hostPort": 80},
            {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "127.0.0.1"},
            {"containerPort": 8080},
        ]}],
    });
    let port =
        |ip: &str, port: u16, protocol: &str| HostPort { ip: ip.to_owned(), port, protocol: protocol.to_owned() };
    assert_eq!(shape(spec, json!({})).ports, [port("0.0.0.0", 80, "TCP"), port("127.0.0.1", 53, "UDP")]);
}

#[test]
fn shape_contains_priority_and_namespace() {
    let shape = shape(json!({"priority": -5}), json!({}));
    assert_eq!((shape.priority, shape.namespace.as_str()), (-5, "default"));
}

#[test]
fn shapes_differ_only_by_labels_that_selectors_use() {
    let with = |name: &str, spec: Value, labels: Value| {
        merged(pending(name, "1", spec), json!({"metadata": {"labels": labels}}))
    };
    let pods = |looking: Value| {
        let own = |number: &str| json!({"app": "web", "number": number});
        vec![with("a", json!({}), own("0")), with("b", json!({}), own("1")), with("c", looking, json!({}))]
    };
    let spread_by = |key: &str| json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {key: "web"}}}]});
    let rows = [(json!({}), 1), (spread_by("app"), 2), (spread_by("number"), 3)];
    for (looking, expected) in rows {
        let built = Cluster { pods: pods(looking.clone()), ..Cluster::default() }.build();
        assert_eq!(built.snapshot.shapes.len(), expected, "{looking}");
    }
    // Selectors of bound pods and DaemonSets count too.
    let mut bound = running("d", "n1", "1", json!({}));
    bound["spec"]["topologySpreadConstraints"] = spread_by("number")["topologySpreadConstraints"].clone();
    let built = Cluster { pods: [pods(json!({})), vec![bound]].concat(), ..Cluster::default() }.build();
    assert_eq!(built.snapshot.shapes.len(), 3);
}

#[test]
fn shapes_are_shared_by_bound_and_pending_pods() {
    let (node, claim) = machine("n1", json!({}));
    let daemon = |name: &str, node: &str| {
        let mut pod = running(name, node, "100m", owned_by("DaemonSet"));
        let here = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]);
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": here}});
        pod["spec"]["affinity"] = json!({"nodeAffinity": required});
        pod
    };
    let (other, second) = machine("n2", json!({}));
    let ending = running("c", "n2", "1", json!({"deletionTimestamp": crate::objects::NOW}));
    let pods = vec![
        pending("p", "1", json!({})),
        running("a", "n1", "1", json!({})),
        running("b", "n2", "1", json!({})),
        ending,
        daemon("d1", "n1"),
        daemon("d2", "n2"),
    ];
    let cluster = Cluster { nodes: vec![node, other], claims: vec![claim, second], pods, ..Cluster::default() };
    let snapshot = cluster.build().snapshot;
    let [one, two] = snapshot.nodes.as_slice() else { unreachable!("there are two nodes") };
    let names = |node: &planner::Node| node.pods.iter().map(|pod| pod.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        (names(one), names(two)),
        (
            vec!["default/a".into(), "default/d1".into()],
            vec!["default/b".into(), "default/c".into(), "default/d2".into()]
        )
    );
    assert!(
        Arc::ptr_eq(&one.pods[0].shape, &two.pods[0].shape) && Arc::ptr_eq(&one.pods[0].shape, &snapshot.shapes[0])
    );
    assert!(Arc::ptr_eq(&one.pods[1].shape, &two.pods[2].shape), "whatever node it is pinned to");
    assert_eq!(two.pods.iter().map(|pod| pod.ending).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn pods_include_untried_pods_when_an_equal_one_was_refused() {
    let fresh = |name: &str, cpu: &str, spec: Value| {
        let mut pod = pending(name, cpu, spec);
        pod["status"]["conditions"] = json!([]);
        pod
    };
    let other = || json!({"schedulerName": "other"});
    let pods = vec![
        pending("refused", "1", json!({})),
        fresh("alike", "1", json!({})),
        fresh("larger", "2", json!({})),
        fresh("of-another-scheduler", "1", other()),
        fresh("gated", "1", json!({"schedulingGates": [{"name": "quota"}]})),
        merged(fresh("ending", "1", json!({})), json!({"metadata": {"deletionTimestamp": "2026-01-01T11:59:30Z"}})),
    ];
    let planned = |pods: &[Value]| {
        let snapshot = Cluster { pods: pods.to_vec(), ..Cluster::default() }.build().snapshot;
        snapshot.pods.iter().map(|pod| pod.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(planned(&pods), ["default/alike", "default/refused"]);
    assert_eq!(planned(&pods[1..]), [""; 0], "kube-scheduler may have room for all of them");
    let came =
        |at: &str, spec: Value| merged(fresh("larger", "2", spec), json!({"metadata": {"creationTimestamp": at}}));
    let rows = [
        ("2026-01-01T11:59:50Z", json!({}), ["default/larger", "default/refused"].as_slice()),
        ("2026-01-01T12:00:02Z", json!({}), &["default/larger", "default/refused"]),
        ("2026-01-01T11:59:30Z", json!({}), &["default/refused"]),
        ("2026-01-01T11:59:50Z", other(), &["default/refused"]),
    ];
    for (at, spec, expected) in rows {
        let beside = came(at, spec);
        assert_eq!(planned(&[pods[0].clone(), beside.clone()]), expected, "{at}");
        assert_eq!(planned(&[beside]), [""; 0], "kube-scheduler has refused no pod");
    }
}

#[test]
fn ignored_reason_is_device_claim_when_pod_has_claims() {
    let pod = pending("web", "1", json!({"resourceClaims": [{"name": "gpu"}]}));
    let built = Cluster { pods: vec![pod], ..Cluster::default() }.build();
    assert_eq!(built.ignored[0].reason, IgnoredReason::DeviceClaim);
}

#[test]
fn namespaces_have_their_name_as_label() {
    let namespaces = vec![json!({"metadata": {"name": "a", "labels": {"team": "x"}}})];
    let snapshot = Cluster { namespaces, ..Cluster::default() }.build().snapshot;
    let labels: Vec<_> = snapshot.namespaces["a"].iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(labels, [("kubernetes.io/metadata.name", "a"), ("team", "x")]);
}
