//! Capacity that NodePools can launch: node templates with types and prices, limits, and capacity reservations.

pub(super) mod limits;
pub(super) mod node_template;
pub(super) mod plan_input;
pub(super) mod pool_template;
pub(super) mod priced_type;
pub(super) mod reservations;
pub(super) mod type_filter;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{MicroDollars, MinValuesPolicy, Node, Policy, Resources, Snapshot};

use super::Attempt;
use super::demand::Demand;
use super::demand::dimensions::{Load, fits};
use super::demand::requirement_sets::{RequirementSetId, RequirementSets};
use limits::{Footprint, Headroom, footprint, maximum};
use node_template::{NodeTemplates, TemplateId};
use priced_type::{CapacityTypes, PricedType};
use reservations::Reservations;
use type_filter::TypeFilter;

/// Launchable capacity while a plan uses it.
#[derive(Clone)]
pub(super) struct Capacity<'a> {
    snapshot: &'a Snapshot,
    pub(super) templates: NodeTemplates<'a>,
    pub(super) headroom: Headroom,
    pub(super) reservations: Reservations,
    pub(super) single_node_prices: BTreeMap<Attempt, SingleNodePrices>,
    /// Cost of one pod as its share of a full node, by template and shape.
    shares: RefCell<BTreeMap<(TemplateId, usize), i64>>,
    type_lists: BTreeMap<(TemplateId, Vec<usize>), TypeList>,
    /// Type filter by pool template and requirements.
    type_filters: BTreeMap<(usize, RequirementSetId), Arc<TypeFilter>>,
}

/// Best launch for a single pod.
#[derive(Clone)]
pub(super) struct NewNodeOption {
    pub(super) template: TemplateId,
    pub(super) entry: usize,
    pub(super) cost: i64,
    /// Number of DaemonSets whose pods do not fit on the node.
    pub(super) absent: usize,
    /// Capacity reservation that the launch draws on.
    pub(super) reservation: Option<String>,
    pub(super) lowered: BTreeMap<String, u32>,
}

/// Cached best launch for a single pod, with the generation of limits and reservations.
#[derive(Clone)]
pub(super) struct SingleNodePrices {
    pub(super) generation: (u64, u64),
    pub(super) best: Option<NewNodeOption>,
}

/// Instance types that a launch lists.
#[derive(Clone)]
pub(super) struct TypeList {
    pub(super) names: Arc<Vec<String>>,
    /// Minimum DaemonSet overhead over all of them.
    pub(super) overhead: Resources,
    /// Price of the first one.
    pub(super) price: MicroDollars,
    pub(super) sold_as: CapacityTypes,
}

impl<'a> Capacity<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, templates: NodeTemplates<'a>) -> Self {
        Self {
            headroom: Headroom::new(snapshot, &templates.pool_templates),
            reservations: Reservations::new(snapshot),
            snapshot,
            templates,
            single_node_prices: BTreeMap::new(),
            shares: RefCell::default(),
            type_lists: BTreeMap::new(),
            type_filters: BTreeMap::new(),
        }
    }

    /// Returns a number pair that changes with every change of limits or reservations.
    pub(super) fn generation(&self) -> (u64, u64) {
        (self.headroom.generation(), self.reservations.generation())
    }

    /// Returns the template of the static NodePool with this name, if it lacks nodes.
    pub(super) fn static_template(&self, pool: &str) -> Option<TemplateId> {
        self.templates.fixed().find(|base| self.templates.pool_template_of(*base).pool.name == pool)
    }

    /// Releases what a removed node uses: resources in the limits of its NodePool, and its commitments.
    pub(super) fn release_limits(&mut self, node: &Node) {
        self.headroom.release(&node.paid);
        let mut pools = self.templates.pool_templates.iter();
        let Some(position) = pools.position(|it| Some(&it.pool.name) == node.pool.as_ref()) else { return };
        if !self.headroom.is_bounded(position) {
            return;
        }
        let pool = self.templates.pool_templates[position].pool;
        let types = self.snapshot.catalogues.get(pool.catalogue).map_or(&[][..], |it| &it.types);
        let kind = types.iter().find(|kind| Some(&kind.name) == node.instance_type.as_ref());
        if let Some(kind) = kind {
            let unchanged = self.snapshot.limits_cost_of(pool).then_some(0);
            let held = footprint(pool, kind, unchanged);
            let nothing: Footprint = vec![0; held.len()].into();
            self.headroom.exchange(position, &held, &nothing);
        }
    }

    /// Returns the maximum number of instance types that a launch lists.
    fn most_types(&self) -> usize {
        self.snapshot.policy.max_instance_types.max(1)
    }
}

/// Entries of a template that hold a load.
impl Capacity<'_> {
    /// Returns the first entry, from a position on, that holds the load and that the limits allow.
    pub(super) fn first_holding(&self, template: TemplateId, from: usize, load: Load<'_>) -> Option<usize> {
        let own = self.templates.get(template);
        let candidates = &self.templates.pool_templates[own.pool_template].candidates;
        let holds = |position: &usize| {
            let entry = &own.entries[*position];
            let holds = candidates[entry.candidate].holds(load);
            holds && self.headroom.allows(own.pool_template, &entry.footprint, load.held)
        };
        (from..own.entries.len()).find(holds)
    }

    /// Reports whether at least `least` types, from a position on, hold the load.
    pub(super) fn enough_types(&self, template: TemplateId, from: usize, load: Load<'_>, least: usize) -> bool {
        let listed = || self.templates.get(template).listable(self.templates.holding(template, from, load));
        least <= 1 || listed().take(least).count() >= least
    }

    /// Returns the cheapest entry of a template that holds one pod; limits are ignored.
    pub(super) fn cheapest_for(&mut self, template: TemplateId, demand: &Demand<'_>) -> Option<usize> {
        if demand.shape.ports.is_empty() {
            return self.templates.first_fit(template, &demand.requests);
        }
        self.templates.holding(template, 0, demand.load()).next()
    }

    /// Returns how many types a launch of this template must keep for a load. The policy's number applies where spot is allowed
    /// and a multiple of it holds the load alone; a choice among few types would exclude the large ones, which cost less.
    pub(super) fn least_types(&self, template: TemplateId, load: Load<'_>) -> usize {
        if !self.templates.get(template).allows_spot {
            return 1;
        }
        let most = self.snapshot.policy.least_types_of(usize::MAX) * Policy::TYPES_PER_CHOICE;
        let listed = self.templates.get(template).listable(self.templates.holding(template, 0, load));
        self.snapshot.policy.least_types_of(listed.take(most).count())
    }

    /// Returns what an open launch must reserve of its NodePool's limits: its cheapest type, or all listed types when
    /// `minValues` forbids their later removal.
    pub(super) fn reservation(&self, template: TemplateId, entry: usize, load: Load<'_>) -> Footprint {
        let own = self.templates.get(template);
        if !self.headroom.is_counted(own.pool_template) {
            return Footprint::default();
        }
        let counted = if own.flexible { self.most_types() } else { 1 };
        let listed = self.within_limits(template, entry, load).take(counted);
        listed.fold(Footprint::default(), |all, it| maximum(&all, &own.entries[it].footprint))
    }

    /// Returns positions of the entries from one on that hold the load and that the limits allow, as far as one launch may list
    /// them.
    fn within_limits<'s>(
        &'s self,
        template: TemplateId,
        from: usize,
        load: Load<'s>,
    ) -> impl Iterator<Item = usize> + 's {
        let own = self.templates.get(template);
        let fits = move |position: &usize| {
            self.headroom.allows(own.pool_template, &own.entries[*position].footprint, load.held)
        };
        own.listable(self.templates.holding(template, from, load).filter(fits))
    }

    /// Returns as many of the fitting entries, in their order, as one launch may list and as the limits allow together, and
    /// reserves the limits. What is left of a limited cost is for this many launches.
    pub(super) fn take_types(
        &mut self,
        template: TemplateId,
        held: &[i64],
        fitting: Vec<usize>,
        launches: usize,
    ) -> Vec<usize> {
        let most = self.most_types();
        let template = self.templates.get(template);
        if !self.headroom.is_counted(template.pool_template) {
            return template.listable(fitting.into_iter()).take(most).collect();
        }
        let share = self.headroom.cost_share(template.pool_template, held, launches);
        let mut held: Footprint = held.into();
        let mut kept: Vec<usize> = Vec::new();
        for position in fitting {
            if kept.len() == most {
                break;
            }
            if kept.first().is_some_and(|first| !template.is_listable_beside(*first, position)) {
                continue;
            }
            let wanted = maximum(&held, &template.entries[position].footprint);
            if share.is_some_and(|share| !share.allows(&wanted, kept.len())) {
                continue;
            }
            if wanted == held || self.headroom.allows(template.pool_template, &wanted, &held) {
                self.headroom.exchange(template.pool_template, &held, &wanted);
                held = wanted;
                kept.push(position);
            }
        }
        kept
    }

    /// Returns the data that launches with these entries of a template share; equal lists are computed once.
    pub(super) fn type_list(&mut self, template: TemplateId, listed: Vec<usize>) -> TypeList {
        let own = self.templates.get(template);
        let candidates = &self.templates.pool_templates[own.pool_template].candidates;
        let list = |(_, listed): &(TemplateId, Vec<usize>)| {
            let entries = || listed.iter().map(|position| &own.entries[*position]);
            let name = |entry: &PricedType| candidates[entry.candidate].offer.kind.name.clone();
            TypeList {
                names: Arc::new(entries().map(name).collect()),
                overhead: minimum(entries().map(|entry| &candidates[entry.candidate].overhead)),
                price: MicroDollars(entries().next().map_or(0, |entry| entry.price)),
                sold_as: entries().fold(CapacityTypes::default(), |all, entry| all.with(entry.sold_as)),
            }
        };
        self.type_lists.entry((template, listed)).or_insert_with_key(list).clone()
    }

    /// Returns the evaluation of a NodePool's types for pods with these requirements.
    pub(super) fn type_filter(
        &mut self,
        pool_template: usize,
        alternative: RequirementSetId,
        requirement_sets: &RequirementSets<'_>,
    ) -> Arc<TypeFilter> {
        let own = &self.templates.pool_templates[pool_template];
        let types = self.snapshot.catalogues.get(own.pool.catalogue).map_or(&[][..], |catalogue| &catalogue.types);
        let filter = || Arc::new(TypeFilter::new(own, types, requirement_sets.get(alternative)));
        self.type_filters.entry((pool_template, alternative)).or_insert_with(filter).clone()
    }

    /// Reports whether nothing of the commitment of a template is left for any of its types.
    pub(super) fn is_used_up(&self, template: TemplateId) -> bool {
        let own = self.templates.get(template);
        let is_allowed = |entry: &PricedType| self.headroom.allows(own.pool_template, &entry.footprint, &[]);
        self.templates.pool_template_of(template).commitment.is_some() && !own.entries.iter().any(is_allowed)
    }

    /// Returns the cost of a pod as its share of a node that is full of such pods.
    pub(super) fn share(&self, template: TemplateId, shape: usize, requests: &[i64]) -> i64 {
        let share = || self.cheapest_share(template, requests);
        *self.shares.borrow_mut().entry((template, shape)).or_insert_with(share)
    }

    fn cheapest_share(&self, template: TemplateId, requests: &[i64]) -> i64 {
        let own = self.templates.get(template);
        let candidates = &self.templates.pool_templates[own.pool_template].candidates;
        let first = own.entries.iter().position(|entry| fits(requests, &candidates[entry.candidate].free)).unwrap_or(0);
        let shares = own.entries.iter().enumerate().take(own.end_of_class(first)).map(|(position, entry)| {
            let free = &self.templates.candidate(template, position).free;
            let parts = requests.iter().zip(free.iter()).filter(|(asked, free)| **asked > 0 && **free > 0);
            parts.map(|(asked, free)| part_of(entry.cost, *asked, *free)).max().unwrap_or(0)
        });
        shares.min().unwrap_or(0)
    }
}

/// `minValues` of a template.
impl Capacity<'_> {
    /// Returns labels for which the fitting types have fewer values than `minValues` requires, with their number.
    pub(super) fn fewer_values(&self, template: TemplateId, load: Load<'_>) -> BTreeMap<String, u32> {
        let load = Load { held: &[], ..load };
        let counted = self.min_values(template).into_iter().map(|(key, asked)| {
            let found = self.count_values(template, &key, load);
            (key, asked, found)
        });
        counted.filter(|(_, asked, found)| found < asked).map(|(key, _, found)| (key, found)).collect()
    }

    /// Returns the same; `None` when the policy forbids it.
    pub(super) fn lowered_values(&self, template: TemplateId, load: Load<'_>) -> Option<BTreeMap<String, u32>> {
        let lowered = self.fewer_values(template, load);
        let strict = self.snapshot.policy.min_values == MinValuesPolicy::Strict;
        (lowered.is_empty() || !strict).then_some(lowered)
    }

    /// Reports whether the fitting types have as many values as `minValues` requires, or as it was lowered to.
    pub(super) fn keeps_values(&self, template: TemplateId, load: Load<'_>, lowered: &BTreeMap<String, u32>) -> bool {
        self.min_values(template).into_iter().all(|(key, asked)| {
            let asked = lowered.get(&key).map_or(asked, |lowered| asked.min(*lowered));
            self.count_values(template, &key, load) >= asked
        })
    }

    pub(super) fn min_values(&self, template: TemplateId) -> Vec<(String, u32)> {
        let own = self.templates.get(template);
        if !own.flexible {
            return Vec::new();
        }
        let asked = own.requirements.iter().filter_map(|(key, set)| Some((key.to_owned(), set.min_values()?)));
        asked.collect()
    }

    /// Returns the number of label values over the types that a launch may list.
    pub(super) fn count_values(&self, template: TemplateId, key: &str, load: Load<'_>) -> u32 {
        let own = self.templates.get(template);
        let candidates = &self.templates.pool_templates[own.pool_template].candidates;
        let mut values = BTreeSet::new();
        for position in self.within_limits(template, 0, load).take(self.most_types()) {
            let candidate = &candidates[own.entries[position].candidate];
            candidate.values(candidate.offerings(&own.requirements), key, &mut values);
        }
        values.retain(|value| own.requirements.get(key).is_none_or(|set| set.allows(Some(value))));
        u32::try_from(values.len()).unwrap_or(u32::MAX)
    }
}

/// Returns the cost of a share of a node.
fn part_of(cost: i64, asked: i64, free: i64) -> i64 {
    let exact = || i64::try_from(i128::from(cost) * i128::from(asked) / i128::from(free)).unwrap_or(i64::MAX);
    // The wide division takes many times as long and is rarely needed.
    cost.checked_mul(asked).map_or_else(exact, |product| product / free)
}

/// Returns the least amount of every resource over all.
fn minimum<'r>(all: impl Iterator<Item = &'r Resources>) -> Resources {
    let minimum = |one: Resources, other: &Resources| {
        one.iter().filter(|(name, _)| other.names(name)).map(|(name, it)| (name, it.min(other.get(name)))).collect()
    };
    let mut all = all;
    let first = all.next().cloned().unwrap_or_default();
    all.fold(first, minimum)
}
