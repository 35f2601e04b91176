//! Tests of workloads that are split over on-demand and spot.

use planner::{CapacitySplit, PodVerdict, check, plan};
use serde_json::{Value, json};
use snapshot::{Problem, SnapshotResult};

use crate::objects::{Cluster, machine, merged, pending, pool, running};

/// Returns a pod of a ReplicaSet with this UID and these annotations.
fn of(pod: Value, owner: &str, annotations: Value) -> Value {
    let reference =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true});
    merged(pod, json!({"metadata": {"ownerReferences": [reference], "annotations": annotations}}))
}

fn split(base: &str, share: &str) -> Value {
    json!({"kerf.sh/on-demand-base": base, "kerf.sh/spot-share": share})
}

fn built(pods: Vec<Value>) -> SnapshotResult {
    let (node, claim) = machine("n1", json!({}));
    let pools = vec![pool("default", json!({}))];
    Cluster { pods, nodes: vec![node], claims: vec![claim], pools, ..Cluster::default() }.build()
}

#[test]
fn mix_is_shared_by_pods_of_one_controller_and_split() {
    let built = built(vec![
        of(pending("web-1", "1", json!({})), "web", split("2", "70%")),
        of(pending("web-2", "1", json!({})), "web", split("2", "70")),
        of(running("web-0", "n1", "1", json!({})), "web", split("2", "70%")),
        of(pending("web-3", "1", json!({})), "web", split("3", "70%")),
        of(pending("api-1", "1", json!({})), "api", split("2", "70%")),
        of(pending("plain", "1", json!({})), "web", json!({})),
        merged(pending("alone", "1", json!({})), json!({"metadata": {"labels": {"kerf.sh/spot-share": "100"}}})),
    ]);
    let mix = |name: &str| {
        let pod = built.snapshot.pods.iter().find(|pod| pod.name == format!("default/{name}")).unwrap();
        pod.mix.as_deref().cloned()
    };
    let web = CapacitySplit {
        workload: "ReplicaSet default/web".to_owned(),
        owner: "web".to_owned(),
        on_demand_base: 2,
        spot_share: Some(70),
    };
    assert_eq!(mix("web-1"), Some(web.clone()));
    assert_eq!(mix("web-2"), Some(web.clone()), "a share may go without its percent sign");
    assert_eq!(built.snapshot.nodes[0].pods[0].mix.as_deref(), Some(&web), "pods that run count too");
    assert_eq!(
        mix("web-3"),
        Some(CapacitySplit { on_demand_base: 3, ..web.clone() }),
        "whoever says something else is apart"
    );
    assert_ne!(mix("api-1"), Some(web));
    assert_eq!(mix("plain"), None);
    let alone = mix("alone").unwrap();
    assert_eq!((alone.workload.as_str(), alone.owner.as_str()), ("Pod default/alone", "uid-alone"));
    assert_eq!((alone.on_demand_base, alone.spot_share), (0, Some(100)));
}

#[test]
fn problems_name_an_invalid_mix_once_and_ignore_it() {
    let built = built(vec![
        of(pending("web-1", "1", json!({})), "web", split("two", "70%")),
        of(pending("web-2", "1", json!({})), "web", split("two", "70%")),
        of(running("web-0", "n1", "1", json!({})), "web", split("two", "70%")),
        of(pending("api-1", "1", json!({})), "api", split("0", "0.7")),
    ]);
    let problems: Vec<String> = built.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            r#"Pod default/api-1: kerf.sh/spot-share: "0.7" is not a share: write a whole percentage from "0%" to "100%"; the annotation is ignored until then"#,
            r#"Pod default/web-0 and 2 others: kerf.sh/on-demand-base: "two" is not a number of pods: write a whole number such as "2"; the annotation is ignored until then"#,
        ]
    );
    assert!(built.problems.iter().all(|it| matches!(it, Problem::Mix { .. })));
    let splits: Vec<Option<(u32, Option<u8>)>> = built
        .snapshot
        .pods
        .iter()
        .map(|pod| pod.mix.as_ref().map(|mix| (mix.on_demand_base, mix.spot_share)))
        .collect();
    assert_eq!(splits, [None, Some((0, Some(70))), Some((0, Some(70)))], "what can be read counts");
}

#[test]
fn mix_is_none_when_the_pod_is_a_daemon_or_has_ended() {
    let daemon = json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}]});
    let ended = merged(running("ended", "n1", "1", json!({})), json!({"status": {"phase": "Succeeded"}}));
    let built = built(vec![
        of(ended, "web", split("two", "2")),
        merged(running("daemon", "n1", "1", daemon), json!({"metadata": {"annotations": split("2", "seventy")}})),
    ]);
    assert!(built.problems.is_empty(), "{:?}", built.problems);
    assert!(built.snapshot.nodes[0].pods.iter().all(|pod| pod.mix.is_none()));
}

/// One pod runs on spot, so the next three are on-demand.
#[test]
fn plan_follows_the_split_annotations() {
    let mut pods = vec![of(running("web-0", "n1", "3", json!({})), "web", split("1", "50%"))];
    pods.extend((1..4).map(|number| of(pending(&format!("web-{number}"), "1", json!({})), "web", split("1", "50%"))));
    let built = built(pods);
    let decided = plan(&built.snapshot);
    assert!(check(&built.snapshot, &decided).is_empty());
    let placed = |it: &&PodVerdict| matches!(it, PodVerdict::Launch { .. } | PodVerdict::Existing { .. });
    assert_eq!(decided.report.pods.iter().filter(placed).count(), 3);
    let on_demand = decided.launches.iter().filter(|launch| {
        let sold = launch.requirements.iter().find(|it| it.key == api::label::CAPACITY_TYPE).unwrap();
        sold.values == ["on-demand"]
    });
    assert_eq!(on_demand.flat_map(|launch| &launch.pods).count(), 3, "the one on spot is all that the share allows");
}
