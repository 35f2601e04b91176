//! Cost of the fleet before and after a plan.

use std::collections::{BTreeMap, BTreeSet};

use api::label;
use planner::{CapacityType, Node};

use super::PlanAnswer;

/// Average number of hours of a month.
const HOURS_PER_MONTH: i64 = 730;

/// Returns the cost of a month from that of an hour.
pub(crate) fn per_month(per_hour: i64) -> i64 {
    per_hour.saturating_mul(HOURS_PER_MONTH)
}

/// Cost of all nodes of known type, in millionths of a dollar per hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FleetCost {
    /// Prices of the instances.
    pub(crate) instances: i64,
    /// EBS volumes and public IPv4 addresses by the EC2NodeClass, and node fees of the NodePool.
    pub(crate) extras: i64,
    /// Part of the prices for which Commitments pay.
    pub(crate) paid: i64,
}

impl FleetCost {
    /// Returns the whole cost.
    pub(crate) fn sum(self) -> i64 {
        self.instances + self.extras
    }

    fn add(&mut self, instance: i64, extras: i64) {
        self.instances += instance;
        self.extras += extras;
    }
}

/// Returns the cost now, and after the plan is carried out. Nodes that are already being removed count only before.
pub(crate) fn before_and_after(answer: &PlanAnswer) -> (FleetCost, FleetCost) {
    before_and_after_in(answer, |_| true)
}

/// Returns the cost of the nodes in the counted NodePools, now and after the plan is carried out.
pub(crate) fn before_and_after_in(
    answer: &PlanAnswer,
    is_counted: impl Fn(Option<&str>) -> bool,
) -> (FleetCost, FleetCost) {
    let removed: BTreeSet<&str> =
        answer.plan.moves.iter().flat_map(|it| &it.nodes).map(|leaver| leaver.node.as_str()).collect();
    let pools: BTreeMap<&str, i64> =
        answer.built.snapshot.pools.iter().map(|pool| (pool.name.as_str(), pool.node_fee.0)).collect();
    let extras = |pool: Option<&str>| pool.and_then(|pool| pools.get(pool)).copied().unwrap_or(0);
    let (mut before, mut after) = (FleetCost::default(), FleetCost::default());
    for node in answer.built.snapshot.nodes.iter().filter(|node| is_counted(node.pool.as_deref())) {
        let Some(price) = price(answer, node) else { continue };
        let extras = extras(node.pool.as_deref());
        let paid: i64 = node.paid.iter().map(|share| share.price.0).sum();
        before.add(price, extras);
        before.paid += paid;
        if node.leaving.is_none() && !removed.contains(node.name.as_str()) {
            after.add(price, extras);
            after.paid += paid;
        }
    }
    for launch in answer.plan.launches.iter().filter(|launch| is_counted(Some(&launch.pool))) {
        after.add(launch.price.0, extras(Some(&launch.pool)));
        after.paid += launch.price.0 - launch.unpaid_price().0;
    }
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
