//! Who stands where: pods counted by domain for every term and constraint that someone has, as kube-scheduler counts them.

use std::collections::{BTreeMap, BTreeSet};

use crate::{PodShape, PodTerm, Selector, Snapshot, Spread};

use super::in_flight_node::Value;
use super::labels::{Labels, satisfied};
use super::node_places::{Certainty, NodePlace};

/// Pods of which a label's value depends on where they stand, by value.
#[derive(Default)]
struct DomainCount {
    /// Pods that surely stand in the domain.
    sure: BTreeMap<String, i64>,
    /// Pods that may stand in the domain, the sure ones included.
    most: BTreeMap<String, i64>,
}

impl DomainCount {
    /// One more pod with these values; `surely` says whether it is there at all.
    fn add(&mut self, values: &BTreeSet<Value>, surely: bool) {
        for value in values.iter().flatten() {
            *self.most.entry(value.clone()).or_default() += 1;
            if surely && values.len() == 1 {
                *self.sure.entry(value.clone()).or_default() += 1;
            }
        }
    }

    fn most(&self, value: &str) -> i64 {
        self.most.get(value).copied().unwrap_or(0)
    }

    fn sure(&self, value: &str) -> i64 {
        self.sure.get(value).copied().unwrap_or(0)
    }
}

/// The required affinity of the pods of one shape: only pods that every term means count, for each term by its key.
pub(super) struct AffinityCounts<'a> {
    terms: &'a [PodTerm],
    means: Vec<bool>,
    tallies: Vec<DomainCount>,
    here: BTreeSet<usize>,
    /// Whether anyone surely stands anywhere that counts.
    begun: bool,
    /// For each term the values where pods may come to stand with nodes that are still to come.
    coming: Vec<BTreeSet<Value>>,
}

/// One anti-affinity term of one shape.
pub(super) struct AntiAffinityCounts<'a> {
    pub(super) term: &'a PodTerm,
    pub(super) means: Vec<bool>,
    /// Where pods stand that the term means.
    meant: DomainCount,
    /// Where pods stand that have the term.
    owners: DomainCount,
}

/// One hard spread constraint of one shape.
pub(super) struct SpreadCounts<'a> {
    pub(super) spread: &'a Spread,
    pub(super) means: Vec<bool>,
    /// What each place is for the constraint.
    pub(super) counted: Vec<Certainty>,
    tally: DomainCount,
    /// Domains that surely exist, and those that may.
    domains: BTreeSet<String>,
    perhaps: BTreeSet<String>,
    /// For each domain that is not certain, the places that may turn out to be in it.
    openers: BTreeMap<String, Vec<usize>>,
    /// Pods that surely stand at each place.
    standing: Vec<i64>,
    /// How many of all these domains surely have so many pods if they exist.
    filled: BTreeMap<i64, usize>,
}

/// What a term or constraint sees.
pub(super) struct TermMatcher<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// Every distinct shape, those of the snapshot's pods first.
    pub(super) shapes: &'a [&'a PodShape],
}

impl<'a> TermMatcher<'a> {
    fn means(&self, owner: &PodShape, term: &PodTerm) -> Vec<bool> {
        self.shapes.iter().map(|other| means(self.snapshot, owner, term, other)).collect()
    }

    pub(super) fn near(&self, owner: &'a PodShape) -> AffinityCounts<'a> {
        let each: Vec<Vec<bool>> = owner.near.iter().map(|term| self.means(owner, term)).collect();
        AffinityCounts {
            terms: &owner.near,
            means: (0..self.shapes.len()).map(|shape| each.iter().all(|means| means[shape])).collect(),
            tallies: owner.near.iter().map(|_| DomainCount::default()).collect(),
            here: BTreeSet::new(),
            begun: false,
            coming: vec![BTreeSet::new(); owner.near.len()],
        }
    }

    pub(super) fn apart(&self, owner: &PodShape, term: &'a PodTerm) -> AntiAffinityCounts<'a> {
        AntiAffinityCounts {
            term,
            means: self.means(owner, term),
            meant: DomainCount::default(),
            owners: DomainCount::default(),
        }
    }

    pub(super) fn even(&self, owner: &PodShape, spread: &'a Spread, places: &[NodePlace<'_>]) -> SpreadCounts<'a> {
        let selects = |other: &&PodShape| {
            let own = other.namespace == owner.namespace;
            // An empty selector means everybody elsewhere; kube-scheduler's spread counts nobody for it.
            let named = spread.selector.as_ref().filter(|selector| !selector.0.is_empty());
            own && named.is_some_and(|selector| selects(selector, &other.labels))
        };
        let counted =
            places.iter().map(|it| it.counts_for(owner, spread.honor_affinity, spread.honor_taints)).collect();
        let means = self.shapes.iter().map(selects).collect();
        let standing = vec![0; places.len()];
        let (tally, domains, perhaps) = (DomainCount::default(), BTreeSet::new(), BTreeSet::new());
        let (openers, filled) = (BTreeMap::new(), BTreeMap::new());
        let mut even = SpreadCounts { spread, means, counted, tally, domains, perhaps, openers, standing, filled };
        for (position, place) in places.iter().enumerate() {
            even.add_domain(position, place, owner);
        }
        let domains = &even.domains;
        even.openers.retain(|value, _| !domains.contains(value));
        even.filled.insert(0, even.domains.union(&even.perhaps).count());
        even
    }
}

impl AffinityCounts<'_> {
    pub(super) fn add(&mut self, shape: usize, position: usize, surely: bool, place: &NodePlace<'_>) {
        if self.means[shape] {
            self.here.extend(surely.then_some(position));
            for ((term, tally), coming) in self.terms.iter().zip(&mut self.tallies).zip(&mut self.coming) {
                let values = place.values(&term.key);
                self.begun |= surely && values.iter().any(Option::is_some);
                tally.add(&values, surely);
                coming.extend(values.iter().filter(|value| value.is_some() && !place.is_ready()).cloned());
            }
        }
    }

    /// Whether every term holds for a pod of this shape, or it is the first of its kind and means itself.
    pub(super) fn holds(&self, shape: usize, position: usize, place: &NodePlace<'_>) -> bool {
        let labelled = self.terms.iter().all(|term| place.values(&term.key).iter().all(Option::is_some));
        let alone = |(term, coming): (&PodTerm, &BTreeSet<Value>)| coming.is_subset(&place.values(&term.key));
        let first = !self.begun && self.means[shape] && self.terms.iter().zip(&self.coming).all(alone);
        let beside = |(term, tally): (&PodTerm, &DomainCount)| {
            place.values(&term.key).iter().flatten().all(|value| tally.sure(value) > 0)
        };
        let near = || self.here.contains(&position) || self.terms.iter().zip(&self.tallies).all(beside);
        labelled && (first || near())
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|term| term.key.as_str())
    }

    pub(super) fn means(&self, shape: usize) -> bool {
        self.means[shape]
    }
}

impl AntiAffinityCounts<'_> {
    pub(super) fn add(&mut self, shape: usize, owned: bool, place: &NodePlace<'_>) {
        let values = place.values(&self.term.key);
        if self.means[shape] {
            self.meant.add(&values, true);
        }
        if owned {
            self.owners.add(&values, true);
        }
    }

    /// Whether a pod of the term's owner may stand with those whom it means.
    pub(super) fn tolerates_existing(&self, place: &NodePlace<'_>) -> bool {
        place.values(&self.term.key).iter().flatten().all(|value| self.meant.most(value) == 0)
    }

    /// Whether a pod of this shape may stand with those who have the term.
    pub(super) fn is_tolerated(&self, shape: usize, place: &NodePlace<'_>) -> bool {
        !self.means[shape] || place.values(&self.term.key).iter().flatten().all(|value| self.owners.most(value) == 0)
    }
}

impl SpreadCounts<'_> {
    /// Notes which domains a place is in, or may turn out to be in.
    fn add_domain(&mut self, position: usize, place: &NodePlace<'_>, owner: &PodShape) {
        let (key, counted) = (&self.spread.key, self.counted[position]);
        let values = place.values(key);
        let sure = counted == Certainty::Sure && values.len() == 1;
        let own = |value: &&String| !self.spread.honor_affinity || place.may_satisfy(owner, key, value);
        let known: Vec<String> =
            values.iter().flatten().filter(|_| counted != Certainty::Never).filter(own).cloned().collect();
        for value in known {
            self.openers.entry(value.clone()).or_default().push(position);
            let into = if sure { &mut self.domains } else { &mut self.perhaps };
            into.insert(value);
        }
    }

    pub(super) fn add(&mut self, shape: usize, position: usize, surely: bool, place: &NodePlace<'_>) {
        if !self.means[shape] || self.counted[position] == Certainty::Never {
            return;
        }
        let values = place.values(&self.spread.key);
        let reached = values.iter().flatten().filter(|value| self.is_known(value));
        let before: Vec<(&String, i64)> = reached.map(|value| (value, self.at_least(value))).collect();
        self.standing[position] += i64::from(surely);
        self.tally.add(&values, surely && self.counted[position] == Certainty::Sure);
        for (value, before) in before {
            let after = self.at_least(value);
            if let Some(others) = self.filled.get_mut(&before) {
                *others -= 1;
            }
            *self.filled.entry(after).or_default() += 1;
        }
        self.filled.retain(|_, domains| *domains > 0);
    }

    fn is_known(&self, value: &str) -> bool {
        self.domains.contains(value) || self.perhaps.contains(value)
    }

    /// Pods that a domain surely has if it exists. One that is not certain is there through one of its openers, with all that
    /// stand at it.
    fn at_least(&self, value: &str) -> i64 {
        let openers = self.openers.get(value).into_iter().flatten();
        self.tally.sure(value) + openers.map(|position| self.standing[*position]).min().unwrap_or(0)
    }

    /// How far a pod of this shape would lean here at worst, if that is too far or the node has no such label.
    pub(super) fn fault(&self, shape: usize, place: &NodePlace<'_>) -> Option<String> {
        let key = &self.spread.key;
        let itself = i64::from(self.means[shape]);
        let values = place.values(key);
        let skew = |value: &String| self.tally.most(value) + itself - self.least(value);
        let worst = values.iter().map(|value| value.as_ref().map(skew)).min();
        let most = values.iter().flatten().map(skew).max();
        match (worst, most) {
            (Some(Some(_)), Some(skew)) if skew <= i64::from(self.spread.max_skew) => None,
            (Some(Some(_)), Some(skew)) => Some(format!("skew {skew} over {key}, at most {}", self.spread.max_skew)),
            _ => Some(format!("no label {key} spread over")),
        }
    }

    /// The fewest matching pods that a domain may have, while `value` has as many as it may.
    fn least(&self, value: &str) -> i64 {
        if self.domains.len() < self.spread.min_domains.unwrap_or(1) as usize {
            return 0;
        }
        let own = self.is_known(value).then(|| self.at_least(value));
        let others = self.filled.iter().find(|(pods, domains)| **domains > usize::from(own == Some(**pods)));
        let most = self.tally.most(value);
        others.map_or(most, |(pods, _)| most.min(*pods))
    }
}

/// Whether a term of a pod like `owner` means pods like `other`.
pub(super) fn means(snapshot: &Snapshot, owner: &PodShape, term: &PodTerm, other: &PodShape) -> bool {
    let unlabelled = Labels::new();
    let labels = snapshot.namespaces.get(&other.namespace).unwrap_or(&unlabelled);
    let by_label = term.namespace_selector.as_ref().is_some_and(|selector| selects(selector, labels));
    let by_default = term.namespaces.is_empty() && term.namespace_selector.is_none();
    let within =
        by_label || term.namespaces.contains(&other.namespace) || (by_default && owner.namespace == other.namespace);
    within && term.selector.as_ref().is_some_and(|selector| selects(selector, &other.labels))
}

fn selects(selector: &Selector, labels: &Labels) -> bool {
    selector.0.iter().all(|it| satisfied(it, labels.get(&it.key).map(String::as_str)))
}
