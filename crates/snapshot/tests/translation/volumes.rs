//! Tests of the requirements of volumes on a pod's node, and of volume problems that block a pod.

use planner::{Operator, Requirement, VolumeNeed};
use serde_json::{Value, json};
use snapshot::{IgnoredReason, VolumeError};

use crate::objects::{Cluster, NOW, machine, merged, pending, running};

const ZONE: &str = "topology.kubernetes.io/zone";

fn claim(spec: Value) -> Value {
    json!({"metadata": {"name": "data", "namespace": "default"}, "spec": spec})
}

fn bound() -> Value {
    merged(
        claim(json!({"volumeName": "pv"})),
        json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}),
    )
}

fn volume(spec: Value) -> Value {
    json!({"metadata": {"name": "pv"}, "spec": spec})
}

fn class(change: Value) -> Value {
    let own = json!({"metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"});
    merged(own, change)
}

fn within(terms: Value) -> Value {
    json!({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}})
}

fn expression(key: &str, values: Value) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": "In", "values": values}]})
}

fn zone(values: &[&str]) -> Vec<Requirement> {
    vec![Requirement::new(ZONE, Operator::In, values.iter().copied())]
}

fn cluster(claims: Vec<Value>, volumes: Vec<Value>, classes: Vec<Value>) -> Cluster {
    let uses = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "tmp", "emptyDir": {}}]});
    Cluster {
        pods: vec![pending("web", "1", uses)],
        volume_claims: claims,
        volumes,
        storage_classes: classes,
        ..Cluster::default()
    }
}

#[test]
fn volumes_have_the_alternatives_and_driver_of_the_claim() {
    let ebs = || Some("ebs.csi.aws.com".to_owned());
    let csi = json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}});
    let two =
        json!([expression("topology.ebs.csi.aws.com/zone", json!(["a"])), expression(ZONE, json!(["b", "c"])), {}]);
    let hosts = json!([expression("kubernetes.io/hostname", json!(["n1"]))]);
    let hosts_in_zone = json!([{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]},
        {"key": ZONE, "operator": "In", "values": ["a"]},
    ]}]);
    let on_host = || vec![vec![Requirement::new("kubernetes.io/hostname", Operator::In, ["n1"])]];
    let of_pv = |spec: Value| (bound(), vec![volume(spec)], vec![]);
    let labelled =
        |zones: &str| json!({"metadata": {"name": "pv", "labels": {"failure-domain.beta.kubernetes.io/zone": zones}}});
    let of_class = |change: Value| (claim(json!({"storageClassName": "gp3"})), vec![], vec![class(change)]);
    let allowed = json!({"allowedTopologies": [
        {"matchLabelExpressions": [{"key": "topology.ebs.csi.aws.com/zone", "values": ["a", "b"]}]},
        {"matchLabelExpressions": []},
        {"matchLabelExpressions": [{"key": ZONE, "values": ["c"]}]},
    ]});
    let default = json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}});
    let rows = [
        (of_pv(csi.clone()), ebs(), vec![]),
        (of_pv(merged(csi.clone(), within(two))), ebs(), vec![zone(&["a"]), zone(&["b", "c"])]),
        (of_pv(json!({"awsElasticBlockStore": {"volumeID": "vol-1"}})), ebs(), vec![]),
        (of_pv(json!({"nfs": {}})), None, vec![]),
        (of_pv(merged(json!({"local": {}}), within(hosts.clone()))), None, vec![]),
        (of_pv(merged(json!({"hostPath": {}}), within(hosts_in_zone))), None, vec![zone(&["a"])]),
        (of_pv(merged(csi, within(hosts))), ebs(), on_host()),
        ((bound(), vec![labelled("a")], vec![]), None, vec![zone(&["a"])]),
        ((bound(), vec![labelled("a__b")], vec![]), None, vec![zone(&["a", "b"])]),
        (of_class(json!({})), ebs(), vec![]),
        (of_class(allowed), ebs(), vec![zone(&["a", "b"]), zone(&["c"])]),
        (of_class(json!({"provisioner": "kubernetes.io/aws-ebs"})), ebs(), vec![]),
        ((claim(json!({})), vec![], vec![class(default)]), ebs(), vec![]),
    ];
    for ((claim, volumes, classes), driver, alternatives) in rows {
        let built = cluster(vec![claim.clone()], volumes.clone(), classes).build();
        assert!(built.ignored.is_empty(), "{:?} {volumes:?}", built.ignored);
        assert_eq!(built.snapshot.shapes[0].volumes, [VolumeNeed { driver, alternatives }], "{claim} {volumes:?}");
        assert_eq!(built.snapshot.pods[0].claims, ["default/data"]);
    }
}

#[test]
fn ignored_reason_names_the_problem_of_the_volume_claim() {
    let pv = || "pv".to_owned();
    let going = json!({"metadata": {"deletionTimestamp": NOW}});
    let named = claim(json!({"storageClassName": "gp3"}));
    let immediate = class(json!({"volumeBindingMode": "Immediate"}));
    let rows = [
        (vec![], vec![], vec![], VolumeError::Missing),
        (vec![merged(bound(), going.clone())], vec![], vec![], VolumeError::Terminating),
        (vec![merged(bound(), json!({"status": {"phase": "Lost"}}))], vec![], vec![], VolumeError::Lost),
        (vec![bound()], vec![], vec![], VolumeError::VolumeMissing { volume: pv() }),
        (
            vec![bound()],
            vec![merged(volume(json!({})), going)],
            vec![],
            VolumeError::VolumeTerminating { volume: pv() },
        ),
        (vec![bound()], vec![volume(within(json!([{}])))], vec![], VolumeError::Nowhere { volume: pv() }),
        (
            vec![claim(json!({"volumeName": "pv"}))],
            vec![volume(json!({}))],
            vec![],
            VolumeError::Binding { volume: pv() },
        ),
        (vec![claim(json!({"storageClassName": ""}))], vec![], vec![class(json!({}))], VolumeError::NoClass),
        (vec![claim(json!({}))], vec![], vec![class(json!({}))], VolumeError::NoDefaultClass),
        (vec![named.clone()], vec![], vec![], VolumeError::ClassMissing { class: "gp3".to_owned() }),
        (vec![named], vec![], vec![immediate], VolumeError::Immediate { class: "gp3".to_owned() }),
    ];
    for (claims, volumes, classes, error) in rows {
        let built = cluster(claims.clone(), volumes, classes).build();
        let expected = IgnoredReason::Volume { claim: "default/data".to_owned(), error };
        assert_eq!(built.ignored.first().map(|it| &it.reason), Some(&expected), "{claims:?}");
        assert!(built.ignored[0].deserves_event());
    }
}

#[test]
fn claims_contain_ephemeral_volumes_by_pod_and_name() {
    let uses = json!({"volumes": [{"name": "scratch", "ephemeral": {}}]});
    let own = json!({"metadata": {"name": "web-scratch", "namespace": "default"}, "spec": {"storageClassName": "gp3"}});
    let cluster = Cluster {
        pods: vec![pending("web", "1", uses.clone()), pending("other", "1", uses)],
        volume_claims: vec![own],
        storage_classes: vec![class(json!({}))],
        ..Cluster::default()
    };
    let built = cluster.build();
    assert_eq!(built.snapshot.pods[0].claims, ["default/web-scratch"]);
    let missing = IgnoredReason::Volume { claim: "default/other-scratch".to_owned(), error: VolumeError::Missing };
    assert_eq!(built.ignored[0].reason, missing);
}

#[test]
fn claims_are_listed_once_for_bound_pods() {
    let (node, of_node) = machine("n1", json!({}));
    let mut pod = running("web", "n1", "1", json!({}));
    pod["spec"]["volumes"] = json!([
        {"name": "one", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "two", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "lost", "persistentVolumeClaim": {"claimName": "gone"}},
        {"name": "old", "awsElasticBlockStore": {"volumeID": "aws://a/vol-7"}},
    ]);
    let mut cluster = cluster(
        vec![bound()],
        vec![volume(json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "v"}}))],
        vec![],
    );
    cluster.pods = vec![pod];
    (cluster.nodes, cluster.claims) = (vec![node], vec![of_node]);
    let snapshot = cluster.build().snapshot;
    let pod = &snapshot.nodes[0].pods[0];
    assert_eq!(pod.claims, ["default/data", "default/gone", "ebs.csi.aws.com/vol-7"]);
    let drivers: Vec<Option<&str>> = pod.shape.volumes.iter().map(|need| need.driver.as_deref()).collect();
    assert_eq!(drivers, [Some("ebs.csi.aws.com"), None, Some("ebs.csi.aws.com")]);
}

#[test]
fn attach_limits_follow_the_csi_node() {
    let (node, of_node) = machine("n1", json!({}));
    let drivers = json!([
        {"name": "ebs.csi.aws.com", "nodeID": "i-1", "allocatable": {"count": 25}},
        {"name": "efs.csi.aws.com", "nodeID": "i-1"},
    ]);
    let csi_nodes = vec![json!({"metadata": {"name": "n1"}, "spec": {"drivers": drivers}})];
    let cluster = Cluster { nodes: vec![node], claims: vec![of_node], csi_nodes, ..Cluster::default() };
    assert_eq!(cluster.build().snapshot.nodes[0].attach_limits, [("ebs.csi.aws.com".to_owned(), 25)].into());
}

#[test]
fn claim_is_in_use_when_another_pod_has_it() {
    let uses = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
    let mut holder = running("holder", "n1", "1", json!({}));
    holder["spec"]["volumes"] = uses["volumes"].clone();
    let ended = merged(holder.clone(), json!({"status": {"phase": "Succeeded"}}));
    let taken = VolumeError::InUse { pod: "default/holder".to_owned() };
    let rows = [
        (vec![holder.clone()], "ReadWriteOncePod", Some(taken)),
        (vec![ended], "ReadWriteOncePod", None),
        (vec![pending("another", "1", uses.clone())], "ReadWriteOncePod", None),
        (vec![holder], "ReadWriteOnce", None),
    ];
    for (mut pods, mode, error) in rows {
        pods.push(pending("web", "1", uses.clone()));
        let claims = vec![merged(bound(), json!({"spec": {"accessModes": [mode]}}))];
        let cluster = Cluster { pods, ..cluster(claims, vec![volume(json!({}))], vec![]) };
        let expected = error.map(|error| IgnoredReason::Volume { claim: "default/data".to_owned(), error });
        let built = cluster.build();
        assert_eq!(built.ignored.first().map(|it| it.reason.clone()), expected, "{mode}");
    }
}
