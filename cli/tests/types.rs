//! `kerf types -o json` from a clean clone: its format, and its data for forty types compared with Karpenter's published table.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::kerf;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Entry {
    name: String,
    labels: BTreeMap<String, String>,
    capacity: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
    attach_limits: BTreeMap<String, i64>,
    offerings: Vec<Sold>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Sold {
    zone: String,
    capacity_type: String,
    price: Option<f64>,
    available: bool,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Example {
    labels: BTreeMap<String, String>,
    resources: BTreeMap<String, String>,
}

fn listed(arguments: &[&str]) -> Vec<Entry> {
    let answer = kerf(Path::new(env!("CARGO_MANIFEST_DIR")), arguments, "", &[]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    serde_json::from_str(&answer.stdout).unwrap()
}

fn examples() -> BTreeMap<String, Example> {
    serde_json::from_str(include_str!("../../crates/cloud/tests/published-types.json")).unwrap()
}

/// Types with a value that differs between EC2's response and the older table; `crates/cloud/tests/types.rs` lists each with
/// its reason.
const OTHER_FACTS: [&str; 6] =
    ["c9g.16xlarge", "i7i.2xlarge", "i8ge.48xlarge", "m8ib.metal-96xl", "m9g.16xlarge", "m9gd.metal-48xl"];

#[test]
fn types_match_the_published_table() {
    let all: BTreeMap<String, Entry> =
        listed(&["types", "-o", "json"]).into_iter().map(|entry| (entry.name.clone(), entry)).collect();
    assert!(all.len() > 1300, "{}", all.len());
    let mut others = BTreeSet::new();
    for (name, example) in examples() {
        let entry = &all[&name];
        let amount = |resource: &str, text: &str| match resource {
            // The table rounds memory down to MiB, and has the disk without its file system.
            "memory" => api::quantity::amount(resource, text).unwrap() >> 20,
            "ephemeral-storage" => (api::quantity::amount(resource, text).unwrap() + (1 << 29)) >> 30,
            _ => api::quantity::amount(resource, text).unwrap(),
        };
        let amounts = |list: &BTreeMap<String, String>| -> BTreeMap<String, i64> {
            list.iter().map(|(resource, text)| (resource.clone(), amount(resource, text))).collect()
        };
        let mut labels = entry.labels.clone();
        assert_eq!(labels.remove("topology.kubernetes.io/region").as_deref(), Some("us-east-1"));
        assert_eq!(labels.remove("karpenter.k8s.aws/instance-tenancy").as_deref(), Some("default"));
        if labels != example.labels || amounts(&entry.allocatable) != amounts(&example.resources) {
            others.insert(name);
        }
    }
    assert_eq!(others, OTHER_FACTS.map(str::to_owned).into());
}

#[test]
fn offerings_have_a_price_or_a_reason() {
    let mut unpriced = 0;
    for entry in listed(&["types", "-o", "json", "--region", "eu-west-2"]) {
        assert!(entry.capacity.keys().eq(entry.allocatable.keys()), "{}", entry.name);
        assert!(entry.attach_limits["ebs.csi.aws.com"] > 0, "{}", entry.name);
        for sold in &entry.offerings {
            assert!(sold.zone.starts_with("eu-west-2") && !sold.capacity_type.is_empty());
            assert_eq!(sold.available, sold.reason.is_none(), "{}", entry.name);
            assert!(sold.price.is_some_and(|price| price > 0.0) || sold.reason.is_some(), "{}", entry.name);
            unpriced += usize::from(sold.price.is_none());
        }
    }
    assert!(unpriced > 0, "types without a price are in the list too");
}

/// Rows: a region, and what the notes say about its types and prices.
#[test]
fn types_are_listed_for_every_region() {
    let rows = [
        ("eu-central-1", "taken from us-east-1"),
        ("us-gov-west-1", "assuming the instance types of its price list"),
        ("cn-northwest-1", "in yuan"),
        ("mx-central-1", "assuming the instance types of me-south-1"),
    ];
    for (region, note) in rows {
        let answer = kerf(Path::new("."), &["types", "-o", "json", "--region", region], "", &[]);
        assert!(answer.code == 0 && answer.stderr.contains(note), "{region}: {}", answer.stderr);
        let entries: Vec<Entry> = serde_json::from_str(&answer.stdout).unwrap();
        let sold: Vec<&Sold> = entries.iter().flat_map(|entry| &entry.offerings).collect();
        assert!(sold.len() > 500 && sold.iter().all(|sold| sold.zone.starts_with(region)), "{region}: {}", sold.len());
    }
    let unknown = kerf(Path::new("."), &["types", "--region", "us-est-1"], "", &[]);
    assert!(unknown.code == 2 && unknown.stderr.contains("not a region of AWS"), "{}", unknown.stderr);
}

#[test]
fn types_tables_fit_80_columns() {
    for arguments in [&["types"][..], &["types", "--family", "Windows2019"], &["types", "u7i-12tb.224xlarge"]] {
        let answer = kerf(Path::new(env!("CARGO_MANIFEST_DIR")), arguments, "", &[]);
        let long: Vec<&str> = answer.stdout.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(long.is_empty() && answer.code == 0, "{long:?}");
    }
}
