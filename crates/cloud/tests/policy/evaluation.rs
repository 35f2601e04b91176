//! Tests of the evaluation of policy documents, one row per rule of IAM.

use cloud::Tags;
use cloud::policy::evaluation::{Access, AccessRequest, PolicySet};
use serde_json::{Value, json};

const INSTANCE: &str = "arn:aws:ec2:us-west-2:123456789012:instance/i-1";

fn policies(statements: Value) -> PolicySet {
    let mut policies = PolicySet::default();
    policies.add(&json!({"Version": "2012-10-17", "Statement": statements})).unwrap();
    policies
}

fn allow(changes: Value) -> Value {
    let mut statement = json!({"Effect": "Allow", "Action": "ec2:CreateTags", "Resource": "*"});
    for (key, value) in changes.as_object().unwrap() {
        statement[key] = value.clone();
    }
    statement
}

fn request() -> AccessRequest {
    AccessRequest::new("ec2:CreateTags", INSTANCE)
}

fn tags(keys: &[&str]) -> Tags {
    keys.iter().map(|key| ((*key).to_owned(), "a".to_owned())).collect()
}

#[test]
fn evaluate_matches_actions_and_resources_with_wildcards() {
    let rows = [
        (json!({"Action": "*"}), true),
        (json!({"Action": "ec2:*"}), true),
        (json!({"Action": ["s3:GetObject", "EC2:createtags"]}), true),
        (json!({"Action": "ec2:Create?ags"}), true),
        (json!({"Action": "ec2:Create"}), false),
        (json!({"Action": "ec2:*Template"}), false),
        (json!({"Resource": "arn:aws:ec2:*:*:instance/*"}), true),
        (json!({"Resource": "arn:aws:ec2:us-west-2:123456789012:instance/i-?"}), true),
        (json!({"Resource": "arn:aws:ec2:us-west-2:123456789012:Instance/*"}), false),
        (json!({"Resource": "arn:aws:ec2:eu-west-2:*:instance/*"}), false),
        (json!({"Resource": ["arn:aws:ec2:*:*:volume/*", "arn:aws:ec2:*:*:instance/i-1"]}), true),
        (json!({"Resource": "arn:aws:ec2:*:*:instance/i-${*}"}), false),
    ];
    for (change, allowed) in rows {
        let access = policies(json!([allow(change.clone())])).evaluate(&request());
        assert_eq!(access == Access::Allowed, allowed, "{change}: {access:?}");
    }
}

#[test]
fn evaluate_inverts_not_action_and_not_resource() {
    let rows = [
        (json!({"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}), true),
        (json!({"Effect": "Allow", "NotAction": ["ec2:*", "iam:*"], "Resource": "*"}), false),
        (json!({"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:ec2:*:*:volume/*"}), true),
        (json!({"Effect": "Allow", "Action": "*", "NotResource": "*:instance/*"}), false),
    ];
    for (statement, allowed) in rows {
        let access = policies(statement.clone()).evaluate(&request());
        assert_eq!(access == Access::Allowed, allowed, "{statement}: {access:?}");
    }
}

#[test]
fn evaluate_lets_a_denial_take_precedence() {
    let denial = json!({"Sid": "Never", "Effect": "Deny", "Action": "ec2:CreateTags", "Resource": "*"});
    let both = [json!([allow(json!({})), denial.clone()]), json!([denial, allow(json!({}))])];
    for statements in both {
        assert_eq!(policies(statements).evaluate(&request()), Access::Denied { statement: "Never".to_owned() });
    }
    assert_eq!(PolicySet::default().evaluate(&request()), Access::NotAllowed);
}

/// Rows: a condition block, tags of the request, and whether the condition holds.
#[test]
fn evaluate_respects_operators_and_quantifiers() {
    let key = "aws:RequestTag/team";
    let rows: [(Value, &[&str], bool); 32] = [
        (json!({"StringEquals": {key: "a"}}), &["team"], true),
        (json!({"stringequals": {"AWS:requesttag/Team": "a"}}), &["team"], true),
        (json!({"StringEquals": {key: ["b", "a"]}}), &["team"], true),
        (json!({"StringEquals": {key: "A"}}), &["team"], false),
        (json!({"StringEqualsIgnoreCase": {key: "A"}}), &["team"], true),
        (json!({"StringEquals": {key: "a"}}), &[], false),
        (json!({"StringEqualsIfExists": {key: "b"}}), &[], true),
        (json!({"StringEqualsIfExists": {key: "b"}}), &["team"], false),
        (json!({"StringNotEquals": {key: "b"}}), &["team"], true),
        (json!({"StringNotEquals": {key: ["a", "b"]}}), &["team"], false),
        (json!({"StringNotEquals": {key: "a"}}), &[], true),
        (json!({"StringLike": {key: "*"}}), &["team"], true),
        (json!({"StringLike": {key: "*"}}), &[], false),
        (json!({"StringLike": {key: "b*"}}), &["team"], false),
        (json!({"StringNotLike": {key: "b*"}}), &["team"], true),
        (json!({"Null": {key: "true"}}), &[], true),
        (json!({"Null": {key: true}}), &["team"], false),
        (json!({"Null": {key: "false"}}), &["team"], true),
        (json!({"Null": {key: "false"}}), &[], false),
        (json!({"ForAllValues:StringEquals": {"aws:TagKeys": ["Name", "team"]}}), &["team"], true),
        (json!({"ForAllValues:StringEquals": {"aws:TagKeys": ["Name", "team"]}}), &["team", "size"], false),
        (json!({"ForAllValues:StringEquals": {"aws:TagKeys": "team"}}), &[], true),
        (json!({"ForAllValues:StringLike": {"aws:TagKeys": "te*"}}), &["team", "tea"], true),
        (json!({"ForAllValues:StringNotEquals": {"aws:TagKeys": "Name"}}), &["team"], true),
        (json!({"ForAllValues:StringNotEquals": {"aws:TagKeys": "Name"}}), &["team", "Name"], false),
        (json!({"ForAnyValue:StringEquals": {"aws:TagKeys": "team"}}), &["team", "size"], true),
        (json!({"ForAnyValue:StringEquals": {"aws:TagKeys": "team"}}), &["size"], false),
        (json!({"ForAnyValue:StringEquals": {"aws:TagKeys": "team"}}), &[], false),
        (json!({"Bool": {"aws:SecureTransport": "true"}}), &[], true),
        (json!({"Bool": {"aws:SecureTransport": false}}), &[], false),
        (json!({"StringEquals": {key: "a"}, "StringLike": {"aws:RequestTag/size": "*"}}), &["team"], false),
        (json!({"StringEquals": {"ec2:CreateAction": "CreateFleet"}}), &[], false),
    ];
    for (condition, keys, holds) in rows {
        let access =
            policies(allow(json!({"Condition": condition}))).evaluate(&request().with_request_tags(&tags(keys)));
        assert_eq!(access == Access::Allowed, holds, "{condition} with {keys:?}: {access:?}");
        assert!(!matches!(access, Access::Undecided { .. }), "{condition}: {access:?}");
    }
}

#[test]
fn evaluate_matches_arns_part_by_part() {
    let rows = [
        ("ArnLike", "arn:aws:sns:*:*:topic", true),
        ("ArnEquals", "arn:aws:sns:us-*:123456789012:t*", true),
        ("ArnLike", "arn:aws:sns:*", false),
        ("ArnNotLike", "arn:aws:sns:*:*:other", true),
        ("ArnNotEquals", "arn:aws:sns:*:*:topic", false),
    ];
    for (operator, pattern, holds) in rows {
        let request = request().with("aws:SourceArn", "arn:aws:sns:us-west-2:123456789012:topic");
        let condition = json!({operator: {"aws:SourceArn": pattern}});
        let access = policies(allow(json!({"Condition": condition}))).evaluate(&request);
        assert_eq!(access == Access::Allowed, holds, "{operator} {pattern}: {access:?}");
    }
}

/// A condition that is not evaluated is neither met nor ignored, and each one is listed.
#[test]
fn evaluate_returns_undecided_for_unknown_conditions() {
    let rows = [
        (json!({"Condition": {"NumericLessThan": {"ec2:VolumeSize": "100"}}}), "NumericLessThan"),
        (json!({"Condition": {"StringEquals": {"aws:PrincipalTag/team": "a"}}}), "aws:PrincipalTag/team"),
        (json!({"Condition": {"StringEquals": {"aws:RequestTag/team": "${aws:username}"}}}), "${aws:username}"),
        (json!({"Resource": "arn:${Partition}:ec2:*"}), "${Partition}"),
    ];
    for (change, named) in rows {
        let with_tag = request().with_request_tags(&tags(&["team"]));
        let statement = allow(change.clone());
        let alone = policies(json!([statement.clone()]));
        let Access::Undecided { statement: name, condition } = alone.evaluate(&with_tag) else { panic!("{change}") };
        assert!(name == "1" && condition.contains(named), "{change}: {condition}");
        let listed = alone.unevaluated();
        let is_listed = named == "aws:PrincipalTag/team" || listed.iter().any(|line| line.contains(named));
        assert!(is_listed, "{change}: {listed:?}");
        assert_eq!(policies(json!([statement.clone(), allow(json!({}))])).evaluate(&with_tag), Access::Allowed);
        let mut denial = statement.clone();
        denial["Effect"] = json!("Deny");
        let access = policies(json!([allow(json!({})), denial])).evaluate(&with_tag);
        assert!(matches!(access, Access::Undecided { .. }), "{change}: a denial that may hold, {access:?}");
        let mut elsewhere = statement;
        elsewhere["Action"] = json!("s3:*");
        assert_eq!(policies(elsewhere).evaluate(&with_tag), Access::NotAllowed, "{change}");
    }
}

#[test]
fn policy_set_rejects_invalid_documents() {
    let rows = [
        (json!({}), "Statement[0]: "),
        (json!({"Statement": [{"Effect": "allow"}]}), "Statement[0].Effect: "),
        (json!({"Statement": {"Effect": "Allow", "Resource": "*"}}), "Statement[0].Action: "),
        (json!({"Statement": [allow(json!({})), allow(json!({"NotResource": "*"}))]}), "Statement[1].Resource: "),
        (json!({"Statement": allow(json!({"Action": {"a": 1}}))}), "Statement[0].Action: "),
        (json!({"Statement": allow(json!({"Principal": "*"}))}), "Statement[0].Principal: "),
        (json!({"Statement": allow(json!({"Condition": {"StringEquals": "a"}}))}), "Condition.StringEquals: "),
    ];
    for (document, expected) in rows {
        let error = PolicySet::default().add(&document).unwrap_err().to_string();
        assert!(error.contains(expected), "{document}: {error}");
    }
}

/// Rows: statements of the role, of its permissions boundary and of an organization, and the result.
#[test]
fn evaluate_needs_the_permission_of_each_limit() {
    let all = || json!([allow(json!({"Action": "*"}))]);
    let none = || json!([allow(json!({"Action": "s3:*"}))]);
    let deny = || json!([allow(json!({"Action": "*"})), {"Sid": "Frozen", "Effect": "Deny", "Action": "ec2:*", "Resource": "*"}]);
    let on_weekdays = || json!([allow(json!({"Condition": {"DateGreaterThan": {"aws:CurrentTime": "2030-01-01"}}}))]);
    let limited = |limit: &str| Access::Limited { limit: limit.to_owned() };
    let denied = |statement: &str| Access::Denied { statement: statement.to_owned() };
    let rows = [
        ([all(), all(), all()], Access::Allowed),
        ([none(), all(), all()], Access::NotAllowed),
        ([all(), none(), all()], limited("boundary.json")),
        ([all(), all(), none()], limited("scp.json")),
        ([none(), none(), all()], Access::NotAllowed),
        ([none(), all(), deny()], denied("Frozen of scp.json")),
        ([deny(), none(), all()], denied("Frozen")),
    ];
    let limits = |[role, boundary, organization]: [Value; 3]| {
        let mut set = policies(role);
        set.add_limit("boundary.json", policies(boundary));
        set.add_limit("scp.json", policies(organization));
        set
    };
    for (statements, expected) in rows {
        assert_eq!(limits(statements.clone()).evaluate(&request()), expected, "{statements:?}");
    }
    let undecided = limits([all(), on_weekdays(), all()]);
    let Access::Undecided { statement, .. } = undecided.evaluate(&request()) else { panic!("{undecided:?}") };
    assert!(undecided.unevaluated()[0].starts_with(&format!("statement {statement}: ")), "{statement}");
    assert!(statement.ends_with(" of boundary.json"), "{statement}");
}
