//! What goes with a class, and what its look comes to.

use std::sync::Arc;

use cloud::fake::FakeCloud;
use cloud::nodeclass::{self, Resolution};
use cloud::{InstanceProfile, LaunchTemplate};
use serde_json::{Value, json};

use super::View;
use super::ending::{Estate, dissolve};
use super::verdict::judge;
use crate::act::Step;
use crate::fixture::{at, body, class, words};
use crate::market::Market;
use crate::settings::Gates;

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
