//! Tests of the registration of instances whose partition EC2 selected.

use super::*;

const PARTITION: &str = label::PLACEMENT_GROUP_PARTITION;

/// Returns the NodeClaim of a launched instance with this label, and its fresh node.
fn launched_with(partition: Option<&str>, nodes: usize) -> NodeClaimView {
    let change = merged(&[launched(), json!({"metadata": {"labels": {PARTITION: partition}}})]);
    let fresh = |number: usize| {
        json!({
            "metadata": {"name": format!("node-{number}")},
            "spec": {"taints": [{"key": taint::UNREGISTERED, "effect": "NoExecute"}]},
        })
    };
    claim_view(&change, &(1..=nodes).map(fresh).collect::<Vec<_>>(), 300)
}

/// Rows: label of the NodeClaim, number of its nodes, and whether EC2 is called for the partition.
#[test]
fn awaits_partition_only_before_the_registration_of_an_unread_one() {
    let rows =
        [(Some(""), 1, true), (Some(""), 0, false), (Some(""), 2, false), (Some("3"), 1, false), (None, 1, false)];
    for (partition, nodes, expected) in rows {
        let view = launched_with(partition, nodes);
        assert_eq!(awaits_partition(&view), expected, "{partition:?}, {nodes} nodes");
    }
    let leaves = json!({"metadata": {"labels": {PARTITION: ""}, "deletionTimestamp": "2026-01-01T00:05:00Z"}});
    assert!(!awaits_partition(&claim_view(&merged(&[launched(), leaves]), &[json!({})], 300)));
}

#[test]
fn register_waits_until_the_partition_is_known() {
    let mut view = launched_with(Some(""), 1);
    let waits = decide(&view);
    let (state, why, _) = written(&waits.steps, condition::REGISTERED).unwrap();
    assert_eq!((state.as_str(), why.as_str()), ("Unknown", reason::PARTITION_NOT_FOUND));
    assert_eq!(words(&waits.steps), ["status of claim default-1"], "the node keeps the taint unregistered");
    assert_eq!(waits.after, Some(Duration::from_secs(2)));

    view.partition = Some(4);
    let labels = decide(&view);
    assert_eq!(words(&labels.steps), ["patch claim default-1"]);
    assert_eq!(body(&labels.steps)["metadata"]["labels"], json!({PARTITION: "4"}));

    let registers = decide(&launched_with(Some("4"), 1));
    assert_eq!(words(&registers.steps), ["patch node node-1", "status of claim default-1"]);
    assert_eq!(body(&registers.steps)["metadata"]["labels"][PARTITION], "4");
}
