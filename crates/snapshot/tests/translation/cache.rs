//! Tests of the cache: it makes a translation faster and never changes the result.

use std::sync::Arc;

use serde_json::{Value, json};
use snapshot::{SnapshotCache, SnapshotResult};

use crate::objects::{Cluster, Objects, guard, machine, merged, owned_by, pending, pool, running, usage};

/// A deterministic sequence of numbers, the only source of randomness in these tests.
struct Rng(u64);

impl Rng {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

fn looking(key: &str) -> Value {
    let selector = json!({"matchLabels": {key: "web"}});
    json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]})
}

fn pod(rng: &mut Rng, number: usize) -> Value {
    let name = format!("p{number}");
    let labels = json!({"app": "web", "tier": format!("t{}", rng.roll(2))});
    let metadata = match rng.roll(7) {
        6 => {
            let replica_set = merged(owned_by("ReplicaSet"), json!({"labels": {"pod-template-hash": "7d9"}}));
            let word = ["true", "false", "perhaps"][rng.roll(3)];
            let period = ["4h", "20m", "often"][rng.roll(3)];
            let annotations = json!({"kerf.sh/surge": word, "kerf.sh/disrupt-at-most-once-per": period});
            let made = format!("2026-01-01T11:{:02}:00Z", rng.roll(60));
            merged(replica_set, json!({"annotations": annotations, "creationTimestamp": made}))
        }
        0 => owned_by("DaemonSet"),
        1 => {
            let lasts = format!("{}m", 5 + rng.roll(20));
            let text = ["-4h", &lasts, &lasts, &lasts][rng.roll(4)];
            json!({"annotations": {"karpenter.sh/do-not-disrupt": text}})
        }
        2 => {
            let base = ["2", "two"][rng.roll(2)];
            json!({"annotations": {"kerf.sh/on-demand-base": base, "kerf.sh/spot-share": "50%"}})
        }
        3 => json!({"annotations": {"kerf.sh/requested": r#"{"main":{"cpu":"2"}}"#}}),
        _ => json!({}),
    };
    let metadata = merged(json!({"labels": labels}), metadata);
    let spec = match rng.roll(6) {
        0 => looking("app"),
        1 => looking("tier"),
        2 => {
            json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("c{}", rng.roll(3))}}]})
        }
        _ => json!({}),
    };
    let node = rng.roll(5);
    if node == 4 {
        return merged(pending(&name, "1", spec), json!({"metadata": metadata}));
    }
    merged(running(&name, &format!("n{node}"), "1", metadata), json!({"spec": spec}))
}

fn claim(rng: &mut Rng, number: usize) -> Value {
    let class = ["gp3", "none", "slow"][rng.roll(3)];
    json!({"metadata": {"name": format!("c{number}"), "namespace": "default"}, "spec": {"storageClassName": class}})
}

fn node(rng: &mut Rng, number: usize) -> (Value, Value) {
    let (node, claim) = machine(&format!("n{number}"), json!({"spec": {"unschedulable": rng.roll(3) == 0}}));
    let lowered = ["true", "false"][rng.roll(2)];
    let claim = merged(claim, json!({"metadata": {"annotations": {"kerf.sh/requests-lowered": lowered}}}));
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T11:59:00Z"}});
    if rng.roll(4) == 0 { (node, merged(claim, going)) } else { (node, claim) }
}

fn budget(rng: &mut Rng, number: usize) -> Value {
    let selector =
        [json!({"matchLabels": {"tier": "t0"}}), json!({"matchLabels": {"app": "web"}}), json!({}), json!(null)];
    let policy = ["AlwaysAllow", "IfHealthyBudget"][rng.roll(2)];
    let policy = json!({"spec": {"unhealthyPodEvictionPolicy": policy}});
    let stay = [json!({"minAvailable": 1}), json!({"minAvailable": "60%"}), json!({"maxUnavailable": 0}), json!({})];
    let policy = merged(policy, json!({"spec": stay[rng.roll(4)]}));
    let (healthy, pods) = (rng.roll(3), rng.roll(3));
    let status = json!({"disruptionsAllowed": rng.roll(2), "currentHealthy": healthy, "desiredHealthy": 1, "expectedPods": pods});
    merged(guard(&format!("b{number}"), selector[rng.roll(4)].clone(), status), policy)
}

fn report(rng: &mut Rng, number: usize) -> Value {
    let measured = ["2026-01-01T11:50:00Z", "2026-01-01T11:56:00Z", "2026-01-01T12:03:00Z"][rng.roll(3)];
    let node = format!("n{number}");
    let instance = [format!("i-{node}"), "i-before".to_owned()][rng.roll(5) / 4].clone();
    usage(&node, measured, json!({"oomKills": rng.roll(2), "instance": instance}))
}

/// Changes the cluster by one step: an object is added, removed or changed.
fn change(rng: &mut Rng, cluster: &mut Cluster) {
    let number = rng.roll(12);
    match rng.roll(11) {
        0..4 => {
            cluster.pods.retain(|it| it["metadata"]["name"] != format!("p{number}"));
            if rng.roll(4) > 0 {
                let at = rng.roll(cluster.pods.len() + 1);
                cluster.pods.insert(at, pod(rng, number));
            }
        }
        4 => cluster.volume_claims = (0..rng.roll(4)).map(|number| claim(rng, number)).collect(),
        5 => {
            let at = rng.roll(cluster.nodes.len());
            (cluster.nodes[at], cluster.claims[at]) = node(rng, at);
        }
        6 => {
            cluster.now = Some(
                ["2026-01-01T12:00:00Z", "2026-01-01T12:10:00Z", "2026-01-01T11:55:00Z", "2026-01-01T12:06:00Z"]
                    [rng.roll(4)],
            )
        }
        7 => cluster.budgets = (0..rng.roll(4)).map(|number| budget(rng, number)).collect(),
        8 => cluster.usages = (0..rng.roll(5)).map(|number| report(rng, number)).collect(),
        9 => cluster.nominations = [("uid-p0", "n1"), ("uid-p1", "n2"), ("uid-p2", "n1")][rng.roll(3)..].to_vec(),
        _ => {
            let spec = json!({"requirements": [], "price": "0.1", "weight": rng.roll(3)});
            let one = |number: usize| json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": format!("o{number}")}, "spec": spec});
            cluster.overlays = (0..rng.roll(3)).map(one).collect();
        }
    }
}

fn start() -> Cluster {
    let class = json!({"metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"});
    let (nodes, claims) = (0..4).map(|number| machine(&format!("n{number}"), json!({}))).unzip();
    Cluster {
        nodes,
        claims,
        pools: vec![merged(
            pool("default", json!({})),
            json!({"metadata": {"annotations": {"kerf.sh/surge": "true"}}}),
        )],
        storage_classes: vec![class],
        ..Cluster::default()
    }
}

/// Reuses the `Arc` of unchanged objects, as in the controller's index.
fn keep<T: PartialEq>(former: &[Arc<T>], present: &mut [Arc<T>]) {
    for object in present {
        if let Some(same) = former.iter().find(|one| *one == object) {
            *object = Arc::clone(same);
        }
    }
}

#[test]
fn snapshot_cache_returns_the_same_result_after_any_history() {
    for seed in 0..30 {
        let mut rng = Rng(seed);
        let mut memory = SnapshotCache::default();
        let mut cluster = start();
        let mut former = cluster.objects();
        for step in 0..40 {
            change(&mut rng, &mut cluster);
            let mut objects = cluster.objects();
            keep(&former.pods, &mut objects.pods);
            keep(&former.nodes, &mut objects.nodes);
            keep(&former.claims, &mut objects.claims);
            keep(&former.volume_claims, &mut objects.volume_claims);
            keep(&former.overlays, &mut objects.overlays);
            keep(&former.pools, &mut objects.pools);
            keep(&former.budgets, &mut objects.budgets);
            keep(&former.usages, &mut objects.usages);
            objects.catalogue = Arc::clone(&former.catalogue);
            let remembered: SnapshotResult = memory.build(&cluster.input(&objects));
            let fresh = SnapshotCache::default().build(&cluster.input(&objects));
            assert_eq!(remembered, fresh, "seed {seed}, step {step}");
            former = objects;
        }
    }
}

#[test]
fn snapshot_cache_reuses_unchanged_nodes() {
    let mut cluster = start();
    cluster.pods = vec![running("a", "n0", "1", json!({})), running("b", "n1", "1", json!({}))];
    let mut memory = SnapshotCache::default();
    let mut objects = cluster.objects();
    let first = memory.build(&cluster.input(&objects)).snapshot;
    objects.pods[0] = Arc::new(api::objects::Pod::clone(&objects.pods[0]));
    let second = memory.build(&cluster.input(&objects)).snapshot;
    let same: Vec<bool> = first.nodes.iter().zip(&second.nodes).map(|(one, other)| Arc::ptr_eq(one, other)).collect();
    assert_eq!(same, [false, true, true, true]);
    assert_eq!(first.nodes, second.nodes);
}

#[test]
fn snapshot_cache_rebuilds_nodes_when_a_budget_changes() {
    let mut cluster = start();
    let labelled = |app: &str| json!({"labels": {"app": app}});
    cluster.pods = vec![running("a", "n0", "1", labelled("web")), running("b", "n1", "1", labelled("db"))];
    let closed = |allowed: u8, healthy: u8| {
        let status = json!({"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 5});
        vec![guard("web", json!({"matchLabels": {"app": "web"}}), status)]
    };
    let mut memory = SnapshotCache::default();
    let mut former = cluster.objects();
    let mut before = memory.build(&cluster.input(&former)).snapshot;
    // The budget is created, counts its pods, allows no disruption, and is deleted.
    let rows = [(closed(1, 2), true), (closed(2, 3), false), (closed(0, 3), true), (vec![], true)];
    for (budgets, changes) in rows {
        cluster.budgets = budgets;
        let objects = Objects { budgets: cluster.objects().budgets, ..former.clone() };
        let after = memory.build(&cluster.input(&objects)).snapshot;
        let same: Vec<bool> =
            before.nodes.iter().zip(&after.nodes).map(|(one, other)| Arc::ptr_eq(one, other)).collect();
        assert_eq!(same, [!changes, true, true, true], "{:?}", cluster.budgets);
        (before, former) = (after, objects);
    }
}

#[test]
fn build_returns_the_same_result_for_any_order_of_lists() {
    let mut rng = Rng(7);
    let mut cluster = start();
    for _ in 0..60 {
        change(&mut rng, &mut cluster);
    }
    let objects = cluster.objects();
    let forward = cluster.input(&objects);
    let mut backward = forward.clone();
    backward.pods.reverse();
    backward.nodes.reverse();
    backward.claims.reverse();
    backward.pools.reverse();
    backward.budgets.reverse();
    backward.usages.reverse();
    backward.volume_claims.reverse();
    backward.storage_classes.reverse();
    backward.overlays.reverse();
    assert_eq!(snapshot::build(&forward), snapshot::build(&backward));
    let mut memory = SnapshotCache::default();
    let first = memory.build(&forward);
    assert_eq!(first, memory.build(&backward));
}
