//! Reserved capacity that in-flight NodeClaims will use, and which EC2 does not count yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{NodeClaim, Operator, label};
use planner::Catalogue;

use super::same;

/// The last result with its inputs, so that equal results are the same `Arc`s.
#[derive(Default)]
pub(crate) struct Reserved {
    source: BTreeMap<String, Arc<Catalogue>>,
    held: BTreeMap<String, u32>,
    available: BTreeMap<String, Arc<Catalogue>>,
}

impl Reserved {
    /// Returns the catalogues without the reserved capacity that NodeClaims without an instance may use. Such a NodeClaim
    /// counts for every reservation that it names, because the one in use is not known yet.
    pub(crate) fn available(
        &mut self,
        claims: &[&Arc<NodeClaim>],
        source: &BTreeMap<String, Arc<Catalogue>>,
    ) -> BTreeMap<String, Arc<Catalogue>> {
        let held = in_flight_counts(claims);
        if held != self.held || !same(&self.source, source) {
            let reduced =
                |(class, catalogue): (&String, &Arc<Catalogue>)| (class.clone(), without_held(catalogue, &held));
            self.available = source.iter().map(reduced).collect();
            self.source.clone_from(source);
            self.held = held;
        }
        self.available.clone()
    }
}

fn without_held(catalogue: &Arc<Catalogue>, held: &BTreeMap<String, u32>) -> Arc<Catalogue> {
    let offerings = || catalogue.types.iter().flat_map(|kind| &kind.offerings);
    if !offerings().any(|it| it.reservation.as_ref().is_some_and(|own| held.contains_key(&own.id))) {
        return Arc::clone(catalogue);
    }
    let mut reduced = Catalogue::clone(catalogue);
    for reservation in reduced.types.iter_mut().flat_map(|kind| &mut kind.offerings).flat_map(|it| &mut it.reservation)
    {
        let held = held.get(&reservation.id).copied().unwrap_or_default();
        reservation.remaining = reservation.remaining.saturating_sub(held);
    }
    Arc::new(reduced)
}

/// Counts the in-flight NodeClaims that name each reservation.
fn in_flight_counts(claims: &[&Arc<NodeClaim>]) -> BTreeMap<String, u32> {
    let mut held = BTreeMap::new();
    let in_flight = |claim: &NodeClaim| {
        let launched = claim.status.as_ref().is_some_and(|status| !status.provider_id.is_empty());
        !launched && claim.metadata.deletion_timestamp.is_none()
    };
    for claim in claims.iter().filter(|claim| in_flight(claim)) {
        let names = claim.spec.requirements.iter();
        let names = names.filter(|it| it.key == label::CAPACITY_RESERVATION_ID && it.operator == Operator::In);
        for id in names.flat_map(|it| &it.values) {
            *held.entry(id.clone()).or_default() += 1;
        }
    }
    held
}
