//! Kerf's hash of an EC2NodeClass: every field that cannot be applied to a running instance.
//!
//! The hash excludes the selector terms, whose results drift by value, and `ipPrefixCount`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::fnv::bytes;
use crate::resources::nodeclass::{
    BlockDeviceMapping, ConnectionTracking, CpuOptions, EC2NodeClass, InstanceStorePolicy, KubeletConfiguration,
    MetadataOptions, NetworkInterface, PlacementGroupSelector,
};

/// Version of the hash. Hashes of another version are migrated, never compared.
pub const EC2_NODE_CLASS_VERSION: &str = "kerf-v1";

/// Hashed fields, in the order in which they are hashed.
#[derive(Serialize)]
struct Hashed<'a> {
    user_data: &'a Option<String>,
    role: &'a Option<String>,
    instance_profile: &'a Option<String>,
    tags: &'a BTreeMap<String, String>,
    block_device_mappings: Vec<&'a BlockDeviceMapping>,
    kubelet: &'a Option<KubeletConfiguration>,
    metadata_options: &'a MetadataOptions,
    detailed_monitoring: &'a Option<bool>,
    instance_store_policy: &'a Option<InstanceStorePolicy>,
    associate_public_ip_address: &'a Option<bool>,
    context: &'a Option<String>,
    placement_group_selector: &'a Option<PlacementGroupSelector>,
    network_interfaces: &'a Option<Vec<NetworkInterface>>,
    connection_tracking: &'a Option<ConnectionTracking>,
    cpu_options: &'a Option<CpuOptions>,
    ami_family: &'a str,
    cluster_ca_bundle: Option<&'a str>,
    /// Skipped if absent, so that nodes of an EC2NodeClass without agent settings do not drift.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_settings: Option<&'a str>,
}

/// Returns the drift hash of an EC2NodeClass as a decimal number. The hash includes the certificate bundle of the cluster,
/// because the bundle is part of the user data of instances.
#[must_use]
pub fn ec2_node_class(class: &EC2NodeClass, cluster_ca_bundle: Option<&str>) -> String {
    let spec = &class.spec;
    let mut block_device_mappings: Vec<_> = spec.block_device_mappings.iter().collect();
    block_device_mappings.sort();
    let default = MetadataOptions::default();
    let hashed = Hashed {
        user_data: &spec.user_data,
        role: &spec.role,
        instance_profile: &spec.instance_profile,
        tags: &spec.tags,
        block_device_mappings,
        kubelet: &spec.kubelet,
        metadata_options: spec.metadata_options.as_ref().unwrap_or(&default),
        detailed_monitoring: &spec.detailed_monitoring,
        instance_store_policy: &spec.instance_store_policy,
        associate_public_ip_address: &spec.associate_public_ip_address,
        context: &spec.context,
        placement_group_selector: &spec.placement_group_selector,
        network_interfaces: &spec.network_interfaces,
        connection_tracking: &spec.connection_tracking,
        cpu_options: &spec.cpu_options,
        ami_family: spec.resolved_ami_family().as_str(),
        cluster_ca_bundle,
        agent_settings: class.agent_settings(),
    };
    bytes(&text(&hashed)).to_string()
}

#[expect(clippy::expect_used, reason = "text keys and no fallible serialiser: JSON cannot refuse it")]
fn text(hashed: &Hashed<'_>) -> Vec<u8> {
    serde_json::to_vec(hashed).expect("a class is JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::resources::nodeclass::EC2NodeClassSpec;

    /// Name of a change, and the change.
    type Row = (&'static str, fn(&mut Value));

    fn hash(patch: impl FnOnce(&mut Value)) -> String {
        let mut spec = json!({
            "amiSelectorTerms": [{ "alias": "al2023@latest" }],
            "subnetSelectorTerms": [{ "tags": { "a": "b" } }],
            "securityGroupSelectorTerms": [{ "id": "sg-1" }],
            "role": "nodes",
            "blockDeviceMappings": [
                { "deviceName": "/dev/xvda", "ebs": { "volumeSize": "20Gi" }, "rootVolume": true },
                { "deviceName": "/dev/xvdb", "ebs": { "volumeSize": "30Gi" } },
            ],
        });
        patch(&mut spec);
        let object = json!({ "metadata": { "name": "a" }, "spec": spec });
        ec2_node_class(&serde_json::from_value(object).unwrap(), Some("ca"))
    }

    #[test]
    fn ec2_node_class_hash_ignores_fields_that_can_change() {
        let base = hash(|_| ());
        let rows: [Row; 6] = [
            ("order of disks", |s| {
                s["blockDeviceMappings"].as_array_mut().unwrap().reverse();
            }),
            ("subnets", |s| s["subnetSelectorTerms"] = json!([{ "id": "subnet-1" }])),
            ("groups", |s| s["securityGroupSelectorTerms"] = json!([{ "id": "sg-2" }])),
            ("version of the alias", |s| {
                s["amiSelectorTerms"] = json!([{ "alias": "al2023@v20260101" }]);
            }),
            ("prefixes", |s| s["ipPrefixCount"] = json!(3)),
            ("the family that the alias says", |s| s["amiFamily"] = json!("AL2023")),
        ];
        for (name, patch) in rows {
            assert_eq!(hash(patch), base, "{name}");
        }
    }

    /// An EC2NodeClass without agent settings keeps the hash that it had before agent settings existed.
    #[test]
    fn ec2_node_class_hash_includes_agent_settings_when_present() {
        let with = |annotations: Value| {
            let object = json!({"metadata": {"name": "a", "annotations": annotations}, "spec": {
                "amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": [],
            }});
            ec2_node_class(&serde_json::from_value(object).unwrap(), Some("ca"))
        };
        assert_eq!(with(json!({})), "17033309847755471387");
        let others = json!({"kerf.sh/agent": "enabled", "kerf.sh/gate-timeout": "15m"});
        assert_eq!(with(others), with(json!({})), "the controller follows these itself");
        let (some, more) = (json!({"kerf.sh/agent-settings": "{}"}), json!({"kerf.sh/agent-settings": "a"}));
        assert_ne!(with(some.clone()), with(json!({})));
        assert_ne!(with(some), with(more));
    }

    #[test]
    fn ec2_node_class_hash_includes_fields_of_the_launch() {
        let rows: [Row; 16] = [
            ("userData", |s| s["userData"] = json!("x")),
            ("role", |s| s["role"] = json!("other")),
            ("instanceProfile", |s| s["instanceProfile"] = json!("x")),
            ("tags", |s| s["tags"] = json!({ "a": "b" })),
            ("disk size", |s| s["blockDeviceMappings"][0]["ebs"]["volumeSize"] = json!("21Gi")),
            ("kubelet", |s| s["kubelet"] = json!({ "maxPods": 10 })),
            ("metadata", |s| s["metadataOptions"] = json!({ "httpTokens": "optional" })),
            ("monitoring", |s| s["detailedMonitoring"] = json!(true)),
            ("instance store", |s| s["instanceStorePolicy"] = json!("RAID0")),
            ("public address", |s| s["associatePublicIPAddress"] = json!(false)),
            ("context", |s| s["context"] = json!("x")),
            ("placement group", |s| s["placementGroupSelector"] = json!({ "name": "x" })),
            ("interfaces", |s| s["networkInterfaces"] = json!([])),
            ("tracking", |s| s["connectionTracking"] = json!({ "udpTimeout": 30 })),
            ("processor", |s| s["cpuOptions"] = json!({ "nestedVirtualization": "enabled" })),
            ("family", |s| s["amiFamily"] = json!("Custom")),
        ];
        let mut seen = std::collections::BTreeSet::from([hash(|_| ())]);
        for (name, patch) in rows {
            assert!(seen.insert(hash(patch)), "{name}");
        }
    }

    #[test]
    fn ec2_node_class_hash_includes_the_certificate_bundle() {
        let class = EC2NodeClass::new("a", EC2NodeClassSpec::default());
        assert_ne!(ec2_node_class(&class, None), ec2_node_class(&class, Some("ca")));
    }
}
