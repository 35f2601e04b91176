//! Tests of the check of a role's policies: Kerf's own policies, Karpenter's policies, and both with changes.

use std::collections::BTreeSet;

use cloud::fake::{KARPENTER_POLICIES, karpenter_policies};
use cloud::policy::check::{ANY_ACCOUNT, PolicyCheck, PolicyScope, TaggingCall, check};
use cloud::policy::evaluation::{Access, PolicySet};
use cloud::policy::{Policy, STATEMENTS};
use serde_json::{Value, json};

fn scope() -> PolicyScope {
    PolicyScope {
        cluster: "kerf".to_owned(),
        region: "us-west-2".to_owned(),
        account: "123456789012".to_owned(),
        partition: "aws".to_owned(),
        node_roles: vec!["KarpenterNodeRole-kerf".to_owned()],
        queue: Some("kerf".to_owned()),
        manages_profiles: true,
        reads_cluster: true,
        reads_prices: true,
        follows_zonal_shifts: true,
    }
}

fn filled(text: &str) -> String {
    scope().filled(&text.replace("${NODE_ROLE}", "KarpenterNodeRole-kerf"))
}

fn own() -> Vec<Value> {
    let documents = Policy::ALL.map(|policy| filled(&serde_json::to_string(&policy.document()).unwrap()));
    documents.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

/// Returns the policy documents of Karpenter 1.14, as `aws iam get-role-policy` prints them.
fn karpenter() -> Vec<Value> {
    let text = filled(KARPENTER_POLICIES);
    let printed = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    printed.map(|document| document.unwrap()["PolicyDocument"].clone()).collect()
}

fn set(documents: &[Value]) -> PolicySet {
    let mut policies = PolicySet::default();
    documents.iter().for_each(|document| policies.add(document).unwrap());
    assert_eq!(policies.unevaluated(), Vec::<String>::new());
    policies
}

/// Applies a change to the statement with this `Sid`.
fn changed(documents: &mut [Value], sid: &str, change: impl Fn(&mut Value)) {
    let statements = documents.iter_mut().flat_map(|document| document["Statement"].as_array_mut().unwrap());
    let found: Vec<()> = statements.filter(|statement| statement["Sid"] == sid).map(change).collect();
    assert_eq!(found.len(), 1, "{sid}");
}

fn denied(result: &PolicyCheck) -> Vec<(&str, TaggingCall)> {
    result.denied_tags.iter().map(|tag| (tag.key.as_str(), tag.call)).collect()
}

#[test]
fn check_finds_nothing_in_own_policies() {
    let result = check(&set(&own()), &scope());
    let actions: BTreeSet<&str> = STATEMENTS.iter().flat_map(|statement| statement.actions).copied().collect();
    assert_eq!(result, PolicyCheck { needed: actions.len(), ..PolicyCheck::default() });
}

/// With Karpenter's policies each action is allowed, and one tag is denied.
#[test]
fn check_finds_one_denied_tag_in_karpenter_policies() {
    let policies = set(&karpenter());
    assert_eq!(policies, karpenter_policies("kerf", "us-west-2", "kerf"));
    let result = check(&policies, &scope());
    assert_eq!(result.missing, []);
    assert_eq!(denied(&result), [("kerf.sh/nodeclaim-uid", TaggingCall::CreateTags)]);
}

/// Each action of each statement is found when it is missing, and the statement of the result allows it.
#[test]
fn check_finds_each_action_that_is_removed() {
    for statement in STATEMENTS {
        for action in statement.actions {
            let mut documents = own();
            changed(&mut documents, statement.sid, |found| {
                let kept = statement.actions.iter().filter(|kept| *kept != action);
                found["Action"] = json!(kept.collect::<Vec<_>>());
            });
            let result = check(&set(&documents), &scope());
            let [missing] = result.missing.as_slice() else { panic!("{action} of {}: {result:?}", statement.sid) };
            assert_eq!((missing.action, &missing.access), (*action, &Access::NotAllowed), "{}", statement.sid);
            assert!(!missing.consequence.text.is_empty());
            documents.push(json!({"Version": "2012-10-17", "Statement": missing.statement}));
            assert_eq!(check(&set(&documents), &scope()).missing, [], "{action} of {}", statement.sid);
        }
    }
}

#[test]
fn check_needs_only_the_permissions_of_the_cluster() {
    let bare = PolicyScope {
        queue: None,
        manages_profiles: false,
        reads_cluster: false,
        reads_prices: false,
        follows_zonal_shifts: false,
        node_roles: Vec::new(),
        ..scope()
    };
    let mut documents = own();
    documents.retain(|document| {
        let text = document.to_string();
        text.contains("ec2:")
    });
    changed(&mut documents, "AllowPricingReadActions", |statement| statement["Action"] = json!("s3:GetObject"));
    changed(&mut documents, "AllowInstanceProfileReadActions", |statement| statement["Action"] = json!("s3:GetObject"));
    assert_eq!(check(&set(&documents), &bare).missing, []);
    let missing = check(&set(&documents), &scope()).missing;
    let actions: BTreeSet<&str> = missing.iter().map(|missing| missing.action).collect();
    let expected = ["eks:DescribeCluster", "iam:PassRole", "pricing:GetProducts", "sqs:ReceiveMessage"];
    assert!(expected.iter().all(|action| actions.contains(action)), "{actions:?}");
}

#[test]
fn check_reports_resources_and_denials() {
    let mut documents = own();
    changed(&mut documents, "AllowScopedEC2InstanceAccessActions", |statement| {
        let resources = statement["Resource"].as_array_mut().unwrap();
        resources.retain(|resource| !resource.as_str().unwrap().contains("capacity-reservation"));
    });
    let found = check(&set(&documents), &scope()).missing;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|missing| !missing.consequence.is_vital), "only some launches fail");
    assert_eq!(found[0].statement["Resource"], "arn:aws:ec2:us-west-2:*:capacity-reservation/*");
    documents = own();
    let denial = json!({"Sid": "Keep", "Effect": "Deny", "Action": "ec2:Terminate*", "Resource": "*"});
    documents.push(json!({"Version": "2012-10-17", "Statement": denial}));
    let found = check(&set(&documents), &scope()).missing;
    let [missing] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(missing.access, Access::Denied { statement: "Keep".to_owned() });
    assert!(missing.consequence.is_vital);
}

/// Roles differ by EC2NodeClass, and an EC2NodeClass may name its role without the path.
#[test]
fn check_needs_to_pass_the_role_of_each_class() {
    let mut documents = own();
    changed(&mut documents, "AllowPassingInstanceRole", |statement| {
        statement["Resource"] = json!("arn:aws:iam::123456789012:role/path/nodes");
    });
    let roles =
        |names: &[&str]| PolicyScope { node_roles: names.iter().map(|name| (*name).to_owned()).collect(), ..scope() };
    assert_eq!(check(&set(&documents), &roles(&["nodes"])).missing, []);
    let found = check(&set(&documents), &roles(&["nodes", "gpus"])).missing;
    let [missing] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(missing.statement["Resource"], "arn:aws:iam::123456789012:role/gpus");
}

#[test]
fn check_finds_tags_that_conditions_deny() {
    let keys = |more: &[&str]| {
        let own = [
            "kubernetes.io/cluster/kerf",
            "eks:eks-cluster-name",
            "karpenter.sh/nodepool",
            "karpenter.k8s.aws/ec2nodeclass",
        ];
        json!(own.iter().chain(more).collect::<Vec<_>>())
    };
    let mut documents = karpenter();
    for sid in ["AllowScopedEC2InstanceActionsWithTags", "AllowScopedResourceCreationTagging"] {
        changed(&mut documents, sid, |statement| {
            statement["Condition"]["ForAllValues:StringEquals"] =
                json!({"aws:TagKeys": keys(&["karpenter.sh/nodeclaim"])});
        });
    }
    let result = check(&set(&documents), &scope());
    assert_eq!(result.missing, []);
    let expected = [
        ("kerf.sh/launch-token", TaggingCall::Launch),
        ("kerf.sh/nodeclaim-uid", TaggingCall::Launch),
        ("kerf.sh/nodeclaim-uid", TaggingCall::CreateTags),
    ];
    assert_eq!(denied(&result), expected);
    documents = karpenter();
    changed(&mut documents, "AllowScopedResourceTagging", |statement| {
        statement["Condition"]["ForAllValues:StringLike"] = json!({"aws:TagKeys": "karpenter.sh/*"});
    });
    let result = check(&set(&documents), &scope());
    let expected = ["Name", "eks:eks-cluster-name", "kerf.sh/nodeclaim-uid"];
    assert_eq!(denied(&result), expected.map(|key| (key, TaggingCall::CreateTags)));
}

/// Policies with wildcards name no account, so the statements of the result name none.
#[test]
fn check_supports_policies_without_account() {
    let any = PolicyScope { account: ANY_ACCOUNT.to_owned(), ..scope() };
    let everything = json!({"Statement": {"Effect": "Allow", "NotAction": "iam:PassRole", "Resource": "arn:aws:*"}});
    let reads = json!({"Statement": {"Effect": "Allow", "NotAction": "iam:PassRole", "Resource": "*"}});
    let found = check(&set(&[everything, reads]), &any).missing;
    let [missing] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(missing.statement["Resource"], "arn:aws:iam::*:role/KarpenterNodeRole-kerf");
}
