//! Tests of the snapshot's facts for disruption: budgets, blocked pods, and age, health, drift and utilization of nodes.

use std::collections::BTreeMap;

use planner::{
    BoundPod, Budgets, ConsolidationPolicy, DriftCanary, Drifted, MicroDollars, Millis, MinimumSavings, Pressure,
    Unhealthy, Usage, Utilization,
};
use serde_json::{Value, json};
use snapshot::{NodeRepair, Problem, Settings, SnapshotResult};

use crate::objects::{Cluster, condition, guard, machine, merged, owned_by, pool, running, usage};

fn with(nodes: Vec<(Value, Value)>, pods: Vec<Value>) -> Cluster {
    let (nodes, claims) = nodes.into_iter().unzip();
    Cluster { nodes, claims, pods, pools: vec![pool("default", json!({}))], ..Cluster::default() }
}

fn millis(text: &str) -> Millis {
    Millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

fn budgets(cluster: &Cluster) -> Budgets {
    cluster.build().snapshot.pools[0].disruption.budgets
}

fn ignored_reasons(built: &SnapshotResult) -> Vec<String> {
    built.problems.iter().map(ToString::to_string).collect()
}

/// Adds a condition to the NodeClaim.
fn marked((node, mut claim): (Value, Value), type_: &str) -> (Value, Value) {
    claim["status"]["conditions"].as_array_mut().unwrap().push(condition(type_, "True"));
    (node, claim)
}

#[test]
fn budgets_are_the_minimum_for_each_reason() {
    // Ten healthy nodes.
    let nodes = || (0..10).map(|number| machine(&format!("n{number}"), json!({}))).collect();
    let one = |empty, underutilized, drifted, expired| Budgets { empty, underutilized, drifted, expired };
    let all = |count| one(count, count, count, count);
    let rows = [
        (json!([]), Budgets::UNLIMITED, 0),
        (json!([{"nodes": "3"}]), all(3), 0),
        (json!([{"nodes": "0"}]), all(0), 0),
        (json!([{"nodes": "15%"}]), all(2), 0),
        (json!([{"nodes": "50%"}, {"nodes": "4"}]), all(4), 0),
        (json!([{"nodes": "5"}, {"nodes": "0", "reasons": ["Drifted"]}]), one(5, 5, 0, 5), 0),
        (json!([{"nodes": "5"}, {"nodes": "2", "reasons": ["Empty", "Underutilized"]}]), one(2, 2, 5, 5), 0),
        (json!([{"nodes": "1", "reasons": ["Empty", "Underutilized", "Drifted"]}]), one(1, 1, 1, u32::MAX), 0),
        // An empty list of reasons means all reasons.
        (json!([{"nodes": "5"}, {"nodes": "0", "reasons": []}]), all(0), 0),
        // The time is noon.
        (json!([{"nodes": "5"}, {"nodes": "0", "schedule": "0 9 * * *", "duration": "4h"}]), all(0), 0),
        (json!([{"nodes": "5"}, {"nodes": "0", "schedule": "0 9 * * *", "duration": "3h"}]), all(5), 0),
        // An invalid budget allows no disruption for its reasons.
        (json!([{"nodes": "5"}, {"nodes": "9", "schedule": "at nine", "duration": "3h"}]), all(0), 1),
        (json!([{"nodes": "5"}, {"nodes": "few", "reasons": ["Empty"]}]), one(0, 5, 5, 5), 1),
    ];
    for (budget, expected, problems) in rows {
        let mut cluster = with(nodes(), vec![]);
        cluster.pools = vec![pool("default", json!({"disruption": {"budgets": budget}}))];
        let built = cluster.build();
        assert_eq!(built.snapshot.pools[0].disruption.budgets, expected, "{budget}");
        assert_eq!(ignored_reasons(&built).len(), problems, "{budget}: {:?}", ignored_reasons(&built));
    }
    let mut cluster = with(vec![machine("n1", json!({}))], vec![]);
    cluster.pools = vec![pool("default", json!({"disruption": {"budgets": [{"nodes": "10%"}]}}))];
    assert_eq!(budgets(&cluster), all(1), "a tenth of one node is one");
}

#[test]
fn budgets_shrink_when_nodes_are_already_disrupted() {
    let well = |count: usize| (0..count).map(|number| machine(&format!("n{number}"), json!({}))).collect::<Vec<_>>();
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let starting = json!({"metadata": {"labels": {"karpenter.sh/initialized": "false"}}});
    let tainted = json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}});
    let (node, claim) = machine("odd", json!({}));
    let deleting = (node.clone(), merged(claim, json!({"metadata": {"deletionTimestamp": "2026-01-01T11:59:00Z"}})));
    let unmanaged = (merged(node, json!({"metadata": {"name": "other"}})), machine("gone", json!({})).1);
    let rows = [
        ("well", machine("odd", json!({})), 3),
        ("not ready", machine("odd", unready.clone()), 2),
        ("deleting", deleting.clone(), 2),
        ("closed for a move", machine("odd", tainted), 2),
        ("chosen for a move", marked(machine("odd", json!({})), "DisruptionReason"), 2),
        ("deleting and not ready", (merged(deleting.0.clone(), unready), deleting.1.clone()), 2),
        // The node does not count in the total: 30 % of 8 nodes instead of 9.
        ("ending in the cloud", marked(deleting, "InstanceTerminating"), 3),
        ("starting", machine("odd", starting), 3),
        ("not ours", unmanaged, 3),
    ];
    for (name, odd, expected) in rows {
        let mut cluster = with(well(8).into_iter().chain([odd]).collect(), vec![]);
        cluster.pools = vec![pool("default", json!({"disruption": {"budgets": [{"nodes": "30%"}]}}))];
        assert_eq!(budgets(&cluster).empty, expected, "{name}");
    }
}

#[test]
fn budget_schedules_use_the_time_zone_of_the_pool() {
    let closed = json!({"disruption": {"budgets": [{"nodes": "0", "schedule": "0 9 * * *", "duration": "1h"}]}});
    let rows = [
        (None, "2026-01-01T09:30:00Z", 0, 0),
        (None, "2026-01-01T10:00:00Z", u32::MAX, 0),
        (Some("America/New_York"), "2026-01-01T09:30:00Z", u32::MAX, 0),
        (Some("America/New_York"), "2026-01-01T14:30:00Z", 0, 0),
        (Some("America/New_York"), "2026-07-01T13:30:00Z", 0, 0),
        (Some("Atlantis"), "2026-01-01T12:00:00Z", 0, 1),
    ];
    for (zone, now, expected, problems) in rows {
        let mut cluster = Cluster { now: Some(now), ..with(vec![], vec![]) };
        let annotations = zone.map(|zone| json!({"kerf.sh/budget-timezone": zone}));
        cluster.pools =
            vec![merged(pool("default", closed.clone()), json!({"metadata": {"annotations": annotations}}))];
        let built = cluster.build();
        assert_eq!(built.snapshot.pools[0].disruption.budgets.empty, expected, "{zone:?} at {now}");
        assert_eq!(built.problems.len(), problems, "{zone:?}");
    }
}

#[test]
fn canary_is_a_share_of_the_initialized_nodes() {
    let nodes = || (0..25).map(|number| machine(&format!("n{number}"), json!({}))).collect();
    let rows = [
        (json!({}), None, u32::MAX, 0),
        (json!({"kerf.sh/drift-canary": "10% for 15m"}), Some(DriftCanary { nodes: 3, time: 900_000 }), u32::MAX, 0),
        (json!({"kerf.sh/drift-canary": "2 for 0s"}), Some(DriftCanary { nodes: 2, time: 0 }), u32::MAX, 0),
        // An invalid canary allows no drift.
        (json!({"kerf.sh/drift-canary": "10 percent"}), None, 0, 1),
    ];
    for (annotations, canary, drifted, problems) in rows {
        let mut cluster = with(nodes(), vec![]);
        let unlimited = pool("default", json!({"disruption": {"budgets": []}}));
        cluster.pools = vec![merged(unlimited, json!({"metadata": {"annotations": annotations}}))];
        let built = cluster.build();
        let disruption = &built.snapshot.pools[0].disruption;
        assert_eq!((disruption.canary, disruption.budgets.drifted), (canary, drifted), "{annotations}");
        assert_eq!(ignored_reasons(&built).len(), problems, "{annotations}: {:?}", ignored_reasons(&built));
    }
}

#[test]
fn healthy_since_is_the_later_of_initialized_and_ready() {
    let ready = |status: &str, at: &str| {
        let ready = json!({"type": "Ready", "status": status, "lastTransitionTime": at});
        json!({"status": {"conditions": [ready]}})
    };
    let since = |condition: &mut Value, at: &str| condition["lastTransitionTime"] = json!(at);
    let rows = [
        (ready("True", "2026-01-01T11:10:00Z"), true, Some("2026-01-01T11:30:00Z")),
        (ready("True", "2026-01-01T11:40:00Z"), true, Some("2026-01-01T11:40:00Z")),
        (ready("False", "2026-01-01T11:40:00Z"), true, None),
        (ready("True", "2026-01-01T11:10:00Z"), false, None),
    ];
    for (node, is_initialized, expected) in rows {
        let (node, mut claim) = machine("n1", node);
        let conditions = claim["status"]["conditions"].as_array_mut().unwrap();
        conditions.retain(|it| it["type"] != "Initialized");
        if is_initialized {
            conditions.push(condition("Initialized", "True"));
            since(conditions.last_mut().unwrap(), "2026-01-01T11:30:00Z");
        }
        let built = with(vec![(node.clone(), claim)], vec![]).build();
        assert_eq!(built.snapshot.nodes[0].healthy_since, expected.map(millis), "{node}");
    }
}

#[test]
fn disruption_contains_policy_savings_and_utilization() {
    let translated = |spec: Value, annotations: Value| {
        let pools = vec![merged(pool("default", spec), json!({"metadata": {"annotations": annotations}}))];
        let built = Cluster { pools, ..Cluster::default() }.build();
        let disruption = built.snapshot.pools[0].disruption.clone();
        ((disruption.policy, disruption.worth, disruption.utilization), ignored_reasons(&built))
    };
    let usual = (ConsolidationPolicy::WhenEmptyOrUnderutilized, MinimumSavings::default(), Utilization::Observe);
    assert_eq!(translated(json!({}), json!({})), (usual, vec![]));
    let worth = MinimumSavings { share: 25, per_pod: MicroDollars(5000), warm_up: 600_000, lost_work: false };
    let annotations = json!({
        "kerf.sh/consolidation-min-saving": "2.5%", "kerf.sh/consolidation-min-saving-per-pod": "0.005",
        "kerf.sh/utilization": "pack", "kerf.sh/consolidation-warm-up": "10m", "kerf.sh/consolidation-lost-work": "ignore",
    });
    let balanced = json!({"disruption": {"consolidationPolicy": "Balanced"}});
    assert_eq!(translated(balanced, annotations), ((ConsolidationPolicy::Balanced, worth, Utilization::Pack), vec![]));
    let annotations = json!({
        "kerf.sh/consolidation-min-saving": "much", "kerf.sh/consolidation-min-saving-per-pod": "0.005",
        "kerf.sh/utilization": "yes", "kerf.sh/consolidation-warm-up": "long",
    });
    let empty = json!({"disruption": {"consolidationPolicy": "WhenEmpty"}});
    let (what, problems) = translated(empty, annotations);
    let worth = MinimumSavings { per_pod: MicroDollars(5000), ..MinimumSavings::default() };
    assert_eq!(what, (ConsolidationPolicy::WhenEmpty, worth, Utilization::Observe));
    let [saving, warm_up, utilization] = problems.as_slice() else { unreachable!("{problems:?}") };
    assert!(
        saving.contains("NodePool default") && saving.contains("\"much\"") && saving.contains("write a percentage")
    );
    assert!(warm_up.contains("\"long\" is not a duration"), "{warm_up}");
    assert!(utilization.contains("\"yes\" is not ignore, observe or pack"), "{utilization}");
    assert_eq!(translated(json!({}), json!({"kerf.sh/utilization": "ignore"})).0.2, Utilization::Ignore);
}

#[test]
fn node_has_creation_and_expiration_time_of_the_claim() {
    let made = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}});
    let rows = [
        (json!({}), Some("2026-01-31T00:00:00Z"), None, 0),
        (json!({"expireAfter": "36h"}), Some("2026-01-02T12:00:00Z"), None, 0),
        (json!({"expireAfter": "0s"}), Some("2026-01-01T00:00:00Z"), None, 0),
        (json!({"expireAfter": "Never", "terminationGracePeriod": "90s"}), None, Some(90_000), 0),
        (json!({"expireAfter": "old", "terminationGracePeriod": "long"}), None, None, 2),
    ];
    for (spec, expires, grace, problems) in rows {
        let (node, claim) = machine("n1", json!({}));
        let claim = merged(claim, merged(made.clone(), json!({"spec": spec})));
        let built = with(vec![(node, claim)], vec![]).build();
        let node = &built.snapshot.nodes[0];
        assert_eq!(node.created, millis("2026-01-01T00:00:00Z"), "{spec}");
        assert_eq!((node.expires, node.termination_grace), (expires.map(millis), grace), "{spec}");
        assert_eq!(built.problems.len(), problems, "{:?}", built.problems);
        let named = built.problems.iter().all(|it| matches!(it, Problem::Claim { claim, .. } if claim == "claim-n1"));
        assert!(named, "{:?}", built.problems);
    }
    let (node, _) = machine("n1", json!({}));
    let node = &Cluster { nodes: vec![node], ..Cluster::default() }.build().snapshot.nodes[0];
    assert_eq!((node.created, node.expires), (Millis(0), None), "who has no claim has no age that counts");
}

#[test]
fn drifted_follows_the_condition_of_the_claim() {
    let drifted = |status: &str| {
        let (node, mut claim) = machine("n1", json!({}));
        let translated = merged(condition("Drifted", status), json!({"reason": "AMIDrift"}));
        claim["status"]["conditions"].as_array_mut().unwrap().push(translated);
        with(vec![(node, claim)], vec![]).build().snapshot.nodes[0].drifted.clone()
    };
    let expected = Drifted { since: millis("2026-01-01T11:00:00Z"), reason: "AMIDrift".to_owned() };
    assert_eq!(drifted("True"), Some(expected));
    assert_eq!((drifted("False"), drifted("Unknown")), (None, None));
}

#[test]
fn unhealthy_is_set_for_the_nodes_of_the_gate() {
    let silent = json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T11:00:00Z"}]);
    let unhealthy = |gate, annotations: Value| {
        let node = json!({"metadata": {"annotations": annotations}, "status": {"conditions": silent}});
        let nodes = vec![machine("n1", node)];
        let node_repair = NodeRepair::from_gate(gate);
        let settings = Settings { node_repair, ..Settings::default() };
        Cluster { settings, ..with(nodes, vec![]) }.build().snapshot.nodes[0].unhealthy.clone()
    };
    let expected = Unhealthy { due: millis("2026-01-01T11:30:00Z"), condition: "Ready".to_owned() };
    let agent = json!({"kerf.sh/agent-heartbeat": "2026-01-01T10:59:00Z"});
    let rows = [
        (Some(true), json!({}), true),
        (None, agent.clone(), true),
        (None, json!({}), false),
        (Some(false), agent, false),
    ];
    for (gate, annotations, is_repaired) in rows {
        let found = unhealthy(gate, annotations.clone());
        assert_eq!(found, is_repaired.then(|| expected.clone()), "{gate:?} with {annotations}");
    }
    assert_eq!(Settings::default().node_repair, NodeRepair::from_gate(None));
}

#[test]
fn usage_counts_when_the_report_is_fresh_and_of_the_instance() {
    let calm = Usage { cpu: 1500, memory: 6 << 30, ..Usage::default() };
    let short = |of| Some(Usage { pressed: Some(of), ..calm });
    let stalls = |which: &str, share: u16| {
        let none = json!({"cpu": 0, "memory": 0, "memoryFull": 0, "io": 0, "ioFull": 0});
        json!({"pressure": merged(none, json!({which: share}))})
    };
    let rows = [
        (usage("n1", "2026-01-01T11:59:00Z", json!({})), Some(calm)),
        (usage("n1", "2026-01-01T11:45:01Z", json!({})), Some(calm)),
        (usage("n1", "2026-01-01T11:45:00Z", json!({})), None),
        (usage("n1", "2026-01-01T12:01:59Z", json!({})), Some(calm)),
        (usage("n1", "2026-01-01T12:02:00Z", json!({})), None),
        (usage("n1", "2026-01-01T11:59:00Z", json!({"instance": "i-before"})), None),
        (usage("n1", "2026-01-01T11:59:00Z", json!({"instance": ""})), None),
        (usage("n2", "2026-01-01T11:59:00Z", json!({"instance": "i-n1"})), None),
        (usage("n1", "2026-01-01T11:59:00Z", json!({"oomKills": 1})), short(Pressure::Killed)),
        (usage("n1", "2026-01-01T11:59:00Z", stalls("cpu", 499)), Some(calm)),
        (usage("n1", "2026-01-01T11:59:00Z", stalls("cpu", 500)), short(Pressure::Cpu)),
        (usage("n1", "2026-01-01T11:59:00Z", stalls("memory", 99)), Some(calm)),
        (usage("n1", "2026-01-01T11:59:00Z", stalls("memory", 100)), short(Pressure::Memory)),
        (usage("n1", "2026-01-01T11:59:00Z", stalls("memoryFull", 50)), short(Pressure::Memory)),
        (usage("n1", "2026-01-01T11:59:00Z", stalls("io", 1000)), Some(calm)),
        (usage("n1", "2026-01-01T11:59:00Z", stalls("ioFull", 249)), Some(calm)),
        (usage("n1", "2026-01-01T11:59:00Z", stalls("ioFull", 250)), short(Pressure::Disk)),
    ];
    for (report, expected) in rows {
        let mut cluster = with(vec![machine("n1", json!({}))], vec![]);
        cluster.usages = vec![report.clone()];
        assert_eq!(cluster.build().snapshot.nodes[0].usage, expected, "{report}");
    }
}

/// Returns the translation of the only pod on the only node, and the problems.
fn only(pod: Value, budgets: Vec<Value>) -> (BoundPod, Vec<String>) {
    let cluster = Cluster { budgets, ..with(vec![machine("n1", json!({}))], vec![pod]) };
    let built = cluster.build();
    (built.snapshot.nodes[0].pods[0].clone(), ignored_reasons(&built))
}

#[test]
fn held_by_lists_budgets_that_block_the_eviction() {
    let web = |changes: Value| merged(running("web", "n1", "1", json!({})), changes);
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let (all, none, some) = (json!({}), json!({"disruptionsAllowed": 0}), json!({"disruptionsAllowed": 1}));
    let app = |name: &str| json!({"matchLabels": {"app": name}});
    let always = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    let enough = json!({"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2});
    let elsewhere = json!({"metadata": {"namespace": "other"}});
    let bears = |key: &str| json!({"spec": {"tolerations": [{"key": key, "operator": "Exists"}]}});
    let (disrupted, cordoned) = (bears("karpenter.sh/disrupted"), bears("node.kubernetes.io/unschedulable"));
    let asks = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    let over = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "5m"}}});
    let ends = json!({"metadata": {"deletionTimestamp": "2026-01-01T11:59:00Z"}});
    let rows = [
        ("nobody", web(ready.clone()), vec![], vec![]),
        ("one that allows none", web(ready.clone()), vec![guard("a", app("web"), none.clone())], vec!["default/a"]),
        ("one that allows some", web(ready.clone()), vec![guard("a", app("web"), some.clone())], vec![]),
        ("one of all pods", web(ready.clone()), vec![guard("a", all.clone(), none.clone())], vec!["default/a"]),
        ("one of others", web(ready.clone()), vec![guard("a", app("other"), none.clone())], vec![]),
        ("one of no pods", web(ready.clone()), vec![guard("a", json!(null), none.clone())], vec![]),
        (
            "one of elsewhere",
            web(ready.clone()),
            vec![merged(guard("a", all.clone(), none.clone()), elsewhere)],
            vec![],
        ),
        (
            "two, whatever they allow",
            web(ready.clone()),
            vec![guard("b", app("web"), some.clone()), guard("a", all.clone(), some.clone())],
            vec!["default/a", "default/b"],
        ),
        (
            "one, of which it is not ready",
            web(json!({})),
            vec![guard("a", all.clone(), none.clone())],
            vec!["default/a"],
        ),
        (
            "one that lets go who is not ready",
            web(json!({})),
            vec![merged(guard("a", all.clone(), none.clone()), always.clone())],
            vec![],
        ),
        (
            "the same, of which it is ready",
            web(ready.clone()),
            vec![merged(guard("a", all.clone(), none.clone()), always)],
            vec!["default/a"],
        ),
        ("one with enough that are ready", web(json!({})), vec![guard("a", all.clone(), enough.clone())], vec![]),
        ("the same, being one of them", web(ready), vec![guard("a", all.clone(), enough)], vec!["default/a"]),
        (
            "never started",
            web(json!({"status": {"phase": "Pending"}})),
            vec![guard("a", all.clone(), none.clone())],
            vec![],
        ),
        ("stays to the end", web(disrupted), vec![guard("a", all.clone(), none.clone())], vec![]),
        ("bears cordons", web(cordoned), vec![guard("a", all.clone(), none.clone())], vec!["default/a"]),
        (
            "from a file",
            web(json!({"metadata": owned_by("Node")})),
            vec![guard("a", all.clone(), none.clone())],
            vec![],
        ),
        (
            "a DaemonSet's",
            web(json!({"metadata": owned_by("DaemonSet")})),
            vec![guard("a", all.clone(), none.clone())],
            vec!["default/a"],
        ),
        ("asks to be left alone", web(asks), vec![guard("a", all.clone(), none.clone())], vec![]),
        ("asked so until lately", web(over), vec![guard("a", all.clone(), none.clone())], vec!["default/a"]),
        ("ends", web(ends), vec![guard("a", all, none)], vec![]),
    ];
    for (name, pod, budgets, expected) in rows {
        assert_eq!(only(pod, budgets).0.held_by, expected, "{name}");
    }
}

#[test]
fn cost_follows_deletion_cost_and_priority() {
    let cost = |deletion: Option<&str>, priority: Option<i32>| {
        let annotations = deletion.map(|cost| json!({"controller.kubernetes.io/pod-deletion-cost": cost}));
        let pod = running("web", "n1", "1", json!({"annotations": annotations}));
        only(merged(pod, json!({"spec": {"priority": priority}})), vec![]).0.cost
    };
    let rows = [
        (None, None, BoundPod::COST),
        (Some("100"), None, BoundPod::COST + 100),
        (Some("-100"), Some(10), BoundPod::COST - 60),
        (None, Some(2_000_001_000), 10 * BoundPod::COST),
        (Some("dear"), None, BoundPod::COST),
    ];
    for (deletion, priority, expected) in rows {
        assert_eq!(cost(deletion, priority), expected, "{deletion:?} {priority:?}");
    }
}

/// Rows: a pod's annotation, whether the pod blocks the disruption of its node, and the number of problems.
#[test]
fn do_not_disrupt_holds_regardless_of_other_annotations() {
    let rows = [
        (json!({"karpenter.sh/do-not-disrupt": "true"}), true, 0),
        (json!({"karpenter.sh/do-not-disrupt": "false"}), false, 0),
        (json!({"karpenter.sh/do-not-disrupt": "-4h"}), false, 1),
        (json!({"karpenter.sh/do-not-disrupt": "for ever"}), false, 1),
    ];
    for (asks, holds, misread) in rows {
        let cheap = json!({
            "controller.kubernetes.io/pod-deletion-cost": "-2147483648", "kerf.sh/disrupt-at-most-once-per": "0s",
        });
        let (pod, ignored_reasons) =
            only(running("web", "n1", "1", json!({"annotations": merged(cheap, asks.clone())})), vec![]);
        assert_eq!((pod.do_not_disrupt, ignored_reasons.len()), (holds, misread), "{asks}");
        assert_eq!(pod.cost, -10 * BoundPod::COST, "{asks}");
    }
}

/// A negative age counts as zero: a clock was set back, or another clock is ahead.
#[test]
fn expires_follows_the_claim_when_created_in_the_future() {
    let (node, claim) = machine("n1", json!({}));
    let claim = merged(
        claim,
        json!({
            "metadata": {"creationTimestamp": "2026-01-01T13:00:00Z"}, "spec": {"expireAfter": "1h"},
        }),
    );
    let built = with(vec![(node, claim)], vec![]).build();
    assert_eq!(built.snapshot.nodes[0].expires, Some(millis("2026-01-01T14:00:00Z")));
    let plan = planner::plan(&built.snapshot);
    assert!(plan.moves.iter().all(|it| it.reason != planner::CommandReason::Expired), "{:?}", plan.moves);
}

/// After a clock was set back, a node is protected for longer, but never removed too early.
#[test]
fn consolidate_after_counts_future_events_as_just_now() {
    for (at, goes) in [("2026-01-01T11:59:30Z", true), ("2026-01-01T11:59:31Z", false), ("2026-01-01T13:00:00Z", false)]
    {
        let (node, claim) = machine("n1", json!({}));
        let claim = merged(claim, json!({"status": {"lastPodEventTime": at}}));
        let plan = planner::plan(&with(vec![(node, claim)], vec![]).build().snapshot);
        assert_eq!(plan.moves.len(), usize::from(goes), "{at}: {:?}", plan.report.nodes);
    }
}

/// Rows: the pod's minimum period between disruptions, other changes of the pod, the end of the period, and the number of
/// problems.
#[test]
fn resting_counts_from_the_start_of_the_pod() {
    let rows = [
        (json!({}), json!({}), None, 0),
        (json!("4h"), json!({}), Some("2026-01-01T15:50:00Z"), 0),
        (json!("0s"), json!({}), Some("2026-01-01T11:50:00Z"), 0),
        (json!("4h"), json!({"status": {"startTime": null}}), Some("2026-01-01T15:00:00Z"), 0),
        (json!("daily"), json!({}), None, 1),
        (json!("-4h"), json!({}), None, 1),
    ];
    for (period, changes, expected, problems) in rows {
        let annotations = json!({"kerf.sh/disrupt-at-most-once-per": period});
        let annotations = if period.is_string() { annotations } else { json!({}) };
        let made = json!({"annotations": annotations, "creationTimestamp": "2026-01-01T11:00:00Z"});
        let pod = merged(running("web", "n1", "1", made), changes);
        let built = with(vec![machine("n1", json!({}))], vec![pod]).build();
        let expected: BTreeMap<String, Millis> =
            expected.map(|at| ("Pod default/web".to_owned(), millis(at))).into_iter().collect();
        assert_eq!(built.snapshot.resting, expected, "{period}");
        let workload = built.snapshot.nodes[0].pods[0].workload.as_deref();
        assert_eq!(workload, expected.keys().next().map(String::as_str), "{period}");
        let ignored_reasons = ignored_reasons(&built);
        assert_eq!(ignored_reasons.len(), problems, "{ignored_reasons:?}");
        assert!(
            ignored_reasons.iter().all(|it| it.contains("default/web") && it.contains(&period.to_string())),
            "{ignored_reasons:?}"
        );
    }
}

/// Rows: changes of a pod that has run since 11:50, and since when it works towards its end.
#[test]
fn works_since_is_the_start_of_pods_that_run_to_their_end() {
    let started = Some("2026-01-01T11:50:00Z");
    let rows = [
        (json!({}), None),
        (json!({"spec": {"restartPolicy": "Always"}}), None),
        (json!({"spec": {"restartPolicy": "Never"}}), started),
        (json!({"spec": {"restartPolicy": "OnFailure"}}), started),
        (json!({"spec": {"restartPolicy": "Never"}, "status": {"startTime": null}}), None),
    ];
    for (changes, expected) in rows {
        let pod = merged(running("web", "n1", "1", json!({})), changes.clone());
        let built = with(vec![machine("n1", json!({}))], vec![pod]).build();
        assert_eq!(built.snapshot.nodes[0].pods[0].works_since, expected.map(millis), "{changes}");
    }
}

/// The newest pod counts for the whole workload, on any node and of any revision, pending pods included.
#[test]
fn resting_counts_from_the_newest_pod_of_the_workload() {
    let pod = |name: &str, node: &str, hash: &str, started: &str, changes: Value| {
        let set = format!("web-{hash}");
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": set, "controller": true}]);
        let made = json!({
            "ownerReferences": owner, "labels": {"pod-template-hash": hash}, "creationTimestamp": started,
            "annotations": {"kerf.sh/disrupt-at-most-once-per": "4h"},
        });
        let status = json!({"spec": {"nodeName": node}, "status": {"startTime": started}});
        merged(merged(running(name, "n1", "1", made), status), changes)
    };
    let old = || pod("web-1", "n1", "aaa", "2026-01-01T06:00:00Z", json!({}));
    let young = |changes: Value| pod("web-2", "n2", "bbb", "2026-01-01T11:00:00Z", changes);
    let (rested, rests) = ("2026-01-01T10:00:00Z", "2026-01-01T15:00:00Z");
    let waits = json!({"spec": {"nodeName": ""}, "status": {"startTime": null, "phase": "Pending"}});
    let rows = [
        ("alone", vec![old()], rested),
        ("one that has started since", vec![old(), young(json!({}))], rests),
        ("one that waits for a node", vec![old(), young(waits)], rests),
        (
            "one that ends",
            vec![old(), young(json!({"metadata": {"deletionTimestamp": "2026-01-01T11:59:00Z"}}))],
            rested,
        ),
        ("one that has ended", vec![old(), young(json!({"status": {"phase": "Succeeded"}}))], rested),
        ("one that asks for nothing", vec![old(), young(json!({"metadata": {"annotations": null}}))], rested),
        ("one of another namespace", vec![old(), young(json!({"metadata": {"namespace": "other"}}))], rested),
    ];
    for (name, pods, expected) in rows {
        let built = with(vec![machine("n1", json!({})), machine("n2", json!({}))], pods).build();
        assert_eq!(built.snapshot.resting.get("Deployment default/web"), Some(&millis(expected)), "{name}");
        let bound = &built.snapshot.nodes[0].pods[0];
        assert_eq!(bound.workload.as_deref(), Some("Deployment default/web"), "{name}");
    }
}

#[test]
fn do_not_disrupt_is_false_when_the_pod_is_terminating() {
    // The pods also have the annotation.
    let asks = json!({"annotations": {"karpenter.sh/do-not-disrupt": "true"}});
    let ends = json!({"deletionTimestamp": "2026-01-01T11:59:00Z"});
    let rows = [
        ("ReplicaSet", json!({}), true, true),
        ("ReplicaSet", ends.clone(), false, false),
        ("StatefulSet", ends.clone(), false, true),
        // DaemonSet pods and static pods block the disruption of their node too, although they end with the node.
        ("DaemonSet", json!({}), true, false),
        ("Node", json!({}), true, false),
        ("DaemonSet", ends, false, false),
    ];
    for (kind, changes, holds, reschedulable) in rows {
        let pod = running("web", "n1", "1", merged(merged(owned_by(kind), asks.clone()), changes));
        let built = with(vec![machine("n1", json!({}))], vec![pod]).build();
        let node = &built.snapshot.nodes[0];
        let found = (node.pods[0].do_not_disrupt, node.pods[0].reschedulable, node.do_not_disrupt);
        assert_eq!(found, (holds, reschedulable, false), "{kind}");
    }
}

#[test]
fn single_claims_contain_claims_of_running_pods() {
    let claim = |name: &str, mode: &str| json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"accessModes": [mode], "storageClassName": "gp3"}});
    let mounted = |pod: &str, claim: &str| {
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
        merged(running(pod, "n1", "1", json!({})), json!({"spec": {"volumes": volumes}}))
    };
    let pods = vec![mounted("db", "own"), mounted("web", "shared")];
    let cluster = Cluster {
        volume_claims: vec![
            claim("own", "ReadWriteOncePod"),
            claim("shared", "ReadWriteOnce"),
            claim("idle", "ReadWriteOncePod"),
        ],
        ..with(vec![machine("n1", json!({}))], pods)
    };
    assert_eq!(Vec::from_iter(cluster.build().snapshot.single_claims), ["default/own"]);
}

/// A typing error must not remove nodes.
#[test]
fn pool_is_inactive_outside_of_its_active_times() {
    let rows = [
        ("0 11 * * * for 2h", false, 0),
        ("0 13 * * * for 2h", true, 0),
        ("0 13 * * * for 2h in Europe/Berlin", false, 0),
        ("at night", false, 1),
    ];
    for (times, expected, problems) in rows {
        let annotations = json!({"metadata": {"annotations": {"kerf.sh/active-times": times}}});
        let pools = vec![merged(pool("default", json!({})), annotations)];
        let built = Cluster { pools, now: Some("2026-01-01T12:00:00Z"), ..Cluster::default() }.build();
        assert_eq!((built.snapshot.pools[0].is_inactive, built.problems.len()), (expected, problems), "{times}");
        let text = "NodePool default: annotation kerf.sh/active-times is ignored: \"at night\" names no times";
        assert!(built.problems.iter().all(|problem| problem.to_string().starts_with(text)), "{:?}", built.problems);
    }
}
