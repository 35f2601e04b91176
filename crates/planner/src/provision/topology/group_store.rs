//! Groups with their counts. Copies of a plan share a group until one of them changes it: a saved plan costs one pointer per
//! group.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use super::{Counts, Domain, GroupId, KeyId, SpreadGroup, at};

#[derive(Clone)]
pub(super) struct TopologyGroup<'a> {
    pub(super) keys: Vec<KeyId>,
    /// Pods in each domain, one list per key.
    pub(super) tallies: Vec<Vec<u32>>,
    /// Pods that may count, or whose domain is one of several, counted in each of these domains; one list per key.
    pub(super) maybe: Vec<Vec<u32>>,
    /// Pods that are certainly in some domain of some key.
    pub(super) total: u64,
    /// True if a rule of a pod of the plan counts the group.
    pub(super) constrained: bool,
    pub(super) kind: GroupKind<'a>,
}

/// Data of a group that its rules need, apart from the counts.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "each group stands behind a pointer of its own")]
pub(super) enum GroupKind<'a> {
    Spread(SpreadState<'a>),
    Affinity(AffinityState),
    AntiAffinity(AntiAffinityState),
    /// Pods with one volume claim, recorded individually.
    Claim,
}

#[derive(Clone)]
pub(super) struct SpreadState<'a> {
    pub(super) group: SpreadGroup<'a>,
    /// Pods that are certainly on a site for which eligibility or the domain is not known yet. The domain that the site opens
    /// includes them.
    pub(super) on_site: BTreeMap<Domain, u32>,
    /// By domain, how many more pods new nodes may add before a placed pod of the plan violates the spread.
    pub(super) slack: BTreeMap<Domain, u32>,
    /// True if pods on each site count.
    pub(super) eligible: Arc<[Counts]>,
    /// For sites that may still start in one of several domains, those in which their pods may count.
    pub(super) prospects: BTreeMap<Domain, Vec<Domain>>,
    pub(super) domains: SpreadDomains,
}

/// Domains that a spread compares.
#[derive(Clone, Default)]
pub(super) struct SpreadDomains {
    /// Domains that a pod with this constraint could reach.
    pub(super) reachable: Vec<Domain>,
    /// Domains with nodes that count, as far as nodes bring DaemonSet pods.
    pub(super) opened: BTreeSet<Domain>,
    /// The certain ones of these domains, where a strict plan relies on no others.
    pub(super) certain: Option<BTreeSet<Domain>>,
    /// Minimum number of DaemonSet pods that every further new node brings.
    pub(super) brought: u32,
    /// The two existing domains with the fewest pods, and their counts, while only existing domains apply.
    pub(super) least: Option<Vec<(u32, Domain)>>,
    /// True if launches that the spread may count must fix their domain.
    pub(super) guarded: bool,
    /// For hosts, the minimum of pods on which the plan relies; see `host_minimum`.
    pub(super) host_minimum: u32,
    /// True if the minimum of hosts is 0 for good.
    pub(super) pinned: bool,
}

#[derive(Clone)]
pub(super) struct AffinityState {
    /// By key, domains that DaemonSet pods of the group may reach with further new nodes.
    pub(super) coming: Vec<BTreeSet<Domain>>,
    /// By key, the domain of the first pod of the group, where this pod belongs to the plan and none existed before.
    pub(super) started: Option<Vec<Option<Domain>>>,
    /// Sites with pods whose domain is not known yet.
    pub(super) here: BTreeSet<Domain>,
}

#[derive(Clone, Default)]
pub(super) struct AntiAffinityState {
    /// Pods in each domain that have the term.
    pub(super) holders: Vec<u32>,
    /// True if any pod has the term as a required one.
    pub(super) held: bool,
}

impl<'a> TopologyGroup<'a> {
    pub(super) fn spread(&self) -> Option<&SpreadState<'a>> {
        if let GroupKind::Spread(spread) = &self.kind { Some(spread) } else { None }
    }

    pub(super) fn spread_mut(&mut self) -> Option<&mut SpreadState<'a>> {
        if let GroupKind::Spread(spread) = &mut self.kind { Some(spread) } else { None }
    }

    pub(super) fn affinity(&self) -> Option<&AffinityState> {
        if let GroupKind::Affinity(affinity) = &self.kind { Some(affinity) } else { None }
    }

    pub(super) fn affinity_mut(&mut self) -> Option<&mut AffinityState> {
        if let GroupKind::Affinity(affinity) = &mut self.kind { Some(affinity) } else { None }
    }

    pub(super) fn anti_affinity(&self) -> Option<&AntiAffinityState> {
        if let GroupKind::AntiAffinity(anti) = &self.kind { Some(anti) } else { None }
    }

    pub(super) fn anti_affinity_mut(&mut self) -> Option<&mut AntiAffinityState> {
        if let GroupKind::AntiAffinity(anti) = &mut self.kind { Some(anti) } else { None }
    }

    /// Reports whether any pod has the group's term as required anti-affinity.
    pub(super) fn is_held(&self) -> bool {
        self.anti_affinity().is_some_and(|anti| anti.held)
    }

    /// Returns the pods in a domain that have the group's anti-affinity term.
    pub(super) fn holders_in(&self, domain: Domain) -> u32 {
        self.anti_affinity().map_or(0, |anti| at(&anti.holders, domain))
    }
}

/// All groups, by their ids.
#[derive(Clone, Default)]
pub(super) struct GroupStore<'a>(Vec<Arc<TopologyGroup<'a>>>);

impl<'a> GroupStore<'a> {
    pub(super) fn push(&mut self, group: TopologyGroup<'a>) {
        self.0.push(Arc::new(group));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TopologyGroup<'a>> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// Returns the ids of groups that changed.
    pub(super) fn changed_since(&self, before: &Self) -> Vec<GroupId> {
        let pairs = self.0.iter().zip(&before.0).enumerate();
        pairs.filter(|(_, (now, before))| !Arc::ptr_eq(now, before)).map(|(group, _)| group).collect()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TopologyGroup<'a>> {
        self.0.iter_mut().map(Arc::make_mut)
    }
}

impl<'a> Index<GroupId> for GroupStore<'a> {
    type Output = TopologyGroup<'a>;

    fn index(&self, group: GroupId) -> &TopologyGroup<'a> {
        &self.0[group]
    }
}

impl<'a> IndexMut<GroupId> for GroupStore<'a> {
    fn index_mut(&mut self, group: GroupId) -> &mut TopologyGroup<'a> {
        Arc::make_mut(&mut self.0[group])
    }
}
