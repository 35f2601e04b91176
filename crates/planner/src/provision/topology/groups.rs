//! Groups of a plan, and the pods that they count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{PodShape, PodTerm, Requirements, Selector, Spread, Taint, Toleration, ValueSet, label};

use crate::provision::demand::requirement_sets::{RequirementSetId, RequirementSets, Tolerance, first_untolerated};

use super::{
    AffinityState, AntiAffinityState, GroupId, GroupKind, Rule, RuleKind, SpreadDomains, SpreadState, Topology,
    TopologyGroup,
};

/// Pods that a spread counts, and the nodes on which it counts them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::provision) struct SpreadGroup<'a> {
    pub(in crate::provision) key: &'a str,
    namespace: &'a str,
    selector: Option<&'a Selector>,
    /// Alternatives of which an eligible node meets one; `None` when the pod's own affinity does not matter.
    pub(in crate::provision) alternatives: Option<Vec<RequirementSetId>>,
    /// Tolerations that must match the taints of an eligible node; `None` when taints do not matter.
    pub(in crate::provision) tolerations: Option<&'a [Toleration]>,
    /// The pod's own affinity and tolerations, which decide the reachable nodes.
    pub(in crate::provision) reach: (Vec<RequirementSetId>, &'a [Toleration]),
    /// Keys of the pod's other hard constraints: nodes without one of them do not count.
    pub(in crate::provision) beside: Vec<&'a str>,
}

/// True if a spread counts the pods of a node, as far as known before the node exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::provision) enum Counts {
    Never,
    Perhaps,
    Surely,
}

/// Possible values of a node's label, and whether the label may be missing.
pub(in crate::provision) struct PossibleLabels {
    pub(in crate::provision) values: BTreeSet<String>,
    pub(in crate::provision) lacking: bool,
    /// Values that the claim may still set, where they are too many to list.
    pub(in crate::provision) open: Option<ValueSet>,
}

impl PossibleLabels {
    /// Creates the value for a label that is known.
    pub(in crate::provision) fn settled(value: &str) -> Self {
        Self { values: BTreeSet::from([value.to_owned()]), lacking: false, open: None }
    }

    /// Returns all possible values of the label, including its absence.
    fn all(&self) -> impl Iterator<Item = Option<&str>> {
        self.values.iter().map(|value| Some(value.as_str())).chain(self.lacking.then_some(None))
    }

    fn meets(&self, asked: &ValueSet) -> Counts {
        let surely =
            self.all().all(|it| asked.allows(it)) && self.open.as_ref().is_none_or(|open| open.is_subset(asked));
        let open = || self.open.as_ref().is_some_and(|open| !open.intersection(asked).is_empty());
        Counts::from_bounds(surely, self.all().any(|it| asked.allows(it)) || open())
    }
}

impl Counts {
    fn from_bounds(surely: bool, perhaps: bool) -> Self {
        match (surely, perhaps) {
            (true, _) => Self::Surely,
            (false, true) => Self::Perhaps,
            (false, false) => Self::Never,
        }
    }

    /// Returns how certainly a node satisfies one of these alternatives, given its possible labels.
    pub(in crate::provision) fn of_any<'r>(
        alternatives: impl IntoIterator<Item = &'r Requirements>,
        outlook: impl Fn(&str) -> PossibleLabels,
    ) -> Self {
        let meets = |asked: &Requirements| {
            let each = asked.iter().map(|(key, set)| outlook(key).meets(set));
            each.min().unwrap_or(Self::Surely)
        };
        alternatives.into_iter().map(meets).max().unwrap_or(Self::Surely)
    }
}

/// Parameters that decide on which nodes a spread counts pods.
pub(super) type Eligibility<'a> = (Option<Vec<RequirementSetId>>, Option<&'a [Toleration]>, Vec<&'a str>);

impl<'a> SpreadGroup<'a> {
    pub(super) fn eligibility(&self) -> Eligibility<'a> {
        (self.alternatives.clone(), self.tolerations, self.beside.clone())
    }
}

impl SpreadGroup<'_> {
    /// Reports whether taints exclude the pod from a node in a way that matters to the spread.
    pub(in crate::provision) fn excludes_taints(&self, taints: &[Taint]) -> bool {
        self.tolerations.is_some_and(|own| first_untolerated(own, taints, Tolerance::Lenient).is_some())
    }

    /// Returns whether pods count on a node with these possible labels; taints are not evaluated.
    pub(in crate::provision) fn counts_on(
        &self,
        requirement_sets: &RequirementSets<'_>,
        outlook: impl Fn(&str) -> PossibleLabels,
    ) -> Counts {
        let carried = self.beside.iter().filter(|key| **key != label::HOSTNAME).map(|key| {
            let found = outlook(key);
            Counts::from_bounds(!found.lacking, !found.values.is_empty())
        });
        let affine = Counts::of_any(
            self.alternatives.iter().flatten().map(|alternative| requirement_sets.get(*alternative)),
            &outlook,
        );
        carried.chain([affine]).min().unwrap_or(Counts::Surely)
    }

    /// Returns the same for a node with known labels.
    pub(in crate::provision) fn counts_with(
        &self,
        requirement_sets: &RequirementSets<'_>,
        labels: &BTreeMap<String, String>,
    ) -> Counts {
        let carries = |key: &&str| *key == label::HOSTNAME || labels.contains_key(*key);
        let has = |(key, set): (&str, &ValueSet)| set.allows(labels.get(key).map(String::as_str));
        let meets = |alternative: &RequirementSetId| requirement_sets.get(*alternative).iter().all(has);
        let affine = self.alternatives.as_ref().is_none_or(|any| any.is_empty() || any.iter().any(meets));
        if affine && self.beside.iter().all(carries) { Counts::Surely } else { Counts::Never }
    }

    /// Reports whether a value of the spread's key is a domain for its pods: their own requirements may exclude it.
    pub(in crate::provision) fn knows(&self, value: &str, requirement_sets: &RequirementSets<'_>) -> bool {
        let allows = |alternative: &RequirementSetId| {
            requirement_sets.get(*alternative).get(self.key).is_none_or(|set| set.allows(Some(value)))
        };
        self.alternatives.as_ref().is_none_or(|any| any.iter().any(allows))
    }
}

impl<'a> Topology<'a> {
    /// Returns the rule of a spread constraint. `strict` is the pod's node selector with each alternative of its affinity.
    pub(in crate::provision) fn spread(
        &mut self,
        shape: &'a PodShape,
        spread: &'a Spread,
        strict: &[RequirementSetId],
    ) -> Rule {
        let mut beside: Vec<&str> = shape.spread.iter().filter(|it| it.hard).map(|it| it.key.as_str()).collect();
        beside.retain(|key| *key != spread.key);
        let identity = GroupIdentity::Spread(SpreadGroup {
            key: &spread.key,
            namespace: &shape.namespace,
            selector: spread.counted(),
            alternatives: spread.honor_affinity.then(|| strict.to_vec()),
            tolerations: spread.honor_taints.then_some(shape.tolerations.as_slice()),
            reach: (strict.to_vec(), &shape.tolerations),
            beside,
        });
        let group = self.intern(identity, &[&spread.key]);
        self.groups[group].constrained = true;
        let min_domains = spread.min_domains.unwrap_or(1) as usize;
        Rule { group, kind: RuleKind::Spread { max_skew: spread.max_skew.max(1), min_domains }, own: false }
    }

    /// Returns the rule of affinity to pods that match all of these terms.
    pub(in crate::provision) fn affinity(&mut self, namespace: &'a str, terms: Vec<&'a PodTerm>) -> Rule {
        let keys: Vec<&str> = terms.iter().map(|term| term.key.as_str()).collect();
        let group = self.intern(GroupIdentity::Affinity { namespace, terms: terms.clone() }, &keys);
        self.groups[group].constrained = true;
        Rule { group, kind: RuleKind::Affinity, own: false }
    }

    /// Returns the group of an anti-affinity term that a pod of the plan has.
    pub(in crate::provision) fn anti_affinity(&mut self, namespace: &'a str, term: &'a PodTerm) -> GroupId {
        let group = self.intern(GroupIdentity::AntiAffinity { namespace, term }, &[&term.key]);
        self.groups[group].constrained = true;
        group
    }

    /// Returns the group of a required anti-affinity term of any pod.
    pub(in crate::provision) fn held(&mut self, namespace: &'a str, term: &'a PodTerm) -> GroupId {
        let group = self.intern(GroupIdentity::AntiAffinity { namespace, term }, &[&term.key]);
        if let Some(anti) = self.groups[group].anti_affinity_mut() {
            anti.held = true;
        }
        group
    }

    /// Returns the rule of pods that share a claim: one pod at a time (`single`), or all in the zone of the first.
    pub(in crate::provision) fn claim(&mut self, claim: &'a str, single: bool) -> Rule {
        let key = if single { label::HOSTNAME } else { label::ZONE };
        let group = self.intern(GroupIdentity::Claim(claim), &[key]);
        self.groups[group].constrained = true;
        Rule { group, kind: if single { RuleKind::Exclusive } else { RuleKind::Affinity }, own: true }
    }

    /// Returns the groups of a shape's own anti-affinity.
    pub(in crate::provision) fn holding(&mut self, shape: &'a PodShape) -> Vec<usize> {
        shape.apart.iter().map(|term| self.held(&shape.namespace, term)).collect()
    }

    fn intern(&mut self, identity: GroupIdentity<'a>, keys: &[&str]) -> GroupId {
        if let Some(known) = self.index.known.get(&identity) {
            return *known;
        }
        let keys: Vec<usize> = keys.iter().map(|key| self.key(key)).collect();
        let kind = identity.kind(keys.len());
        let (tallies, maybe) = (vec![Vec::new(); keys.len()], vec![Vec::new(); keys.len()]);
        self.groups.push(TopologyGroup { keys, tallies, maybe, total: 0, constrained: false, kind });
        self.index.add(identity)
    }

    /// Returns the groups that count a pod of this shape, in order.
    pub(in crate::provision) fn counting(&self, shape: &PodShape) -> Vec<GroupId> {
        self.index.counting(shape)
    }

    /// Returns, of the groups that count a shape, those whose required anti-affinity excludes it.
    pub(in crate::provision) fn excluding(&self, counting: &[GroupId]) -> Vec<GroupId> {
        counting.iter().copied().filter(|group| self.groups[*group].is_held()).collect()
    }
}

/// Labels of every namespace.
type Namespaces = BTreeMap<String, BTreeMap<String, String>>;

/// Identity of a group: equal constraints share one group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum GroupIdentity<'a> {
    Spread(SpreadGroup<'a>),
    Affinity {
        namespace: &'a str,
        terms: Vec<&'a PodTerm>,
    },
    AntiAffinity {
        namespace: &'a str,
        term: &'a PodTerm,
    },
    /// Pods with one volume claim.
    Claim(&'a str),
}

/// Groups by the pods that they select.
#[derive(Clone)]
pub(super) struct GroupIndex<'a> {
    namespaces: &'a Namespaces,
    identities: Vec<GroupIdentity<'a>>,
    known: BTreeMap<GroupIdentity<'a>, GroupId>,
    /// Groups that may select a pod with this label and value, by the first requirement of their selector.
    by_label: BTreeMap<(&'a str, &'a str), Vec<GroupId>>,
    by_any_label: Vec<GroupId>,
}

impl<'a> GroupIndex<'a> {
    pub(super) fn new(namespaces: &'a Namespaces) -> Self {
        Self {
            namespaces,
            identities: Vec::new(),
            known: BTreeMap::new(),
            by_label: BTreeMap::new(),
            by_any_label: Vec::new(),
        }
    }

    fn add(&mut self, identity: GroupIdentity<'a>) -> GroupId {
        let id = self.identities.len();
        match identity.telling_label() {
            _ if matches!(identity, GroupIdentity::Claim(_)) => {}
            Some(label) => self.by_label.entry(label).or_default().push(id),
            None => self.by_any_label.push(id),
        }
        self.known.insert(identity.clone(), id);
        self.identities.push(identity);
        id
    }

    /// Returns the groups that count a pod of this shape, in order.
    fn counting(&self, shape: &PodShape) -> Vec<GroupId> {
        let labels = shape.labels.iter().filter_map(|(key, value)| self.by_label.get(&(key.as_str(), value.as_str())));
        let candidates = labels.flatten().chain(&self.by_any_label).copied();
        let mut groups: Vec<GroupId> =
            candidates.filter(|group| self.identities[*group].means(shape, self.namespaces)).collect();
        groups.sort_unstable();
        groups
    }
}

impl<'a> GroupIdentity<'a> {
    /// Returns the state of a new group with this many keys.
    fn kind(&self, keys: usize) -> GroupKind<'a> {
        match self {
            Self::Spread(group) => GroupKind::Spread(SpreadState {
                group: group.clone(),
                on_site: BTreeMap::new(),
                slack: BTreeMap::new(),
                eligible: Arc::default(),
                prospects: BTreeMap::new(),
                domains: SpreadDomains::default(),
            }),
            Self::Affinity { .. } => GroupKind::Affinity(AffinityState {
                coming: vec![BTreeSet::new(); keys],
                started: None,
                here: BTreeSet::new(),
            }),
            Self::AntiAffinity { .. } => GroupKind::AntiAffinity(AntiAffinityState::default()),
            Self::Claim(_) => GroupKind::Claim,
        }
    }

    /// Returns a label that every counted pod has, where the selector requires one value.
    fn telling_label(&self) -> Option<(&'a str, &'a str)> {
        let selector = match self {
            Self::Spread(spread) => spread.selector,
            Self::Affinity { terms, .. } => terms.first().and_then(|term| term.selector.as_ref()),
            Self::AntiAffinity { term, .. } => term.selector.as_ref(),
            Self::Claim(_) => None,
        };
        selector?.0.iter().find_map(|it| match (it.operator, it.values.as_slice()) {
            (crate::Operator::In, [value]) => Some((it.key.as_str(), value.as_str())),
            _ => None,
        })
    }

    fn means(&self, shape: &PodShape, namespaces: &Namespaces) -> bool {
        let means =
            |namespace: &str, term: &PodTerm| term.means(namespace, &shape.namespace, &shape.labels, namespaces);
        match self {
            Self::Spread(spread) => {
                spread.namespace == shape.namespace && spread.selector.is_some_and(|it| it.selects(&shape.labels))
            }
            Self::Affinity { namespace, terms } => terms.iter().all(|term| means(namespace, term)),
            Self::AntiAffinity { namespace, term } => means(namespace, term),
            Self::Claim(_) => false,
        }
    }
}
