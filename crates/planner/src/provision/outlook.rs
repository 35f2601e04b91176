//! What a pool's types are to all pods that ask the same of a node's labels, whatever their size: worked out once, so
//! that thousands of shapes which fit nowhere are told why as quickly as one.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::{LabelMiss, Offer, Requirements, ValueSet};

use super::Solver;
use super::template::Template;

/// A pool's types as some requirements see them.
pub(super) struct Outlook {
    /// All types of the pool's catalogue.
    pub(super) total: usize,
    /// Types that fall out by a label, counted by the first such label of each.
    pub(super) labels: Vec<LabelMiss>,
    /// Candidates of the template whose labels are as asked.
    pub(super) suitable: Vec<usize>,
    /// Types whose labels are as asked and that are no candidates nevertheless.
    pub(super) others: usize,
    /// For each label that is asked for, the candidates that could be had if it were not.
    pub(super) without: Vec<(String, Vec<usize>)>,
}

impl Solver<'_> {
    /// How the types of a template look to pods with these requirements.
    pub(super) fn outlook(&mut self, template: usize, want: usize) -> Rc<Outlook> {
        if let Some(known) = self.outlooks.get(&(template, want)) {
            return known.clone();
        }
        let own = &self.frames.templates[template];
        let types = self.snapshot.catalogues.get(own.pool.catalogue).map_or(&[][..], |catalogue| &catalogue.types);
        let asked = self.wants.get(want);
        let requirements = own.requirements.narrowed(asked, own.well_known());
        let mut labels: BTreeMap<&str, usize> = BTreeMap::new();
        let (mut suitable, mut others) = (Vec::new(), 0);
        // Candidates stand in the order of the types that they are.
        let mut candidates = own.candidates.iter().enumerate().peekable();
        for kind in types {
            let candidate = candidates.next_if(|(_, candidate)| std::ptr::eq(candidate.offer.kind, kind));
            match (mismatch(own, &Offer::of(kind), &requirements), candidate) {
                (Some(key), _) => *labels.entry(key).or_default() += 1,
                (None, Some((position, _))) => suitable.push(position),
                (None, None) => others += 1,
            }
        }
        let labels = labels.into_iter().map(|(key, types)| LabelMiss { key: key.to_owned(), types }).collect();
        let without = asked.iter().map(|(key, _)| (key.to_owned(), without(own, asked, key))).collect();
        let outlook = Rc::new(Outlook { total: types.len(), labels, suitable, others, without });
        self.outlooks.insert((template, want), outlook.clone());
        outlook
    }
}

/// Candidates that could be had if one of the requirements were not.
fn without(template: &Template<'_>, asked: &Requirements, key: &str) -> Vec<usize> {
    let mut fewer = asked.clone();
    fewer.remove(key);
    let requirements = template.requirements.narrowed(&fewer, template.well_known());
    let candidates = template.candidates.iter().enumerate().filter(|(_, candidate)| {
        template.labels_match(&candidate.offer, &requirements) && candidate.offerings(&requirements).next().is_some()
    });
    candidates.map(|(position, _)| position).collect()
}

/// The first label of a type that cannot be as required.
fn mismatch<'r>(template: &Template<'_>, offer: &Offer<'_>, requirements: &'r Requirements) -> Option<&'r str> {
    if template.labels_match(offer, requirements) {
        return None;
    }
    let alone = |key: &str, set: &ValueSet| {
        let mut alone = Requirements::default();
        alone.narrow(key, set);
        template.labels_match(offer, &alone)
    };
    requirements.iter().find(|(key, set)| !alone(key, set)).map(|(key, _)| key)
}
