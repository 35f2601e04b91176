//! `--account` and `kerf commitments`: the market and the commitments of an account come from the AWS CLI, of which a script stands in
//! the PATH.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::{Answer, kerf};
use serde_json::Value;
use tempfile::TempDir;

/// Region without embedded offerings or prices.
const REGION: &str = "mx-central-1";

/// Runs `kerf types --account` with `script` as `aws`; returns the answer, and the calls of the script.
fn types(script: &str, arguments: &[&str]) -> (Answer, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let answer = run(&folder, script, &[&["types", "--account", "-o", "json"], arguments].concat());
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap_or_default();
    (answer, calls.lines().map(str::to_owned).collect())
}

fn run(folder: &TempDir, script: &str, arguments: &[&str]) -> Answer {
    let program = folder.path().join("aws");
    let calls = folder.path().join("calls");
    fs::write(&program, format!("#!/bin/sh\necho \"$*\" >>{}\n{script}\n", calls.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    kerf(Path::new(env!("CARGO_MANIFEST_DIR")), arguments, "", &[("PATH", &path)])
}

/// Answers as AWS does: two zones, one type with a spot price in one of them, and one type without embedded data.
const MARKET: &str = r#"case $2 in
describe-instance-type-offerings) echo '{"InstanceTypeOfferings": [
    {"InstanceType": "m7g.large", "LocationType": "availability-zone", "Location": "mx-central-1b"},
    {"InstanceType": "m7g.large", "LocationType": "availability-zone", "Location": "mx-central-1c"},
    {"InstanceType": "z99.large", "LocationType": "availability-zone", "Location": "mx-central-1c"}]}' ;;
describe-spot-price-history) echo '{"SpotPriceHistory": [
    {"AvailabilityZone": "mx-central-1b", "InstanceType": "m7g.large", "ProductDescription": "Linux/UNIX", "SpotPrice": "0.031", "Timestamp": "2026-01-01T00:00:00Z"}]}' ;;
esac"#;

#[test]
fn types_have_the_offerings_and_spot_prices_of_the_account() {
    let (answer, calls) = types(MARKET, &["--region", REGION, "m7g.large"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let listed: Value = serde_json::from_str(&answer.stdout).unwrap();
    let offerings = listed[0]["offerings"].as_array().unwrap();
    let sold = |zone: &str, capacity_type: &str| {
        offerings.iter().find(|one| one["zone"] == zone && one["capacityType"] == capacity_type)
    };
    assert_eq!(sold("mx-central-1b", "spot").unwrap()["price"], 0.031);
    assert!(sold("mx-central-1a", "on-demand").is_none(), "the account has no such zone: {offerings:?}");
    assert!(sold("mx-central-1c", "on-demand").is_some());
    assert_ne!(sold("mx-central-1c", "spot").map_or(&Value::Bool(false), |one| &one["available"]), &Value::Bool(true));
    assert!(answer.stderr.contains("this version does not know are left out: z99.large"), "{}", answer.stderr);
    assert!(!answer.stderr.contains("assuming spot prices"), "{}", answer.stderr);
    assert!(!answer.stderr.contains("offerings are unknown"), "{}", answer.stderr);
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(calls.iter().all(|call| call.contains("--region mx-central-1 --output json")), "{calls:?}");
}

#[test]
fn plan_reads_the_history_at_the_time_of_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let now = "2026-03-01T12:00:00Z";
    let arguments = ["plan", "tests/cases/good", "--account", "--region", REGION, "--now", now];
    let answer = run(&folder, MARKET, &arguments);
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    assert!(calls.contains(&format!("--start-time {now} --end-time {now}")), "{calls}{}", answer.stderr);
}

#[test]
fn failures_of_the_aws_cli_name_the_call_and_the_cure() {
    let expired = "echo >&2; echo 'Your session has expired.' >&2; exit 255";
    let (answer, _) = types(expired, &["--region", REGION]);
    let expected = "--account: `aws ec2 describe-instance-type-offerings --region mx-central-1` failed: Your session has expired.; \
                    check your credentials with `aws sts get-caller-identity`";
    assert!(answer.stderr.contains(expected), "{}", answer.stderr);
    assert_ne!(answer.code, 0);
    let (answer, _) = types("echo no", &["--region", REGION]);
    assert!(answer.stderr.contains("--account: the AWS CLI printed no offerings"), "{}", answer.stderr);
    let answer = kerf(Path::new("."), &["types", "--account"], "", &[("PATH", "/nowhere")]);
    assert!(answer.stderr.contains("--account: the AWS CLI cannot be run"), "{}", answer.stderr);
}

/// Answers with the commitments of an account: usable ones, and others.
const COMMITMENTS: &str = r#"case $2 in
describe-reserved-instances) echo '{"ReservedInstances": [
    {"ReservedInstancesId": "1a", "InstanceType": "m6i.xlarge", "InstanceCount": 2, "State": "active", "Scope": "Region",
     "ProductDescription": "Linux/UNIX", "InstanceTenancy": "default", "End": "2027-05-01T00:00:00+00:00"},
    {"ReservedInstancesId": "2b", "InstanceType": "c5.large", "InstanceCount": 4, "State": "active", "Scope": "Availability Zone",
     "AvailabilityZone": "us-east-1a", "ProductDescription": "Linux/UNIX (Amazon VPC)", "InstanceTenancy": "default"},
    {"ReservedInstancesId": "3c", "InstanceType": "m5.large", "InstanceCount": 1, "State": "active", "ProductDescription": "Windows"},
    {"ReservedInstancesId": "4d", "InstanceType": "m5.large", "InstanceCount": 1, "State": "retired", "ProductDescription": "Linux/UNIX"},
    {"ReservedInstancesId": "5e", "InstanceType": "m5.large", "InstanceCount": 1, "State": "active", "ProductDescription": "Linux/UNIX",
     "InstanceTenancy": "dedicated"}]}' ;;
describe-savings-plans) echo '{"savingsPlans": [
    {"savingsPlanId": "aa", "state": "active", "savingsPlanType": "Compute", "commitment": "2.00000000", "currency": "USD",
     "end": "2028-11-01T00:00:00.000Z"},
    {"savingsPlanId": "dd", "state": "active", "savingsPlanType": "Compute", "commitment": "1.0", "currency": "USD"},
    {"savingsPlanId": "bb", "state": "active", "savingsPlanType": "EC2Instance", "commitment": "1.0", "region": "eu-west-1",
     "ec2InstanceFamily": "m5"},
    {"savingsPlanId": "cc", "state": "active", "savingsPlanType": "SageMaker", "commitment": "1.0"}]}' ;;
describe-savings-plan-rates) [ "$4" = dd ] && echo '{"savingsPlanId": "dd", "searchResults": []}' ||
    echo '{"savingsPlanId": "aa", "searchResults": [
    {"rate": "0.06400000", "currency": "USD", "unit": "Hrs", "productType": "EC2", "usageType": "BoxUsage:m6i.large",
     "properties": [{"name": "region", "value": "us-east-1"}, {"name": "instanceType", "value": "m6i.large"}]},
    {"rate": "0.02", "unit": "Hrs", "productType": "Fargate", "usageType": "Fargate-vCPU-Hours", "properties": []}]}' ;;
esac"#;

#[test]
fn commitments_are_manifests_that_plan_reads() {
    let folder = tempfile::tempdir().unwrap();
    let answer = run(&folder, COMMITMENTS, &["commitments"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let names: Vec<&str> = answer.stdout.lines().filter_map(|line| line.trim().strip_prefix("name: ")).collect();
    assert_eq!(names, ["reserved-1a", "reserved-2b", "savings-plan-aa"]);
    for field in
        ["costPerHour: \"2.00000000\"", "m6i.large: \"0.064\"", "zone: us-east-1a", "endTime: \"2028-11-01T00:00:00Z\""]
    {
        let unquoted = field.replace('"', "");
        assert!(answer.stdout.replace('"', "").contains(&unquoted), "{field} in {}", answer.stdout);
    }
    let notes = [
        "Reserved Instances 3c are for Windows, not for Linux: left out",
        "Reserved Instances 5e are for dedicated tenancy: left out",
        "Savings Plan bb is for region eu-west-1: left out",
        "savings-plan-dd has no rate for Linux instances in us-east-1: left out",
        "Savings Plan cc is for SageMaker, not for EC2: left out",
    ];
    assert!(notes.iter().all(|note| answer.stderr.contains(note)), "{}", answer.stderr);
    let file = folder.path().join("commitments.yaml");
    fs::write(&file, &answer.stdout).unwrap();
    let path = file.display().to_string();
    let planned = run(&folder, COMMITMENTS, &["plan", "tests/cases/good", &path, "-o", "json"]);
    let report: Value = serde_json::from_str(&planned.stdout).unwrap();
    assert_eq!(report["commitments"].as_array().unwrap().len(), 3, "{}", planned.stderr);
}

#[test]
fn commitments_of_an_account_without_any_hint_at_the_organization() {
    let folder = tempfile::tempdir().unwrap();
    let none = r#"case $2 in
describe-reserved-instances) echo '{"ReservedInstances": []}' ;;
*) echo '{"savingsPlans": []}' ;;
esac"#;
    let answer = run(&folder, none, &["commitments", "--region", "eu-west-1"]);
    assert_eq!((answer.code, answer.stdout.trim()), (0, ""));
    assert!(answer.stderr.contains("often in its management account"), "{}", answer.stderr);
    let denied = run(&folder, "echo 'An error occurred (AccessDenied)' >&2; exit 254", &["commitments"]);
    assert!(
        denied.code != 0 && denied.stderr.contains("kerf commitments: `aws ec2 describe-reserved-instances"),
        "{}",
        denied.stderr
    );
}
