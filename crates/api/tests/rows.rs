//! Tests that the types parse all objects that the API server accepts. Otherwise a valid object would be skipped as malformed.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::fmt::Debug;
use std::path::Path;

use api::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool};
use json_patch::merge;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn accepted(plural: &str) -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/crds/rows");
    let text = std::fs::read_to_string(folder.join(format!("{plural}.yaml"))).unwrap();
    let sheet: Value = serde_saphyr::from_str(&text).unwrap();
    let rows = sheet["rows"].as_array().unwrap().iter();
    rows.filter(|row| row["accepted"] == true)
        .map(|row| {
            let mut object = sheet["base"].clone();
            merge(&mut object, &row["patch"]);
            merge(&mut object, &json!({ "metadata": { "name": "a" } }));
            (row["name"].to_string(), object)
        })
        .collect()
}

/// Parses every accepted object, and asserts that a serialized object parses to the same value.
fn check<K: Serialize + DeserializeOwned + PartialEq + Debug>(plural: &str) {
    let rows = accepted(plural);
    assert!(rows.len() > 10, "only {} rows of {plural}", rows.len());
    for (name, object) in rows {
        let read = serde_json::from_value::<K>(object);
        assert!(read.is_ok(), "{name}: {read:?}");
        let read = read.unwrap();
        let again: K = serde_json::from_value(serde_json::to_value(&read).unwrap()).unwrap();
        assert_eq!(again, read, "{name}");
    }
}

#[test]
fn node_pool_reads_every_accepted_row() {
    check::<NodePool>("nodepools");
}

#[test]
fn node_claim_reads_every_accepted_row() {
    check::<NodeClaim>("nodeclaims");
}

#[test]
fn ec2_node_class_reads_every_accepted_row() {
    check::<EC2NodeClass>("ec2nodeclasses");
}

#[test]
fn node_overlay_reads_every_accepted_row() {
    check::<NodeOverlay>("nodeoverlays");
}

#[test]
fn capacity_buffer_reads_every_accepted_row() {
    check::<CapacityBuffer>("capacitybuffers");
}

/// Runtime validation must accept all objects that the schema accepts.
#[test]
fn node_pool_validation_accepts_every_accepted_row() {
    for (name, object) in accepted("nodepools") {
        let pool: NodePool = serde_json::from_value(object).unwrap();
        let faults = api::validate::node_pool(&pool);
        assert_eq!(faults, [], "{name}");
        assert!(api::hash::node_pool(&pool).is_ok(), "{name}");
    }
}

#[test]
fn node_overlay_validation_accepts_every_accepted_row() {
    for (name, object) in accepted("nodeoverlays") {
        let overlay: NodeOverlay = serde_json::from_value(object).unwrap();
        assert_eq!(api::validate::node_overlay(&overlay), [], "{name}");
    }
}
