//! Cost of the fleet before and after a plan.

use std::collections::BTreeSet;

use api::label;
use planner::{CapacityType, Node};

use super::PlanAnswer;

/// Returns the cost in millionths of a dollar per hour of all nodes of known type: now, and after the plan is carried out.
/// Nodes that are already being removed count only before.
pub(crate) fn before_and_after(answer: &PlanAnswer) -> (i64, i64) {
    let removed: BTreeSet<&str> =
        answer.plan.moves.iter().flat_map(|it| &it.nodes).map(|leaver| leaver.node.as_str()).collect();
    let (mut before, mut after) = (0, 0);
    for node in &answer.built.snapshot.nodes {
        let price = price(answer, node).unwrap_or(0);
        before += price;
        if node.leaving.is_none() && !removed.contains(node.name.as_str()) {
            after += price;
        }
    }
    after += answer.plan.launches.iter().map(|launch| launch.price.0).sum::<i64>();
    (before, after)
}

/// Returns the price of a node from the snapshot, else by its labels. An unmanaged node counts as on-demand unless its labels
/// name another capacity type.
pub(crate) fn price(answer: &PlanAnswer, node: &Node) -> Option<i64> {
    if let Some(price) = node.price {
        return Some(price.0);
    }
    let name = node.instance_type.as_ref()?;
    let zone = node.labels.get(label::ZONE);
    let capacity_type = node.labels.get(label::CAPACITY_TYPE).map(String::as_str);
    let capacity_type =
        capacity_type.or_else(|| match node.labels.get("eks.amazonaws.com/capacityType").map(String::as_str) {
            Some("SPOT") => Some(CapacityType::Spot.as_str()),
            _ => None,
        });
    let wanted = capacity_type.unwrap_or(CapacityType::OnDemand.as_str());
    let types = answer.built.snapshot.catalogues.iter().flat_map(|catalogue| &catalogue.types);
    let offerings = types.filter(|kind| kind.name == *name).flat_map(|kind| &kind.offerings);
    let matching =
        offerings.filter(|it| it.capacity_type.as_str() == wanted && zone.is_none_or(|zone| *zone == it.zone));
    matching.map(|offering| offering.price.0).min()
}
