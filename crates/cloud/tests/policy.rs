//! Tests of the recommended IAM policies: they allow every call and nothing else, and Kerf's requests satisfy the conditions.
//! `docs/iam.md` is generated from the tables. A test compares the file, and writes it with `BLESS=1`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

use std::collections::BTreeSet;
use std::path::Path;

use cloud::fake::{FakeCloud, KARPENTER_POLICIES};
use cloud::policy::{CALLS, Need, Operator, PLACEHOLDERS, Policy, STATEMENTS, Statement};
use cloud::{
    Cloud, Filter, FleetRequest, InstanceProfileRequest, LaunchTemplateRequest, PlacementGroupQuery, ReservationFilter,
    RunInstancesProbe, Tags,
};
use jiff::SignedDuration;

#[path = "policy/check.rs"]
mod check;
#[path = "policy/evaluation.rs"]
mod evaluation;
#[path = "policy/page.rs"]
mod page;
#[path = "policy/requests.rs"]
mod requests;
#[path = "policy/rights.rs"]
mod rights;

/// IAM's maximum size of a managed policy, in characters without white space.
const POLICY_SIZE: usize = 6144;

fn statement(sid: &str) -> &'static Statement {
    STATEMENTS.iter().find(|statement| statement.sid == sid).unwrap_or_else(|| panic!("no statement is called {sid}"))
}

/// Returns the names of the trait's methods from its source.
fn methods() -> Vec<&'static str> {
    let source = include_str!("../src/calls.rs");
    let (_, body) = source.split_once("pub trait Cloud: ").unwrap();
    let (body, _) = body.split_once("\n}\n").unwrap();
    let signatures = body.lines().filter_map(|line| line.trim().strip_prefix("fn "));
    signatures.map(|text| text.split(['(', '<']).next().unwrap()).collect()
}

#[test]
fn calls_list_every_method_of_the_trait() {
    let rows: Vec<&str> = CALLS.iter().map(|need| need.method).collect();
    assert!(rows.len() > 20, "the walk through the source lost its way");
    assert_eq!(rows, methods());
}

/// Calls one method of the trait with arbitrary input. Only the log is used, not the answer.
async fn drive(cloud: &FakeCloud, method: &str) {
    let (filter, tags, ids) = (Filter::default(), Tags::new(), Vec::new());
    match method {
        "instance_types" => drop(cloud.instance_types().await),
        "type_offerings" => drop(cloud.type_offerings().await),
        "spot_prices" => drop(cloud.spot_prices().await),
        "on_demand_prices" => drop(cloud.on_demand_prices().await),
        "subnets" => drop(cloud.subnets(&filter).await),
        "security_groups" => drop(cloud.security_groups(&filter).await),
        "images" => drop(cloud.images(&filter).await),
        "capacity_reservations" => drop(cloud.capacity_reservations(&ReservationFilter::default()).await),
        "placement_group" => drop(cloud.placement_group(&PlacementGroupQuery::Name("group".to_owned())).await),
        "parameter" => drop(cloud.parameter("parameter").await),
        "launch_templates" => drop(cloud.launch_templates(&tags).await),
        "create_launch_template" => drop(cloud.create_launch_template(&LaunchTemplateRequest::default()).await),
        "delete_launch_template" => drop(cloud.delete_launch_template("template").await),
        "create_fleet" => drop(cloud.create_fleet(&FleetRequest::default()).await),
        "dry_run_create_fleet" => drop(cloud.dry_run_create_fleet(&FleetRequest::default()).await),
        "dry_run_run_instances" => drop(cloud.dry_run_run_instances(&RunInstancesProbe::default()).await),
        "instances" => drop(cloud.instances(&tags).await),
        "instances_by_id" => drop(cloud.instances_by_id(&ids).await),
        "instance_statuses" => drop(cloud.instance_statuses().await),
        "terminate_instances" => drop(cloud.terminate_instances(&ids).await),
        "create_tags" => drop(cloud.create_tags(&ids, &tags).await),
        "instance_profile" => drop(cloud.instance_profile("profile").await),
        "instance_profiles" => drop(cloud.instance_profiles("/").await),
        "create_instance_profile" => drop(cloud.create_instance_profile(&InstanceProfileRequest::default()).await),
        "add_role_to_instance_profile" => drop(cloud.add_role_to_instance_profile("profile", "role").await),
        "remove_role_from_instance_profile" => drop(cloud.remove_role_from_instance_profile("profile", "role").await),
        "delete_instance_profile" => drop(cloud.delete_instance_profile("profile").await),
        "cluster" => drop(cloud.cluster("kerf").await),
        "zonal_shifts" => drop(cloud.zonal_shifts("arn").await),
        "queue_url" => drop(cloud.queue_url("queue").await),
        "receive_messages" => drop(cloud.receive_messages("url").await),
        "delete_messages" => drop(cloud.delete_messages("url", &ids).await),
        other => panic!("no case calls {other}: add one here"),
    }
}

#[tokio::test]
async fn calls_name_the_aws_call_of_each_method() {
    let cloud = FakeCloud::builder("us-west-2").long_poll_of(SignedDuration::ZERO).build().unwrap();
    for need in CALLS {
        let before = cloud.log().len();
        drive(&cloud, need.method).await;
        let calls: Vec<&str> = cloud.log()[before..].iter().map(|logged| logged.call).collect();
        assert_eq!(calls, [need.call], "{}", need.method);
        let (_, action) = need.actions[0].split_once(':').unwrap();
        let plain = need.call.trim_end_matches("(DryRun)").trim_end_matches("Batch");
        assert_eq!(action, plain, "the first action of {} is the call's own", need.method);
    }
}

/// Returns all actions that the statements of a row allow.
fn allowed(need: &Need) -> BTreeSet<&'static str> {
    need.statements.iter().flat_map(|sid| statement(sid).actions).copied().collect()
}

#[test]
fn statements_allow_every_action_of_each_call() {
    for need in CALLS {
        for action in need.actions {
            assert!(allowed(need).contains(action), "{}: no statement of its row allows {action}", need.method);
        }
        for sid in need.statements {
            let of_use = statement(sid).actions.iter().any(|action| need.actions.contains(action));
            assert!(of_use, "{}: {sid} allows nothing that it needs", need.method);
        }
    }
}

#[test]
fn statements_allow_no_action_without_a_call() {
    for statement in STATEMENTS {
        for action in statement.actions {
            let mut users = CALLS.iter().filter(|need| need.statements.contains(&statement.sid));
            assert!(
                users.any(|need| need.actions.contains(action)),
                "{} allows {action}, which no call needs of it",
                statement.sid
            );
        }
    }
    let sids: BTreeSet<&str> = STATEMENTS.iter().map(|statement| statement.sid).collect();
    assert_eq!(sids.len(), STATEMENTS.len(), "names are unique");
}

fn is_mutating(action: &str) -> bool {
    let (_, verb) = action.split_once(':').unwrap();
    !["Describe", "Get", "List", "Receive"].iter().any(|read| verb.starts_with(read))
}

#[test]
fn statements_restrict_mutating_actions_to_resources() {
    for statement in STATEMENTS {
        let Statement { sid, actions, resources, conditions, .. } = statement;
        let everywhere = resources.contains(&"*");
        assert!(!actions.iter().any(|action| action.contains('*')), "{sid}: actions are named one by one");
        if actions.iter().any(|action| is_mutating(action)) {
            assert!(!everywhere, "{sid} changes things and is open to all resources");
        }
        for resource in resources.iter().filter(|resource| **resource != "*") {
            assert_eq!(resource.split(':').take(2).collect::<Vec<_>>(), ["arn", "${PARTITION}"], "{sid}: {resource}");
            assert!(!resource.ends_with(":*"), "{sid}: {resource} names no kind of resource");
        }
        // Created, deleted or tagged resources are restricted by tag; resources that a launch only uses, messages and roles by
        // ARN.
        let tagged = conditions.iter().any(|one| one.key.contains("Tag/kubernetes.io/cluster/${CLUSTER}"));
        let named =
            ["AllowScopedEC2InstanceAccessActions", "AllowPassingInstanceRole", "AllowInterruptionQueueActions"];
        let needs_tag = actions.iter().any(|action| is_mutating(action)) && !named.contains(sid);
        assert!(tagged || !needs_tag, "{sid} is not limited to what carries the cluster's tag");
    }
}

#[test]
fn documents_satisfy_iam_limits_and_use_all_placeholders() {
    let known: BTreeSet<&str> = PLACEHOLDERS.iter().map(|(name, _)| *name).collect();
    let mut used = BTreeSet::new();
    for policy in Policy::ALL {
        let text = serde_json::to_string(&policy.document()).unwrap();
        for part in text.split("${").skip(1) {
            used.insert(part.split_once('}').unwrap().0.to_owned());
        }
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let shown = value["Statement"].as_array().unwrap();
        assert_eq!(shown.len(), STATEMENTS.iter().filter(|one| one.policy == policy).count());
        assert!(shown.iter().all(|one| one["Effect"] == "Allow"), "{text}");
        let longest = text
            .replace("${CLUSTER}", &"c".repeat(100))
            .replace("${NODE_ROLE}", &"r".repeat(64))
            .replace("${REGION}", "ap-southeast-2")
            .replace("${ACCOUNT}", "123456789012")
            .replace("${PARTITION}", "aws-us-gov");
        assert!(longest.len() <= POLICY_SIZE, "{} has {} characters", policy.name(), longest.len());
    }
    assert_eq!(used, known.iter().map(|name| (*name).to_owned()).collect(), "every placeholder is explained and used");
}

#[test]
fn document_has_sorted_keys() {
    let text = serde_json::to_string_pretty(&Policy::NodeLifecycle.document()).unwrap();
    let keys: Vec<&str> = text.lines().filter(|line| line.starts_with("      \"")).collect();
    for four in keys.split(|line| line.contains("\"Sid\"")).filter(|four| !four.is_empty()) {
        assert!(four.is_sorted(), "{four:?}");
    }
    assert!(keys.len() >= 4 * 6, "{text}");
}

/// Compares a generated file with `wanted`, or writes the file when `BLESS` is set.
fn assert_fresh(file: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{file} is stale: run `make bless` and review the difference");
}

#[test]
fn iam_page_matches_the_policy_tables() {
    assert_fresh("docs/iam.md", &page::page());
}

/// Examples of `kerf adopt --check` have the policies of Karpenter.
#[test]
fn examples_of_the_command_match_karpenter_policies() {
    for (file, cluster, role) in
        [("cases/iam/karpenter.json", "shop", "nodes"), ("migration/karpenter/policies.json", "shop", "nodes")]
    {
        let words = [("${CLUSTER}", cluster), ("${QUEUE}", cluster), ("${NODE_ROLE}", role)];
        let facts = [("${REGION}", "us-west-2"), ("${ACCOUNT}", "123456789012"), ("${PARTITION}", "aws")];
        let fill = |text: String, (placeholder, word): &(&str, &str)| text.replace(placeholder, word);
        let text = words.iter().chain(&facts).fold(KARPENTER_POLICIES.to_owned(), fill);
        assert_fresh(&format!("cli/tests/{file}"), &text);
    }
}

#[test]
fn rights_templates_match_the_policy_tables() {
    let files = rights::files();
    for (name, text) in &files {
        assert_fresh(&format!("controller/rights/{name}"), text);
    }
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../controller/rights/terraform/policies");
    assert_eq!(std::fs::read_dir(policies).unwrap().count(), Policy::ALL.len(), "a file that is not written any more");
}

/// IAM's limit is 128 characters, and the suffix of a policy has up to 80, like the name of a queue.
#[test]
fn policy_names_fit_iam_with_the_longest_suffix() {
    for policy in Policy::ALL {
        assert!(policy.name().len() + "-".len() + 80 <= 128, "{}", policy.name());
    }
}
