//! Tests of the translation of Nodes, NodeClaims and their pods.

use planner::{Leaving, MicroDollars, Millis, NodeVerdict, Resources, Stage, plan};
use serde_json::{Value, json};
use snapshot::{IgnoredReason, Problem, Settings};

use crate::objects::{Cluster, NOW, claim, machine, merged, owned_by, pending, pool, ready, running};

fn default_pool() -> Vec<Value> {
    vec![pool("default", json!({"disruption": {"budgets": [{"nodes": "100%"}]}}))]
}

fn with(nodes: Vec<(Value, Value)>, pods: Vec<Value>) -> Cluster {
    let (nodes, claims) = nodes.into_iter().unzip();
    Cluster { nodes, claims, pods, pools: default_pool(), ..Cluster::default() }
}

fn millis(text: &str) -> Millis {
    Millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

#[test]
fn node_has_its_own_values_when_initialized() {
    let daemon = running("cni", "n1", "200m", owned_by("DaemonSet"));
    let built = with(vec![machine("n1", json!({}))], vec![daemon, running("web", "n1", "1", json!({}))]).build();
    let node = &built.snapshot.nodes[0];
    assert_eq!(
        (node.name.as_str(), node.claim.as_deref(), node.pool.as_deref()),
        ("n1", Some("claim-n1"), Some("default"))
    );
    assert_eq!((node.stage, node.leaving.as_ref(), node.unschedulable), (Stage::Initialized, None, false));
    assert_eq!(node.allocatable.get(Resources::CPU), 3900);
    assert_eq!((node.used.get(Resources::CPU), node.used.get(Resources::PODS)), (1200, 2));
    let of_daemon = &node.daemon_used["default/owner"];
    assert_eq!((of_daemon.get(Resources::CPU), of_daemon.get(Resources::PODS)), (200, 1));
    let pods: Vec<(&str, bool)> = node.pods.iter().map(|pod| (pod.name.as_str(), pod.reschedulable)).collect();
    assert_eq!(pods, [("default/cni", false), ("default/web", true)]);
    assert_eq!(node.price, Some(MicroDollars(80_000)));
    assert_eq!(node.quiet_since, Some(millis("2026-01-01T11:30:00Z")));
    let pool = &built.snapshot.pools[0];
    assert_eq!((pool.usage.get(Resources::CPU), pool.usage.get(Resources::NODES)), (4000, 1));
    assert!(built.problems.is_empty());
}

#[test]
fn taints_include_startup_taints_only_when_initialized() {
    let taints = json!([
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "kerf.sh/agent-not-ready", "effect": "NoExecute"},
        {"key": "starting", "effect": "NoSchedule"},
        {"key": "team", "value": "a", "effect": "NoSchedule"},
    ]);
    for (initialized, expected) in [("true", 4), ("false", 1)] {
        let (node, mut claim) = machine(
            "n1",
            json!({"metadata": {"labels": {"karpenter.sh/initialized": initialized}}, "spec": {"taints": taints}}),
        );
        claim["spec"]["startupTaints"] = json!([{"key": "starting", "effect": "NoSchedule"}]);
        let built = with(vec![(node, claim)], vec![]).build();
        assert_eq!(built.snapshot.nodes[0].taints.len(), expected, "initialized: {initialized}");
    }
}

#[test]
fn allocatable_is_filled_from_the_claim_until_the_node_is_ready() {
    for (ready, memory) in [("False", 15 << 30), ("True", 0)] {
        let changes = json!({
            "metadata": {"labels": {"karpenter.sh/initialized": "false"}},
            "status": {
                "allocatable": {"cpu": "3800m", "memory": "0", "pods": null},
                "conditions": [{"type": "Ready", "status": ready}],
            },
        });
        let (mut node, claim) = machine("n1", changes);
        node["status"]["allocatable"].as_object_mut().unwrap().remove("pods");
        let built = with(vec![(node, claim)], vec![]).build();
        let node = &built.snapshot.nodes[0];
        assert_eq!(node.stage, Stage::Registered);
        let amounts = [Resources::CPU, Resources::MEMORY, Resources::PODS].map(|name| node.allocatable.get(name));
        assert_eq!(amounts, [3800, memory, 58], "Ready: {ready}");
    }
}

/// A node with root access for an attacker writes labels and status of its own Node. What was launched follows from the NodeClaim.
#[test]
fn node_has_type_zone_and_capacity_of_its_claim_whatever_it_reports() {
    let reported = json!({
        "metadata": {"labels": {
            "node.kubernetes.io/instance-type": "m7i.large", "topology.kubernetes.io/zone": "us-west-2c",
            "karpenter.sh/capacity-type": "on-demand", "karpenter.sh/nodepool": "other", "team": "its own",
        }},
        "status": {
            "allocatable": {"cpu": "100000", "memory": "1000Ti", "pods": "58", "example.com/device": "8"},
            "capacity": {"cpu": "100000", "memory": "1000Ti", "pods": "58", "example.com/device": "8"},
        },
    });
    let (node, claim) = machine("n1", reported);
    let launched = json!({
        "metadata": {"labels": {
            "node.kubernetes.io/instance-type": "m7i.xlarge", "topology.kubernetes.io/zone": "us-west-2b",
            "karpenter.sh/capacity-type": "spot", "karpenter.sh/nodepool": "default",
        }},
        "status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "58"}},
    });
    let built = with(vec![(node, merged(claim, launched))], vec![]).build();
    let node = &built.snapshot.nodes[0];
    let labels =
        ["node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "karpenter.sh/capacity-type", "team"];
    let found = labels.map(|key| node.labels.get(key).map(String::as_str).unwrap_or_default());
    assert_eq!(found, ["m7i.xlarge", "us-west-2b", "spot", "its own"]);
    let amounts = [Resources::CPU, Resources::MEMORY].map(|name| node.allocatable.get(name));
    assert_eq!(amounts, [4000, (16 << 30) * 100 / 85], "at most those of the instance");
    assert_eq!(node.allocatable.get("example.com/device"), 8, "only the node knows its devices");
    assert_eq!(built.snapshot.pools[0].usage.get(Resources::CPU), 4000, "the NodePool can still launch nodes");
}

#[test]
fn cost_counts_leaving_nodes_and_the_most_expensive_choice_of_a_claim() {
    let leaving = json!({"metadata": {"deletionTimestamp": NOW, "finalizers": ["karpenter.sh/termination"]}});
    let (_, open) = machine("n3", json!({}));
    let mut open = merged(
        open,
        json!({"spec": {"requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m7i.2xlarge", "m7i.large"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        ]}}),
    );
    open["status"] = json!({});
    open["metadata"]["labels"] = json!({"karpenter.sh/nodepool": "default"});
    let (one, two) = (machine("n1", json!({})), machine("n2", json!({})));
    let mut pool = pool("default", json!({}));
    pool["metadata"]["annotations"] = json!({"kerf.sh/node-fee": "0.01"});
    let cluster = Cluster {
        nodes: vec![one.0, two.0],
        claims: vec![one.1, merged(two.1, leaving), open],
        pools: vec![pool],
        settings: Settings { cost_limit: Some(MicroDollars(1)), ..Settings::default() },
        ..Cluster::default()
    };
    let built = cluster.build();
    let price = built.snapshot.nodes.iter().find(|node| node.name == "n1").unwrap().price.unwrap().0;
    let types = &built.snapshot.catalogues[built.snapshot.pools[0].catalogue].types;
    let on_demand = |it: &&planner::Offering| it.capacity_type == planner::CapacityType::OnDemand;
    let large = types.iter().find(|kind| kind.name == "m7i.2xlarge").unwrap();
    let highest = large.offerings.iter().filter(on_demand).map(|it| it.charged().0).max().unwrap();
    let expected = MicroDollars(2 * price + highest + 3 * 10_000);
    assert_eq!((built.snapshot.pools[0].cost, built.snapshot.spend_limits[0].cost), (expected, expected));
}

#[test]
fn claim_without_instance_counts_as_cheapest_and_largest_type() {
    let requirements = json!([
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m7i.2xlarge", "m7i.large"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-west-2b"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
    ]);
    let cluster = Cluster { claims: vec![claim("c1", requirements)], pools: default_pool(), ..Cluster::default() };
    let built = cluster.build();
    let node = &built.snapshot.nodes[0];
    assert_eq!(
        (node.name.as_str(), node.stage, node.instance_type.as_deref()),
        ("c1", Stage::InFlight, Some("m7i.large"))
    );
    assert_eq!(node.allocatable.get(Resources::CPU), 1900);
    assert_eq!(node.labels.get(api::label::ZONE).map(String::as_str), Some("us-west-2b"), "one value is certain");
    assert_eq!(node.labels.get(api::label::CAPACITY_TYPE), None, "two are not");
    assert!(!node.requirements.is_empty());
    let pool = &built.snapshot.pools[0];
    assert_eq!((pool.usage.get(Resources::CPU), pool.usage.get(Resources::NODES)), (8000, 1));
}

#[test]
fn instance_type_follows_requirements_when_no_type_is_listed() {
    let requirements = json!([
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["2"]},
        {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]},
        {"key": "karpenter.k8s.aws/ec2nodeclass", "operator": "In", "values": ["default"]},
    ]);
    let cluster = Cluster { claims: vec![claim("c1", requirements)], pools: default_pool(), ..Cluster::default() };
    assert_eq!(cluster.build().snapshot.nodes[0].instance_type.as_deref(), Some("m7i.xlarge"));
}

#[test]
fn node_has_the_status_of_the_claim_when_launched() {
    let mut launched = claim("c1", json!([]));
    launched["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!("m7i.xlarge");
    launched["spec"]["taints"] = json!([{"key": "team", "effect": "NoSchedule"}]);
    launched["status"] = json!({
        "providerID": "aws:///us-west-2a/i-1",
        "capacity": {"cpu": "4"}, "allocatable": {"cpu": "3900m", "pods": "58"},
    });
    let built = Cluster { claims: vec![launched], pools: default_pool(), ..Cluster::default() }.build();
    let node = &built.snapshot.nodes[0];
    assert_eq!((node.stage, node.allocatable.get(Resources::CPU), node.taints.len()), (Stage::InFlight, 3900, 1));
    assert!(node.requirements.is_empty());
    assert_eq!(built.snapshot.pools[0].usage.get(Resources::CPU), 4000);
}

/// EC2 selects the partition. No pod may be planned as if the node were in none.
#[test]
fn launched_node_has_no_partition_before_it_is_read() {
    let partition = "karpenter.k8s.aws/placement-group-partition";
    for (value, expected) in [("", None), ("3", Some("3"))] {
        let mut launched = claim("c1", json!([]));
        launched["metadata"]["labels"][partition] = json!(value);
        launched["status"] = json!({"providerID": "aws:///us-west-2a/i-1"});
        let built = Cluster { claims: vec![launched], pools: default_pool(), ..Cluster::default() }.build();
        let labels = &built.snapshot.nodes[0].labels;
        assert_eq!(labels.get(partition).map(String::as_str), expected);
    }
}

#[test]
fn interrupted_node_needs_new_places_for_all_its_pods() {
    let condition = json!([{"type": "Ready", "status": "True"}, {
        "type": "kerf.sh/Interrupted", "status": "True", "reason": "SpotInterruption",
        "message": "EC2 takes the instance back, deadline=2026-01-01T12:02:00Z",
    }]);
    let held = running("held", "n1", "1", json!({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}));
    let pods = vec![held, running("web", "n1", "1", json!({})), running("cni", "n1", "1", owned_by("DaemonSet"))];
    let built = with(vec![machine("n1", json!({"status": {"conditions": condition}}))], pods).build();
    let deadline = Some(millis("2026-01-01T12:02:00Z"));
    assert_eq!(built.snapshot.nodes[0].leaving, Some(Leaving::Interrupted { deadline }));
    let names: Vec<&str> = built.snapshot.pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["default/held", "default/web"]);
    assert!(built.snapshot.pods.iter().all(|pod| pod.leaving_node.as_deref() == Some("n1")));
    assert!(built.snapshot.pools[0].usage.get(Resources::CPU) > 0, "a node can invent a notice");
    assert_eq!(plan(&built.snapshot).launches.len(), 1, "the replacement is launched at once");
}

#[test]
fn rebalance_recommendation_replaces_only_with_the_policy() {
    for (message, policy, leaving, launches) in [
        ("", "replace", None, 0),
        ("id=rebalance-1 EC2 sees a risk", "replace", None, 0),
        ("id=rebalance-1 policy=replace EC2 sees a risk", "cordon", None, 0),
        ("id=rebalance-1 policy=replace EC2 sees a risk", "replace", Some(Leaving::Deleting), 1),
    ] {
        let reason = "RebalanceRecommendation";
        let interrupted =
            json!({"type": "kerf.sh/Interrupted", "status": "True", "reason": reason, "message": message});
        let conditions = json!([{"type": "Ready", "status": "True"}, interrupted]);
        let pods = vec![running("web", "n1", "1", json!({}))];
        let (node, claim) = machine("n1", json!({"status": {"conditions": conditions}}));
        let claim = merged(claim, json!({"metadata": {"annotations": {"kerf.sh/rebalance": policy}}}));
        let built = with(vec![(node, claim)], pods).build();
        assert_eq!(built.snapshot.nodes[0].leaving, leaving, "{message}");
        assert_eq!(plan(&built.snapshot).launches.len(), launches, "{message}");
    }
}

/// The node is part of a running command: its pods keep their nominations, and no other pod is placed on it.
#[test]
fn node_is_leaving_when_its_replacement_is_starting() {
    let (node, old) = machine("n1", json!({}));
    let old = merged(old, json!({"metadata": {"annotations": {"kerf.sh/replaced-by": "c1"}}}));
    let new = claim("c1", json!([{"key": api::label::INSTANCE_TYPE, "operator": "In", "values": ["m7i.large"]}]));
    let pods = vec![running("web", "n1", "1", json!({}))];
    let base = Cluster { nodes: vec![node], claims: vec![old, new], pods, pools: default_pool(), ..Cluster::default() };
    let promised = Cluster { nominations: vec![("uid-web", "c1")], ..base };
    let built = promised.build();
    let leaving: Vec<_> = built.snapshot.nodes.iter().map(|node| (node.name.as_str(), node.leaving.clone())).collect();
    assert_eq!(leaving, [("c1", None), ("n1", Some(Leaving::Deleting))]);
    let pods: Vec<_> = built.snapshot.pods.iter().map(|pod| (pod.name.as_str(), pod.nominated.as_deref())).collect();
    assert_eq!(pods, [("default/web", Some("c1"))]);
    let plan = plan(&built.snapshot);
    assert!(plan.launches.is_empty() && plan.moves.is_empty(), "{plan:?}");
    assert_eq!(plan.nominations[0].node, "c1");
    let verdicts: Vec<_> = plan.report.nodes.iter().map(|(name, verdict)| (name.as_str(), verdict)).collect();
    assert_eq!(verdicts, [("c1", &NodeVerdict::NotInitialized), ("n1", &NodeVerdict::Leaving)]);
}

#[test]
fn deleting_node_needs_new_places_for_evictable_pods() {
    let annotated = |text: &str| json!({"annotations": {"karpenter.sh/do-not-disrupt": text}});
    let ending = |kind: &str| merged(owned_by(kind), json!({"deletionTimestamp": NOW}));
    let pods = vec![
        running("held", "n1", "1", annotated("true")),
        running("over", "n1", "1", annotated("5m")),
        running("briefly", "n1", "1", annotated("1h")),
        running("nonsense", "n1", "1", annotated("maybe")),
        running("guarded", "n1", "1", json!({})),
        running("twice", "n1", "1", json!({})),
        running("stateful", "n1", "1", ending("StatefulSet")),
        running("deployed", "n1", "1", ending("ReplicaSet")),
        running("static", "n1", "1", owned_by("Node")),
    ];
    let (node, claim) = machine("n1", json!({}));
    let claim = merged(claim, json!({"metadata": {"deletionTimestamp": NOW}}));
    let budget = |name: &str, app: &str, spec: Value| {
        let selector = json!({"selector": {"matchLabels": {"app": app}}});
        json!({"metadata": {"name": name, "namespace": "default"}, "spec": merged(selector, spec)})
    };
    let mut cluster = with(vec![(node, claim)], pods);
    cluster.budgets = vec![
        budget("none", "guarded", json!({"maxUnavailable": 0})),
        budget("one", "twice", json!({"maxUnavailable": 1})),
        budget("two", "twice", json!({"minAvailable": "50%"})),
        budget("fine", "over", json!({"maxUnavailable": 1})),
    ];
    let built = cluster.build();
    let names: Vec<&str> = built.snapshot.pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["default/nonsense", "default/over", "default/stateful"]);
    let waiting: Vec<(&str, &IgnoredReason)> = built.ignored.iter().map(|it| (it.pod.as_str(), &it.reason)).collect();
    assert_eq!(
        waiting,
        [
            ("default/briefly", &IgnoredReason::DoNotDisrupt),
            ("default/guarded", &IgnoredReason::BlockedByBudget),
            ("default/held", &IgnoredReason::DoNotDisrupt),
            ("default/twice", &IgnoredReason::BlockedByBudget),
        ]
    );
}

/// Rows: the spec of a single pod's budget, changes of the node's NodeClaim, the pod's metadata, the number of pods, and
/// whether the pod is planned. Capacity for a pod that never leaves would be launched in vain, again and again.
#[test]
fn blocked_pod_is_planned_only_when_something_lets_it_go() {
    let (one, never) = (json!({"minAvailable": 1}), json!({"maxUnavailable": 0}));
    let plain = || json!({});
    let grace = || json!({"spec": {"terminationGracePeriod": "1h"}});
    let surges = || {
        let labels = json!({"labels": {"pod-template-hash": "7d9"}, "annotations": {"kerf.sh/surge": "true"}});
        merged(owned_by("ReplicaSet"), labels)
    };
    let rows = [
        (&one, plain(), plain(), 1, false),
        (&one, plain(), plain(), 2, true),
        (&one, grace(), plain(), 1, true),
        (&one, plain(), surges(), 1, true),
        (&never, plain(), plain(), 2, false),
        (&never, grace(), plain(), 2, false),
        (&never, plain(), surges(), 2, false),
    ];
    for (spec, changes, metadata, pods, expected) in rows {
        let (node, claim) = machine("n1", json!({}));
        let claim = merged(merged(claim, json!({"metadata": {"deletionTimestamp": NOW}})), changes);
        let mut cluster = with(vec![(node, claim)], vec![ready(running("web", "n1", "1", metadata.clone()))]);
        let status = json!({"expectedPods": pods, "currentHealthy": pods, "desiredHealthy": 1});
        let guard = crate::objects::guard("web", json!({"matchLabels": {"app": "web"}}), status);
        cluster.budgets = vec![merged(guard, json!({"spec": spec}))];
        let built = cluster.build();
        assert_eq!(built.snapshot.pods.len(), usize::from(expected), "{spec} {metadata} {pods}: {:?}", built.ignored);
    }
}

#[test]
fn reschedulable_is_false_when_a_pod_ends_for_good() {
    let rows = [
        (json!({}), 1),
        (json!({"deletionTimestamp": NOW}), 0),
        (merged(owned_by("StatefulSet"), json!({"deletionTimestamp": NOW})), 1),
        (owned_by("DaemonSet"), 0),
        (owned_by("Node"), 0),
    ];
    for (metadata, expected) in rows {
        let built = with(vec![machine("n1", json!({}))], vec![running("web", "n1", "1", metadata.clone())]).build();
        let holding = built.snapshot.nodes[0].pods.iter().filter(|pod| pod.reschedulable).count();
        assert_eq!(holding, expected, "{metadata}");
        let goes = matches!(plan(&built.snapshot).report.nodes[0].1, NodeVerdict::Remove(_));
        assert_eq!(goes, expected == 0, "{metadata}");
    }
}

#[test]
fn nominations_follow_a_claim_to_its_node() {
    let mut cluster = with(vec![machine("n1", json!({}))], vec![pending("web", "1", json!({}))]);
    cluster.nominations = vec![("uid-web", "claim-n1")];
    let built = cluster.build();
    assert_eq!(built.snapshot.pods[0].nominated.as_deref(), Some("n1"));
    assert_eq!(built.snapshot.nodes[0].nominated_until, Some(millis("2026-01-01T12:00:20Z")));
}

#[test]
fn unmanaged_node_takes_pods_and_is_never_disrupted() {
    let (node, _) = machine("n1", json!({"metadata": {"labels": {"karpenter.sh/nodepool": null}}}));
    let mut node = node;
    node["metadata"]["labels"].as_object_mut().unwrap().remove("karpenter.sh/nodepool");
    let cluster = Cluster { nodes: vec![node], pods: vec![pending("web", "1", json!({}))], ..Cluster::default() };
    let built = cluster.build();
    assert_eq!((built.snapshot.nodes[0].stage, built.snapshot.nodes[0].claim.as_ref()), (Stage::Initialized, None));
    let decided = plan(&built.snapshot);
    assert_eq!(decided.nominations.len(), 1);
    assert!(decided.report.nodes.is_empty());
}

#[test]
fn problems_name_invalid_amounts_and_omit_them() {
    let nodes = vec![machine("n1", json!({"status": {"allocatable": {"cpu": "many"}}}))];
    let built = with(nodes, vec![running("web", "n1", "few", json!({}))]).build();
    assert_eq!(built.snapshot.nodes[0].allocatable.get(Resources::CPU), 0);
    assert_eq!(built.problems.len(), 2);
    assert!(built.problems.contains(&Problem::BoundPod { pod: "default/web".to_owned(), node: "n1".to_owned() }));
}
