//! Tests of the labels that a node changes on its Node.

use super::*;

const TYPE: &str = label::INSTANCE_TYPE;

/// Returns the decision about a NodeClaim in zone a, whose Node has these labels.
fn decide_with(claim: &Value, labels: &Value) -> NodeClaimDecision {
    let launched = json!({"metadata": {"labels": {label::ZONE: "us-west-2a", TYPE: "m5.large", "team": "red"}}});
    let mut view = claim_view(&merged(&[claim.clone(), launched]), &[], 60);
    view.nodes = vec![node(&merged(&[
        json!({"metadata": {"labels": {label::NODEPOOL: "default"}}}),
        json!({"metadata": {"labels": labels}}),
    ]))];
    decide(&view)
}

#[test]
fn decide_restores_labels_that_the_node_changed() {
    let rows = [
        (json!({label::ZONE: "us-west-2a", TYPE: "m5.large", "team": "blue", "other": "1"}), json!(null)),
        (json!({label::ZONE: "moon-1a", TYPE: "m5.large"}), json!({label::ZONE: "us-west-2a"})),
        (json!({label::ZONE: "", TYPE: "u-24tb1.112xlarge"}), json!({label::ZONE: "us-west-2a", TYPE: "m5.large"})),
        (json!({label::ZONE: "us-west-2a"}), json!({TYPE: "m5.large"})),
    ];
    for (labels, restored) in rows {
        let steps = decide_with(&registered("True"), &labels).steps;
        let patched = steps.iter().find_map(|step| match step {
            Operation::Patch(Target::Node(_), patch) => Some(patch["metadata"]["labels"].clone()),
            _ => None,
        });
        let own = patched.unwrap_or_default();
        let known = |key: &str| own.get(key).cloned().unwrap_or_default();
        assert_eq!([known(label::ZONE), known(TYPE)], [label::ZONE, TYPE].map(|key| restored[key].clone()), "{labels}");
        assert_eq!(own.get("team"), None, "a label of the user");
        assert_eq!(words(&steps).contains(&"event LabelsRestored".to_owned()), !restored.is_null(), "{labels}");
    }
}

#[test]
fn decide_restores_labels_while_the_node_is_removed() {
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}});
    let steps = decide_with(&merged(&[registered("True"), deleted]), &json!({label::ZONE: "moon-1a"})).steps;
    assert!(words(&steps).contains(&"event LabelsRestored".to_owned()), "{:?}", words(&steps));
}

#[test]
fn decide_restores_no_labels_before_registration() {
    let steps = decide_with(&launched(), &json!({label::ZONE: "moon-1a"})).steps;
    assert!(!words(&steps).contains(&"event LabelsRestored".to_owned()), "registration writes the labels");
}
