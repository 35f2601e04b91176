//! What a pool's types are to all pods that ask the same of a node's labels, whatever their size: worked out once, so
//! that thousands of shapes which fit nowhere are informed why as quickly as one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{InstanceType, LabelMismatch, Offer, Requirements, ValueSet};

use super::Solver;
use super::pool_template::PoolTemplate;

/// A pool's types as some requirements see them.
#[derive(Default)]
pub(super) struct TypeFilter {
    /// All types of the pool's catalogue.
    pub(super) total: usize,
    /// Types that fall out by a label, counted by the first such label of each.
    pub(super) labels: BTreeMap<String, usize>,
    /// Candidates of the template whose labels are as asked, with the label by which they are nowhere sold as asked.
    pub(super) suitable: Vec<(usize, Option<String>)>,
    /// Types whose labels are as asked and that are no candidates nevertheless.
    pub(super) others: usize,
    /// For each label that is asked for, the candidates that could be had if it were not.
    pub(super) without: Vec<(String, Vec<usize>)>,
    /// For each label that some types fall out by, the first few values that they have.
    found: BTreeMap<String, BTreeSet<String>>,
    /// What pool and pods ask for together.
    pub(super) requirements: Requirements,
}

/// Values that a reason shows, and one more that says that there are others.
const SHOWN: usize = 4;

impl TypeFilter {
    /// What so many types that fall out for the label have, and what they should have.
    pub(super) fn mismatch_of(&self, key: String, types: usize) -> LabelMismatch {
        let found = self.found.get(&key).into_iter().flatten().take(SHOWN).cloned().collect();
        let asked = self.requirements.get(&key).map(|set| set.to_requirements(&key)).unwrap_or_default();
        LabelMismatch { key, types, found, asked }
    }

    fn find(&mut self, key: &str, kind: &InstanceType) {
        let found = self.found.entry(key.to_owned()).or_default();
        if found.len() < SHOWN {
            found.extend(values(kind, key));
        }
    }
}

impl Solver<'_> {
    /// How the types of a template look to pods with these requirements.
    pub(super) fn type_filter(&mut self, template: usize, want: usize) -> Arc<TypeFilter> {
        if let Some(known) = self.outlooks.get(&(template, want)) {
            return known.clone();
        }
        let own = &self.frames.templates[template];
        let types = self.snapshot.catalogues.get(own.pool.catalogue).map_or(&[][..], |catalogue| &catalogue.types);
        let asked = self.wants.get(want);
        let requirements = own.requirements.narrowed(asked, own.well_known());
        let without = asked.iter().map(|(key, _)| (key.to_owned(), without(own, asked, key))).collect();
        let mut outlook = TypeFilter { total: types.len(), without, ..TypeFilter::default() };
        // Candidates stand in the order of the types that they are.
        let mut candidates = own.candidates.iter().enumerate().peekable();
        for kind in types {
            let candidate = candidates.next_if(|(_, candidate)| std::ptr::eq(candidate.offer.kind, kind));
            let offer = Offer::new(kind);
            match (mismatch(own, &offer, &requirements), candidate) {
                (Some(key), _) => {
                    outlook.find(key, kind);
                    *outlook.labels.entry(key.to_owned()).or_default() += 1;
                }
                (None, Some((position, _))) => {
                    let unsold = unsold(&offer, &requirements);
                    unsold.into_iter().for_each(|key| outlook.find(key, kind));
                    outlook.suitable.push((position, unsold.map(str::to_owned)));
                }
                (None, None) => outlook.others += 1,
            }
        }
        outlook.requirements = requirements;
        let outlook = Arc::new(outlook);
        self.outlooks.insert((template, want), outlook.clone());
        outlook
    }
}

/// Candidates that could be had if one of the requirements were not.
fn without(template: &PoolTemplate<'_>, asked: &Requirements, key: &str) -> Vec<usize> {
    let mut fewer = asked.clone();
    fewer.remove(key);
    let requirements = template.requirements.narrowed(&fewer, template.well_known());
    let candidates = template.candidates.iter().enumerate().filter(|(_, candidate)| {
        template.labels_match(&candidate.offer, &requirements) && candidate.offerings(&requirements).next().is_some()
    });
    candidates.map(|(position, _)| position).collect()
}

/// The first label of a type that cannot be as required.
fn mismatch<'r>(template: &PoolTemplate<'_>, offer: &Offer<'_>, requirements: &'r Requirements) -> Option<&'r str> {
    if template.labels_match(offer, requirements) {
        return None;
    }
    requirements.iter().find(|(key, set)| !template.labels_match(offer, &alone(key, set))).map(|(key, _)| key)
}

/// The first label by which a type is nowhere sold as required, now or later; none where only all of them together
/// stand in the way.
fn unsold<'r>(offer: &Offer<'_>, requirements: &'r Requirements) -> Option<&'r str> {
    let sold = offer.offerings(requirements).next().is_some() || offer.unpriced(requirements).next().is_some();
    if offer.kind.offerings.is_empty() || sold {
        return None;
    }
    requirements.iter().find(|(key, set)| offer.offerings(&alone(key, set)).next().is_none()).map(|(key, _)| key)
}

/// One requirement by itself.
fn alone(key: &str, set: &ValueSet) -> Requirements {
    let mut alone = Requirements::default();
    alone.narrow(key, set);
    alone
}

/// The values of a label that the type, or what is sold of it, can have.
fn values(kind: &InstanceType, key: &str) -> Vec<String> {
    let own = kind.labels.get(key).into_iter().flatten().cloned();
    own.chain(kind.offerings.iter().filter_map(|offering| offering.value(key)).map(str::to_owned)).collect()
}
