//! Tests of pods whose requests can be resized in place: resources that they take, original requests, known usage, and reasons
//! against a resize.

use api::usage::{Level, PodId, PodUsage, UNKNOWN, encode_pods};
use planner::{Millis, NotResizable, Packing, Resources, RestoredRequests, Size, Sizing};
use serde_json::{Value, json};
use snapshot::{SnapshotCache, SnapshotResult};

use crate::objects::{Cluster, machine, merged, owned_by, pending, pool, running, usage};

const UID: &str = "12345678-9abc-def0-1234-56789abcdef0";

fn seen(pressure: u8, oom_kills: u8) -> PodUsage {
    PodUsage {
        id: PodId::from_uid(UID).unwrap(),
        cpu_p50: Level::containing(100_000_000),
        cpu_p95: Level::containing(300_000_000),
        cpu_peak: Level::containing(900_000_000),
        memory_p95: Level::containing(500 << 20),
        memory_peak: Level::containing(600 << 20),
        throttled: 0,
        pressure,
        oom_kills,
        hours: 30,
    }
}

fn cluster(utilization: &str, pod: Value, report: Value) -> Cluster {
    let (node, claim) = machine("n1", json!({}));
    let annotated = json!({"metadata": {"annotations": {"kerf.sh/utilization": utilization}}});
    Cluster {
        nodes: vec![node],
        claims: vec![claim],
        pods: vec![pod],
        pools: vec![merged(pool("default", json!({})), annotated)],
        usages: vec![report],
        ..Cluster::default()
    }
}

fn report(pods: &[PodUsage]) -> Value {
    usage("n1", "2026-01-01T11:59:00Z", json!({"pods": encode_pods(pods)}))
}

fn web(changes: Value) -> Value {
    let requests = json!({"cpu": "1500m", "memory": "2Gi"});
    let spec = json!({"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}});
    merged(merged(running("web", "n1", "1", json!({"uid": UID})), spec), changes)
}

fn sizing(built: &SnapshotResult) -> Option<Sizing> {
    built.snapshot.nodes[0].pods[0].sizing.as_deref().cloned()
}

fn of(pod: Value) -> Sizing {
    sizing(&cluster("pack", pod, report(&[seen(UNKNOWN, 0)])).build()).unwrap()
}

fn mebibytes(cpu: i64, memory: i64) -> Size {
    Size { cpu, memory: memory << 20 }
}

#[test]
fn sizing_has_requests_and_usage_when_the_pool_packs() {
    let own = of(web(json!({})));
    let used = own.used.unwrap();
    assert_eq!((own.requests(), own.requested(), own.fixed), (mebibytes(1500, 2048), mebibytes(1500, 2048), None));
    assert!((300..=320).contains(&used.p95.cpu) && (500..=530).contains(&(used.p95.memory >> 20)), "{used:?}");
    assert!((100..=115).contains(&used.median_cpu) && used.hours == 30 && !used.pressed, "{used:?}");
    let node = cluster("pack", web(json!({})), report(&[seen(UNKNOWN, 0)])).build().snapshot.nodes[0].clone();
    assert_eq!(node.usage.unwrap().of_pods, used.p95, "of all pods together");
    // Only pods in NodePools that lower requests need a sizing.
    for utilization in ["observe", "ignore"] {
        assert_eq!(sizing(&cluster(utilization, web(json!({})), report(&[seen(UNKNOWN, 0)])).build()), None);
    }
    let stale = usage("n1", "2026-01-01T11:00:00Z", json!({"pods": encode_pods(&[seen(UNKNOWN, 0)])}));
    let foreign = merged(report(&[seen(UNKNOWN, 0)]), json!({"spec": {"instance": "i-before"}}));
    for report in [stale, foreign, report(&[])] {
        assert_eq!(sizing(&cluster("pack", web(json!({})), report).build()).unwrap().used, None);
    }
    let pressed = |pressure, kills| {
        sizing(&cluster("pack", web(json!({})), report(&[seen(pressure, kills)])).build())
            .unwrap()
            .used
            .unwrap()
            .pressed
    };
    assert_eq!(
        [(24, 0), (25, 0), (UNKNOWN, 0), (0, 1)].map(|(share, kills)| pressed(share, kills)),
        [false, true, false, true]
    );
}

/// The usage is known with any utilization policy, because consolidation uses it too.
#[test]
fn used_is_set_wherever_a_report_counts() {
    for utilization in ["pack", "observe", "ignore"] {
        let known = |report: Value| cluster(utilization, web(json!({})), report).build().snapshot.nodes[0].pods[0].used;
        let used = known(report(&[seen(UNKNOWN, 0)])).unwrap();
        assert!((300..=320).contains(&used.cpu) && (500..=530).contains(&(used.memory >> 20)), "{used:?}");
        let stale = usage("n1", "2026-01-01T11:00:00Z", json!({"pods": encode_pods(&[seen(UNKNOWN, 0)])}));
        assert_eq!([known(report(&[])), known(stale)], [None, None], "{utilization}");
    }
}

/// Rows: changes of the pod, the hours of its measurement, if any, the start of the node's report, and the expected result. The
/// result is whether the pod's usage or its requests count as new.
#[test]
fn newcomers_count_pods_too_new_for_the_report() {
    let (old, young) = ("2026-01-01T00:00:00Z", "2026-01-01T10:00:00Z");
    let ends = json!({"metadata": {"deletionTimestamp": "2026-01-01T11:59:00Z"}});
    let of = |kind: &str| json!({"metadata": owned_by(kind)});
    let rows = [
        ("for long", json!({}), Some(30), old, false, false),
        ("for two hours", json!({}), Some(2), old, false, false),
        ("for an hour", json!({}), Some(1), old, true, false),
        ("for an hour, as its machine", json!({}), Some(1), young, false, false),
        ("never", json!({}), None, old, false, true),
        ("never, on a young machine", json!({}), None, young, false, true),
        ("never, of a DaemonSet", of("DaemonSet"), None, old, false, true),
        ("never, from a file", of("Node"), None, old, false, false),
        ("never, and it ends", ends.clone(), None, old, false, false),
        ("for an hour, and it ends", ends, Some(1), old, false, false),
    ];
    for (name, changes, hours, since, uses, requests) in rows {
        let pods: Vec<PodUsage> = hours.map(|hours| PodUsage { hours, ..seen(UNKNOWN, 0) }).into_iter().collect();
        let report = merged(report(&pods), json!({"spec": {"since": since}}));
        let node = cluster("observe", web(changes), report).build().snapshot.nodes[0].clone();
        let expected = match (uses, requests) {
            (true, _) => node.pods[0].used.unwrap(),
            (_, true) => mebibytes(1500, 2048),
            _ => Size::default(),
        };
        assert_eq!(node.usage.unwrap().newcomers, expected, "seen {name}");
    }
}

/// Returns a running pod with this annotation about its original requests.
fn annotated(text: &str) -> Value {
    web(json!({"metadata": {"annotations": {"kerf.sh/requested": text}}}))
}

/// Returns the cluster after Kerf lowered requests on its node.
fn after_lowering(mut cluster: Cluster) -> Cluster {
    let record = json!({"metadata": {"annotations": {"kerf.sh/requests-lowered": "true"}}});
    cluster.claims[0] = merged(cluster.claims[0].clone(), record);
    cluster
}

const ORIGINAL: &str = r#"{"main":{"cpu":"3","memory":"4Gi"}}"#;

/// A pod that Kerf never lowered would otherwise be bought a node of any size.
#[test]
fn requested_has_no_effect_on_a_pending_pod() {
    let annotated = json!({"metadata": {"annotations": {"kerf.sh/requested": r#"{"main":{"cpu":"90"}}"#}}});
    let mut cluster = after_lowering(cluster("pack", web(json!({})), report(&[])));
    cluster.pods.push(merged(pending("greedy", "1m", json!({})), annotated));
    let built = cluster.build().snapshot;
    assert_eq!(built.pods[0].name, "default/greedy");
    assert_eq!(built.shapes[built.pods[0].shape].requests.get(Resources::CPU), 1);
}

/// Rows: utilization of the NodePool, and whether Kerf lowered requests on the node.
#[test]
fn requested_has_no_effect_when_kerf_lowered_nothing_there() {
    for (utilization, lowered) in [("ignore", false), ("observe", false), ("pack", false), ("observe", true)] {
        let cluster = cluster(utilization, annotated(ORIGINAL), report(&[]));
        let built = if lowered { after_lowering(cluster) } else { cluster }.build();
        let node = &built.snapshot.nodes[0];
        let restored = if lowered { mebibytes(3000, 4096) } else { mebibytes(1500, 2048) };
        assert_eq!(Size::from_resources(&node.pods[0].shape.requests), restored, "{utilization} {lowered}");
        assert_eq!(Size::from_resources(&node.used), mebibytes(1500, 2048), "{utilization} {lowered}");
        let requested = sizing(&built).map(|own| own.requested());
        assert_eq!(requested, (lowered || utilization == "pack").then_some(restored), "{utilization} {lowered}");
    }
}

/// The NodeClaim and its pods arrive from different watches.
#[test]
fn requested_counts_once_the_record_of_the_claim_arrives() {
    let unrecorded = cluster("pack", annotated(ORIGINAL), report(&[]));
    let recorded = after_lowering(cluster("pack", annotated(ORIGINAL), report(&[])));
    let mut memory = SnapshotCache::default();
    let mut objects = unrecorded.objects();
    let pods = objects.pods.clone();
    for (cluster, cpu) in [(&unrecorded, 1500), (&recorded, 3000), (&unrecorded, 1500)] {
        objects = cluster.objects();
        objects.pods = pods.clone();
        let built = memory.build(&cluster.input(&objects));
        assert_eq!(built, SnapshotCache::default().build(&cluster.input(&objects)));
        assert_eq!(built.snapshot.nodes[0].pods[0].shape.requests.get(Resources::CPU), cpu);
    }
}

#[test]
fn resized_pod_takes_current_requests_and_moves_with_original() {
    let lowered = annotated(ORIGINAL);
    for utilization in ["pack", "ignore"] {
        let built = after_lowering(cluster(utilization, lowered.clone(), report(&[]))).build();
        let node = &built.snapshot.nodes[0];
        assert_eq!(Size::from_resources(&node.used), mebibytes(1500, 2048), "{utilization}");
        assert_eq!(node.used.get(Resources::PODS), 1);
        assert_eq!(Size::from_resources(&node.pods[0].shape.requests), mebibytes(3000, 4096), "{utilization}");
        let own = sizing(&built).unwrap();
        assert_eq!((own.requests(), own.requested()), (mebibytes(1500, 2048), mebibytes(3000, 4096)));
        assert_eq!(own.spared(), mebibytes(1500, 2048));
    }
    // kubelet has not finished the resize yet.
    let status = json!([{"name": "main", "resources": {"requests": {"cpu": "3", "memory": "2Gi"}}}]);
    let pending = merged(lowered.clone(), json!({"status": {"containerStatuses": status}}));
    let node = after_lowering(cluster("pack", pending, report(&[]))).build().snapshot.nodes[0].clone();
    assert_eq!(Size::from_resources(&node.used), mebibytes(3000, 2048), "the greater counts");
    let garbled = merged(lowered, json!({"metadata": {"annotations": {"kerf.sh/requested": "3 cores"}}}));
    let built = after_lowering(cluster("pack", garbled, report(&[]))).build();
    assert_eq!(sizing(&built).unwrap().fixed, Some(NotResizable::Unread));
    let problems: Vec<String> = built.problems.iter().map(ToString::to_string).collect();
    assert!(problems[0].contains("kerf.sh/requested is ignored: \"3 cores\""), "{problems:?}");
}

#[test]
fn fixed_names_the_reason_when_requests_cannot_change() {
    let containers = |all: Value| json!({"spec": {"containers": all}});
    let main = |resources: Value| containers(json!([{"name": "main", "resources": resources}]));
    let amounts = json!({"cpu": "1", "memory": "1Gi"});
    let restart = |name: &str| json!({"resourceName": name, "restartPolicy": "RestartContainer"});
    let policy =
        |all: Value| containers(json!([{"name": "main", "resources": {"requests": amounts}, "resizePolicy": all}]));
    let infeasible =
        json!({"status": {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}});
    let rows = [
        (json!({}), None),
        (json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}), Some(NotResizable::Static)),
        (
            json!({"metadata": {"ownerReferences": owned_by("DaemonSet")["ownerReferences"]}}),
            Some(NotResizable::Daemon),
        ),
        (json!({"metadata": {"annotations": {"kerf.sh/resize": "never"}}}), Some(NotResizable::Never)),
        (json!({"metadata": {"annotations": {"kerf.sh/resize": "no"}}}), None),
        (main(json!({"limits": amounts})), Some(NotResizable::Guaranteed)),
        (main(json!({"requests": amounts, "limits": amounts})), Some(NotResizable::Guaranteed)),
        (main(json!({"requests": amounts, "limits": {"cpu": "1"}})), None),
        (json!({"spec": {"resources": {"requests": {"cpu": "1"}}}}), Some(NotResizable::AsAWhole)),
        (main(json!({})), Some(NotResizable::RequestsNothing)),
        (policy(json!([restart("cpu"), restart("memory")])), Some(NotResizable::Restarts)),
        (policy(json!([restart("cpu")])), None),
        (infeasible, Some(NotResizable::Infeasible)),
    ];
    for (changes, expected) in rows {
        assert_eq!(of(web(changes.clone())).fixed, expected, "{changes}");
    }
    let built =
        cluster("pack", web(json!({"metadata": {"annotations": {"kerf.sh/resize": "no"}}})), report(&[])).build();
    let problems: Vec<String> = built.problems.iter().map(ToString::to_string).collect();
    assert!(
        problems[0].contains("kerf.sh/resize is ignored: unknown value \"no\"") && problems[0].contains("write never"),
        "{problems:?}"
    );
}

#[test]
fn least_counts_init_containers_beside_sidecars() {
    let container = |name: &str, cpu: &str, policy: Value| json!({"name": name, "resources": {"requests": {"cpu": cpu}}, "restartPolicy": policy});
    let init = |all: Value| of(web(json!({"spec": {"initContainers": all}}))).least;
    let once = |cpu: &str| container("once", cpu, Value::Null);
    let beside = |cpu: &str| container("beside", cpu, json!("Always"));
    let rows = [
        (json!([]), 0),
        (json!([once("700m")]), 700),
        (json!([once("700m"), once("900m")]), 900),
        (json!([beside("300m")]), 0),
        // The init container runs beside the sidecar, which counts separately.
        (json!([beside("300m"), once("700m")]), 700),
        (json!([once("700m"), beside("300m")]), 400),
    ];
    for (all, expected) in rows {
        assert_eq!(init(all.clone()), Size { cpu: expected, memory: 0 }, "{all}");
    }
    let own = of(web(json!({"spec": {"initContainers": [once("700m")]}})));
    assert_eq!(own.gain(mebibytes(1500, 0), mebibytes(200, 0)), mebibytes(800, 0));
}

#[test]
fn packing_and_given_back_are_read_from_annotations() {
    let rules = |annotations: Value| {
        let mut cluster = cluster("pack", web(json!({})), report(&[]));
        cluster.pools[0]["metadata"]["annotations"] = annotations;
        cluster.build().snapshot.pools[0].disruption.packing
    };
    let own = json!({"kerf.sh/pack-margin": "15%", "kerf.sh/pack-floor": "70%", "kerf.sh/pack-min-history": "48h"});
    assert_eq!(rules(own), Packing { margin: 150, floor: 700, history: 48 });
    assert_eq!(rules(json!({"kerf.sh/pack-floor": "half"})), Packing::default());
    let back =
        |text: &str| of(web(json!({"metadata": {"annotations": {"kerf.sh/requests-given-back": text}}}))).given_back;
    let at = |text: &str| Millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond());
    let twice = RestoredRequests { last: at("2026-01-01T10:00:00Z"), times: 2 };
    assert_eq!(back("2026-01-01T09:00:00Z,2026-01-01T10:00:00Z"), Some(twice));
    assert_eq!(back("yesterday"), None);
}
