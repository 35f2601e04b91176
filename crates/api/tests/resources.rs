//! Tests that custom resources are written back without loss, and that absent fields have their defaults.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use api::nodeclass::AmiFamily;
use api::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, PriceChange};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn unchanged<K: Serialize + DeserializeOwned>(object: &Value) {
    let read: K = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(&serde_json::to_value(read).unwrap(), object);
}

#[test]
fn node_pool_survives_serialization() {
    unchanged::<NodePool>(&json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": { "name": "a" },
        "spec": {
            "template": {
                "metadata": { "labels": {}, "annotations": { "a": "b" } },
                "spec": {
                    "taints": [],
                    "startupTaints": [{ "key": "a", "value": "b", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" }],
                    "requirements": [{ "key": "a", "operator": "Gte", "values": ["1"], "minValues": 1 }],
                    "nodeClassRef": { "group": "g", "kind": "k", "name": "n" },
                    "terminationGracePeriod": "1h0m0s",
                    "expireAfter": "Never",
                },
            },
            "disruption": {
                "consolidateAfter": "90s",
                "consolidationPolicy": "Balanced",
                "budgets": [{ "nodes": "10%", "reasons": [], "schedule": "@daily", "duration": "8h0m0s" }],
            },
            "limits": {},
            "weight": 10,
            "replicas": 0,
        },
        "status": { "nodes": 0, "nodeClassObservedGeneration": 2, "resources": { "cpu": "1" } },
    }));
}

#[test]
fn node_claim_survives_serialization() {
    unchanged::<NodeClaim>(&json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": { "name": "a" },
        "spec": {
            "requirements": [],
            "resources": { "requests": { "cpu": "1500m" } },
            "nodeClassRef": { "group": "g", "kind": "k", "name": "n" },
            "expireAfter": "720h",
        },
        "status": {
            "nodeName": "n", "providerID": "aws:///z/i-1", "imageID": "ami-1",
            "capacity": { "cpu": "2" }, "allocatable": { "cpu": "1930m" },
            "conditions": [{
                "type": "Launched", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 1, "reason": "Launched", "message": "",
            }],
            "lastPodEventTime": "2026-01-01T00:00:00Z",
        },
    }));
}

#[test]
fn ec2_node_class_survives_serialization() {
    unchanged::<EC2NodeClass>(&json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": { "name": "a" },
        "spec": {
            "subnetSelectorTerms": [{ "id": "subnet-1" }],
            "securityGroupSelectorTerms": [{ "name": "sg" }],
            "capacityReservationSelectorTerms": [{ "tags": { "a": "b" }, "ownerID": "123456789012" }],
            "amiSelectorTerms": [{ "ssmParameter": "/a", "owner": "self" }],
            "associatePublicIPAddress": false,
            "ipPrefixCount": 1,
            "amiFamily": "AL2023",
            "role": "r",
            "kubelet": {
                "clusterDNS": ["10.0.0.10"], "cpuCFSQuota": true,
                "imageGCHighThresholdPercent": 85, "evictionSoftGracePeriod": { "memory.available": "1m0s" },
            },
            "blockDeviceMappings": [{ "rootVolume": true, "ebs": { "kmsKeyID": "k", "snapshotID": "s", "volumeSize": "1Ti", "volumeType": "gp3" } }],
            "networkInterfaces": [{ "networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "efa-only" }],
            "instanceStorePolicy": "RAID0",
            "metadataOptions": { "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 2, "httpTokens": "optional" },
        },
        "status": {
            "subnets": [{ "id": "subnet-1", "zone": "a", "zoneID": "b" }],
            "amis": [{ "id": "ami-1", "name": "n", "requirements": [{ "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] }] }],
            "capacityReservations": [{
                "id": "cr-1", "availabilityZone": "a", "instanceMatchCriteria": "open", "instanceType": "m5.large",
                "ownerID": "123456789012", "reservationType": "default", "interruptible": false, "state": "active",
            }],
        },
    }));
}

#[test]
fn node_overlay_survives_serialization() {
    unchanged::<NodeOverlay>(&json!({
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": { "name": "a" },
        "spec": {
            "requirements": [{ "key": "a", "operator": "Gte", "values": ["1"] }, { "key": "b", "operator": "Exists" }],
            "priceAdjustment": "-10.5%",
            "capacity": { "example.com/fpga": "2" },
            "weight": 10,
        },
        "status": { "conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1, "reason": "Ready", "message": "",
        }] },
    }));
}

#[test]
fn capacity_buffer_survives_serialization() {
    unchanged::<CapacityBuffer>(&json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": { "name": "a", "namespace": "b" },
        "spec": {
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
            "scalableRef": { "apiGroup": "", "kind": "Deployment", "name": "web" },
            "replicas": 0,
            "percentage": 20,
            "limits": { "cpu": "4" },
        },
        "status": {
            "podTemplateRef": { "name": "t" }, "replicas": 2, "podTemplateGeneration": 3,
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
        },
    }));
}

fn overlay(name: &str, spec: &Value) -> NodeOverlay {
    let mut whole = json!({ "requirements": [] });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let annotations = json!({ "kerf.sh/performance": "1.15" });
    serde_json::from_value(json!({ "metadata": { "name": name, "annotations": annotations }, "spec": whole })).unwrap()
}

#[test]
fn node_overlay_reads_price_performance_and_weight() {
    let rows = [
        (json!({}), None),
        (json!({ "price": "0.096" }), Some(PriceChange::Absolute(96_000))),
        (json!({ "priceAdjustment": "-0.01" }), Some(PriceChange::Shift(-10_000))),
        (json!({ "priceAdjustment": "+10%" }), Some(PriceChange::Scale(100_000))),
    ];
    for (spec, expected) in rows {
        assert_eq!(overlay("a", &spec).price_change().unwrap(), expected, "{spec}");
    }
    assert_eq!(overlay("a", &json!({})).performance().unwrap(), Some(1150));
    let mut overlays = [("a", 0), ("b", 0), ("c", 5), ("d", 1)].map(|(name, weight)| {
        let spec = if weight == 0 { json!({}) } else { json!({ "weight": weight }) };
        overlay(name, &spec)
    });
    overlays.sort_by(NodeOverlay::precedence);
    assert_eq!(overlays.map(|o| o.metadata.name.unwrap()), ["c", "d", "b", "a"]);
}

#[test]
fn capacity_buffer_is_active_when_strategy_is_absent() {
    let buffer =
        |spec: Value| -> CapacityBuffer { serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap() };
    assert!(buffer(json!({})).spec.is_active());
    assert!(!buffer(json!({ "provisioningStrategy": "example.com/standby" })).spec.is_active());
}

#[test]
fn node_pool_reads_node_fee_and_performance_factors() {
    let mut pool = NodePool::new("a", api::NodePoolSpec::default());
    assert_eq!(pool.node_fee().unwrap(), 0);
    assert_eq!(pool.performance_factors().unwrap().entries(), []);
    let annotations = [("kerf.sh/node-fee", "0.01"), ("kerf.sh/performance-factors", "arch=arm64:1.2")];
    pool.metadata.annotations = Some(annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    assert_eq!(pool.node_fee().unwrap(), 10_000);
    assert_eq!(
        pool.performance_factors().unwrap().factor(|key, value| (key, value) == ("kubernetes.io/arch", "arm64")),
        Some(1200)
    );
}

#[test]
fn node_pool_applies_defaults_when_fields_are_absent() {
    let pool: NodePool = serde_json::from_value(json!({
        "metadata": { "name": "a" },
        "spec": { "template": { "spec": {
            "requirements": [],
            "nodeClassRef": { "group": "g", "kind": "k", "name": "n" },
        } } },
    }))
    .unwrap();
    let spec = serde_json::to_value(&pool.spec).unwrap();
    assert_eq!(spec["template"]["spec"]["expireAfter"], "720h");
    assert_eq!(
        spec["disruption"],
        json!({
            "consolidateAfter": "0s",
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "budgets": [{ "nodes": "10%" }],
        })
    );
    assert_eq!(spec.get("limits"), None);
}

#[test]
fn resolved_ami_family_prefers_field_over_alias() {
    let rows = [
        (json!({ "amiSelectorTerms": [{ "alias": "al2023@latest" }] }), AmiFamily::Al2023),
        (json!({ "amiSelectorTerms": [{ "alias": "al2023@latest" }], "amiFamily": "Custom" }), AmiFamily::Custom),
        (json!({ "amiSelectorTerms": [{ "alias": "bottlerocket@v1.2.3" }] }), AmiFamily::Bottlerocket),
        (json!({ "amiSelectorTerms": [{ "id": "ami-1" }] }), AmiFamily::Custom),
        (json!({ "amiSelectorTerms": [{ "id": "ami-1" }], "amiFamily": "AL2" }), AmiFamily::Al2),
        (json!({ "amiSelectorTerms": [{ "alias": "beos@1" }] }), AmiFamily::Custom),
    ];
    for (mut spec, family) in rows {
        spec["subnetSelectorTerms"] = json!([]);
        spec["securityGroupSelectorTerms"] = json!([]);
        let class: EC2NodeClass = serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
        assert_eq!(class.spec.resolved_ami_family(), family, "{spec}");
    }
}

#[test]
fn has_agent_is_true_only_when_annotation_is_enabled() {
    for (value, expected) in [("enabled", true), ("disabled", false), ("true", false)] {
        let mut class = EC2NodeClass::new("a", api::EC2NodeClassSpec::default());
        assert!(!class.has_agent());
        let annotations = [("kerf.sh/agent".to_owned(), value.to_owned())];
        class.metadata.annotations = Some(annotations.into());
        assert_eq!(class.has_agent(), expected, "{value}");
    }
}

#[test]
fn nodeclaim_is_quiet_later_when_it_was_taken_over() {
    let claim = |annotations: Value| -> NodeClaim {
        let initialized = json!({
            "type": "Initialized", "status": "True", "reason": "Initialized", "lastTransitionTime": "2026-11-01T00:00:00Z",
        });
        serde_json::from_value(json!({
            "metadata": {"name": "a", "annotations": annotations}, "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}, "status": {"conditions": [initialized]},
        }))
        .unwrap()
    };
    let rows = [
        (json!({}), "2026-11-01T00:00:00Z"),
        (json!({"kerf.sh/adopted-at": "2026-11-26T12:00:00Z"}), "2026-11-26T12:10:00Z"),
        (json!({"kerf.sh/adopted-at": "yesterday"}), "2026-11-01T00:00:00Z"),
    ];
    for (annotations, expected) in rows {
        let since = claim(annotations.clone()).quiet_since().map(|at| at.to_string());
        assert_eq!(since.as_deref(), Some(expected), "{annotations}");
    }
}
