//! Labels of nodes and pods in gauges. The detail decides which of them a series has.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::label;
use api::objects::{Node, Pod};
use daemon::metric::LabelPairs;

use super::NodeSample;
use crate::metrics::definitions::detailed::WELL_KNOWN;
use crate::metrics::detail::MetricsDetail;
use crate::state::index::Index;

/// Returns labels with these names and their values.
pub(super) fn pairs<'a>(names: &'static [&'static str], value: impl Fn(&'static str) -> &'a str) -> LabelPairs {
    names.iter().map(|name| (*name, value(name).to_owned())).collect()
}

/// Returns the label of a resource, as Karpenter writes it.
pub(super) fn resource_type(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

const fn text(is: bool) -> &'static str {
    if is { "true" } else { "false" }
}

/// Returns the labels of a node. No kubelet sets the phase of a Node any more.
pub(super) fn of_node(detail: MetricsDetail, sample: &NodeSample<'_>) -> LabelPairs {
    let NodeSample { node, is_managed, .. } = sample;
    let known: BTreeMap<&str, &str> =
        WELL_KNOWN.iter().filter_map(|(key, name)| Some((*name, node.label(key)?))).collect();
    pairs(detail.node_labels(), |name| match name {
        "node_name" => node.name(),
        "managed" => text(*is_managed),
        _ => known.get(name).copied().unwrap_or_default(),
    })
}

/// Returns the values of the labels of a pod and of its node.
pub(super) fn values_of_pod<'a>(detail: MetricsDetail, index: &'a Index, pod: &'a Pod) -> Vec<Cow<'a, str>> {
    let node = index.nodes.get(&pod.spec.node_name);
    let value = |name: &&'static str| match *name {
        "owner" => Cow::Owned(owner_link(pod)),
        name => Cow::Borrowed(value_of_pod(name, node, pod)),
    };
    detail.pod_labels().iter().map(value).collect()
}

fn value_of_pod<'a>(name: &str, node: Option<&'a Arc<Node>>, pod: &'a Pod) -> &'a str {
    let label = |key: &str| node.and_then(|node| node.label(key)).unwrap_or_default();
    match name {
        "name" => pod.name(),
        "namespace" => pod.namespace(),
        "node" => &pod.spec.node_name,
        "scheduled" => text(pod.is_bound()),
        "phase" => &pod.status.phase,
        "ready" => text(pod.is_ready()),
        "managed" => text(!label(label::NODEPOOL).is_empty()),
        "nodepool" => label(label::NODEPOOL),
        "zone" => label(label::ZONE),
        "arch" => label(label::ARCH),
        "capacity_type" => label(label::CAPACITY_TYPE),
        "instance_type" => label(label::INSTANCE_TYPE),
        _ => "",
    }
}

/// Returns the path of the first owner in the API, as Karpenter writes it; empty without an owner.
fn owner_link(pod: &Pod) -> String {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    owners.first().map_or_else(String::new, |owner| {
        let (version, kind) = (&owner.api_version, owner.kind.to_lowercase());
        format!("/apis/{version}/namespaces/{}/{kind}s/{}", pod.namespace(), owner.name)
    })
}
