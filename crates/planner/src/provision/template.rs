//! A pool as a mould for new nodes: its requirements, and its types with the daemons that come along.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::{Effect, MicroDollars, Miss, Offer, Pool, Requirements, Resources, Snapshot, ValueSet, label};

use super::demand::{Demand, Tolerance};
use super::limits::{Headroom, footprint};
use super::overhead;

/// Stands for the name that a new node will have; no label value can contain a space.
const NEW_NODE: &str = "a new node";

/// A pool, ready to be asked.
pub(super) struct Template<'a> {
    pub(super) pool: &'a Pool,
    pub(super) requirements: Requirements,
    pub(super) candidates: Vec<Candidate<'a>>,
    /// Types of the catalogue that are not what the pool asks for.
    foreign: usize,
    well_known: &'a BTreeSet<String>,
    /// How many types a claim may list.
    pub(super) most: usize,
}

/// An instance type under one pool.
pub(super) struct Candidate<'a> {
    pub(super) offer: Offer<'a>,
    /// Requests of the DaemonSet pods that come with such a node.
    pub(super) overhead: Resources,
    /// What is left of the allocatable resources for other pods.
    room: Resources,
    /// The first resource of which the daemons alone ask for more than there is: such a type takes no pods.
    crowded: Option<String>,
    pub(super) footprint: Resources,
}

/// A candidate's position with the price of its cheapest offering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Priced {
    pub(super) price: MicroDollars,
    pub(super) candidate: usize,
}

/// Templates in the order in which they are tried: weight, then name, both descending.
pub(super) fn in_order(snapshot: &Snapshot) -> Vec<Template<'_>> {
    let mut pools: Vec<&Pool> = snapshot.pools.iter().collect();
    pools.sort_by_key(|pool| Reverse((pool.weight, pool.name.as_str())));
    let daemons: Vec<Demand<'_>> = snapshot.daemons.iter().map(|daemon| Demand::of(&daemon.shape)).collect();
    pools.into_iter().map(|pool| Template::of(snapshot, pool, &daemons)).collect()
}

/// Whether any pool or node has a taint that pods avoid only where they can.
pub(super) fn has_soft_taints(snapshot: &Snapshot) -> bool {
    let pools = snapshot.pools.iter().flat_map(|pool| &pool.taints);
    let nodes = snapshot.nodes.iter().flat_map(|node| &node.taints);
    pools.chain(nodes).any(|taint| taint.effect == Effect::PreferNoSchedule)
}

impl<'a> Template<'a> {
    fn of(snapshot: &'a Snapshot, pool: &'a Pool, daemons: &[Demand<'a>]) -> Self {
        let well_known = &snapshot.policy.well_known;
        let own: Requirements = pool.requirements.iter().collect();
        let mut requirements = own.intersection(&Requirements::of_labels(&pool.labels));
        requirements.narrow(label::HOSTNAME, &ValueSet::one(NEW_NODE));
        let types = snapshot.catalogues.get(pool.catalogue).map_or(&[][..], |catalogue| &catalogue.types);
        let candidates: Vec<Candidate<'a>> = types
            .iter()
            .map(Offer::of)
            .filter(|offer| offer.labels_match(&requirements, &pool.labels, well_known))
            .map(|offer| Candidate::of(snapshot, pool, &requirements, daemons, offer))
            .collect();
        let foreign = types.len() - candidates.len();
        Self { pool, requirements, candidates, foreign, well_known, most: snapshot.policy.max_instance_types }
    }

    /// Why the pool as such is not for this pod, or the requirements of pool and pod together, one for each alternative.
    pub(super) fn admit(&self, demand: &Demand<'_>, tolerance: Tolerance) -> Result<Vec<Requirements>, Miss> {
        if let Some(taint) = demand.first_untolerated(&self.pool.taints, tolerance) {
            return Err(Miss::Taint { taint: taint.to_string() });
        }
        if let Some((key, _)) = self.requirements.iter().find(|(_, set)| set.is_empty()) {
            return Err(Miss::Requirement { key: key.to_owned() });
        }
        self.narrowed(&self.requirements, demand)
    }

    /// `present` narrowed by each alternative of the pod that agrees with it.
    pub(super) fn narrowed(&self, present: &Requirements, demand: &Demand<'_>) -> Result<Vec<Requirements>, Miss> {
        let mut conflict = None;
        let mut agreed = Vec::new();
        for asked in &demand.alternatives {
            match present.first_conflict(asked, self.well_known) {
                None => agreed.push(present.narrowed(asked, self.well_known)),
                Some(key) => conflict = conflict.or(Some(key)),
            }
        }
        match conflict {
            Some(key) if agreed.is_empty() => Err(Miss::Requirement { key: key.to_owned() }),
            _ => Ok(agreed),
        }
    }

    /// The candidates among `from` that can be had as required and hold `requests`, cheapest first.
    pub(super) fn select(
        &self,
        from: impl Iterator<Item = usize>,
        requirements: &Requirements,
        requests: &Resources,
        limit: impl Fn(&Resources) -> Option<String>,
    ) -> Result<Vec<Priced>, Miss> {
        let mut tally = Tally { labels: self.foreign, total: self.foreign, ..Tally::default() };
        let mut selected = Vec::new();
        for position in from {
            let candidate = &self.candidates[position];
            tally.total += 1;
            if !candidate.offer.labels_match(requirements, &self.pool.labels, self.well_known) {
                tally.labels += 1;
            } else if let Some(lacking) = requests.first_lacking(&candidate.room).or(candidate.crowded.as_deref()) {
                tally.lacks(lacking);
            } else if let Some(price) = candidate.offer.price(requirements) {
                match limit(&candidate.footprint) {
                    Some(resource) => tally.limit = tally.limit.or(Some(resource)),
                    None => selected.push(Priced { price, candidate: position }),
                }
            } else {
                tally.unavailable += 1;
            }
        }
        if selected.is_empty() {
            return Err(tally.miss());
        }
        selected.sort_by_key(|priced| (priced.price, &self.candidates[priced.candidate].offer.kind.name));
        self.check_min_values(requirements, &selected).map(|()| selected)
    }

    /// Whether the instance type, or Kubernetes, decides what value a label has on a new node.
    pub(super) fn decides(&self, key: &str) -> bool {
        self.well_known.contains(key) || key == label::HOSTNAME
    }

    /// All candidates for a launch of its own, under the limits that are left.
    pub(super) fn select_fresh(
        &self,
        own: usize,
        requirements: &Requirements,
        requests: &Resources,
        headroom: &Headroom,
    ) -> Result<Vec<Priced>, Miss> {
        let none = Resources::default();
        let limit = |footprint: &Resources| headroom.first_exceeded(own, footprint, &none).map(str::to_owned);
        self.select(0..self.candidates.len(), requirements, requests, limit)
    }

    /// How many of `left` equal pods a launch should take so that each costs least; the most among equally cheap ways.
    pub(super) fn best_load(&self, types: &[Priced], requests: &Resources, left: usize) -> usize {
        let load = |priced: &Priced| {
            let held = usize::try_from(self.candidates[priced.candidate].room.times(requests)).unwrap_or(usize::MAX);
            held.clamp(1, left.max(1))
        };
        let ways = types.iter().map(|priced| (i128::from(priced.price.0), load(priced)));
        let best = ways.min_by(|(price, load), (other_price, other_load)| {
            let (each, other) = (price * *other_load as i128, other_price * *load as i128);
            each.cmp(&other).then(other_load.cmp(load))
        });
        best.map_or(1, |(_, load)| load)
    }

    /// Whether the types that a claim may list leave as many values as `minValues` asks for.
    fn check_min_values(&self, requirements: &Requirements, selected: &[Priced]) -> Result<(), Miss> {
        let listed = &selected[..selected.len().min(self.most)];
        for (key, set) in requirements.iter() {
            let Some(asked) = set.min_values() else { continue };
            let found = self.values_of(key, requirements, listed).len();
            if found < asked as usize {
                return Err(Miss::MinValues { key: key.to_owned(), asked, found });
            }
        }
        Ok(())
    }

    /// The distinct values of one label that the listed types can still have.
    fn values_of(&self, key: &str, requirements: &Requirements, listed: &[Priced]) -> BTreeSet<String> {
        let mut values = BTreeSet::new();
        for priced in listed {
            let offer = &self.candidates[priced.candidate].offer;
            let offerings = offer.offerings(requirements).filter(|offering| offering.available);
            match key {
                label::INSTANCE_TYPE => values.extend([offer.kind.name.clone()]),
                label::ZONE => values.extend(offerings.map(|offering| offering.zone.clone())),
                label::CAPACITY_TYPE => {
                    values.extend(offerings.map(|offering| offering.capacity_type.as_str().to_owned()));
                }
                _ => values.extend(offer.kind.labels.get(key).into_iter().flatten().cloned()),
            }
        }
        values.retain(|value| requirements.get(key).is_none_or(|set| set.allows(Some(value))));
        values
    }
}

impl<'a> Candidate<'a> {
    fn of(
        snapshot: &'a Snapshot,
        pool: &'a Pool,
        requirements: &Requirements,
        demands: &[Demand<'a>],
        offer: Offer<'a>,
    ) -> Self {
        let mut overhead = Resources::default();
        for demand in overhead::daemons(snapshot, demands, requirements, &pool.labels, &pool.taints, &offer) {
            overhead.add(demand.requests);
        }
        let mut room = offer.kind.allocatable.clone();
        room.subtract(&overhead);
        let footprint = footprint(offer.kind);
        let crowded = overhead.first_lacking(&offer.kind.allocatable).map(str::to_owned);
        Self { offer, overhead, room, crowded, footprint }
    }
}

/// Why types fell out, counted.
#[derive(Default)]
struct Tally {
    total: usize,
    labels: usize,
    small: BTreeMap<String, usize>,
    unavailable: usize,
    limit: Option<String>,
}

impl Tally {
    fn lacks(&mut self, resource: &str) {
        *self.small.entry(resource.to_owned()).or_default() += 1;
    }

    fn miss(self) -> Miss {
        match self.limit {
            Some(resource) => Miss::Limit { resource },
            None => Miss::Types {
                total: self.total,
                labels: self.labels,
                small: self.small.into_iter().collect(),
                unavailable: self.unavailable,
            },
        }
    }
}
