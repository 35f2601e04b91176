//! Launches while they are filled, and as they go into the plan.

use std::collections::BTreeSet;

use crate::{Launch, MicroDollars, Miss, Operator, PoolMiss, Requirement, Requirements, Resources, ValueSet, label};

use super::demand::{Demand, Tolerance};
use super::limits::{Headroom, maximum};
use super::template::{Priced, Template};

/// The best launch for one pod alone.
#[derive(Clone)]
pub(super) struct Fresh {
    template: usize,
    requirements: Requirements,
    /// Cheapest first; never empty.
    types: Vec<Priced>,
}

/// A launch that may still take pods.
pub(super) struct Open {
    pub(super) template: usize,
    pub(super) pods: Vec<usize>,
    /// The shape that it was opened for, and for how many more of its pods `requests` has room already.
    seats: (usize, usize),
    requirements: Requirements,
    requests: Resources,
    types: Vec<Priced>,
    /// What is reserved of the pool's limits.
    held: Resources,
}

impl Fresh {
    /// The launch from the heaviest pool that takes the pod, the cheapest among equally heavy ones; or every pool's miss.
    pub(super) fn best(
        templates: &[Template<'_>],
        demand: &Demand<'_>,
        tolerance: Tolerance,
        headroom: &Headroom,
        steps: &mut u64,
    ) -> Result<Self, Vec<PoolMiss>> {
        let mut best: Option<Self> = None;
        let mut misses = Vec::new();
        for (position, template) in templates.iter().enumerate() {
            let lighter = |fresh: &Self| template.pool.weight < templates[fresh.template].pool.weight;
            if best.as_ref().is_some_and(lighter) {
                break;
            }
            *steps += 1 + template.candidates.len() as u64;
            match Self::from(position, template, demand, tolerance, headroom) {
                Ok(fresh) if best.as_ref().is_none_or(|best| fresh.price() < best.price()) => best = Some(fresh),
                Ok(_) => {}
                Err(miss) => misses.push(PoolMiss { pool: template.pool.name.clone(), miss }),
            }
        }
        best.ok_or(misses)
    }

    /// The first alternative of the pod that leaves types; the nearest miss when none does.
    fn from(
        position: usize,
        template: &Template<'_>,
        demand: &Demand<'_>,
        tolerance: Tolerance,
        headroom: &Headroom,
    ) -> Result<Self, Miss> {
        let mut nearest: Option<Miss> = None;
        for requirements in template.admit(demand, tolerance)? {
            match template.select_fresh(position, &requirements, demand.requests, headroom) {
                Ok(types) => return Ok(Self { template: position, requirements, types }),
                Err(miss) if nearest.as_ref().is_none_or(|nearest| nearest.nearness() < miss.nearness()) => {
                    nearest = Some(miss);
                }
                Err(_) => {}
            }
        }
        Err(nearest.unwrap_or_else(Miss::no_types))
    }

    /// The launch with room for `load` equal pods; for one, if that many cannot go together or not as cheaply.
    fn loaded(
        &self,
        template: &Template<'_>,
        one: &Resources,
        load: usize,
        headroom: &Headroom,
    ) -> (Resources, Vec<Priced>, usize) {
        let count = i64::try_from(load).unwrap_or(i64::MAX);
        let all: Resources = one.iter().map(|(name, amount)| (name, amount.saturating_mul(count))).collect();
        let types = template.select_fresh(self.template, &self.requirements, &all, headroom).ok();
        let separate = self.price().0.saturating_mul(count);
        match types.filter(|types| cheapest(types).0 <= separate) {
            Some(types) => (all, types, load),
            None => (one.clone(), self.types.clone(), 1),
        }
    }

    /// What the cheapest type costs.
    pub(super) fn price(&self) -> MicroDollars {
        cheapest(&self.types)
    }
}

fn cheapest(types: &[Priced]) -> MicroDollars {
    types.first().map(|priced| priced.price).unwrap_or_default()
}

impl Open {
    /// Opens a launch for the first of `left` pods of a shape, with seats for those that make each of them cheapest, and
    /// reserves its share of the limits.
    pub(super) fn new(
        fresh: Fresh,
        (shape, left): (usize, usize),
        demand: &Demand<'_>,
        templates: &[Template<'_>],
        headroom: &mut Headroom,
    ) -> Self {
        let own = &templates[fresh.template];
        let load = own.best_load(&fresh.types, demand.requests, left);
        let (requests, types, load) = fresh.loaded(own, demand.requests, load, headroom);
        let Fresh { template, requirements, .. } = fresh;
        let held = reservation(own, &requirements, &types);
        headroom.exchange(template, &Resources::default(), &held);
        Self { template, pods: Vec::new(), seats: (shape, load - 1), requirements, requests, types, held }
    }

    /// Gives a pod of the shape that the launch was opened for one of the seats that are kept for it, if any is left.
    pub(super) fn seat(&mut self, shape: usize) -> bool {
        let (kept_for, free) = self.seats;
        let seated = kept_for == shape && free > 0;
        self.seats.1 -= usize::from(seated);
        seated
    }

    /// Makes room for one more pod, unless it does not fit or costs more than a launch of its own (`alone`).
    pub(super) fn join(
        &mut self,
        template: &Template<'_>,
        demand: &Demand<'_>,
        tolerance: Tolerance,
        alone: Option<MicroDollars>,
        headroom: &mut Headroom,
        steps: &mut u64,
    ) -> bool {
        *steps += 1 + self.types.len() as u64;
        let mut requests = self.requests.clone();
        requests.add(demand.requests);
        let Some((requirements, types)) = self.narrow(template, demand, tolerance, &requests, headroom) else {
            return false;
        };
        let dearer = |alone: MicroDollars| cheapest(&types).0 > cheapest(&self.types).0.saturating_add(alone.0);
        if alone.is_some_and(dearer) {
            return false;
        }
        let wanted = reservation(template, &requirements, &types);
        headroom.exchange(self.template, &self.held, &wanted);
        *self = Self { requirements, types, requests, held: wanted, pods: std::mem::take(&mut self.pods), ..*self };
        true
    }

    /// The launch with one more pod: the first of the pod's alternatives that leaves types.
    fn narrow(
        &self,
        template: &Template<'_>,
        demand: &Demand<'_>,
        tolerance: Tolerance,
        requests: &Resources,
        headroom: &Headroom,
    ) -> Option<(Requirements, Vec<Priced>)> {
        if demand.first_untolerated(&template.pool.taints, tolerance).is_some() {
            return None;
        }
        let limit =
            |footprint: &Resources| headroom.first_exceeded(self.template, footprint, &self.held).map(str::to_owned);
        let present = || self.types.iter().map(|priced| priced.candidate);
        let narrowed = template.narrowed(&self.requirements, demand).ok()?;
        narrowed.into_iter().find_map(|requirements| {
            let types = template.select(present(), &requirements, requests, limit).ok()?;
            Some((requirements, types))
        })
    }

    /// The launch as the plan says it: types that the limits leave room for, requirements as objects write them, and what
    /// its pods request in fact (`seated`).
    pub(super) fn close(mut self, template: &Template<'_>, seated: Resources, headroom: &mut Headroom) -> Launch {
        self.widen(template, headroom);
        let kinds = self.types.iter().map(|priced| &template.candidates[priced.candidate]);
        let mut requests = seated;
        requests.add(&least(kinds.clone().map(|candidate| &candidate.overhead)));
        let capacity_types: BTreeSet<&str> = kinds
            .clone()
            .flat_map(|candidate| candidate.offer.offerings(&self.requirements))
            .filter(|offering| offering.available)
            .map(|offering| offering.capacity_type.as_str())
            .collect();
        let bought = Requirement::new(label::CAPACITY_TYPE, Operator::In, capacity_types);
        let mut requirements = self.requirements;
        let min_instance_types = requirements.get(label::INSTANCE_TYPE).and_then(ValueSet::min_values);
        settle(&mut requirements, template);
        requirements.add(&bought);
        requirements.remove(label::HOSTNAME);
        requirements.remove(label::INSTANCE_TYPE);
        Launch {
            pool: template.pool.name.clone(),
            requirements: requirements.to_vec(),
            instance_types: kinds.map(|candidate| candidate.offer.kind.name.clone()).collect(),
            requests,
            min_instance_types,
            pods: self.pods,
            price: cheapest(&self.types),
            purpose: crate::Purpose::Provision,
            min_values_relaxed: false,
        }
    }

    /// Keeps as many types, cheapest first, as a claim may list and as the limits can bear at once.
    fn widen(&mut self, template: &Template<'_>, headroom: &mut Headroom) {
        let mut kept = Vec::new();
        for priced in &self.types {
            let wanted = maximum(&self.held, &template.candidates[priced.candidate].footprint);
            if kept.len() < template.most.max(1)
                && headroom.first_exceeded(self.template, &wanted, &self.held).is_none()
            {
                headroom.exchange(self.template, &self.held, &wanted);
                self.held = wanted;
                kept.push(*priced);
            }
        }
        self.types = kept;
    }
}

/// Settles labels that nobody but the claim can give the node: where one must be there and several values are possible,
/// one of them is chosen, for the node would otherwise come up without it.
fn settle(requirements: &mut Requirements, template: &Template<'_>) {
    let open = |(key, set): &(&str, &ValueSet)| !template.decides(key) && !set.allows(None);
    let chosen: Vec<(String, String)> =
        requirements.iter().filter(open).filter_map(|(key, set)| Some((key.to_owned(), set.any()?))).collect();
    for (key, value) in chosen {
        requirements.narrow(&key, &ValueSet::one(&value));
    }
}

/// What a launch must hold of its pool's limits while it is open: its cheapest type, or all that it will list when
/// `minValues` forbids to leave some out later.
fn reservation(template: &Template<'_>, requirements: &Requirements, types: &[Priced]) -> Resources {
    let flexible = requirements.iter().any(|(_, set)| set.min_values().is_some());
    let counted = if flexible { template.most.max(1) } else { 1 };
    let footprints = types.iter().take(counted).map(|priced| &template.candidates[priced.candidate].footprint);
    footprints.fold(Resources::default(), |held, footprint| maximum(&held, footprint))
}

/// The least amount of every resource over all.
fn least<'r>(all: impl Iterator<Item = &'r Resources>) -> Resources {
    let minimum = |one: Resources, other: &Resources| {
        one.iter().filter(|(name, _)| other.names(name)).map(|(name, it)| (name, it.min(other.get(name)))).collect()
    };
    let mut all = all;
    let first = all.next().cloned().unwrap_or_default();
    all.fold(first, minimum)
}
