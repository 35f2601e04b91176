//! Managed node groups, in the output format of `aws eks describe-nodegroup`.

use api::label;
use serde_json::Value;

use super::group::{Group, Need, Origin, Taint};
use super::tags;
use crate::convert::NodeIdentity;
use crate::input::Place;

/// Prefixes of `amiType`, with the alias of their images.
const IMAGES: [(&str, &str); 8] = [
    ("AL2023_", "al2023@latest"),
    ("AL2_", "al2@latest"),
    ("BOTTLEROCKET_", "bottlerocket@latest"),
    ("WINDOWS_CORE_2019", "windows2019@latest"),
    ("WINDOWS_FULL_2019", "windows2019@latest"),
    ("WINDOWS_CORE_2022", "windows2022@latest"),
    ("WINDOWS_FULL_2022", "windows2022@latest"),
    ("WINDOWS_CORE_2025", "windows2025@latest"),
];

pub(super) fn group(place: &Place, value: &Value) -> Group {
    let text = |field: &str| value[field].as_str().map(str::to_owned);
    let texts = |value: &Value| {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut group = Group {
        place: place.clone(),
        title: text("nodegroupName").unwrap_or_default(),
        cluster: text("clusterName"),
        identity: text("nodeRole").and_then(|arn| Some(NodeIdentity::Role(arn.rsplit('/').next()?.to_owned()))),
        subnets: texts(&value["subnets"]),
        disk: value["diskSize"].as_u64(),
        origin: Origin::NodeGroup,
        ..Group::default()
    };
    images(&mut group, value["amiType"].as_str().unwrap_or_default());
    let capacity_type = if value["capacityType"] == "SPOT" { label::CAPACITY_SPOT } else { label::CAPACITY_ON_DEMAND };
    if value["capacityType"] == "CAPACITY_BLOCK" {
        group
            .lost
            .push("its capacity block: select it in capacityReservationSelectorTerms of the EC2NodeClass".to_owned());
    }
    group.needs.push(Need::one_of(label::CAPACITY_TYPE, [capacity_type]));
    let types = texts(&value["instanceTypes"]);
    if types.is_empty() {
        group
            .lost
            .push("the instance types of its launch template: write them as a requirement of the NodePool".to_owned());
    } else {
        group.needs.push(Need::one_of(label::INSTANCE_TYPE, types));
    }
    let labels = value["labels"].as_object().into_iter().flatten();
    group.labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    for taint in value["taints"].as_array().into_iter().flatten() {
        let text = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
        group.taints.push(Taint {
            key: text("key"),
            value: text("value"),
            effect: tags::effect(&text("effect")).to_owned(),
        });
    }
    let sizes = &value["scalingConfig"];
    group.sizes(sizes["minSize"].as_u64(), sizes["maxSize"].as_u64());
    let scales = value["resources"]["autoScalingGroups"].as_array().into_iter().flatten();
    group.scales = scales.filter_map(|scale| scale["name"].as_str()).map(str::to_owned).collect();
    let tags = value["tags"].as_object().into_iter().flatten();
    let tags = tags.filter(|(key, _)| !tags::is_owned(key));
    group.tags = tags.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    extras(&mut group, value);
    group
}

/// Stores the image alias, and adds requirements for the architecture and operating system of the images.
fn images(group: &mut Group, kind: &str) {
    match IMAGES.iter().find(|(begins, _)| kind.starts_with(begins)) {
        Some((_, alias)) => group.alias = Some(alias),
        None => group.imageless = Some(format!("amiType {kind:?} does not define an image")),
    }
    let arch = if kind.contains("ARM_64") { label::ARCH_ARM64 } else { label::ARCH_AMD64 };
    let os = if kind.starts_with("WINDOWS_") { label::OS_WINDOWS } else { label::OS_LINUX };
    group.needs.push(Need::one_of(label::ARCH, [arch]));
    group.needs.push(Need::one_of(label::OS, [os]));
}

/// Reports settings without an equivalent in a NodePool.
fn extras(group: &mut Group, value: &Value) {
    if let Some(name) = value["launchTemplate"]["name"].as_str() {
        group.template(name);
    }
    if value["remoteAccess"].is_object() {
        group.lost.push("its SSH key and security groups for it: use Session Manager".to_owned());
    }
    if value["updateConfig"].is_object() {
        group
            .lost
            .push("its updateConfig: spec.disruption.budgets of the NodePool limit concurrent disruptions".to_owned());
    }
    if value["nodeRepairConfig"]["enabled"] == true {
        group.lost.push("its nodeRepairConfig: use the feature gate NodeRepair of the controller".to_owned());
    }
    if let Some(version) = value["releaseVersion"].as_str() {
        group.lost.push(format!(
            "its release {version}: the EC2NodeClass selects the latest image; write @VERSION to pin \
                           one"
        ));
    }
}
