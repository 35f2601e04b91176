//! Amounts that the nodes of the input report, by instance type. The controller learns from its nodes by the same functions.

use std::collections::BTreeMap;

use api::objects::CSINode;
use api::{EC2NodeClass, NodeClaim, annotation};
use cloud::InstanceTypeInfo;
use cloud::nodeclass::ResolvedImage;
use cloud::types::{Measured, Measurements, NodeSettings, image_set, readings};
use jiff::Timestamp;

use crate::input::Objects;

/// Returns the amounts that the nodes of a class report. Amounts that depend on the class count for nodes with its hash, which the
/// controller writes as an annotation: the hash includes the cluster's CA, which the input lacks.
pub(super) fn by_type(
    objects: &Objects,
    class: &EC2NodeClass,
    images: &[ResolvedImage],
    infos: &[InstanceTypeInfo],
    now: Timestamp,
) -> BTreeMap<String, Measured> {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    let images = image_set(images.iter().map(|image| image.image.id.as_str()));
    let annotations = class.metadata.annotations.as_ref();
    let hash = annotations.and_then(|all| all.get(annotation::EC2_NODE_CLASS_HASH));
    let settings = NodeSettings { images: &images, class_hash: hash.map_or("", String::as_str) };
    let own = objects.claims.iter().filter(|claim| claim.spec.node_class_ref.name == name);
    let claims: BTreeMap<&str, &NodeClaim> =
        own.filter_map(|claim| Some((claim.provider_id()?, claim.as_ref()))).collect();
    let csi: BTreeMap<Option<&str>, &CSINode> =
        objects.csi_nodes.iter().map(|csi| (csi.metadata.name.as_deref(), csi.as_ref())).collect();
    let mut measurements = Measurements::default();
    for node in &objects.nodes {
        let Some(claim) = claims.get(node.spec.provider_id.as_str()) else { continue };
        let csi = csi.get(&node.metadata.name.as_deref()).copied();
        for (_, reading) in readings(node, claim, csi, |_| true) {
            measurements.learn_node(settings, infos, &reading, now);
        }
    }
    measurements.by_type(settings, now)
}
