//! Table tests of the resources that pods request.

use serde_json::{Value, json};

use super::*;

fn needs(spec: &Value) -> Value {
    let spec: PodSpec = serde_json::from_value(spec.clone()).unwrap();
    json!(pod_requests(&spec).unwrap())
}

fn container(requests: &Value) -> Value {
    json!({ "resources": { "requests": requests } })
}

fn sidecar(requests: &Value) -> Value {
    json!({ "restartPolicy": "Always", "resources": { "requests": requests } })
}

#[test]
fn pod_requests_adds_containers_and_overhead() {
    let rows = [
        (json!({}), json!({})),
        (json!({ "containers": null }), json!({})),
        (
            json!({ "containers": [container(&json!({ "cpu": "1" })), container(&json!({ "cpu": "500m", "memory": "1Gi" }))] }),
            json!({ "cpu": 1500, "memory": 1_073_741_824 }),
        ),
        (
            json!({ "containers": [{ "resources": { "limits": { "cpu": "2", "nvidia.com/gpu": "1" } } }] }),
            json!({ "cpu": 2000, "nvidia.com/gpu": 1 }),
        ),
        (
            json!({ "containers": [{ "resources": { "limits": { "cpu": "2", "memory": "1Ki" }, "requests": { "cpu": "1" } } }] }),
            json!({ "cpu": 1000, "memory": 1024 }),
        ),
        (
            json!({ "containers": [container(&json!({ "cpu": "1" }))], "overhead": { "cpu": "250m", "memory": "10" } }),
            json!({ "cpu": 1250, "memory": 10 }),
        ),
    ];
    for (spec, expected) in rows {
        assert_eq!(needs(&spec), expected, "{spec}");
    }
}

#[test]
fn pod_requests_counts_init_containers_and_sidecars() {
    let main = container(&json!({ "cpu": "1" }));
    let rows = [
        ("small init", json!([container(&json!({ "cpu": "500m" }))]), 1000),
        ("large init", json!([container(&json!({ "cpu": "3" }))]), 3000),
        (
            "inits run one after another",
            json!([container(&json!({ "cpu": "2" })), container(&json!({ "cpu": "3" }))]),
            3000,
        ),
        ("a sidecar is added", json!([sidecar(&json!({ "cpu": "2" }))]), 3000),
        (
            "an init before the sidecar runs alone",
            json!([container(&json!({ "cpu": "3" })), sidecar(&json!({ "cpu": "2" }))]),
            3000,
        ),
        (
            "an init after the sidecar runs beside it",
            json!([sidecar(&json!({ "cpu": "2" })), container(&json!({ "cpu": "3" }))]),
            5000,
        ),
    ];
    for (name, inits, cpu) in rows {
        let spec = json!({ "containers": [main], "initContainers": inits });
        assert_eq!(needs(&spec), json!({ "cpu": cpu }), "{name}");
    }
}

#[test]
fn pod_requests_prefers_requests_of_the_whole_pod() {
    let rows = [
        (
            "replaces the sum of that resource",
            json!({ "requests": { "cpu": "5" } }),
            json!({ "cpu": 5000, "memory": 10 }),
        ),
        (
            "also downwards, overhead apart",
            json!({ "requests": { "memory": "4" } }),
            json!({ "cpu": 1000, "memory": 4 }),
        ),
        (
            "its limit stands for a request that is absent",
            json!({ "limits": { "cpu": "9", "hugepages-2Mi": "2Mi" } }),
            json!({ "cpu": 1000, "memory": 10, "hugepages-2Mi": 2_097_152 }),
        ),
        (
            "says nothing about other resources",
            json!({ "requests": { "nvidia.com/gpu": "1" } }),
            json!({ "cpu": 1000, "memory": 10 }),
        ),
    ];
    for (name, resources, expected) in rows {
        let main = container(&json!({ "cpu": "1", "memory": "10" }));
        let spec = json!({ "containers": [main], "resources": resources });
        assert_eq!(needs(&spec), expected, "{name}");
    }
}

#[test]
fn pod_requests_reports_invalid_quantities() {
    let spec = json!({ "containers": [container(&json!({ "cpu": "lots" }))] });
    let spec: PodSpec = serde_json::from_value(spec).unwrap();
    let error = pod_requests(&spec).unwrap_err();
    assert!(error.to_string().contains("\"lots\""), "{error}");
}
