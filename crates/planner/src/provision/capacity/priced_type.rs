//! Instance type of a NodePool with its price, as far as the requirements of a launch allow its offerings.

use std::collections::BTreeSet;

use crate::{CapacityType, Commitment, MicroDollars, Offering, Requirements, label};

use super::limits::{Footprint, footprint};
use super::pool_template::{CandidateType, PoolTemplate};

/// Available instance type with its price.
#[derive(Clone, Debug)]
pub(in crate::provision) struct PricedType {
    /// Its position among the template's candidates.
    pub(in crate::provision) candidate: usize,
    /// Cost of the cheapest offering for comparisons: price per unit of performance, plus the NodePool's fee. Where a commitment pays, the
    /// price is nearly nothing.
    pub(in crate::provision) cost: i64,
    /// Price of this offering, in micro-dollars per hour.
    pub(in crate::provision) price: i64,
    pub(in crate::provision) cheapest: CapacityType,
    /// Capacity types in which a launch may request the type.
    pub(in crate::provision) sold_as: CapacityTypes,
    /// Amounts in the limits of the NodePool.
    pub(in crate::provision) footprint: Footprint,
}

/// Set of capacity types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::provision) struct CapacityTypes(u8);

impl CapacityTypes {
    const ALL: [CapacityType; 3] = [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand];

    fn only(one: CapacityType) -> Self {
        Self(1 << one as u8)
    }

    pub(in crate::provision) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(in crate::provision) fn contains(self, one: CapacityType) -> bool {
        self.0 & Self::only(one).0 != 0
    }

    pub(in crate::provision) fn iter(self) -> impl Iterator<Item = CapacityType> {
        Self::ALL.into_iter().filter(move |one| self.contains(*one))
    }
}

impl PoolTemplate<'_> {
    /// Returns the available candidates.
    pub(super) fn all_priced(&self, candidates: &[usize], requirements: &Requirements) -> Vec<PricedType> {
        candidates.iter().filter_map(|it| self.priced(*it, requirements)).collect()
    }

    /// Returns a candidate with its cheapest offering; `None` when none is available for the requirements, or when DaemonSet
    /// pods fill the type.
    fn priced(&self, candidate: usize, requirements: &Requirements) -> Option<PricedType> {
        let own = &self.candidates[candidate];
        let mut best = None;
        let mut sold_as = CapacityTypes::default();
        for offering in own.offerings(requirements) {
            best = best.into_iter().chain([(offering.price, offering.capacity_type)]).min();
            sold_as = sold_as.with(CapacityTypes::only(offering.capacity_type));
        }
        let (price, cheapest) = best.filter(|_| own.lacking.is_none())?;
        let committed = self.pays_for.as_ref().and_then(|commitment| commitment.use_of(&own.offer.kind.name));
        let compared = committed.map_or(price, Commitment::price_of_launch);
        let cost = own.offer.kind.cost(compared) + self.pool.node_fee.0;
        let limited_cost = self.counts_cost.then(|| self.most_expensive(own, requirements, cheapest));
        if limited_cost.is_some() {
            sold_as = CapacityTypes::only(cheapest);
        }
        let further = limited_cost.map(|cost| cost.0).into_iter().chain(committed);
        let footprint = footprint(self.pool, own.offer.kind, further);
        Some(PricedType { candidate, cost, price: price.0, cheapest, sold_as, footprint })
    }

    /// Returns the highest cost of a node from the offerings of one capacity type, available or not: EC2 selects one of those that are
    /// available at the launch.
    fn most_expensive(
        &self,
        candidate: &CandidateType<'_>,
        requirements: &Requirements,
        capacity_type: CapacityType,
    ) -> MicroDollars {
        let offerings = candidate.offer.offerings(requirements).filter(|it| it.capacity_type == capacity_type);
        MicroDollars(offerings.map(|it| it.charged().0).max().unwrap_or_default() + self.pool.node_fee.0)
    }
}

impl<'a> CandidateType<'a> {
    /// Adds the values that a label can have on a node of this type from one of these offerings.
    pub(in crate::provision) fn values(
        &self,
        sold: impl Iterator<Item = &'a Offering>,
        key: &str,
        values: &mut BTreeSet<&'a str>,
    ) {
        let kind = self.offer.kind;
        let mut sold = sold.peekable();
        if sold.peek().is_none() {
            return;
        }
        match key {
            label::INSTANCE_TYPE => {
                values.insert(&kind.name);
            }
            _ => values.extend(kind.labels.get(key).into_iter().flatten().map(String::as_str)),
        }
        values.extend(sold.filter_map(|offering| offering.value(key)));
    }
}
