//! What cannot be read, or cannot be meant, is told of: once for those who say the same, with the object to look at and the cure.

use serde_json::{Value, json};
use snapshot::{Built, Subject};

use crate::objects::{Cluster, machine, merged, owned_by, pending, pool, running};

fn told(built: &Built) -> Vec<String> {
    built.problems.iter().map(ToString::to_string).collect()
}

fn subjects(built: &Built) -> Vec<(&'static str, String)> {
    let about = built.problems.iter().map(|problem| problem.about());
    about.map(|Subject { kind, name }| (kind, name)).collect()
}

/// A cluster of one node with these pods.
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

fn says(key: &str, text: &str) -> Value {
    json!({"annotations": {key: text}})
}

#[test]
fn a_wish_for_peace_that_cannot_be_read_is_told_of_once_a_workload() {
    let asks = |text: &str| says("karpenter.sh/do-not-disrupt", text);
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
    let protects = r#"annotation karpenter.sh/do-not-disrupt protects nothing:"#;
    let cure = "is neither true nor a time from the pod's start above 0, such as 4h";
    assert_eq!(
        told(&built),
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
fn words_of_a_template_are_told_of_once_a_workload() {
    let words = json!({"annotations": {
        "kerf.sh/disrupt-at-most-once-per": "-4h", "kerf.sh/resize": "no", "kerf.sh/surge": "yes",
    }});
    let of = |name: &str, owner: &str| {
        let owner = json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}]});
        running(name, "n1", "100m", merged(owner, words.clone()))
    };
    let built = with(vec![of("web-1", "web"), of("web-2", "web"), of("web-3", "web"), of("api-1", "api")]).build();
    let told = told(&built);
    assert_eq!(told.len(), 6, "{told:?}");
    assert!(told[..3].iter().all(|it| it.starts_with("Pod default/api-1: ")), "{told:?}");
    assert!(told[3..].iter().all(|it| it.starts_with("Pod default/web-1 and 2 others: ")), "{told:?}");
    assert!(built.problems.iter().all(|it| it.reason() == "InvalidAnnotation"));
}
