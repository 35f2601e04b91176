//! Auto Scaling groups, in the output format of `aws autoscaling describe-auto-scaling-groups`, with the tags that the Cluster
//! Autoscaler reads.

use std::collections::BTreeSet;

use api::label;
use serde_json::Value;

use super::group::{DEFAULT_ALIAS, Group, Need, Origin};
use super::tags;
use crate::input::Place;

/// Attributes of instance types that a NodePool can require, as lower and upper bounds of a label.
const ATTRIBUTES: [(&str, &str); 2] = [("VCpuCount", label::INSTANCE_CPU), ("MemoryMiB", label::INSTANCE_MEMORY)];

pub(super) fn group(place: &Place, value: &Value) -> Group {
    let subnets = value["VPCZoneIdentifier"].as_str().unwrap_or_default().split(',').map(str::trim);
    let mut group = Group {
        place: place.clone(),
        title: value["AutoScalingGroupName"].as_str().unwrap_or_default().to_owned(),
        subnets: subnets.filter(|id| !id.is_empty()).map(str::to_owned).collect(),
        alias: Some(DEFAULT_ALIAS),
        origin: Origin::Tags,
        ..Group::default()
    };
    group.lost.push(format!("the images of its launch template: the EC2NodeClass selects {DEFAULT_ALIAS}"));
    group.needs.push(Need::one_of(label::OS, [label::OS_LINUX]));
    let zones: Vec<&str> =
        value["AvailabilityZones"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !zones.is_empty() {
        group.needs.push(Need::one_of(label::ZONE, zones));
    }
    let mixed = &value["MixedInstancesPolicy"];
    types(&mut group, value, &mixed["LaunchTemplate"]["Overrides"]);
    capacity_types(&mut group, mixed);
    tags::read(&mut group, &value["Tags"]);
    group.sizes(value["MinSize"].as_u64(), value["MaxSize"].as_u64());
    let templates = [&value["LaunchTemplate"], &mixed["LaunchTemplate"]["LaunchTemplateSpecification"]];
    if let Some(name) = templates.iter().find_map(|template| template["LaunchTemplateName"].as_str()) {
        group.template(name);
    }
    if value["WarmPoolConfiguration"].is_object() {
        group.lost.push("its warm pool: keep free capacity with a CapacityBuffer".to_owned());
    }
    if value["SuspendedProcesses"].as_array().is_some_and(|list| !list.is_empty()) {
        group.lost.push("its suspended processes: a NodePool has none".to_owned());
    }
    group
}

/// Adds a requirement for the types: by name, by attributes, or the types of the running instances.
fn types(group: &mut Group, value: &Value, overrides: &Value) {
    let names = |list: &Value| -> BTreeSet<String> {
        let items = list.as_array().into_iter().flatten();
        items.filter_map(|item| item["InstanceType"].as_str()).map(str::to_owned).collect()
    };
    let (named, running) = (names(overrides), names(&value["Instances"]));
    let attributes =
        overrides.as_array().into_iter().flatten().find_map(|item| item["InstanceRequirements"].as_object());
    if !named.is_empty() {
        group.needs.push(Need::one_of(label::INSTANCE_TYPE, named));
    } else if let Some(attributes) = attributes {
        for (name, bounds) in attributes {
            let Some((_, key)) = ATTRIBUTES.iter().find(|(known, _)| known == name) else {
                group.lost.push(format!(
                    "InstanceRequirements.{name}: write an equivalent requirement of the NodePool (docs/types.md)"
                ));
                continue;
            };
            let least = bounds["Min"].as_u64().filter(|least| *least > 0);
            group.needs.extend(least.map(|least| Need::bound(key, "Gt", least - 1)));
            group.needs.extend(bounds["Max"].as_u64().map(|most| Need::bound(key, "Lt", most + 1)));
        }
    } else if !running.is_empty() {
        group.lost.push(
            "the instance type of its launch template: the NodePool has the types of its running instances".to_owned(),
        );
        group.needs.push(Need::one_of(label::INSTANCE_TYPE, running));
    } else {
        group
            .lost
            .push("the instance type of its launch template: write it as a requirement of the NodePool".to_owned());
    }
    if overrides.as_array().is_some_and(|list| list.iter().any(|item| !item["WeightedCapacity"].is_null())) {
        group.lost.push("its weights: nodes are sized by the requests of pods".to_owned());
    }
}

/// Adds a requirement for the capacity types.
fn capacity_types(group: &mut Group, mixed: &Value) {
    let split = &mixed["InstancesDistribution"];
    let base = split["OnDemandBaseCapacity"].as_u64().unwrap_or(0);
    let above = split["OnDemandPercentageAboveBaseCapacity"].as_u64().unwrap_or(100);
    let (spot, on_demand) = (label::CAPACITY_SPOT, label::CAPACITY_ON_DEMAND);
    let both = base > 0 || above > 0;
    let kinds = if mixed.is_null() || above == 100 {
        vec![on_demand]
    } else if both {
        vec![spot, on_demand]
    } else {
        vec![spot]
    };
    if mixed.is_null() {
        group.lost.push("the capacity type of its launch template: the NodePool has on-demand".to_owned());
    }
    if kinds.len() > 1 {
        group.lost.push(format!(
            "its split, {base} on-demand and {above} % of the rest: set kerf.sh/on-demand-base and \
             kerf.sh/spot-share on pods (docs/spot.md)"
        ));
    }
    group.needs.push(Need::one_of(label::CAPACITY_TYPE, kinds));
}
