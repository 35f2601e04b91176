//! `--account`: offerings and spot prices come from the AWS CLI, of which a script stands in the PATH.
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
