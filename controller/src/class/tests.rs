//! Which hashes are written, and what goes with a class.

use std::sync::Arc;

use api::{annotation, condition, hash};
use cloud::fake::FakeCloud;
use cloud::nodeclass::{self, Resolution};
use cloud::{InstanceProfile, LaunchTemplate};
use serde_json::{Value, json};

use super::ending::{Estate, dissolve};
use super::verdict::judge;
use super::{View, hashes};
use crate::act::Step;
use crate::fixture::{at, body, claim, class, condition as cond, merge, words};
use crate::market::Market;
use crate::settings::Gates;

const OURS: &str = hash::EC2_NODE_CLASS_VERSION;

fn hashed(version: Option<&str>, hash: Option<&str>) -> Value {
    json!({"metadata": {"annotations": {
        annotation::EC2_NODE_CLASS_HASH: hash, annotation::EC2_NODE_CLASS_HASH_VERSION: version,
    }}})
}

fn merged(mut base: Value, change: &Value) -> Value {
    merge(&mut base, change);
    base
}

/// Rows: version and hash on the class, version and hash on a claim, whether the claim has drifted, and what is written on the
/// claim (version, hash) and on the class; the hash is "new" now.
#[test]
fn hashes_of_others_are_migrated_and_never_compared() {
    let (foreign, ours) = (Some("v5"), Some(OURS));
    let rows = [
        ("a switch", (foreign, Some("1")), (foreign, Some("1")), false, Some(json!("new")), true),
        ("a switch, changed before", (foreign, Some("2")), (foreign, Some("1")), false, Some(json!("new")), true),
        ("a drifted claim stays drifted", (foreign, Some("2")), (foreign, Some("1")), true, Some(Value::Null), true),
        ("a claim without any", (foreign, Some("1")), (None, None), false, Some(json!("new")), true),
        ("a class without any", (None, None), (None, None), false, Some(json!("new")), true),
        ("a claim that came late", (ours, Some("new")), (foreign, Some("1")), false, Some(json!("new")), false),
        ("a claim planned too early", (ours, Some("new")), (None, None), false, None, false),
        ("a changed class", (ours, Some("old")), (ours, Some("old")), false, None, true),
        ("nothing new", (ours, Some("new")), (ours, Some("new")), false, None, false),
        ("crashed between claims and class", (foreign, Some("1")), (ours, Some("new")), false, None, true),
    ];
    for (what, of_class, of_claim, drifted, on_claim, on_class) in rows {
        let status = if drifted { vec![cond(condition::DRIFTED, "True", 5)] } else { Vec::new() };
        let status = json!({"status": {"conditions": status}});
        let claim = claim(&merged(hashed(of_claim.0, of_claim.1), &status));
        let steps = hashes::steps(&class(&hashed(of_class.0, of_class.1)), &[claim], "new");
        let expected: Vec<&str> =
            [on_claim.is_some().then_some("patch claim default-1"), on_class.then_some("patch class default")]
                .into_iter()
                .flatten()
                .collect();
        assert_eq!(words(&steps), expected, "{what}");
        if let Some(hash) = on_claim {
            let written = &body(&steps)["metadata"]["annotations"];
            assert_eq!(written[annotation::EC2_NODE_CLASS_HASH_VERSION], OURS, "{what}");
            assert_eq!(written[annotation::EC2_NODE_CLASS_HASH], hash, "{what}");
        }
        if let (true, Some(Step::Patch(_, body))) = (on_class, steps.last()) {
            assert_eq!(*body, hashed(Some(OURS), Some("new")), "{what}");
        }
    }
}

#[test]
fn a_class_takes_with_it_what_was_made_for_it() {
    let profile = |name: &str, roles: &[&str]| InstanceProfile {
        name: name.to_owned(),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        ..InstanceProfile::default()
    };
    let estate = Estate {
        templates: vec![LaunchTemplate { name: "karpenter.k8s.aws/1".to_owned(), ..LaunchTemplate::default() }],
        profiles: vec![profile("new", &["nodes"]), profile("half-made", &[])],
    };
    let finalizers = json!({"metadata": {"finalizers": ["karpenter.k8s.aws/termination"]}});
    let view = View { class: class(&finalizers), claims: Vec::new(), pools: Vec::new(), now: at(60) };
    let expected = [
        "remove role nodes from profile new",
        "delete profile new",
        "delete profile half-made",
        "delete template karpenter.k8s.aws/1",
        "patch class default",
    ];
    assert_eq!(words(&dissolve(&view, estate)), expected, "the finalizer goes last");
    let nothing = dissolve(&View { class: Arc::clone(&view.class), ..view }, Estate::default());
    assert_eq!(words(&nothing), ["patch class default"]);
    assert_eq!(body(&nothing)["metadata"]["finalizers"], json!([]));
}

/// A market whose AWS has no roles, and a class as it is looked at there.
fn resolution(change: &Value) -> (View, Market, Resolution) {
    let cloud = FakeCloud::builder("us-west-2").build().unwrap();
    let settings = cloud::Settings { kubernetes: "1.36".to_owned(), ..cloud::Settings::default() };
    let market = Market::new(Arc::new(cloud), settings, Gates::default());
    let view = View { class: class(change), claims: Vec::new(), pools: Vec::new(), now: at(60) };
    let found = nodeclass::Answers {
        subnets: Ok(vec![cloud::Subnet { id: "subnet-1".to_owned(), ..cloud::Subnet::default() }]),
        security_groups: Ok(vec![cloud::SecurityGroup { id: "sg-1".to_owned(), ..cloud::SecurityGroup::default() }]),
        images: Ok(Vec::new()),
        reservations: Ok(Vec::new()),
        placement_group: Ok(None),
        profiles: Ok(vec![InstanceProfile {
            name: "nodes".to_owned(),
            roles: vec!["role".to_owned()],
            ..InstanceProfile::default()
        }]),
    };
    let resolution = nodeclass::resolve(&view.class, found, market.settings(), at(60));
    (view, market, resolution)
}

/// Rows: the image that is selected, and after how many seconds the class is looked at again.
#[test]
fn what_only_the_class_can_mend_is_not_asked_again_soon() {
    let alias = |alias: &str| json!({"spec": {"amiSelectorTerms": [{"alias": alias}]}});
    let rows = [("nothing found", alias("al2023@latest"), 10), ("no such images", alias("al2@latest"), 600)];
    for (what, change, seconds) in rows {
        let (view, market, resolution) = resolution(&change);
        let decision = judge(&view, &market, resolution);
        assert_eq!(decision.after.as_secs(), seconds, "{what}");
    }
}

/// What was known of a class stays while AWS does not answer.
#[test]
fn what_is_not_answered_stays() {
    let known = json!({"status": {"instanceProfile": "nodes", "subnets": [{"id": "subnet-9", "zone": "a"}]}});
    let (view, market, mut unanswered) = resolution(&known);
    let subnets = |decision: &super::Decision| {
        let status = decision.steps.iter().find_map(|step| match step {
            Step::PatchStatus(_, body) => Some(body["status"].clone()),
            _ => None,
        });
        let status = status.unwrap_or_default();
        (status["subnets"][0]["id"].as_str().map(str::to_owned), status["instanceProfile"].as_str().map(str::to_owned))
    };
    let answered = judge(&view, &market, unanswered.clone());
    assert_eq!(subnets(&answered), (Some("subnet-1".to_owned()), Some("nodes".to_owned())));
    let (call, code, message) = ("DescribeImages", String::new(), "no answer".to_owned());
    unanswered.errors.push(cloud::CloudError { call, kind: cloud::Kind::Transport, code, message });
    assert_eq!(subnets(&judge(&view, &market, unanswered)).0, Some("subnet-9".to_owned()));
}

/// The class's owner hears of every pool whose machines would not be told all, and how large it becomes.
#[test]
fn what_machines_will_be_told_is_measured_and_warned_of() {
    let pool = |name: &str, taints: Value| {
        let text = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [], "taints": taints,
            }}},
        });
        Arc::new(serde_json::from_value::<api::NodePool>(text).unwrap())
    };
    let large = "#!/bin/bash\n".to_owned() + &"echo a line of a long script\n".repeat(530);
    let rows = [("echo small".to_owned(), 0, true), (large, 2, true), ("x\n".repeat(9000), 2, false)];
    for (script, told, measured) in rows {
        let (mut view, _, resolution) = resolution(&json!({"spec": {"userData": script}}));
        view.pools = vec![pool("a", json!([])), pool("b", json!([{"key": "dedicated", "effect": "NoSchedule"}]))];
        let image = cloud::Image { id: "ami-1".to_owned(), ..cloud::Image::default() };
        let image = nodeclass::ResolvedImage { image, requirements: Vec::new() };
        let class = nodeclass::ResolvedClass { images: vec![image], ..resolution.class };
        let seen = super::told::look(
            &view,
            &class,
            &cloud::Settings { cluster_cidr: "10.0.0.0/16".to_owned(), ..cloud::Settings::default() },
        );
        assert_eq!(words(&seen.notes), vec!["event UserData"; told], "{} bytes of script", script.len());
        assert_eq!(seen.bytes.is_some_and(|bytes| bytes as usize > script.len()), measured, "{:?}", seen.bytes);
    }
}
