//! Amounts that a node reports, as readings. Controller and `kerf plan` take them from the same objects.

use api::objects::{CSINode, EBS_DRIVER, Node};
use api::{NodeClaim, annotation, label, quantity};
use jiff::Timestamp;
use planner::Resources;

use super::measured::{
    DEVICES, MEASURED, MeasurementUpdate, Measurements, NodeReading, NodeSettings, is_plausible_memory, node_number,
};
use crate::calls::InstanceTypeInfo;

/// Returns those readings of a registered node whose id is wanted, each with its id. Kubelet reports its own amounts when it
/// registers; the CSI driver and device plugins report theirs later, so that they are readings of their own. The ids begin with the
/// provider id of the node.
#[must_use]
pub fn readings(
    node: &Node,
    claim: &NodeClaim,
    csi: Option<&CSINode>,
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<(String, NodeReading)> {
    if !node.is_registered() {
        return Vec::new();
    }
    let mut all: Vec<(String, NodeReading)> = Vec::new();
    let mut add = |id: String, reading: &dyn Fn(NodeReading) -> Option<NodeReading>| {
        let found = is_wanted(&id).then(|| reading(origin(claim)?)).flatten();
        all.extend(found.map(|reading| (id, reading)));
    };
    let id = |part: &str| format!("{}#{part}", node.spec.provider_id);
    add(node.spec.provider_id.clone(), &|origin| of_kubelet(node, origin));
    if let Some(limit) = csi.and_then(|csi| csi.limit(EBS_DRIVER)) {
        add(id("volumes"), &|origin| Some(NodeReading { volumes: Some(i64::from(limit)), ..origin }));
    }
    for name in DEVICES {
        // The capacity has the failed devices too, which say nothing about the next node of the type.
        let count = node.status.capacity.get(name).and_then(|amount| amount.amount(name).ok()).unwrap_or(0);
        if count > 0 {
            let allocatable: Resources = [(name, count)].into_iter().collect();
            add(id(name), &|origin| Some(NodeReading { allocatable: allocatable.clone(), ..origin }));
        }
    }
    all
}

/// Returns the amounts that kubelet reports.
fn of_kubelet(node: &Node, origin: NodeReading) -> Option<NodeReading> {
    let memory = node.status.capacity.get(quantity::MEMORY)?.amount(quantity::MEMORY).ok()?;
    let amount = |name: &&str| Some(((*name).to_owned(), node.status.allocatable.get(*name)?.amount(name).ok()?));
    let allocatable = MEASURED.iter().filter_map(amount).collect();
    (memory > 0).then_some(NodeReading { memory: Some(memory), allocatable, ..origin })
}

/// Returns a reading without amounts. A node whose resources a NodeOverlay changed has other kubelet settings than its class.
fn origin(claim: &NodeClaim) -> Option<NodeReading> {
    let annotation = |key: &str| claim.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
    let overlaid = annotation(annotation::CAPACITY_OVERLAY_APPLIED).is_some();
    let image = claim.status.as_ref()?.image_id.clone();
    let hash = annotation(annotation::EC2_NODE_CLASS_HASH);
    (!image.is_empty()).then_some(NodeReading {
        class: claim.spec.node_class_ref.name.clone(),
        class_hash: hash.filter(|_| !overlaid),
        node: node_number(claim.provider_id().unwrap_or_default()),
        // A node may write its own label.
        instance_type: claim.metadata.labels.as_ref()?.get(label::INSTANCE_TYPE)?.clone(),
        image,
        ..NodeReading::default()
    })
}

impl Measurements {
    /// Records the reading of a node if it runs an image of its EC2NodeClass, whose settings are `settings`. Memory that no kernel
    /// leaves of EC2's amount is ignored.
    pub fn learn_node(
        &mut self,
        settings: NodeSettings<'_>,
        infos: &[InstanceTypeInfo],
        reading: &NodeReading,
        now: Timestamp,
    ) -> MeasurementUpdate {
        if !settings.images.split(' ').any(|image| image == reading.image) {
            return MeasurementUpdate::Nothing;
        }
        let info = infos.iter().find(|info| info.name == reading.instance_type);
        let mut reading = reading.clone();
        reading.memory = reading.memory.filter(|memory| info.is_some_and(|info| is_plausible_memory(info, *memory)));
        self.learn(settings, &reading, now)
    }
}
