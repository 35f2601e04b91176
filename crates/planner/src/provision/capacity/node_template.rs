//! Possible states of a launch: a NodePool's requirements, narrowed by the pods of the launch.
//!
//! Launches with the same template are interchangeable, so types and prices of a template are computed once. The computation
//! starts from the wider template and covers only the labels that became narrower.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::{CapacityType, Operator, Requirement, Requirements, Toleration, ValueSet, label};

use super::pool_template::{CandidateType, PoolTemplate};
use super::priced_type::PricedType;
use crate::provision::demand::dimensions::{Amounts, Load, fits};
use crate::provision::demand::requirement_sets::{
    ClassId, RequirementSetId, RequirementSets, Tolerance, first_untolerated,
};
use crate::provision::topology::{Counts, Domain, GroupId, HOST, KeyId, PossibleLabels, SpreadGroup, Topology};

pub(in crate::provision) type TemplateId = usize;

/// Possible values of a label.
type LabelValues = Arc<BTreeSet<String>>;

/// A NodePool's requirements after the requirements of some pods were added.
#[derive(Clone)]
pub(in crate::provision) struct NodeTemplate {
    pub(in crate::provision) pool_template: usize,
    pub(in crate::provision) requirements: Requirements,
    /// Available types that satisfy the requirements, in the order in which a launch uses them: ordinary types first, then by
    /// cost, then by name. Reserved capacity counts only where the requirements name the reservation.
    pub(in crate::provision) entries: Arc<[PricedType]>,
    /// Number of ordinary types, which come first; all types where some label must keep several values.
    ordinary: usize,
    /// Candidates whose own labels satisfy the requirements, available or not.
    alike: Arc<[usize]>,
    /// For each topology key the single remaining value, if there is one.
    pub(in crate::provision) pins: Vec<Option<Domain>>,
    /// True if one of the types is available as spot.
    pub(in crate::provision) allows_spot: bool,
    /// True if some label must keep several values.
    pub(in crate::provision) flexible: bool,
    /// True if the cost of the NodePool's nodes is limited.
    counts_cost: bool,
}

impl NodeTemplate {
    /// Reports whether one launch may list the entries at both positions: where the cost is limited, only of one capacity type.
    pub(in crate::provision) fn is_listable_beside(&self, first: usize, position: usize) -> bool {
        let sold_alike = || !self.counts_cost || self.entries[position].sold_as == self.entries[first].sold_as;
        position < self.end_of_class(first) && sold_alike()
    }

    /// Returns the end of the entries that one launch may list together with the entry at a position: bare-metal and accelerated
    /// types never stand beside ordinary ones.
    pub(in crate::provision) fn end_of_class(&self, position: usize) -> usize {
        if position < self.ordinary { self.ordinary } else { self.entries.len() }
    }

    /// Returns those of the positions, which ascend, that one launch may list together: the class of the first one.
    pub(in crate::provision) fn listable<'s>(
        &'s self,
        positions: impl Iterator<Item = usize> + 's,
    ) -> impl Iterator<Item = usize> + 's {
        let mut positions = positions.peekable();
        let first = positions.peek().copied().unwrap_or(0);
        let end = self.end_of_class(first);
        positions
            .take_while(move |position| *position < end)
            .filter(move |position| self.is_listable_beside(first, *position))
    }
}

/// All node templates of one plan.
#[derive(Clone)]
pub(in crate::provision) struct NodeTemplates<'a> {
    pub(in crate::provision) pool_templates: Arc<[PoolTemplate<'a>]>,
    list: Vec<NodeTemplate>,
    known: BTreeMap<(usize, Requirements), TemplateId>,
    narrowed: BTreeMap<(TemplateId, RequirementSetId), Option<TemplateId>>,
    pinned: BTreeMap<(TemplateId, KeyId, Domain), Option<TemplateId>>,
    values: BTreeMap<(TemplateId, KeyId), Arc<[Domain]>>,
    value_names: RefCell<BTreeMap<(TemplateId, String), LabelValues>>,
    /// True if a template's nodes will lack a label.
    lacking: RefCell<BTreeMap<(TemplateId, KeyId), bool>>,
    /// True if spreads count pods on launches of a template.
    counting: RefCell<BTreeMap<(TemplateId, GroupId), Counts>>,
    classes: BTreeMap<(TemplateId, ClassId), Arc<[TemplateId]>>,
    matching: BTreeMap<(usize, String, ValueSet), Arc<[bool]>>,
    first_fits: BTreeMap<(TemplateId, Amounts), Option<usize>>,
}

impl<'a> NodeTemplates<'a> {
    /// Creates one node template per pool template, with the same number.
    pub(in crate::provision) fn new(pool_templates: Arc<[PoolTemplate<'a>]>, topology: &mut Topology<'a>) -> Self {
        let mut templates = Self {
            pool_templates,
            list: Vec::new(),
            known: BTreeMap::new(),
            narrowed: BTreeMap::new(),
            pinned: BTreeMap::new(),
            values: BTreeMap::new(),
            value_names: RefCell::default(),
            lacking: RefCell::default(),
            counting: RefCell::default(),
            classes: BTreeMap::new(),
            matching: BTreeMap::new(),
            first_fits: BTreeMap::new(),
        };
        for pool_template in 0..templates.pool_templates.len() {
            let requirements = templates.pool_templates[pool_template].requirements.clone();
            let all = (0..templates.pool_templates[pool_template].candidates.len()).collect();
            templates.make(pool_template, requirements, all, None, topology);
        }
        templates
    }

    pub(in crate::provision) fn get(&self, template: TemplateId) -> &NodeTemplate {
        &self.list[template]
    }

    pub(in crate::provision) fn pool_template_of(&self, template: TemplateId) -> &PoolTemplate<'a> {
        &self.pool_templates[self.list[template].pool_template]
    }

    /// Returns the candidate type of an entry.
    pub(in crate::provision) fn candidate(&self, template: TemplateId, entry: usize) -> &CandidateType<'a> {
        &self.pool_template_of(template).candidates[self.list[template].entries[entry].candidate]
    }

    /// Returns templates of NodePools that launch nodes for pods, with those whose launches a commitment pays for.
    pub(in crate::provision) fn growing(&self) -> Range<TemplateId> {
        0..self.pool_templates.iter().take_while(|pool_template| pool_template.pool.replicas.is_none()).count()
    }

    /// Returns templates of static NodePools that lack nodes.
    pub(in crate::provision) fn fixed(&self) -> Range<TemplateId> {
        self.growing().end..self.pool_templates.len()
    }

    /// Returns templates of the non-static NodePools whose taints are tolerated; `PreferNoSchedule` taints are ignored.
    pub(in crate::provision) fn bases_tolerated(&self, tolerations: &[Toleration]) -> Vec<TemplateId> {
        let tolerates = |pool_template: &PoolTemplate<'_>| {
            first_untolerated(tolerations, &pool_template.pool.taints, Tolerance::Lenient).is_none()
        };
        self.growing().filter(|base| tolerates(&self.pool_templates[*base])).collect()
    }

    /// Returns the template with one more set of requirements; `None` when they conflict or no type is left.
    pub(in crate::provision) fn narrowed(
        &mut self,
        template: TemplateId,
        alternative: RequirementSetId,
        requirement_sets: &RequirementSets<'a>,
        topology: &mut Topology<'a>,
    ) -> Option<TemplateId> {
        if let Some(known) = self.narrowed.get(&(template, alternative)) {
            return *known;
        }
        let (own, asked) = (&self.list[template].requirements, requirement_sets.get(alternative));
        let well_known = self.pool_template_of(template).well_known();
        let agrees = own.iter().all(|(_, set)| !set.is_empty()) && own.first_conflict(asked, well_known).is_none();
        let requirements = agrees.then(|| own.narrowed(asked, well_known));
        let child = requirements.and_then(|requirements| self.child(template, requirements, topology));
        self.narrowed.insert((template, alternative), child);
        child
    }

    /// Returns the template with one value for a key.
    pub(in crate::provision) fn pinned(
        &mut self,
        template: TemplateId,
        key: KeyId,
        domain: Domain,
        topology: &mut Topology<'a>,
    ) -> Option<TemplateId> {
        if let Some(known) = self.pinned.get(&(template, key, domain)) {
            return *known;
        }
        let mut requirements = self.list[template].requirements.clone();
        requirements.narrow(topology.key_name(key), &ValueSet::one(topology.value(key, domain)));
        let child = self.child(template, requirements, topology);
        self.pinned.insert((template, key, domain), child);
        child
    }

    /// Returns the template that draws on one capacity reservation.
    pub(in crate::provision) fn reserved(
        &mut self,
        template: TemplateId,
        id: &str,
        topology: &mut Topology<'a>,
    ) -> Option<TemplateId> {
        let mut requirements = self.list[template].requirements.clone();
        requirements.narrow(label::CAPACITY_TYPE, &ValueSet::one(CapacityType::Reserved.as_str()));
        requirements.narrow(label::RESERVATION_ID, &ValueSet::one(id));
        self.child(template, requirements, topology)
    }

    /// Returns the template restricted to some of its types.
    pub(in crate::provision) fn of_types(
        &mut self,
        template: TemplateId,
        entries: &[usize],
        topology: &mut Topology<'a>,
    ) -> Option<TemplateId> {
        let names = entries.iter().map(|entry| self.candidate(template, *entry).offer.kind.name.as_str());
        let mut requirements = self.list[template].requirements.clone();
        requirements.add(&Requirement::new(label::INSTANCE_TYPE, Operator::In, names));
        self.child(template, requirements, topology)
    }

    /// Returns the templates that result from the alternatives of a class, in their order; none when a taint is not tolerated.
    pub(in crate::provision) fn for_class(
        &mut self,
        template: TemplateId,
        class: ClassId,
        requirement_sets: &RequirementSets<'a>,
        topology: &mut Topology<'a>,
    ) -> Arc<[TemplateId]> {
        if let Some(known) = self.classes.get(&(template, class)) {
            return known.clone();
        }
        let asked = requirement_sets.of_class(class);
        let mut left = Vec::new();
        if asked.first_untolerated(&self.pool_template_of(template).pool.taints).is_none() {
            for alternative in &asked.alternatives {
                let child = self.narrowed(template, *alternative, requirement_sets, topology);
                left.extend(child.filter(|child| !left.contains(child)));
            }
        }
        let left: Arc<[TemplateId]> = left.into();
        self.classes.insert((template, class), left.clone());
        left
    }

    /// Reports whether pods of a class can use launches of the template without narrowing it.
    pub(in crate::provision) fn suits_as_it_is(
        &self,
        template: TemplateId,
        class: ClassId,
        requirement_sets: &RequirementSets<'a>,
    ) -> bool {
        let pool_template = self.pool_template_of(template);
        let (own, class) = (&self.list[template].requirements, requirement_sets.of_class(class));
        let implied = |alternative: &RequirementSetId| {
            let asked = requirement_sets.get(*alternative);
            asked.iter().all(|(key, set)| match own.get(key) {
                Some(own) => own.is_subset(set),
                None => !pool_template.decides(key) && set.allows(None),
            })
        };
        class.first_untolerated(&pool_template.pool.taints).is_none() && class.alternatives.iter().any(implied)
    }

    /// Returns the values of a key that the template leaves open, in the order of their names.
    pub(in crate::provision) fn values(
        &mut self,
        template: TemplateId,
        key: KeyId,
        topology: &mut Topology<'a>,
    ) -> Arc<[Domain]> {
        if let Some(known) = self.values.get(&(template, key)) {
            return known.clone();
        }
        let name = topology.key_name(key).to_owned();
        let values: Arc<[Domain]> =
            self.value_names(template, &name).iter().map(|value| topology.domain(key, value)).collect();
        self.values.insert((template, key), values.clone());
        values
    }

    /// Returns the values of a label that the types of a template, or the claim itself, can give a node.
    pub(in crate::provision) fn value_names(&self, template: TemplateId, key: &str) -> LabelValues {
        let values = || Arc::new(self.possible_values(template, key));
        self.value_names.borrow_mut().entry((template, key.to_owned())).or_insert_with(values).clone()
    }

    fn possible_values(&self, template: TemplateId, key: &str) -> BTreeSet<String> {
        let template = &self.list[template];
        let pool_template = &self.pool_templates[template.pool_template];
        let set = template.requirements.get(key);
        let mut offered = BTreeSet::new();
        let comes_with_the_type = pool_template.sold_by.contains(key) || pool_template.decides(key);
        if comes_with_the_type {
            for entry in template.entries.iter() {
                let candidate = &pool_template.candidates[entry.candidate];
                candidate.values(candidate.offerings(&template.requirements), key, &mut offered);
            }
            for candidate in template.alike.iter().filter(|_| pool_template.reserves) {
                let candidate = &pool_template.candidates[*candidate];
                candidate.values(candidate.sold(&template.requirements), key, &mut offered);
            }
        }
        let mut values: BTreeSet<String> = offered.into_iter().map(str::to_owned).collect();
        if values.is_empty() && !comes_with_the_type {
            let own = set.map(|set| set.to_requirements(key)).unwrap_or_default();
            values.extend(own.into_iter().filter(|it| it.operator == Operator::In).flat_map(|it| it.values));
            let must = set.filter(|set| values.is_empty() && !set.allows(None));
            values.extend(must.and_then(ValueSet::any));
        }
        values.retain(|value| set.is_none_or(|set| set.allows(Some(value))));
        values
    }

    /// Returns the values that a label may have on launches of an unchanged template. For a label that the claim itself must
    /// set, returns the value that the claim will receive; for an optional label, returns none.
    pub(in crate::provision) fn settled_values(&self, template: TemplateId, key: &str) -> BTreeSet<String> {
        let pool_template = self.pool_template_of(template);
        if pool_template.sold_by.contains(key) || pool_template.decides(key) {
            return self.value_names(template, key).as_ref().clone();
        }
        let brought = self.list[template].requirements.get(key).filter(|set| !set.allows(None)).and_then(ValueSet::any);
        brought.into_iter().collect()
    }

    /// Reports whether a key is fixed in a template: its nodes will have one known value, or lack the label.
    pub(in crate::provision) fn settles(&self, template: TemplateId, key: KeyId, topology: &Topology<'a>) -> bool {
        let lacks = || self.value_names(template, topology.key_name(key)).is_empty();
        self.list[template].pins[key].is_some()
            || *self.lacking.borrow_mut().entry((template, key)).or_insert_with(lacks)
    }

    /// Returns whether a spread counts pods on a launch of this template.
    pub(in crate::provision) fn counts(
        &self,
        template: TemplateId,
        id: GroupId,
        spread: &SpreadGroup<'_>,
        requirement_sets: &RequirementSets<'_>,
    ) -> Counts {
        if spread.excludes_taints(&self.pool_template_of(template).pool.taints) {
            return Counts::Never;
        }
        let counts = || spread.counts_on(requirement_sets, |key| self.outlook(template, key));
        *self.counting.borrow_mut().entry((template, id)).or_insert_with(counts)
    }

    /// Returns the possible values of a label on a node of this template, however the template is narrowed later.
    pub(in crate::provision) fn outlook(&self, template: TemplateId, key: &str) -> PossibleLabels {
        let own = &self.list[template];
        let pool_template = &self.pool_templates[own.pool_template];
        let values = self.value_names(template, key);
        let by_type = pool_template.sold_by.contains(key) || pool_template.well_known().contains(key);
        let set = own.requirements.get(key);
        let free = set.is_none_or(|set| set.allows(None));
        let without = |entry: &PricedType| !pool_template.candidates[entry.candidate].offer.carries(key);
        // A label of the claim itself exists only when its value is fixed.
        let unsettled = !by_type && set.is_none_or(|set| set.single().is_none());
        let lacking = values.is_empty() || unsettled || (by_type && free && own.entries.iter().any(without));
        PossibleLabels { lacking, values: values.as_ref().clone(), open: set.filter(|_| unsettled).cloned() }
    }

    /// Returns the positions of entries, from one on, that hold a load.
    pub(in crate::provision) fn holding<'f>(
        &'f self,
        template: TemplateId,
        from: usize,
        load: Load<'f>,
    ) -> impl Iterator<Item = usize> + 'f {
        let own = &self.list[template];
        let candidates = &self.pool_templates[own.pool_template].candidates;
        (from..own.entries.len()).filter(move |position| candidates[own.entries[*position].candidate].holds(load))
    }

    /// Returns the lowest price, as far as no commitment pays, of an entry that holds these amounts, also of a bare-metal or accelerated one that is listed only
    /// with further pods.
    pub(in crate::provision) fn lowest_price(&mut self, template: TemplateId, amounts: &Amounts) -> Option<i64> {
        let first = self.first_fit(template, amounts)?;
        let own = &self.list[template];
        let candidates = &self.pool_templates[own.pool_template].candidates;
        let rest = &own.entries[own.end_of_class(first)..];
        let further = rest.iter().find(|entry| fits(amounts, &candidates[entry.candidate].free));
        if self.pool_templates[own.pool_template].commitment.is_some() {
            return Some(0);
        }
        further.into_iter().chain([&own.entries[first]]).map(|entry| entry.price).min()
    }

    /// Returns the first entry that holds these amounts alone.
    pub(in crate::provision) fn first_fit(&mut self, template: TemplateId, amounts: &Amounts) -> Option<usize> {
        if let Some(known) = self.first_fits.get(&(template, amounts.clone())) {
            return *known;
        }
        let pool_template = &self.pool_templates[self.list[template].pool_template];
        let entries = &self.list[template].entries;
        let found = entries.iter().position(|entry| fits(amounts, &pool_template.candidates[entry.candidate].free));
        self.first_fits.insert((template, amounts.clone()), found);
        found
    }

    fn child(
        &mut self,
        parent: TemplateId,
        requirements: Requirements,
        topology: &mut Topology<'a>,
    ) -> Option<TemplateId> {
        let pool_template = self.list[parent].pool_template;
        if let Some(known) = self.known.get(&(pool_template, requirements.clone())) {
            return self.is_usable(*known).then_some(*known);
        }
        let before = &self.list[parent].requirements;
        let changed: Vec<(String, ValueSet)> = requirements
            .iter()
            .filter(|(key, set)| before.get(key) != Some(set))
            .map(|(key, set)| (key.to_owned(), set.clone()))
            .collect();
        let mut alike: Vec<usize> = self.list[parent].alike.to_vec();
        let mut entries: Vec<PricedType> = self.list[parent].entries.to_vec();
        let mut sold = false;
        for (key, set) in changed {
            sold |= self.pool_templates[pool_template].sold_by.contains(key.as_str());
            let matching = self.matching(pool_template, key, set);
            alike.retain(|candidate| matching[*candidate]);
            entries.retain(|entry| matching[entry.candidate]);
        }
        let template = self.make(pool_template, requirements, alike, (!sold).then_some(entries), topology);
        self.is_usable(template).then_some(template)
    }

    /// Reports whether some type is available, perhaps only by a reservation.
    fn is_usable(&self, template: TemplateId) -> bool {
        let template = &self.list[template];
        !template.entries.is_empty()
            || (self.pool_templates[template.pool_template].reserves && !template.alike.is_empty())
    }

    /// Returns for each candidate whether its own labels satisfy one requirement.
    fn matching(&mut self, pool_template: usize, key: String, set: ValueSet) -> Arc<[bool]> {
        let name = (pool_template, key, set);
        if let Some(known) = self.matching.get(&name) {
            return known.clone();
        }
        let mut single = Requirements::default();
        single.narrow(&name.1, &name.2);
        let own = &self.pool_templates[pool_template];
        let matching: Arc<[bool]> = own.candidates.iter().map(|it| own.labels_match(&it.offer, &single)).collect();
        self.matching.insert(name, matching.clone());
        matching
    }

    /// Adds a template; prices its types again unless those of the wider template (`entries`) are unchanged.
    fn make(
        &mut self,
        pool_template: usize,
        requirements: Requirements,
        alike: Vec<usize>,
        entries: Option<Vec<PricedType>>,
        topology: &mut Topology<'a>,
    ) -> TemplateId {
        let own = &self.pool_templates[pool_template];
        let flexible = requirements.iter().any(|(_, set)| set.min_values().is_some());
        let mut entries = entries.unwrap_or_else(|| own.all_priced(&alike, &requirements));
        let is_late = |entry: &PricedType| !flexible && own.candidates[entry.candidate].exotic;
        entries.sort_by_key(|entry| {
            (is_late(entry), entry.cost, entry.cheapest, &own.candidates[entry.candidate].offer.kind.name)
        });
        let keys: Vec<(KeyId, String)> = topology.key_names().map(|(key, name)| (key, name.to_owned())).collect();
        let pin = |(key, name): &(KeyId, String), topology: &mut Topology<'a>| {
            let value = requirements.get(name).and_then(ValueSet::single).filter(|_| *key != HOST);
            value.map(|value| topology.domain(*key, value))
        };
        let template = NodeTemplate {
            pool_template,
            pins: keys.iter().map(|key| pin(key, topology)).collect(),
            allows_spot: entries.iter().any(|entry| entry.sold_as.contains(CapacityType::Spot)),
            ordinary: entries.iter().take_while(|entry| !is_late(entry)).count(),
            flexible,
            counts_cost: self.pool_templates[pool_template].counts_cost,
            requirements: requirements.clone(),
            entries: entries.into(),
            alike: alike.into(),
        };
        self.list.push(template);
        self.known.insert((pool_template, requirements), self.list.len() - 1);
        self.list.len() - 1
    }
}
