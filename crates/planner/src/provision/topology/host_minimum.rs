//! Minimum of pods on the hosts that a spread counts.
//!
//! kube-scheduler measures the skew against the hosts that exist. A plan may therefore rely on a minimum above 0, provided that
//! every host that counts has so many pods once all pods are bound: nodes, in-flight nodes and the plan's own launches.

use crate::provision::capacity::node_template::{NodeTemplates, TemplateId};
use crate::provision::demand::requirement_sets::RequirementSets;

use super::{Counts, Domain, GroupId, HOST, KeyId, KnownDomains, SpreadGroup, Topology, at};

/// Hosts that a spread counts, or may count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::provision) struct HostCounts {
    /// Minimum of pods on them; `None` without such a host.
    pub(in crate::provision) least: Option<u32>,
    /// Number of hosts that certainly count, as far as evaluated: evaluation ends at a host without pods.
    pub(in crate::provision) sure: usize,
    /// Number of hosts with pods, as far as evaluated.
    pub(in crate::provision) occupied: usize,
}

impl HostCounts {
    /// Returns the minimum on which a plan may rely.
    pub(in crate::provision) fn minimum(self, min_domains: usize) -> u32 {
        if self.sure < min_domains { 0 } else { self.least.unwrap_or(0) }
    }

    /// Adds a host and reports whether it has pods.
    fn add(&mut self, pods: u32, counts: Counts) -> bool {
        self.least = Some(self.least.map_or(pods, |least| least.min(pods)));
        self.sure += usize::from(counts == Counts::Surely);
        self.occupied += usize::from(pods > 0);
        pods > 0
    }
}

/// Returns the spreads over hosts whose minimum a plan may decide.
pub(in crate::provision) fn host_spreads<'t>(topology: &'t Topology<'_>) -> impl Iterator<Item = GroupId> + 't {
    let groups = topology.groups.iter().enumerate().filter(|(_, group)| group.keys == [HOST]);
    groups.filter(|(_, group)| group.spread().is_some_and(|spread| !spread.domains.pinned)).map(|(id, _)| id)
}

/// Returns the pods that a spread counts, and where; `None` for other groups.
pub(in crate::provision) fn spread_group<'t, 'a>(
    topology: &'t Topology<'a>,
    group: GroupId,
) -> Option<&'t SpreadGroup<'a>> {
    topology.groups[group].spread().map(|spread| &spread.group)
}

/// Returns the key of a spread; `None` for other groups.
pub(in crate::provision) fn spread_key(topology: &Topology<'_>, group: GroupId) -> Option<KeyId> {
    let group = &topology.groups[group];
    group.spread().map(|_| group.keys[0])
}

/// Returns the domains that pods of a spread could reach, with the pods in each.
pub(in crate::provision) fn pods_by_domain(topology: &Topology<'_>, group: GroupId) -> Vec<(Domain, u32)> {
    let group = &topology.groups[group];
    let reachable = group.spread().map_or(&[][..], |spread| &spread.domains.reachable);
    reachable.iter().map(|domain| (*domain, group.most(0, *domain))).collect()
}

/// Reports whether the plan relies on a minimum above 0.
pub(in crate::provision) fn relies_on_hosts(topology: &Topology<'_>) -> bool {
    host_spreads(topology).any(|group| host_minimum(topology, group) > 0)
}

/// Returns the minimum on which the plan relies for a spread.
pub(in crate::provision) fn host_minimum(topology: &Topology<'_>, group: GroupId) -> u32 {
    topology.groups[group].spread().map_or(0, |spread| spread.domains.host_minimum)
}

/// Sets the minimum on which the plan relies for a spread over hosts.
pub(in crate::provision) fn rely_on_minimum(topology: &mut Topology<'_>, group: GroupId, minimum: u32) {
    if host_minimum(topology, group) != minimum
        && let Some(spread) = topology.groups[group].spread_mut()
    {
        spread.domains.host_minimum = if spread.domains.pinned { 0 } else { minimum };
    }
}

/// Fixes the minimum of spreads at 0 for which an earlier attempt relied on more in vain.
pub(in crate::provision) fn pin_hosts(topology: &mut Topology<'_>, known: &KnownDomains) {
    let pinned: Vec<GroupId> =
        host_spreads(topology).filter(|group| known.all_pinned || known.pinned.contains(group)).collect();
    for group in pinned {
        if let Some(spread) = topology.groups[group].spread_mut() {
            spread.domains.pinned = true;
        }
    }
}

/// Returns the pods of a spread on a host.
pub(in crate::provision) fn pods_on_host(topology: &Topology<'_>, id: GroupId, site: Domain) -> u32 {
    let group = &topology.groups[id];
    let open = group.spread().and_then(|spread| spread.on_site.get(&site)).copied().unwrap_or(0);
    at(&group.tallies[0], site) + open
}

/// Counts the hosts of a spread: the snapshot's nodes, and launches by template and site. `more` returns further pods of the
/// spread on a host.
pub(in crate::provision) fn host_counts<'a>(
    topology: &Topology<'a>,
    id: GroupId,
    launches: impl Iterator<Item = (TemplateId, Domain)>,
    templates: &NodeTemplates<'a>,
    requirement_sets: &RequirementSets<'a>,
    more: impl Fn(Domain) -> u32,
) -> HostCounts {
    let mut hosts = HostCounts::default();
    let Some(spread) = topology.groups[id].spread() else { return hosts };
    let nodes = (0..).zip(spread.eligible.iter().copied());
    let launches =
        launches.map(|(template, site)| (site, templates.counts(template, id, &spread.group, requirement_sets)));
    for (site, counts) in nodes.chain(launches).filter(|(_, counts)| *counts != Counts::Never) {
        if !hosts.add(pods_on_host(topology, id, site) + more(site), counts) {
            break;
        }
    }
    hosts
}
