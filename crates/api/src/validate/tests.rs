//! Rows of pools and what is wrong with them.

use serde_json::{Value, json};

use super::*;

fn faults(labels: &Value, spec: &Value) -> Vec<String> {
    let mut whole = json!({
        "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
        "requirements": [],
    });
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let template = json!({ "metadata": { "labels": labels }, "spec": whole });
    let pool = json!({ "metadata": { "name": "a" }, "spec": { "template": template } });
    node_pool(&serde_json::from_value(pool).unwrap())
}

/// One fault that says `expected`, or none where nothing is expected.
fn check(labels: &Value, spec: &Value, expected: &str) {
    let found = faults(labels, spec);
    match expected {
        "" => assert_eq!(found, Vec::<String>::new(), "{labels} {spec}"),
        part => {
            assert_eq!(found.len(), 1, "{labels} {spec}: {found:?}");
            assert!(found[0].contains(part), "{}", found[0]);
        }
    }
}

#[test]
fn labels() {
    let long = "x".repeat(64);
    let rows = [
        (json!({}), ""),
        (json!({ "team": "a", "example.com/team": "" }), ""),
        (json!({ "karpenter.sh/capacity-type": "spot" }), ""),
        (json!({ "karpenter.k8s.aws/instance-family": "m5" }), ""),
        (json!({ "karpenter.sh/nodepool": "a" }), "the pool sets it by itself"),
        (json!({ "kubernetes.io/hostname": "a" }), "is restricted"),
        (json!({ "karpenter.sh/other": "a" }), "is restricted"),
        (json!({ "sub.karpenter.sh/other": "a" }), "is restricted"),
        (json!({ "-team": "a" }), "not a qualified name"),
        (json!({ "a/b/c": "a" }), "not a qualified name"),
        (json!({ "Example.com/team": "a" }), "not a qualified name"),
        (json!({ long.clone(): "a" }), "not a qualified name"),
        (json!({ "team": "a b" }), "invalid value \"a b\""),
        (json!({ "team": long }), "invalid value"),
    ];
    for (labels, expected) in rows {
        check(&labels, &json!({}), expected);
    }
}

#[test]
fn taints() {
    let rows = [
        (json!({ "taints": [{ "key": "a", "value": "b", "effect": "NoSchedule" }] }), ""),
        (json!({ "taints": [{ "key": "a", "effect": "" }] }), ""),
        (json!({ "taints": [{ "key": "a", "effect": "NoSchedule" }, { "key": "a", "effect": "NoExecute" }] }), ""),
        (json!({ "taints": [{ "key": "", "effect": "NoSchedule" }] }), "has no key"),
        (json!({ "taints": [{ "key": "a b", "effect": "NoSchedule" }] }), "not a qualified name"),
        (json!({ "taints": [{ "key": "a", "value": "b c", "effect": "NoSchedule" }] }), "invalid value \"b c\""),
        (json!({ "taints": [{ "key": "a", "effect": "Never" }] }), "unknown effect \"Never\""),
        (
            json!({
                "taints": [{ "key": "a", "value": "1", "effect": "NoSchedule" }],
                "startupTaints": [{ "key": "a", "value": "2", "effect": "NoSchedule" }],
            }),
            "a:NoSchedule is there more than once",
        ),
    ];
    for (spec, expected) in rows {
        check(&json!({}), &spec, expected);
    }
}

#[test]
fn requirements() {
    let rows = [
        (json!({ "key": "a", "operator": "In", "values": ["b", "c"], "minValues": 2 }), ""),
        (json!({ "key": "a", "operator": "Exists" }), ""),
        (json!({ "key": "a", "operator": "NotIn" }), ""),
        (json!({ "key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["4"] }), ""),
        (json!({ "key": "beta.kubernetes.io/arch", "operator": "In", "values": ["amd64"] }), ""),
        (json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "free"] }), ""),
        (json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["free"] }), "only unknown values"),
        (
            json!({ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "free"], "minValues": 2 }),
            "1 valid values, fewer than its minValues of 2",
        ),
        (json!({ "key": "a", "operator": "In" }), "has no values"),
        (json!({ "key": "a", "operator": "In", "values": ["b", "b"], "minValues": 2 }), "fewer than its minValues"),
        (json!({ "key": "a", "operator": "Gte", "values": [] }), "exactly one value"),
        (json!({ "key": "a", "operator": "Lt", "values": ["x"] }), "exactly one value"),
        (json!({ "key": "a", "operator": "Lte", "values": ["1", "2"] }), "exactly one value"),
        (json!({ "key": "a", "operator": "In", "values": ["b c"] }), "invalid value \"b c\""),
        (json!({ "key": "a b", "operator": "Exists" }), "not a qualified name"),
        (json!({ "key": "karpenter.sh/nodepool", "operator": "Exists" }), "sets it by itself"),
        (json!({ "key": "kubernetes.io/hostname", "operator": "Exists" }), "is restricted"),
    ];
    for (requirement, expected) in rows {
        check(&json!({}), &json!({ "requirements": [requirement] }), expected);
    }
}
