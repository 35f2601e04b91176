//! Tests of node roles and their instance profiles.

use std::collections::BTreeSet;

use api::EC2NodeClass;
use api::condition;
use cloud::nodeclass::{ProfileStep, Resolution, Unused, class_path, own_name};
use cloud::{CloudError, ErrorKind, InstanceProfile, Settings};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{class, conditions, settings};

/// Returns an EC2NodeClass with this role, and this profile in its status.
fn of_role(role: &str, current: &str) -> EC2NodeClass {
    let mut class = class(&format!(r#""instanceProfile": null, "role": "{role}", "tags": {{"team": "blue"}}"#));
    class.metadata.uid = Some("uid-1".to_owned());
    class.status = serde_json::from_value(json!({"instanceProfile": current})).unwrap();
    class
}

fn profile(name: &str, roles: &[&str]) -> InstanceProfile {
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    InstanceProfile { name: name.to_owned(), roles, ..InstanceProfile::default() }
}

fn answered(class: &EC2NodeClass, found: &[InstanceProfile], settings: &Settings) -> Resolution {
    let answers = cloud::nodeclass::Answers {
        subnets: Ok(Vec::new()),
        security_groups: Ok(Vec::new()),
        images: Ok(Vec::new()),
        reservations: Ok(Vec::new()),
        placement_group: Ok(None),
        profiles: Ok(found.to_vec()),
    };
    cloud::nodeclass::resolve(class, answers, settings, Timestamp::UNIX_EPOCH)
}

fn step_names(steps: &[ProfileStep]) -> Vec<String> {
    let name = |step: &ProfileStep| match step {
        ProfileStep::Create(_) => "create".to_owned(),
        ProfileStep::AddRole { role, .. } => format!("add {role}"),
        ProfileStep::RemoveRole { role, .. } => format!("remove {role}"),
        ProfileStep::Delete(_) => "delete".to_owned(),
    };
    steps.iter().map(name).collect()
}

/// Rows: the role, the profile in the status, the existing profiles (OWN is the name of Kerf's profile), the profile in use,
/// and the steps.
#[test]
fn resolve_plans_an_instance_profile_for_a_role() {
    type Row<'a> = (&'a str, &'a str, &'a str, &'a [(&'a str, &'a [&'a str])], &'a str, &'a [&'a str]);
    let rows: [Row<'_>; 9] = [
        ("the first look", "nodes", "", &[], "OWN", &["create", "add nodes"]),
        ("a path is not part of the name", "team/nodes", "", &[], "OWN", &["create", "add nodes"]),
        ("all is there", "nodes", "OWN", &[("OWN", &["nodes"])], "OWN", &[]),
        ("with a path, all is there", "team/a/nodes", "OWN", &[("OWN", &["nodes"])], "OWN", &[]),
        ("a crash before the role", "nodes", "", &[("OWN", &[])], "OWN", &["add nodes"]),
        ("an operator changed the role", "nodes", "OWN", &[("OWN", &["other"])], "OWN", &["remove other", "add nodes"]),
        ("Karpenter's own goes on", "nodes", "theirs", &[("theirs", &["nodes"])], "theirs", &[]),
        ("another role", "new", "theirs", &[("theirs", &["nodes"])], "OWN", &["create", "add new"]),
        ("deleted behind our back", "nodes", "OWN", &[], "OWN", &["create", "add nodes"]),
    ];
    for (what, role, current, found, uses, steps) in rows {
        let settings = settings();
        let own = own_name(&of_role(role, ""), &settings).unwrap();
        let named = |name: &str| if name == "OWN" { own.clone() } else { name.to_owned() };
        let found: Vec<InstanceProfile> = found.iter().map(|(name, roles)| profile(&named(name), roles)).collect();
        let class = of_role(role, &named(current));
        let resolution = answered(&class, &found, &settings);
        assert_eq!(step_names(&resolution.profile_steps), steps, "{what}");
        assert_eq!(resolution.class.instance_profile, named(uses), "{what}");
        assert_eq!(conditions(&resolution)[condition::INSTANCE_PROFILE_READY].0, "True", "{what}");
    }
}

#[test]
fn profile_has_path_name_and_tags_for_iam_conditions() {
    let class = of_role("path/nodes", "");
    let resolution = answered(&class, &[], &settings());
    let Some(ProfileStep::Create(request)) = resolution.profile_steps.first() else { panic!("{resolution:?}") };
    assert_eq!(request.path, "/karpenter/us-west-2/kerf/uid-1/");
    assert_eq!(request.path, class_path(&class, &settings()));
    assert!(request.name.starts_with("kerf_") && request.name.len() <= 128, "{}", request.name);
    let tags = json!({
        "team": "blue",
        "kubernetes.io/cluster/kerf": "owned",
        "eks:eks-cluster-name": "kerf",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "topology.kubernetes.io/region": "us-west-2",
    });
    assert_eq!(json!(request.tags), tags);
    let names: BTreeSet<String> =
        ["nodes", "other"].map(|role| own_name(&of_role(role, ""), &settings()).unwrap()).into();
    assert_eq!(names.len(), 2, "another role, another profile: machines run with the old one");
    assert_eq!(own_name(&of_role("nodes", ""), &settings()), own_name(&of_role("a/nodes", "x"), &settings()));
}

/// Rows: the EC2NodeClass, whether the VPC is isolated, the existing profiles, and the profile or a part of the message.
#[test]
fn resolve_only_reads_a_profile_named_by_the_class() {
    let none: &[InstanceProfile] = &[];
    let there = [profile("nodes", &["role"])];
    let empty = [profile("nodes", &[])];
    let role = of_role("nodes", "");
    let rows = [
        (class(""), false, &there[..], Ok("nodes")),
        (class(""), false, none, Err("\"nodes\" does not exist; create it")),
        (class(""), false, &empty[..], Err("has no role")),
        (class(""), true, none, Ok("nodes")),
        (role, true, none, Err("ISOLATED_VPC forbids calls to IAM")),
    ];
    for (class, isolated_vpc, found, expected) in rows {
        let settings = Settings { isolated_vpc, ..settings() };
        let resolution = answered(&class, found, &settings);
        assert!(resolution.profile_steps.is_empty(), "{:?}", resolution.profile_steps);
        let (status, reason) = conditions(&resolution)[condition::INSTANCE_PROFILE_READY];
        match expected {
            Ok(name) => assert_eq!((status, resolution.class.instance_profile.as_str()), ("True", name)),
            Err(part) => {
                assert_eq!((status, reason), ("False", "InstanceProfileNotFound"));
                assert!(resolution.findings.iter().any(|one| one.message.contains(part)), "{:?}", resolution.findings);
            }
        }
        let asked = cloud::nodeclass::queries(&class, &settings).profiles;
        assert_eq!(asked.is_empty(), isolated_vpc, "no IAM call in an isolated VPC: {asked:?}");
    }
}

/// Rows: IAM's error of a step, and the condition reason; without a reason the step is retried soon.
#[test]
fn profile_failed_reports_iam_errors_with_a_hint() {
    let rows = [
        (ErrorKind::NotFound, Some("RoleNotFound"), "create the role in IAM"),
        (ErrorKind::Unauthorized, Some("InstanceProfileAuthFailed"), "pass the node role"),
        (ErrorKind::Invalid, Some("InstanceProfileCreationFailed"), "correct spec.role"),
        (ErrorKind::Throttled, None, ""),
        (ErrorKind::Transport, None, ""),
    ];
    for (kind, reason, cure) in rows {
        let class = of_role("nodes", "");
        let mut resolution = answered(&class, &[], &settings());
        let (call, code, message) = ("AddRoleToInstanceProfile", "Code".to_owned(), "said IAM".to_owned());
        resolution.profile_failed(&class, CloudError { call, kind, code, message }, &settings());
        let conditions = conditions(&resolution);
        let found = conditions.get(condition::INSTANCE_PROFILE_READY).copied();
        assert_eq!(found, reason.map(|reason| ("False", reason)), "{kind:?}");
        assert_eq!(resolution.errors.len(), usize::from(reason.is_none()), "{kind:?}");
        let reported =
            resolution.findings.iter().any(|one| one.message.contains(cure) && one.message.contains("said IAM"));
        assert_eq!(reported, reason.is_some(), "{kind:?}");
        assert!(!resolution.is_ready() && resolution.class.instance_profile.is_empty(), "{kind:?}");
        let verdicts = resolution.findings.iter().filter(|one| one.condition == condition::VALIDATION_SUCCEEDED);
        assert_eq!(verdicts.count(), 1, "{kind:?}");
    }
}

#[test]
fn sweep_keeps_an_unused_profile_for_an_hour() {
    let found = [profile("used", &["a"]), profile("old", &["a"]), profile("back", &["a"])];
    let names = |used: &[&str]| -> BTreeSet<String> { used.iter().map(|name| (*name).to_owned()).collect() };
    let mut unused = Unused::default();
    let mut sweep = |minute: i64, used: &[&str]| -> Vec<String> {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute);
        unused.sweep(&found, &names(used), now).into_iter().map(|profile| profile.name.clone()).collect()
    };
    assert!(sweep(0, &["used"]).is_empty());
    assert!(sweep(30, &["used", "back"]).is_empty());
    assert!(sweep(59, &["used"]).is_empty());
    assert_eq!(sweep(60, &["used"]), ["old"], "the other was used half an hour ago");
    assert_eq!(sweep(119, &["used"]), ["old", "back"]);
}
