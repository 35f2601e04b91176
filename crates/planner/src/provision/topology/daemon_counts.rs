//! DaemonSet pods that new nodes bring, and that exist before any pod of the plan is bound.
//!
//! DaemonSet pods count from the beginning, also for pods that the plan placed before it opened their launch. Each placed pod
//! therefore records how many further pods its rules allow. A launch with more DaemonSet pods is not opened.

use std::collections::BTreeMap;

use super::bound_counts::{certain_domains, occupied_domains, spreads_on};
use super::{
    CountedPods, Counts, Domain, GroupId, GroupKind, HOST, Membership, Rule, RuleKind, Spot, SpreadDomains,
    SpreadGroup, Topology, TopologyGroup, domain_at, possible, slot,
};
use crate::provision::capacity::node_template::{NodeTemplates, TemplateId};
use crate::provision::demand::requirement_sets::RequirementSets;

/// Number of DaemonSet pods of one group on a new node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::provision) struct DaemonPresence {
    /// Certain number.
    pub(super) sure: u32,
    /// Maximum number.
    pub(super) most: u32,
}

/// Number of DaemonSet pods on a new node, by group.
#[derive(Clone, Debug, Default)]
pub(in crate::provision) struct DaemonCounts(BTreeMap<GroupId, DaemonPresence>);

impl DaemonCounts {
    pub(super) fn get(&self, group: GroupId) -> DaemonPresence {
        self.0.get(&group).copied().unwrap_or_default()
    }

    /// Returns the counts with every possible pod as a certain one.
    pub(in crate::provision) fn at_best(mut self) -> Self {
        self.0.values_mut().for_each(|presence| presence.sure = presence.most);
        self
    }

    fn add(&mut self, group: GroupId, pods: CountedPods) {
        let presence = self.0.entry(group).or_default();
        presence.most += if pods.there == Counts::Never { 0 } else { pods.count };
        presence.sure += if pods.there == Counts::Surely { pods.count } else { 0 };
    }
}

/// Adds pods of these groups to the DaemonSet pods of a launch. Spreads are omitted unless the plan is strict about them:
/// two launches together may satisfy a spread that one alone violates. `suits` returns whether a spread counts pods on that
/// launch.
pub(in crate::provision) fn add_daemons<'a>(
    topology: &Topology<'a>,
    daemons: &mut DaemonCounts,
    groups: &[GroupId],
    pods: CountedPods,
    suits: impl Fn(GroupId, &SpreadGroup<'a>) -> Counts,
) {
    for id in groups {
        let there = match &topology.groups[*id].kind {
            GroupKind::Spread(_) if !topology.strict => continue,
            GroupKind::Spread(spread) => suits(*id, &spread.group).min(pods.there),
            _ => pods.there,
        };
        daemons.add(*id, CountedPods { there, ..pods });
    }
}

/// Counts a pod of these groups as certain that was counted as a possible pod of a launch.
pub(in crate::provision) fn confirm_pods<'a>(
    topology: &mut Topology<'a>,
    groups: &[GroupId],
    spot: Spot<'_>,
    suits: impl Fn(GroupId, &SpreadGroup<'a>) -> Counts,
) {
    for id in groups {
        let group = &mut topology.groups[*id];
        let unsettled = matches!(&group.kind, GroupKind::Spread(spread) if suits(*id, &spread.group) != Counts::Surely);
        if unsettled || !group.constrained {
            continue;
        }
        for (position, key) in group.keys.iter().enumerate() {
            if let Some(domain) = domain_at(&topology.keys, *key, spot) {
                *slot(&mut group.maybe[position], domain) -= 1;
                *slot(&mut group.tallies[position], domain) += 1;
            }
        }
        group.total += 1;
    }
}

/// Subtracts one pod that was counted as a possible pod of a launch with these values and will not exist there.
pub(in crate::provision) fn withdraw_pods<'a>(
    topology: &mut Topology<'a>,
    membership: Membership<'_>,
    pins: &[Option<Domain>],
    suits: impl Fn(GroupId, &SpreadGroup<'a>) -> Counts,
) {
    let somewhere = Spot { site: None, pins: Some(pins) };
    for id in membership.counts {
        let group = &mut topology.groups[*id];
        if matches!(&group.kind, GroupKind::Spread(spread) if suits(*id, &spread.group) == Counts::Never) {
            continue;
        }
        for (position, key) in group.keys.iter().enumerate() {
            for domain in possible(&topology.keys, *key, somewhere) {
                *slot(&mut group.maybe[position], domain) -= 1;
            }
        }
    }
    for id in membership.holds {
        let group = &mut topology.groups[*id];
        let key = group.keys[0];
        if let Some(anti) = group.anti_affinity_mut() {
            possible(&topology.keys, key, somewhere).for_each(|domain| *slot(&mut anti.holders, domain) -= 1);
        }
    }
}

/// Records that pods of these groups may come to a spot with its node, so that no pod starts their group elsewhere.
pub(in crate::provision) fn expect_pods(topology: &mut Topology<'_>, groups: &[GroupId], spot: Spot<'_>) {
    for id in groups {
        let TopologyGroup { keys, kind: GroupKind::Affinity(affinity), .. } = &mut topology.groups[*id] else {
            continue;
        };
        for (key, coming) in keys.iter().zip(&mut affinity.coming) {
            coming.extend(possible(&topology.keys, *key, spot));
        }
    }
}

/// Records how many later pods the rules of pods, about to be counted at a spot, allow.
pub(in crate::provision) fn record_limits(topology: &mut Topology<'_>, rules: &[Rule], spot: Spot<'_>) {
    for rule in rules {
        let keys = &topology.groups[rule.group].keys;
        match rule.kind {
            RuleKind::Spread { .. } => {
                let domains: Vec<Domain> = topology.possible(keys[0], spot).collect();
                record_slack(topology, rule, &domains);
            }
            RuleKind::Affinity if topology.groups[rule.group].total == 0 => {
                let domains = keys.iter().map(|key| topology.domain_at(*key, spot)).collect();
                if let Some(affinity) = topology.groups[rule.group].affinity_mut() {
                    affinity.started.get_or_insert(domains);
                }
            }
            _ => {}
        }
    }
}

fn record_slack(topology: &mut Topology<'_>, rule: &Rule, domains: &[Domain]) {
    let group = &mut topology.groups[rule.group];
    if group.keys == [HOST] {
        return;
    }
    for domain in domains {
        if let Some(slack) = group.slack(rule, *domain)
            && let Some(spread) = group.spread_mut()
        {
            let least = spread.slack.entry(*domain).or_insert(slack);
            *least = slack.min(*least);
        }
    }
}

/// Returns the groups of which a launch would bring more pods to a spot than the rules of placed pods allow.
pub(in crate::provision) fn exceeded_groups(
    topology: &Topology<'_>,
    daemons: &DaemonCounts,
    spot: Spot<'_>,
) -> Vec<GroupId> {
    let tolerates = |(id, presence): &(&GroupId, &DaemonPresence)| {
        let group = &topology.groups[**id];
        let here = |key: &usize| topology.domain_at(*key, spot);
        let beside = |started: &Vec<Option<Domain>>| group.keys.iter().map(here).eq(started.iter().copied());
        let allows = || match &group.kind {
            GroupKind::Spread(spread) => {
                let slack = here(&group.keys[0]).and_then(|domain| spread.slack.get(&domain));
                slack.is_none_or(|slack| presence.most <= *slack)
            }
            GroupKind::Affinity(affinity) => affinity.started.as_ref().is_none_or(beside),
            GroupKind::AntiAffinity(_) | GroupKind::Claim => true,
        };
        presence.most == 0 || allows()
    };
    daemons.0.iter().filter(|it| !tolerates(it)).map(|(id, _)| *id).collect()
}

/// Subtracts a launch's DaemonSet pods from the numbers that placed pods allow, and records which domains it opens.
pub(in crate::provision) fn admit_daemons<'a>(
    topology: &mut Topology<'a>,
    daemons: &DaemonCounts,
    spot: Spot<'_>,
    template: TemplateId,
    templates: &NodeTemplates<'a>,
    requirement_sets: &RequirementSets<'a>,
) {
    let surely = |id, spread| templates.counts(template, id, spread, requirement_sets) == Counts::Surely;
    let spreads: Vec<(GroupId, bool)> = spreads_on(topology, template, templates, requirement_sets)
        .map(|(id, _, spread)| (id, surely(id, &spread.group)))
        .collect();
    for (id, surely) in spreads {
        let domain = topology.domain_at(topology.groups[id].keys[0], spot);
        let Some(spread) = topology.groups[id].spread_mut() else { continue };
        spread.domains.opened.extend(domain);
        if let Some(certain) = &mut spread.domains.certain {
            certain.extend(domain.filter(|_| surely));
        }
        if let Some(slack) = domain.and_then(|domain| spread.slack.get_mut(&domain)) {
            *slack = slack.saturating_sub(daemons.get(id).most);
        }
    }
}

/// Records the domains with nodes, and the minimum number of DaemonSet pods on every further new node. `least` has the
/// number for a group, and for a spread where it counts at all.
pub(in crate::provision) fn begin_groups(topology: &mut Topology<'_>, least: &BTreeMap<GroupId, u32>, strict: bool) {
    topology.strict = strict;
    for id in 0..topology.groups.len() {
        let key = topology.groups[id].keys[0];
        let Some(spread) = topology.groups[id].spread() else { continue };
        let opened = occupied_domains(topology, key, spread);
        let certain = strict.then(|| certain_domains(topology, key, spread));
        if let Some(spread) = topology.groups[id].spread_mut() {
            let brought = least.get(&id).copied().unwrap_or(0);
            spread.domains = SpreadDomains { opened, certain, brought, ..std::mem::take(&mut spread.domains) };
        }
    }
    remember_groups(topology);
}

/// Records the groups as they are before the plan's first pod.
pub(in crate::provision) fn remember_groups(topology: &mut Topology<'_>) {
    topology.beginning = topology.groups.clone();
}

/// Discards all pods of the plan.
pub(in crate::provision) fn restart_groups(topology: &mut Topology<'_>) {
    topology.groups = topology.beginning.clone();
}

/// Returns how many pods of each spread a launch of a template certainly brings; spreads that do not count there are
/// omitted.
pub(in crate::provision) fn brought_pods<'a>(
    topology: &Topology<'a>,
    members: impl Iterator<Item = (Vec<GroupId>, Counts)>,
    template: TemplateId,
    templates: &NodeTemplates<'a>,
    requirement_sets: &RequirementSets<'a>,
) -> BTreeMap<GroupId, u32> {
    let mut all: BTreeMap<GroupId, u32> =
        spreads_on(topology, template, templates, requirement_sets).map(|(id, ..)| (id, 0)).collect();
    let sure = members.filter(|(_, there)| *there == Counts::Surely);
    for id in sure.flat_map(|(groups, _)| groups) {
        if let Some(count) = all.get_mut(&id) {
            *count += 1;
        }
    }
    all
}
