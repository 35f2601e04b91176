//! Tests of the translation of manifests into the planner's snapshot: one row or one small cluster for each rule.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "translation/admission.rs"]
mod admission;
#[path = "translation/buffers.rs"]
mod buffers;
#[path = "translation/cache.rs"]
mod cache;
#[path = "translation/commitments.rs"]
mod commitments;
#[path = "translation/daemons.rs"]
mod daemons;
#[path = "translation/delays.rs"]
mod delays;
#[path = "translation/disruption.rs"]
mod disruption;
#[path = "translation/faults.rs"]
mod faults;
#[path = "translation/mixes.rs"]
mod mixes;
#[path = "translation/nodes.rs"]
mod nodes;
#[path = "translation/objects.rs"]
mod objects;
#[path = "translation/overlays.rs"]
mod overlays;
#[path = "translation/packing.rs"]
mod packing;
#[path = "translation/pod_groups.rs"]
mod pod_groups;
#[path = "translation/requests.rs"]
mod requests;
#[path = "translation/shapes.rs"]
mod shapes;
#[path = "translation/spending.rs"]
mod spending;
#[path = "translation/surge.rs"]
mod surge;
#[path = "translation/volumes.rs"]
mod volumes;

use objects::{Cluster, NOW, merged, pending, pool, running};
use planner::{Operator, PodVerdict, Requirement, Resources, check, plan};
use serde_json::{Value, json};
use snapshot::{Ignored, IgnoredReason, Problem, VolumeError};

/// Returns the reason why the only pod is ignored, if it is.
fn ignored(spec: Value) -> Option<IgnoredReason> {
    let cluster = Cluster { pods: vec![pending("web", "1", spec)], ..Cluster::default() };
    let built = cluster.build();
    assert_eq!(built.ignored.len() + built.snapshot.pods.len(), 1, "a pod is planned or named");
    built.ignored.into_iter().next().map(|it| it.reason)
}

fn node_affinity(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

fn expression(key: &str, operator: &str, values: Value) -> Value {
    node_affinity(json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
}

#[test]
fn planner_labels_equal_the_labels_of_the_api() {
    let rows = [
        (planner::label::ZONE, api::label::ZONE),
        (planner::label::CAPACITY_TYPE, api::label::CAPACITY_TYPE),
        (planner::label::INSTANCE_TYPE, api::label::INSTANCE_TYPE),
        (planner::label::HOSTNAME, api::label::HOSTNAME),
        (planner::label::INSTANCE_HYPERVISOR, api::label::INSTANCE_HYPERVISOR),
        (planner::label::INSTANCE_GPU_COUNT, api::label::INSTANCE_GPU_COUNT),
        (planner::label::INSTANCE_ACCELERATOR_COUNT, api::label::INSTANCE_ACCELERATOR_COUNT),
        (planner::label::ON_DEMAND_BASE, api::annotation::ON_DEMAND_BASE),
        (planner::label::SPOT_SHARE, api::annotation::SPOT_SHARE),
    ];
    for (own, expected_text) in rows {
        assert_eq!(own, expected_text);
    }
    let well_known = Cluster::default().build().snapshot.policy.well_known;
    assert!(well_known.contains(api::label::ZONE) && well_known.contains(api::label::INSTANCE_CPU));
    assert!(!well_known.contains(api::label::HOSTNAME));
}

#[test]
fn ignored_reason_names_invalid_selectors() {
    let key = || "cpus".to_owned();
    let rows = [
        (expression("cpus", "Gt", json!(["4"])), None),
        (expression("cpus", "Gt", json!(["four"])), Some(IgnoredReason::Comparison { key: key() })),
        (expression("cpus", "Lt", json!(["1", "2"])), Some(IgnoredReason::Comparison { key: key() })),
        (expression("cpus", "In", json!([])), Some(IgnoredReason::Values { key: key() })),
        (expression("cpus", "Exists", json!(["4"])), Some(IgnoredReason::Values { key: key() })),
        (expression("karpenter.sh/nodepool", "DoesNotExist", json!([])), Some(IgnoredReason::OptedOut)),
        (
            expression("karpenter.sh/registered", "In", json!(["true"])),
            Some(IgnoredReason::RestrictedLabel { key: "karpenter.sh/registered".to_owned() }),
        ),
        (expression("kubernetes.io/hostname", "In", json!(["n1"])), None),
        (
            node_affinity(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}])),
            Some(IgnoredReason::MatchFields),
        ),
        (node_affinity(json!([{}])), Some(IgnoredReason::NoNode)),
        (
            json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": "one"}}}]}),
            Some(IgnoredReason::Quantity { text: "one".to_owned() }),
        ),
    ];
    for (spec, expected) in rows {
        assert_eq!(ignored(spec.clone()), expected, "{spec}");
    }
}

#[test]
fn shape_contains_what_the_scheduler_evaluates() {
    let spec = json!({
        "nodeSelector": {"beta.kubernetes.io/arch": "arm64", "team": "a"},
        "tolerations": [
            {"key": "dedicated", "value": "web", "effect": "NoSchedule"},
            {"operator": "Exists"},
            {"operator": "Equal"},
            {"key": "odd", "operator": "Resembles"},
        ],
        "initContainers": [{"name": "first", "resources": {"requests": {"cpu": "3"}}}],
        "overhead": {"memory": "64Mi"},
    });
    let terms = node_affinity(json!([
        {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]},
        {},
        {"matchExpressions": [{"key": "cpus", "operator": "Lt", "values": ["8"]}]},
    ]));
    let pods = vec![pending("web", "1", merged(spec.clone(), terms.clone())), pending("too", "1", merged(spec, terms))];
    let built = Cluster { pods, ..Cluster::default() }.build();
    assert_eq!((built.snapshot.pods.len(), built.snapshot.shapes.len()), (2, 1), "like pods share their shape");
    let shape = &built.snapshot.shapes[0];
    let amounts = [(Resources::CPU, 3000), (Resources::MEMORY, 64 << 20), (Resources::PODS, 1)];
    assert_eq!(shape.requests, Resources::from_iter(amounts));
    assert_eq!(
        shape.selector,
        [Requirement::new(api::label::ARCH, Operator::In, ["arm64"]), Requirement::new("team", Operator::In, ["a"])]
    );
    assert_eq!(
        shape.affinity,
        [
            vec![Requirement::new(api::label::ZONE, Operator::In, ["a"])],
            vec![Requirement::new("cpus", Operator::Lt, ["8"])]
        ]
    );
    let keys: Vec<Option<&str>> = shape.tolerations.iter().map(|it| it.key.as_deref()).collect();
    assert_eq!(keys, [Some("dedicated"), None], "tolerations that match nothing are dropped");
}

#[test]
fn pods_contain_only_unschedulable_pods() {
    let mut gated = pending("gated", "1", json!({"schedulingGates": [{"name": "quota"}]}));
    gated["status"]["conditions"][0]["reason"] = json!("SchedulingGated");
    let nominated =
        |name: &str, node: &str| merged(pending(name, "1", json!({})), json!({"status": {"nominatedNodeName": node}}));
    let victim = running("victim", "n1", "1", json!({"deletionTimestamp": NOW}));
    let daemon = merged(pending("daemon", "1", json!({})), json!({"metadata": objects::owned_by("DaemonSet")}));
    let bound = pending("bound", "1", json!({"nodeName": "n1"}));
    let (preempting, expected) = (nominated("preempting", "n1"), nominated("expected", "n2"));
    let others = [victim, running("neighbour", "n2", "1", json!({}))];
    let pods = [gated, preempting, expected, daemon, bound, pending("refused", "1", json!({}))];
    let built = Cluster { pods: pods.into_iter().chain(others).collect(), ..Cluster::default() }.build();
    let names: Vec<&str> = built.snapshot.pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["default/expected", "default/refused"]);
    let waiting: Vec<(&str, &IgnoredReason)> = built.ignored.iter().map(|it| (it.pod.as_str(), &it.reason)).collect();
    let gated = IgnoredReason::Gated { gate: "quota".to_owned() };
    let preempting = IgnoredReason::Preempting { node: "n1".to_owned() };
    assert_eq!(waiting, [("default/gated", &gated), ("default/preempting", &preempting)]);
}

#[test]
fn pools_omit_unusable_node_pools() {
    let mut unready = pool("unready", json!({}));
    unready["status"]["conditions"][0]["status"] = json!("False");
    let going = merged(pool("going", json!({})), json!({"metadata": {"deletionTimestamp": NOW}}));
    let classless = pool("classless", json!({"template": {"spec": {"nodeClassRef": {"name": "other"}}}}));
    let pools = vec![unready, going, classless, pool("static", json!({"replicas": 2})), pool("usable", json!({}))];
    let built = Cluster { pools, ..Cluster::default() }.build();
    let names: Vec<&str> = built.snapshot.pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["static", "usable"]);
    assert_eq!((built.snapshot.pools[0].replicas, built.snapshot.pools[1].replicas), (Some(2), None));
    assert_eq!(built.problems, [Problem::NoCatalogue { pool: "classless".to_owned(), class: "other".to_owned() }]);
}

#[test]
fn pool_contains_all_fields_of_the_node_pool() {
    let spec = json!({
        "weight": 7,
        "limits": {"cpu": "10", "nodes": "3"},
        "template": {
            "metadata": {"labels": {"team": "a"}},
            "spec": {
                "taints": [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "starting", "effect": "NoExecute"}],
                "requirements": [{"key": "failure-domain.beta.kubernetes.io/zone", "operator": "Exists", "minValues": 2}],
            },
        },
    });
    let built = Cluster { pools: vec![pool("a", spec)], ..Cluster::default() }.build();
    let pool = &built.snapshot.pools[0];
    assert_eq!((pool.weight, pool.disruption.consolidate_after), (7, Some(30_000)));
    assert_eq!(pool.limits, Some(Resources::from_iter([(Resources::CPU, 10_000), (Resources::NODES, 3)])));
    assert_eq!(pool.taints.iter().map(ToString::to_string).collect::<Vec<_>>(), ["dedicated=a:NoSchedule"]);
    let zone = Requirement { min_values: Some(2), ..Requirement::new(api::label::ZONE, Operator::Exists, [""; 0]) };
    assert_eq!(pool.requirements, [zone]);
    let labels: Vec<(&str, &str)> = pool.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(labels, [(api::label::EC2_NODE_CLASS, "default"), (api::label::NODEPOOL, "a"), ("team", "a")]);
}

#[test]
fn consolidate_after_is_none_when_never_or_invalid() {
    let rows = [("Never", None, 0), ("0s", Some(0), 0), ("1h30m", Some(5_400_000), 0), ("soon", None, 1)];
    for (text, expected, problems) in rows {
        let pools = vec![pool("default", json!({"disruption": {"consolidateAfter": text}}))];
        let built = Cluster { pools, ..Cluster::default() }.build();
        assert_eq!(built.snapshot.pools[0].disruption.consolidate_after, expected, "{text}");
        assert_eq!(built.problems.len(), problems, "{text}");
    }
}

#[test]
fn plan_launches_nothing_when_claims_are_in_flight() {
    let pods: Vec<Value> = (1..=5).map(|number| pending(&format!("inflate-{number}"), "1", json!({}))).collect();
    let first = Cluster { pods: pods.clone(), pools: vec![pool("default", json!({}))], ..Cluster::default() };
    let built = first.build();
    let decided = plan(&built.snapshot);
    assert_eq!(check(&built.snapshot, &decided), Vec::new());
    assert!(decided.launches.len() < 5 && decided.report.pods.iter().all(|it| matches!(it, PodVerdict::Launch { .. })));

    // The controller created the NodeClaims, and nothing is launched yet.
    let claims = decided.launches.iter().enumerate().map(|(number, launch)| {
        let mut requirements: Vec<Value> =
            launch.requirements.iter().map(|it| serde_json::to_value(it).unwrap()).collect();
        requirements.push(json!({"key": api::label::INSTANCE_TYPE, "operator": "In", "values": launch.instance_types}));
        objects::claim(&format!("default-{number}"), json!(requirements))
    });
    let second = Cluster { claims: claims.collect(), ..first }.build();
    let again = plan(&second.snapshot);
    assert_eq!(check(&second.snapshot, &again), Vec::new());
    assert!(again.launches.is_empty(), "{:?}", again.launches);
    assert_eq!(again.nominations.len(), 5);
}

#[test]
fn build_returns_the_same_snapshot_for_any_object_order() {
    let pods = vec![
        pending("b", "2", json!({})),
        pending("a", "1", json!({})),
        pending("odd", "1", node_affinity(json!([{}]))),
    ];
    let pools = vec![pool("one", json!({})), pool("two", json!({}))];
    let forward = Cluster { pods, pools, ..Cluster::default() };
    let backward = Cluster {
        pods: forward.pods.iter().rev().cloned().collect(),
        pools: forward.pools.iter().rev().cloned().collect(),
        ..Cluster::default()
    };
    assert_eq!(forward.build(), backward.build());
}

#[test]
fn ignored_reason_is_a_plain_sentence() {
    let ignored = |reason| Ignored { pod: "default/web".to_owned(), uid: "u".to_owned(), reason };
    let opted_out = ignored(IgnoredReason::OptedOut);
    let error = VolumeError::ClassMissing { class: "fast".to_owned() };
    let volume = ignored(IgnoredReason::Volume { claim: "default/data".to_owned(), error });
    assert!(!opted_out.deserves_event() && volume.deserves_event());
    let expected_text = "volume claim default/data has storage class fast, which does not exist: create it";
    assert_eq!(volume.reason.to_string(), expected_text);
}

#[test]
fn requirements_are_on_demand_when_a_static_pool_sets_none() {
    let on_demand = Requirement::new(api::label::CAPACITY_TYPE, Operator::In, ["on-demand"]);
    for (spec, expected) in [(json!({}), vec![]), (json!({"replicas": 2}), vec![on_demand])] {
        let built = Cluster { pools: vec![pool("p", spec)], ..Cluster::default() }.build();
        assert_eq!(built.snapshot.pools[0].requirements, expected);
    }
}
