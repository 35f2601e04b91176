//! Table tests of runtime validation.

use serde_json::{Value, json};

use super::*;

fn faults(labels: &Value, spec: &Value) -> Vec<Fault> {
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

fn check(labels: &Value, spec: &Value, expected: &str) {
    compare(&faults(labels, spec), expected, &json!([labels, spec]));
}

/// Asserts one fault that contains `expected`, or none if `expected` is empty.
fn compare(found: &[Fault], expected: &str, of: &Value) {
    match expected {
        "" => assert_eq!(found, [], "{of}"),
        part => {
            assert_eq!(found.len(), 1, "{of}: {found:?}");
            assert!(found[0].to_string().contains(part), "{}", found[0]);
        }
    }
}

#[test]
fn node_pool_validation_checks_labels() {
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
fn node_pool_validation_checks_taints() {
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
fn node_pool_validation_checks_requirements() {
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

#[test]
fn node_pool_fault_names_its_field() {
    let rows = [
        (
            json!({ "requirements": [{ "key": "a", "operator": "Exists" }, { "key": "b", "operator": "In" }] }),
            "spec.template.spec.requirements[1].values",
        ),
        (
            json!({ "requirements": [{ "key": "a", "operator": "In", "values": ["b"], "minValues": 2 }] }),
            "spec.template.spec.requirements[0].minValues",
        ),
        (
            json!({ "startupTaints": [{ "key": "", "effect": "NoSchedule" }] }),
            "spec.template.spec.startupTaints[0].key",
        ),
    ];
    for (spec, expected) in rows {
        let paths: Vec<String> = faults(&json!({}), &spec).into_iter().map(|fault| fault.path).collect();
        assert_eq!(paths, [expected], "{spec}");
    }
    assert_eq!(faults(&json!({ "team": "a b" }), &json!({}))[0].path, "spec.template.metadata.labels[team]");
}

#[test]
fn node_pool_validation_checks_kerf_annotations() {
    let rows = [
        (json!({ "kerf.sh/node-fee": "0.01", "kerf.sh/performance-factors": "family=m8g:1.25" }), ""),
        (json!({ "kerf.sh/node-fee": "free" }), "annotation \"kerf.sh/node-fee\": \"free\" is not a price"),
        (json!({ "kerf.sh/preference-premium": "unlimited" }), ""),
        (
            json!({ "kerf.sh/preference-premium": "10" }),
            "annotation \"kerf.sh/preference-premium\": \"10\" is not a premium: write a whole percentage",
        ),
        (json!({ "kerf.sh/max-cost-per-hour": "12.50" }), ""),
        (
            json!({ "kerf.sh/max-cost-per-hour": "$12" }),
            "annotation \"kerf.sh/max-cost-per-hour\": \"$12\" is not a price",
        ),
        (json!({ "kerf.sh/performance-factors": "m8g:2" }), "\"m8g:2\" is not LABEL=VALUE:FACTOR"),
        (json!({ "kerf.sh/performance-factors": "family=m8g:x" }), "in \"family=m8g:x\": \"x\" is not a factor"),
    ];
    for (annotations, expected) in rows {
        let class = json!({ "group": "g", "kind": "k", "name": "n" });
        let template = json!({ "spec": { "nodeClassRef": class, "requirements": [] } });
        let pool = json!({ "metadata": { "annotations": annotations }, "spec": { "template": template } });
        compare(&node_pool(&serde_json::from_value(pool).unwrap()), expected, &annotations);
    }
}

#[test]
fn node_pool_validation_names_the_limit_that_is_no_price() {
    for (limit, expected) in [("12.50", ""), ("12k", "limit \"kerf.sh/max-cost-per-hour\": \"12k\" is not a price")] {
        let class = json!({ "group": "g", "kind": "k", "name": "n" });
        let template = json!({ "spec": { "nodeClassRef": class, "requirements": [] } });
        let limits = json!({ "kerf.sh/max-cost-per-hour": limit });
        let pool = json!({ "metadata": {}, "spec": { "template": template, "limits": limits } });
        compare(&node_pool(&serde_json::from_value(pool).unwrap()), expected, &limits);
    }
}

#[test]
fn node_overlay_validation_reports_faults() {
    let not_in = json!([{ "key": "a", "operator": "NotIn" }]);
    let rows = [
        (json!({}), ""),
        (json!({ "price": "0.5", "capacity": { "example.com/fpga": "2" }, "weight": 3 }), ""),
        (json!({ "priceAdjustment": "-10%" }), ""),
        (json!({ "requirements": [{ "key": "karpenter.sh/nodepool", "operator": "In", "values": ["a"] }] }), ""),
        (json!({ "requirements": [{ "key": "kubernetes.io/hostname", "operator": "Exists" }] }), "is restricted"),
        (json!({ "requirements": [{ "key": "karpenter.sh/other", "operator": "Exists" }] }), "is restricted"),
        (json!({ "requirements": not_in }), "with NotIn has no values"),
        (json!({ "requirements": [{ "key": "a", "operator": "Gt", "values": ["x"] }] }), "exactly one value"),
        (json!({ "price": "1", "priceAdjustment": "+1" }), "exclude each other"),
        (json!({ "price": "cheap" }), "in spec.price: \"cheap\" is not a price"),
        (json!({ "priceAdjustment": "10%" }), "in spec.priceAdjustment: \"10%\" is not a price adjustment"),
        (json!({ "capacity": { "cpu": "1" } }), "may not replace cpu"),
        (json!({ "capacity": { "example.com/fpga": "many" } }), "capacity of example.com/fpga: \"many\""),
        (json!({ "capacity": { "example.com/fpga": "-1" } }), "is negative"),
    ];
    for (spec, expected) in rows {
        let mut whole = json!({ "requirements": [] });
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let overlay = json!({ "metadata": { "name": "a" }, "spec": whole });
        compare(&node_overlay(&serde_json::from_value(overlay).unwrap()), expected, &spec);
    }
    let odd = json!({ "metadata": { "annotations": { "kerf.sh/performance": "2x" } }, "spec": { "requirements": [] } });
    compare(&node_overlay(&serde_json::from_value(odd.clone()).unwrap()), "annotation \"kerf.sh/performance\"", &odd);
}

#[test]
fn capacity_buffer_validation_reports_faults() {
    let template = json!({ "name": "t" });
    let web = json!({ "kind": "Deployment", "name": "web" });
    let rows = [
        (json!({ "podTemplateRef": template, "replicas": 3 }), ""),
        (json!({ "podTemplateRef": template, "limits": { "cpu": "4" } }), ""),
        (json!({ "scalableRef": web, "percentage": 20 }), ""),
        (json!({ "scalableRef": web, "limits": { "cpu": "4" } }), ""),
        (json!({ "replicas": 3 }), "neither podTemplateRef nor scalableRef"),
        (json!({ "podTemplateRef": template, "scalableRef": web, "replicas": 1 }), "exclude each other"),
        (json!({ "podTemplateRef": template, "percentage": 20 }), "podTemplateRef needs replicas or limits"),
        (json!({ "scalableRef": web }), "scalableRef needs percentage"),
        (json!({ "scalableRef": { "kind": "Job", "name": "j" }, "replicas": 1 }), "scalableRef names a Job"),
        (json!({ "scalableRef": web, "replicas": -1 }), "replicas is negative"),
        (json!({ "scalableRef": web, "percentage": -1 }), "percentage is negative"),
        (json!({ "scalableRef": web, "limits": { "cpu": "lots" } }), "limit of cpu: \"lots\""),
    ];
    for (spec, expected) in rows {
        compare(&capacity_buffer(&serde_json::from_value(spec.clone()).unwrap()), expected, &spec);
    }
}
