//! Tests of the reconcile and the deletion of an EC2NodeClass.

use std::sync::Arc;

use cloud::fake::FakeCloud;
use cloud::nodeclass::{self, Resolution};
use cloud::{Cloud as _, InstanceProfile, InstanceProfileRequest, LaunchTemplate, LaunchTemplateRequest};
use serde_json::{Value, json};

use super::finalization::{self, ClassResources, finalize};
use super::readiness::decide_readiness;
use super::{NodeClassView, dry_run};
use crate::capacity::offerings::Offerings;
use crate::fixture::{self, at, body, claim, class, words};
use crate::settings::Gates;
use crate::write::writer::Operation;

#[test]
fn finalize_removes_all_resources_of_the_class() {
    let profile = |name: &str, roles: &[&str]| InstanceProfile {
        name: name.to_owned(),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        ..InstanceProfile::default()
    };
    let estate = ClassResources {
        templates: vec![LaunchTemplate { name: "karpenter.k8s.aws/1".to_owned(), ..LaunchTemplate::default() }],
        profiles: vec![profile("new", &["nodes"]), profile("half-made", &[])],
    };
    let finalizers = json!({"metadata": {"finalizers": ["karpenter.k8s.aws/termination"]}});
    let view = NodeClassView { class: class(&finalizers), claims: Vec::new(), pools: Vec::new(), now: at(60) };
    let expected = [
        "remove role nodes from profile new",
        "delete profile new",
        "delete profile half-made",
        "delete template karpenter.k8s.aws/1",
        "patch class default",
    ];
    assert_eq!(words(&finalize(&view, estate)), expected, "the finalizer goes last");
    let nothing = finalize(&NodeClassView { class: Arc::clone(&view.class), ..view }, ClassResources::default());
    assert_eq!(words(&nothing), ["patch class default"]);
    assert_eq!(body(&nothing)["metadata"]["finalizers"], json!([]));
}

/// Returns a deleted EC2NodeClass, and an account with resources of this and of another EC2NodeClass.
async fn leaving(claims: usize, isolated_vpc: bool) -> (NodeClassView, Offerings, FakeCloud) {
    let fake = FakeCloud::builder("us-west-2").role("nodes").build().unwrap();
    let settings = cloud::Settings { isolated_vpc, ..cloud::Settings::default() };
    let change = json!({"metadata": {
        "finalizers": ["karpenter.k8s.aws/termination"], "deletionTimestamp": at(30).to_string(),
    }});
    let claims = (0..claims).map(|nth| claim(&json!({"metadata": {"name": format!("default-{nth}")}}))).collect();
    let view = NodeClassView { class: class(&change), claims, pools: Vec::new(), now: at(60) };
    for name in ["default", "other"] {
        let request = LaunchTemplateRequest {
            name: format!("karpenter.k8s.aws/{name}"),
            tags: cloud::tags::template_tags(name, &settings),
            ..LaunchTemplateRequest::default()
        };
        fake.create_launch_template(&request).await.unwrap();
    }
    let path = nodeclass::class_path(&view.class, &settings);
    let profile = InstanceProfileRequest { name: "made".to_owned(), path, ..InstanceProfileRequest::default() };
    fake.create_instance_profile(&profile).await.unwrap();
    let offerings = Offerings::new(Arc::new(fake.clone()), settings, Gates::default());
    (view, offerings, fake)
}

/// Rows: number of NodeClaims, whether IAM cannot be reached, and the operations.
#[tokio::test]
async fn finalization_waits_for_claims_and_keeps_other_classes() {
    let (template, finalizer) = ("delete template karpenter.k8s.aws/default", "patch class default");
    let rows = [
        (2, false, vec!["event WaitingOnNodeClaimTermination"]),
        (0, false, vec!["delete profile made", template, finalizer]),
        (0, true, vec![template, finalizer]),
    ];
    for (claims, isolated, expected) in rows {
        let (view, offerings, fake) = leaving(claims, isolated).await;
        let decision = finalization::decide(&view, &offerings).await.unwrap();
        assert_eq!(words(&decision.steps), expected, "{claims} claims, isolated: {isolated}");
        let asked_iam = fake.count("ListInstanceProfiles") + fake.count("GetInstanceProfile");
        assert_eq!(asked_iam > 0, claims == 0 && !isolated, "{claims} claims, isolated: {isolated}");
    }
}

#[tokio::test]
async fn finalization_reports_the_claims_that_it_waits_for() {
    let (view, offerings, _) = leaving(7, false).await;
    let decision = finalization::decide(&view, &offerings).await.unwrap();
    let [Operation::Note(note)] = &decision.steps[..] else { panic!("{:?}", decision.steps) };
    let named = "default-0, default-1, default-2, default-3, default-4";
    assert_eq!(
        note.message(),
        format!("waiting for the deletion of 7 NodeClaims: {named}"),
        "five of them, for seven hundred are no message"
    );
}

/// An owner who changes an annotation needs the result of a dry run now, not in half an hour.
#[tokio::test]
async fn rehearse_repeats_the_dry_run_when_an_annotation_changes() {
    let fake = FakeCloud::builder("us-west-2").only_types(&["m5.large"]).build().unwrap();
    let offerings = fixture::offerings(&fake).await;
    let mut tried = Vec::new();
    for annotations in [json!({}), json!({}), json!({"try": "again"}), json!({"try": "again"})] {
        let mut change = fixture::discovered();
        fixture::merge(&mut change, &json!({"metadata": {"annotations": annotations}}));
        let view = NodeClassView { class: class(&change), claims: Vec::new(), pools: Vec::new(), now: at(60) };
        let mut resolution = fixture::resolution(&view.class, &offerings).await;
        dry_run::rehearse(&view, &offerings, &mut resolution).await;
        assert!(resolution.is_ready(), "{resolution:?}");
        tried.push(fake.count("CreateFleet(DryRun)"));
    }
    assert_eq!(tried, [1, 1, 2, 2]);
}

/// Returns an EC2NodeClass with its resolution, in an AWS account without roles.
fn resolution(change: &Value) -> (NodeClassView, Offerings, Resolution) {
    let cloud = FakeCloud::builder("us-west-2").build().unwrap();
    let settings = cloud::Settings { kubernetes: "1.36".to_owned(), ..cloud::Settings::default() };
    let offerings = Offerings::new(Arc::new(cloud), settings, Gates::default());
    let view = NodeClassView { class: class(change), claims: Vec::new(), pools: Vec::new(), now: at(60) };
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
    let resolution = nodeclass::resolve(&view.class, found, offerings.settings(), at(60));
    (view, offerings, resolution)
}

/// Rows: the selected image, and the delay of the next reconcile in seconds.
#[test]
fn decide_readiness_waits_longer_when_only_a_change_helps() {
    let alias = |alias: &str| json!({"spec": {"amiSelectorTerms": [{"alias": alias}]}});
    let rows = [("nothing found", alias("al2023@latest"), 10), ("no such images", alias("al2@latest"), 600)];
    for (what, change, seconds) in rows {
        let (view, offerings, resolution) = resolution(&change);
        let decision = decide_readiness(&view, &offerings, resolution);
        assert_eq!(decision.after.as_secs(), seconds, "{what}");
    }
}

/// The known status remains while AWS does not answer.
#[test]
fn decide_readiness_keeps_the_status_when_aws_fails() {
    let known = json!({"status": {"instanceProfile": "nodes", "subnets": [{"id": "subnet-9", "zone": "a"}]}});
    let (view, offerings, mut unanswered) = resolution(&known);
    let subnets = |decision: &super::NodeClassDecision| {
        let status = decision.steps.iter().find_map(|step| match step {
            Operation::PatchStatus(_, body) => Some(body["status"].clone()),
            _ => None,
        });
        let status = status.unwrap_or_default();
        (status["subnets"][0]["id"].as_str().map(str::to_owned), status["instanceProfile"].as_str().map(str::to_owned))
    };
    let answered = decide_readiness(&view, &offerings, unanswered.clone());
    assert_eq!(subnets(&answered), (Some("subnet-1".to_owned()), Some("nodes".to_owned())));
    let (call, code, message) = ("DescribeImages", String::new(), "no answer".to_owned());
    unanswered.errors.push(cloud::CloudError { call, kind: cloud::ErrorKind::Transport, code, message });
    assert_eq!(subnets(&decide_readiness(&view, &offerings, unanswered)).0, Some("subnet-9".to_owned()));
}

/// The owner receives a warning for each NodePool with a problem of its user data, and the size is measured.
#[test]
fn user_data_check_measures_size_and_reports_warnings() {
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
    for (script, reported, measured) in rows {
        let (mut view, _, resolution) = resolution(&json!({"spec": {"userData": script}}));
        view.pools = vec![pool("a", json!([])), pool("b", json!([{"key": "dedicated", "effect": "NoSchedule"}]))];
        let image = cloud::Image { id: "ami-1".to_owned(), ..cloud::Image::default() };
        let image = nodeclass::ResolvedImage { image, requirements: Vec::new() };
        let class = nodeclass::ResolvedClass { images: vec![image], ..resolution.class };
        let seen = super::user_data::check(
            &view,
            &class,
            &cloud::Settings { cluster_cidr: "10.0.0.0/16".to_owned(), ..cloud::Settings::default() },
        );
        assert_eq!(words(&seen.notes), vec!["event UserData"; reported], "{} bytes of script", script.len());
        assert_eq!(seen.bytes.is_some_and(|bytes| bytes as usize > script.len()), measured, "{:?}", seen.bytes);
    }
}
