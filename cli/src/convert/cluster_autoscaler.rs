//! `kerf convert --from cluster-autoscaler`: a NodePool and an EC2NodeClass for each node group in the output of the AWS CLI, and
//! a NodeOverlay for its devices.
//!
//! A description is not complete. Settings that the description lacks, and settings without an equivalent in a NodePool, are
//! reported.

mod group;
mod managed;
mod scaling;
mod tags;

use std::io::Read;
use std::path::PathBuf;

use api::label;
use serde_json::Value;

use super::object::RemarkKind;
use super::pool::quoted;
use super::tree::{Entry, Node, NodeKind, Tree};
use super::{Converted, NodeIdentity};
use crate::input::{self, File, InputError, InputErrors, Place};
use group::{Group, Need, Taint};

/// Settings for groups whose description does not contain them.
#[derive(Clone, Debug, Default)]
pub struct GroupOptions {
    /// Role or instance profile of nodes.
    pub identity: Option<NodeIdentity>,
    /// Name of the cluster.
    pub cluster: Option<String>,
}

/// Converts each group at `paths` into a NodePool and an EC2NodeClass. The input is the output of `aws autoscaling
/// describe-auto-scaling-groups` and `aws eks describe-nodegroup`.
///
/// # Errors
/// Returns input that is no such description, and groups that no NodePool can represent, each with its fix.
pub fn from_cluster_autoscaler(
    paths: &[PathBuf],
    options: &GroupOptions,
    stdin: &mut dyn Read,
) -> Result<Converted, InputErrors> {
    let (files, mut errors) = input::files(paths, stdin);
    let mut groups = Vec::new();
    for file in &files {
        match groups_of(file) {
            Ok(found) => groups.extend(found),
            Err(error) => errors.push(error),
        }
    }
    // The Auto Scaling group of a managed node group has less data than the managed group, so the former is dropped.
    let managed: Vec<String> = groups.iter().flat_map(|group: &Group| group.scales.clone()).collect();
    groups.retain(|group| !managed.contains(&group.title));
    for place in 0..groups.len() {
        let (earlier, rest) = groups.split_at_mut(place);
        let Some(group) = rest.first_mut() else { break };
        group.identity = group.identity.take().or_else(|| options.identity.clone());
        group.cluster = group.cluster.take().or_else(|| options.cluster.clone());
        errors.extend(group.faults());
        errors.extend(earlier.iter().find(|other| other.name() == group.name()).map(|other| group.namesake(other)));
    }
    if !errors.is_empty() {
        return Err(InputErrors::new(errors));
    }
    converted(&groups)
}

fn converted(groups: &[Group]) -> Result<Converted, InputErrors> {
    let (mut out, mut errors) = (Converted::default(), Vec::new());
    for group in groups {
        let roots = [class(group), pool(group)].into_iter().chain(overlay(group));
        let texts: Vec<String> = roots.map(|root| Tree { root, after: Vec::new() }.write()).collect();
        let text = texts.join("---\n");
        if let Err(found) = input::read_text(&group.place.file, &text) {
            errors.extend(found.0.into_iter().map(|error| group.described(error)));
        }
        out.text.push_str(if out.text.is_empty() { "" } else { "---\n" });
        out.text.push_str(&text);
        let remark = |text: &String| format!("{}: {}: {text}", group.place, group.title);
        group.lost.iter().for_each(|text| out.remark(RemarkKind::Lost, &remark(text)));
        group.changed.iter().for_each(|text| out.remark(RemarkKind::Changed, &remark(text)));
        out.remark(RemarkKind::Changed, &remark(&format!("is now NodePool and EC2NodeClass {}", group.name())));
    }
    if errors.is_empty() { Ok(out) } else { Err(InputErrors::new(errors)) }
}

/// Returns the groups that a file describes.
fn groups_of(file: &File) -> Result<Vec<Group>, InputError> {
    let place = Place::document(&file.name, 0);
    let cure = "use the output of `aws autoscaling describe-auto-scaling-groups --output json` or `aws eks \
                describe-nodegroup --output json`";
    let value: Value = serde_json::from_str(&file.text)
        .map_err(|error| InputError::new(&place, format!("line {}: not JSON: {error}", error.line()), cure))?;
    if let Some(list) = value["AutoScalingGroups"].as_array() {
        return Ok(list.iter().map(|group| scaling::group(&place, group)).collect());
    }
    if value["nodegroup"].is_object() {
        return Ok(vec![managed::group(&place, &value["nodegroup"])]);
    }
    Err(InputError::new(&place, "no node group: neither AutoScalingGroups nor nodegroup is present", cure))
}

fn class(group: &Group) -> Node {
    let flow = |key: &'static str, value: Node| Node { line: 0, kind: NodeKind::FlowMap(vec![Entry::new(key, value)]) };
    let (identity, name) = group.identity.as_ref().map(NodeIdentity::field).unwrap_or_default();
    let subnets = group.subnets.iter().map(|id| flow("id", Node::text(id)));
    let mut tags = Node::map([]);
    let cluster = group.cluster.as_deref().unwrap_or_default();
    tags.set(&format!("kubernetes.io/cluster/{cluster}"), Node::text("owned"));
    let alias = flow("alias", Node::text(group.alias.unwrap_or(group::DEFAULT_ALIAS)));
    let mut spec = Node::map([
        (identity, Node::text(name)),
        ("amiSelectorTerms", Node::list([alias])),
        ("subnetSelectorTerms", Node::list(subnets)),
        ("securityGroupSelectorTerms", Node::list([Node::map([("tags", tags)])])),
    ]);
    if let Some(size) = group.disk {
        spec.set("blockDeviceMappings", disks(group, size));
    }
    if !group.tags.is_empty() {
        spec.set("tags", texts(&group.tags));
    }
    object("karpenter.k8s.aws/v1", "EC2NodeClass", group, spec)
}

/// Returns the block device mappings. Bottlerocket keeps its data on a second disk.
fn disks(group: &Group, size: u64) -> Node {
    let disk = |device: &str, size: u64| {
        let ebs = [
            ("volumeSize", Node::plain(format!("{size}Gi"))),
            ("volumeType", Node::text("gp3")),
            ("encrypted", Node::plain(true)),
        ];
        Node::map([("deviceName", Node::text(device)), ("ebs", Node::map(ebs))])
    };
    match group.alias {
        Some(alias) if alias.starts_with("bottlerocket") => Node::list([disk("/dev/xvda", 4), disk("/dev/xvdb", size)]),
        Some(alias) if alias.starts_with("windows") => Node::list([disk("/dev/sda1", size)]),
        _ => Node::list([disk("/dev/xvda", size)]),
    }
}

fn pool(group: &Group) -> Node {
    let reference = [
        ("group", Node::text("karpenter.k8s.aws")),
        ("kind", Node::text("EC2NodeClass")),
        ("name", Node::text(&group.name())),
    ];
    let mut inner =
        Node::map([("nodeClassRef", Node::map(reference)), ("requirements", Node::list(group.needs.iter().map(need)))]);
    if !group.taints.is_empty() {
        inner.set("taints", Node::list(group.taints.iter().map(taint)));
    }
    inner.set("expireAfter", Node::text("Never"));
    let mut template = Node::map([]);
    if !group.labels.is_empty() {
        template.set("metadata", Node::map([("labels", texts(&group.labels))]));
    }
    template.set("spec", inner);
    let unneeded = group.unneeded.as_deref().unwrap_or("10m");
    let after =
        [("consolidationPolicy", Node::text("WhenEmptyOrUnderutilized")), ("consolidateAfter", Node::plain(unneeded))];
    let mut spec = Node::map([("template", template), ("disruption", Node::map(after))]);
    if let Some(most) = group.most {
        spec.set("limits", Node::map([("nodes", quoted(&most.to_string()))]));
    }
    object("karpenter.sh/v1", "NodePool", group, spec)
}

fn taint(taint: &Taint) -> Node {
    let mut node = Node::map([("key", Node::text(&taint.key))]);
    if !taint.value.is_empty() {
        node.set("value", Node::text(&taint.value));
    }
    node.set("effect", Node::text(&taint.effect));
    node
}

/// Returns the overlay with the devices that a program on the group's nodes offers; EC2 does not list such devices.
fn overlay(group: &Group) -> Option<Node> {
    if group.devices.is_empty() {
        return None;
    }
    let own = Need { key: label::NODEPOOL, operator: "In", values: vec![group.name()] };
    let spec = Node::map([("requirements", Node::list([need(&own)])), ("capacity", texts(&group.devices))]);
    Some(object("karpenter.sh/v1alpha1", "NodeOverlay", group, spec))
}

fn object(api: &'static str, kind: &'static str, group: &Group, spec: Node) -> Node {
    let meta = Node::map([("name", Node::text(&group.name()))]);
    Node::map([("apiVersion", Node::text(api)), ("kind", Node::text(kind)), ("metadata", meta), ("spec", spec)])
}

fn need(need: &Need) -> Node {
    let values = need.values.iter().map(|value| Entry::new("", quoted(value))).collect();
    let values = Node { line: 0, kind: NodeKind::FlowList(values) };
    Node::map([("key", Node::text(need.key)), ("operator", Node::text(need.operator)), ("values", values)])
}

/// Returns a map of texts, each value in quotes.
fn texts(map: &std::collections::BTreeMap<String, String>) -> Node {
    let mut node = Node::map([]);
    map.iter().for_each(|(key, value)| node.set(key, quoted(value)));
    node
}
