//! Tags of Auto Scaling groups that the Cluster Autoscaler reads: the cluster, and labels, taints, resources and options of
//! future nodes.

use std::collections::BTreeMap;

use api::nodeclass::EC2NodeClassSpec;
use api::{EC2NodeClass, duration, quantity};
use cloud::types::{self, ClassSettings};
use cloud::{Settings, data};
use serde_json::Value;

use super::group::{Group, TEMPLATE, Taint};

/// Prefix of the other tags of the Cluster Autoscaler; it discovers groups by the one with the cluster's name.
const AUTOSCALER: &str = "k8s.io/cluster-autoscaler/";
/// Key, without the prefix, by which the Cluster Autoscaler discovers groups of any cluster.
const ENABLED: &str = "enabled";
/// Prefix of EKS' tag with the cluster's name.
const CLUSTER: &str = "kubernetes.io/cluster/";
/// Effects of taints.
const EFFECTS: [&str; 3] = ["NoSchedule", "NoExecute", "PreferNoSchedule"];
/// Bytes of a GiB.
const GIB: i64 = 1 << 30;

/// Options of the Cluster Autoscaler for one group that no NodePool has, with the reason.
const OPTIONS: [(&str, &str); 6] = [
    ("ignoredaemonsetsutilization", "DaemonSet pods never keep a node"),
    ("maxnodeprovisiontime", "the time in which a node must register is the same for all NodePools"),
    ("scaledowngpuutilizationthreshold", UTILIZATION),
    (
        "scaledownunreadytime",
        "the feature gate NodeRepair replaces unhealthy nodes, after the same time in all NodePools",
    ),
    ("scaledownutilizationthreshold", UTILIZATION),
    ("zeroormaxnodescaling", "nodes are launched one by one, as many as pods need"),
];
const UTILIZATION: &str = "Kerf removes a node when its pods fit elsewhere for less, not below a utilization; limit it with \
                           annotation kerf.sh/consolidation-min-saving of the NodePool";

/// Stores the cluster, labels, taints, resources and options in the tags, and the user's own tags for instances.
pub(super) fn read(group: &mut Group, tags: &Value) {
    let mut discovered = None;
    for tag in tags.as_array().into_iter().flatten() {
        let (key, value) = (tag["Key"].as_str().unwrap_or_default(), tag["Value"].as_str().unwrap_or_default());
        if let Some(cluster) = key.strip_prefix(CLUSTER) {
            group.cluster = Some(cluster.to_owned());
        } else if let Some(template) = key.strip_prefix(TEMPLATE) {
            template_tag(group, template, value);
        } else if let Some(cluster) =
            key.strip_prefix(AUTOSCALER).filter(|name| *name != ENABLED && !name.contains('/'))
        {
            discovered = Some(cluster.to_owned());
        } else if !is_owned(key) && tag["PropagateAtLaunch"] == true {
            group.tags.insert(key.to_owned(), value.to_owned());
        }
    }
    group.cluster = group.cluster.take().or(discovered);
}

/// Stores what a tag declares for future nodes; `template` is the key without its prefix.
fn template_tag(group: &mut Group, template: &str, value: &str) {
    match template.split_once('/') {
        Some(("label", key)) => {
            group.labels.insert(key.to_owned(), value.to_owned());
        }
        Some(("taint", key)) => taint(group, key, value),
        Some(("resources", resource)) => self::resource(group, resource, value),
        Some(("autoscaling-options", name)) => option(group, name, value),
        _ => group.lost.push(format!("tag {TEMPLATE}{template}: the Cluster Autoscaler does not read it either")),
    }
}

/// Stores a taint: a value and an effect, separated by a colon. Quotes around the value are those of a template, since no taint
/// may have them.
fn taint(group: &mut Group, key: &str, written: &str) {
    let tag = format!("tag {TEMPLATE}taint/{key}");
    let (quoted, given) = written.rsplit_once(':').unwrap_or(("", written));
    let effect = effect(given);
    if !EFFECTS.contains(&effect) {
        let value = if quoted.is_empty() { given } else { quoted };
        let problem = format!("{tag}: {written:?} has no effect of a taint, so the Cluster Autoscaler ignores it");
        let cure = format!("write {value}:EFFECT with one of {}, or remove the tag", EFFECTS.join(", "));
        group.wrong.push((problem, cure));
        return;
    }
    let value = quoted.trim_matches(['\'', '"']);
    if value != quoted {
        group.changed.push(format!("{tag}: value {quoted} is now {value}: no taint has quotes"));
    }
    group.taints.push(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() });
}

/// Stores a resource of future nodes, unless the instance type defines it.
fn resource(group: &mut Group, resource: &str, amount: &str) {
    let tag = format!("tag {TEMPLATE}resources/{resource}");
    let parsed = quantity::amount(resource, amount).ok().filter(|amount| *amount > 0);
    match (resource, parsed) {
        (quantity::CPU | quantity::MEMORY | quantity::PODS, _) => {
            group.changed.push(format!("{tag}: not needed, instance types define it"));
        }
        (device, _) if device != quantity::EPHEMERAL_STORAGE && is_of_types(device) => {
            group.changed.push(format!("{tag}: not needed, instance types define it"));
        }
        (_, None) => {
            let cure = "write an integer above 0, with a suffix such as Gi for storage";
            group.wrong.push((format!("{tag}: {amount:?} is not an amount"), cure.to_owned()));
        }
        (quantity::EPHEMERAL_STORAGE, Some(bytes)) => {
            let size = u64::try_from((bytes + GIB - 1) / GIB).unwrap_or_default();
            group.changed.push(format!("{tag}: is now the volume of {size}Gi in spec.blockDeviceMappings"));
            group.disk = Some(size);
        }
        (device, Some(_)) => {
            group.changed.push(format!(
                "{tag}: is now spec.capacity of NodeOverlay {}; it needs the feature gate NodeOverlay=true",
                group.name()
            ));
            group.devices.insert(device.to_owned(), amount.to_owned());
        }
    }
}

/// Reports whether EC2 lists how many devices of a resource an instance type has.
fn is_of_types(resource: &str) -> bool {
    let any = EC2NodeClass::new("any", EC2NodeClassSpec::default());
    let (Ok(infos), Ok(facts), Ok(class)) =
        (data::instance_types(), data::facts(), ClassSettings::new(&any, BTreeMap::new()))
    else {
        return false;
    };
    infos.values().any(|info| types::capacity(info, facts, &class, &Settings::default()).get(resource) > 0)
}

/// Stores an option for the group, or reports why a NodePool does not have it.
fn option(group: &mut Group, name: &str, value: &str) {
    let tag = format!("tag {TEMPLATE}autoscaling-options/{name}");
    if name == "scaledownunneededtime" {
        match in_field_format(value) {
            Some(unneeded) => {
                group.changed.push(format!("{tag}: is now spec.disruption.consolidateAfter: {unneeded}"));
                group.unneeded = Some(unneeded);
            }
            None => {
                let problem = format!("{tag}: {value:?} is not a duration");
                group.wrong.push((problem, "write a duration such as 30m or 1h30m".to_owned()));
            }
        }
        return;
    }
    let reason = OPTIONS.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason);
    let reason = reason.unwrap_or("the Cluster Autoscaler does not read it either");
    group.lost.push(format!("{tag}: {reason}"));
}

/// Returns a duration of Go in the format of `consolidateAfter`: whole hours, minutes and seconds.
fn in_field_format(text: &str) -> Option<String> {
    const SECOND: i64 = 1_000_000_000;
    let nanos = duration::span(text).ok()?;
    let is_whole = text.chars().all(|letter| letter.is_ascii_digit() || "hms".contains(letter)) && !text.contains("ms");
    let has_unit = text.ends_with(['h', 'm', 's']);
    Some(if is_whole && has_unit { text.to_owned() } else { format!("{}s", (nanos + SECOND - 1) / SECOND) })
}

/// Returns the effect of a taint in Kubernetes' spelling; EKS has another one.
pub(super) fn effect(written: &str) -> &str {
    match written {
        "NO_SCHEDULE" => "NoSchedule",
        "NO_EXECUTE" => "NoExecute",
        "PREFER_NO_SCHEDULE" => "PreferNoSchedule",
        other => other,
    }
}

/// Reports whether AWS, the Cluster Autoscaler or the controller writes a tag.
pub(super) fn is_owned(key: &str) -> bool {
    let begins = ["aws:", "eks:", "k8s.io/", CLUSTER, "karpenter.sh/", "karpenter.k8s.aws/"];
    key == "Name" || begins.iter().any(|begin| key.starts_with(begin))
}
