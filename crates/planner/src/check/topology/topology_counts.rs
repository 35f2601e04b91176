//! Pods counted by domain for every applicable term and constraint, as kube-scheduler counts them.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::in_flight_node::{Certainty, Value};
use crate::check::labels::{Labels, satisfied};
use crate::check::node_places::NodePlace;
use crate::{PodShape, PodTerm, Selector, Snapshot, Spread};

/// Pods by the value of a label of their place.
#[derive(Default)]
struct DomainCount {
    /// Pods that are certainly in the domain.
    sure: BTreeMap<String, i64>,
    /// Pods that may be in the domain, including the certain ones.
    most: BTreeMap<String, i64>,
}

impl DomainCount {
    /// Adds one pod with these values; `surely` means that the pod certainly exists.
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

/// Required affinity of the pods of one shape: only pods that match every term count, for each term by its key.
pub(super) struct AffinityCounts<'a> {
    terms: &'a [PodTerm],
    means: Vec<bool>,
    tallies: Vec<DomainCount>,
    here: BTreeSet<usize>,
    /// True if a counted pod certainly exists in some domain.
    begun: bool,
    /// For each term, the values that future nodes with such pods may have.
    coming: Vec<BTreeSet<Value>>,
}

/// Anti-affinity term of one shape.
pub(super) struct AntiAffinityCounts<'a> {
    pub(super) term: &'a PodTerm,
    pub(super) means: Vec<bool>,
    /// Places of pods that the term selects.
    meant: DomainCount,
    /// Places of pods that have the term.
    owners: DomainCount,
}

/// Hard spread constraint of one shape.
pub(super) struct SpreadCounts<'a> {
    pub(super) spread: &'a Spread,
    pub(super) means: Vec<bool>,
    /// True if the constraint counts each place.
    pub(super) counted: Vec<Certainty>,
    tally: DomainCount,
    /// Domains that certainly exist, and those that may.
    domains: BTreeSet<String>,
    perhaps: BTreeSet<String>,
    /// For each uncertain domain, the places that may be in it.
    openers: BTreeMap<String, Vec<usize>>,
    /// Pods that are certainly at each place.
    standing: Vec<i64>,
    /// Number of all these domains by the number of pods that they certainly have if they exist.
    filled: BTreeMap<i64, usize>,
}

/// Context for the evaluation of terms and constraints.
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
            // An empty selector selects all pods elsewhere; kube-scheduler's spread counts none for it.
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

    /// Reports whether every term holds for a pod of this shape, or the pod is the first of its group and matches itself.
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

    /// Reports whether a pod with the term may run beside the pods that the term selects.
    pub(super) fn tolerates_existing(&self, place: &NodePlace<'_>) -> bool {
        place.values(&self.term.key).iter().flatten().all(|value| self.meant.most(value) == 0)
    }

    /// Reports whether a pod of this shape may run beside the pods that have the term.
    pub(super) fn is_tolerated(&self, shape: usize, place: &NodePlace<'_>) -> bool {
        !self.means[shape] || place.values(&self.term.key).iter().flatten().all(|value| self.owners.most(value) == 0)
    }
}

impl SpreadCounts<'_> {
    /// Records the domains that a place is in or may be in.
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

    /// Returns the pods that a domain certainly has if it exists. An uncertain domain exists through one of its openers, with
    /// all pods there.
    fn at_least(&self, value: &str) -> i64 {
        let openers = self.openers.get(value).into_iter().flatten();
        self.tally.sure(value) + openers.map(|position| self.standing[*position]).min().unwrap_or(0)
    }

    /// Returns the worst skew for a pod of this shape here, if it exceeds the maximum or the node lacks the label.
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

    /// Returns the minimum of matching pods over the domains, while `value` has its maximum.
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

/// Reports whether a term of a pod like `owner` selects pods like `other`.
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
