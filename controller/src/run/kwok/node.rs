//! Node of an emulated instance.

use std::collections::BTreeMap;

use api::objects::{Node, NodeSpec, NodeStatus};
use api::{NodeClaim, Taint, annotation, label, taint};
use cloud::Instance;
use cloud::data::region_of_zone;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

/// Label values of a NodeClaim that kubelet would report.
const FROM_CLAIM: [&str; 2] = [label::ARCH, label::OS];

/// Returns the Node as kubelet and the cloud controller create it, with the annotation by which KWOK takes it over.
pub(super) fn node(instance: &Instance, claim: &NodeClaim) -> Node {
    let labels = [
        (label::HOSTNAME, instance.private_dns_name.as_str()),
        (label::INSTANCE_TYPE, &instance.instance_type),
        (label::ZONE, &instance.zone),
        (label::REGION, region_of_zone(&instance.zone)),
    ];
    let of_claim = claim.metadata.labels.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    let labels = labels.into_iter().chain(of_claim.filter(|(key, _)| FROM_CLAIM.contains(key)));
    let annotations = [
        (annotation::KWOK_NODE.to_owned(), annotation::FAKE.to_owned()),
        (annotation::EMULATED_INSTANCE.to_owned(), json!(instance).to_string()),
    ];
    let status = claim.status.clone().unwrap_or_default();
    Node {
        metadata: ObjectMeta {
            name: Some(instance.private_dns_name.clone()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()),
            annotations: Some(BTreeMap::from(annotations)),
            ..ObjectMeta::default()
        },
        spec: NodeSpec {
            provider_id: instance.provider_id(),
            taints: vec![Taint::new(taint::UNREGISTERED, taint::NO_EXECUTE)],
            ..NodeSpec::default()
        },
        status: NodeStatus { capacity: status.capacity, allocatable: status.allocatable, ..NodeStatus::default() },
    }
}

/// Returns the instance that a Node stores.
pub(super) fn instance(node: &Node) -> Option<Instance> {
    serde_json::from_str(node.annotation(annotation::EMULATED_INSTANCE)?).ok()
}

/// Reports whether a registered node is ready except for the startup taint that its agent would remove.
pub(super) fn waits_for_its_agent(node: &Node) -> bool {
    let is_ours = node.annotation(annotation::EMULATED_INSTANCE).is_some();
    is_ours && node.is_registered() && node.is_ready() && node.spec.taints.iter().any(is_startup_taint)
}

fn is_startup_taint(found: &Taint) -> bool {
    found.key == taint::AGENT_NOT_READY
}

/// Returns the patch that removes the startup taint from this version of the Node.
pub(super) fn without_startup_taint(node: &Node) -> Value {
    let taints: Vec<_> = node.spec.taints.iter().filter(|found| !is_startup_taint(found)).collect();
    json!({"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": taints}})
}

#[cfg(test)]
mod tests {
    use api::objects::Node;
    use cloud::Instance;
    use serde_json::{Value, json};

    use super::{instance, node, waits_for_its_agent, without_startup_taint};
    use crate::fixture;

    fn launched() -> Instance {
        Instance {
            id: "i-1".into(),
            state: "running".into(),
            instance_type: "m5.large".into(),
            zone: "us-east-1b".into(),
            private_dns_name: "i-1.us-east-1.compute.internal".into(),
            spot: true,
            ..Instance::default()
        }
    }

    fn read(value: Value) -> Node {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn node_stores_its_instance_and_has_the_capacity_of_its_nodeclaim() {
        let claim = fixture::claim(&json!({
            "metadata": {"labels": {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "team": "a"}},
            "status": {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1930m"}},
        }));
        let made = serde_json::to_value(node(&launched(), &claim)).unwrap();
        assert_eq!(made["metadata"]["annotations"]["kwok.x-k8s.io/node"], "fake");
        assert_eq!(made["metadata"]["labels"]["topology.kubernetes.io/region"], "us-east-1");
        assert_eq!(made["metadata"]["labels"]["kubernetes.io/arch"], "amd64");
        assert_eq!(made["metadata"]["labels"]["team"], Value::Null, "registration adds the labels of the NodeClaim");
        assert_eq!(made["spec"]["providerID"], "aws:///us-east-1b/i-1");
        assert_eq!(made["spec"]["taints"][0]["key"], "karpenter.sh/unregistered");
        assert_eq!(made["status"]["allocatable"]["cpu"], "1930m");
        assert_eq!(instance(&read(made)), Some(launched()));
        assert_eq!(instance(&read(json!({"metadata": {"name": "other"}}))), None);
    }

    /// Rows: label of the registration, status of Ready, annotation of an emulated instance, and the expected result.
    #[test]
    fn waits_for_its_agent_is_true_when_only_the_startup_taint_is_left() {
        let rows = [
            ("true", "True", true, true),
            ("", "True", true, false),
            ("true", "False", true, false),
            ("true", "True", false, false),
        ];
        for (registered, ready, emulated, expected) in rows {
            let annotations = if emulated { json!({"kerf.sh/emulated-instance": "{}"}) } else { json!({}) };
            let node = read(json!({
                "metadata": {
                    "name": "n", "resourceVersion": "7", "annotations": annotations,
                    "labels": {"karpenter.sh/registered": registered},
                },
                "spec": {"taints": [
                    {"key": "kerf.sh/agent-not-ready", "effect": "NoExecute"}, {"key": "team", "effect": "NoSchedule"},
                ]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            }));
            assert_eq!(waits_for_its_agent(&node), expected, "{registered} {ready} {emulated}");
            let patch = without_startup_taint(&node);
            assert_eq!(patch["metadata"]["resourceVersion"], "7");
            assert_eq!(patch["spec"]["taints"], json!([{"key": "team", "effect": "NoSchedule"}]));
        }
    }
}
