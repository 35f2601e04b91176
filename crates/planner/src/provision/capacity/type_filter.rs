//! Evaluation of a NodePool's instance types for all pods with the same requirements on node labels, independent of their size.
//! The result is computed once, so that a reason costs the same for thousands of unschedulable shapes as for one.

use std::collections::{BTreeMap, BTreeSet};

use crate::{InstanceType, LabelMismatch, Offer, Requirements, ValueSet};

use super::pool_template::PoolTemplate;

/// Evaluation of a NodePool's types against some requirements.
#[derive(Default)]
pub(in crate::provision) struct TypeFilter {
    /// Number of types in the NodePool's catalogue.
    pub(in crate::provision) total: usize,
    /// Number of types that a label excludes, by the first such label of each type.
    pub(in crate::provision) labels: BTreeMap<String, usize>,
    /// Candidates of the template with matching labels, and the label for which no offering matches.
    pub(in crate::provision) suitable: Vec<(usize, Option<String>)>,
    /// Number of types with matching labels that are no candidates.
    pub(in crate::provision) others: usize,
    /// For each required label, the candidates that would be possible without that requirement.
    pub(in crate::provision) without: Vec<(String, Vec<usize>)>,
    /// For each label that excludes types, the first few values that those types have.
    found: BTreeMap<String, BTreeSet<String>>,
    /// Combined requirements of NodePool and pods.
    pub(in crate::provision) requirements: Requirements,
}

/// Maximum number of values in a reason, including one that indicates further values.
const SHOWN: usize = 4;

impl TypeFilter {
    /// Evaluates a NodePool's types for pods with these requirements.
    pub(in crate::provision) fn new(
        pool_template: &PoolTemplate<'_>,
        types: &[InstanceType],
        asked: &Requirements,
    ) -> Self {
        let requirements = pool_template.requirements.narrowed(asked, pool_template.well_known());
        let without = asked.iter().map(|(key, _)| (key.to_owned(), without(pool_template, asked, key))).collect();
        let mut filter = Self { total: types.len(), without, ..Self::default() };
        // Candidates have the order of the catalogue's types.
        let mut candidates = pool_template.candidates.iter().enumerate().peekable();
        for kind in types {
            let candidate = candidates.next_if(|(_, candidate)| std::ptr::eq(candidate.offer.kind, kind));
            let offer = Offer::new(kind);
            match (mismatch(pool_template, &offer, &requirements), candidate) {
                (Some(key), _) => {
                    filter.find(key, kind);
                    *filter.labels.entry(key.to_owned()).or_default() += 1;
                }
                (None, Some((position, _))) => {
                    let unsold = unsold(&offer, &requirements);
                    unsold.into_iter().for_each(|key| filter.find(key, kind));
                    filter.suitable.push((position, unsold.map(str::to_owned)));
                }
                (None, None) => filter.others += 1,
            }
        }
        filter.requirements = requirements;
        filter
    }

    /// Returns the values that the excluded types have for a label, and the values that are required.
    pub(in crate::provision) fn mismatch_of(&self, key: String, types: usize) -> LabelMismatch {
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

/// Returns candidates that would be possible without one of the requirements.
fn without(pool_template: &PoolTemplate<'_>, asked: &Requirements, key: &str) -> Vec<usize> {
    let mut fewer = asked.clone();
    fewer.remove(key);
    let requirements = pool_template.requirements.narrowed(&fewer, pool_template.well_known());
    let candidates = pool_template.candidates.iter().enumerate().filter(|(_, candidate)| {
        pool_template.labels_match(&candidate.offer, &requirements)
            && candidate.offerings(&requirements).next().is_some()
    });
    candidates.map(|(position, _)| position).collect()
}

/// Returns the first label of a type that cannot satisfy the requirements.
fn mismatch<'r>(
    pool_template: &PoolTemplate<'_>,
    offer: &Offer<'_>,
    requirements: &'r Requirements,
) -> Option<&'r str> {
    if pool_template.labels_match(offer, requirements) {
        return None;
    }
    requirements
        .iter()
        .find(|(key, set)| !pool_template.labels_match(offer, &single_requirement(key, set)))
        .map(|(key, _)| key)
}

/// Returns the first label for which no offering of the type satisfies the requirements, now or later; `None` where only the
/// combination of requirements excludes all offerings.
fn unsold<'r>(offer: &Offer<'_>, requirements: &'r Requirements) -> Option<&'r str> {
    let sold = offer.offerings(requirements).next().is_some() || offer.unpriced(requirements).next().is_some();
    if offer.kind.offerings.is_empty() || sold {
        return None;
    }
    requirements
        .iter()
        .find(|(key, set)| offer.offerings(&single_requirement(key, set)).next().is_none())
        .map(|(key, _)| key)
}

/// Returns one requirement as a set of its own.
fn single_requirement(key: &str, set: &ValueSet) -> Requirements {
    let mut single = Requirements::default();
    single.narrow(key, set);
    single
}

/// Returns the values of a label that the type or its offerings can have.
fn values(kind: &InstanceType, key: &str) -> Vec<String> {
    let own = kind.labels.get(key).into_iter().flatten().cloned();
    own.chain(kind.offerings.iter().filter_map(|offering| offering.value(key)).map(str::to_owned)).collect()
}
