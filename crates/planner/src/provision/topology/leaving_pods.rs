//! Pods on nodes that disruption may remove: counted on their node, and subtracted when the node is drained.
//!
//! Disruption commands run in parallel, in an order that is unknown when kube-scheduler binds a pod. Once a command is
//! accepted, each change counts both as before and as after, whichever is worse for the rule.

use super::{
    CountedPods, Counts, Domain, GroupId, GroupStore, HOST, Membership, Rule, RuleKind, Spot, Topology, domain_at, slot,
};

/// One pod that certainly exists.
const ONE: CountedPods = CountedPods { count: 1, there: Counts::Surely };

/// Saved counts of all groups, for `restore`.
#[derive(Clone)]
pub(in crate::provision) struct CountsBefore<'a>(GroupStore<'a>);

/// Returns a copy of the present counts.
pub(in crate::provision) fn saved_counts<'a>(topology: &Topology<'a>) -> CountsBefore<'a> {
    CountsBefore(topology.groups.clone())
}

/// Restores saved counts.
pub(in crate::provision) fn restore_counts<'a>(topology: &mut Topology<'a>, before: CountsBefore<'a>) {
    topology.groups = before.0;
}

/// Combines the counts before and after a command; returns the groups in which they differ.
pub(in crate::provision) fn count_both_ways<'a>(
    topology: &mut Topology<'a>,
    before: &CountsBefore<'a>,
) -> Vec<GroupId> {
    let changed = topology.groups.changed_since(&before.0);
    changed.iter().for_each(|group| topology.groups[*group].allow_for(&before.0[*group]));
    changed
}

/// Reports whether a pod's placement still satisfies a rule, if it satisfied the rule before.
pub(in crate::provision) fn keeps_rule<'a>(
    topology: &Topology<'a>,
    rule: &Rule,
    spot: Spot<'_>,
    before: &CountsBefore<'a>,
) -> bool {
    let (was, is) = (&before.0[rule.group], &topology.groups[rule.group]);
    let mut domains = is.keys.iter().map(|key| topology.domain_at(*key, spot)).enumerate();
    domains.all(|(position, domain)| {
        domain.is_none_or(|domain| is.bears(rule, position, domain) || !was.bears(rule, position, domain))
    })
}

/// Counts a pod on the snapshot node where it runs.
pub(in crate::provision) fn add_resident(topology: &mut Topology<'_>, membership: Membership<'_>, site: Domain) {
    topology.record(membership, Spot { site: Some(site), pins: None }, ONE, |_, _| Counts::Surely);
}

/// Reports whether the rule is affinity by a key other than the hostname, and no pod of its group is left.
pub(in crate::provision) fn is_deserted(topology: &Topology<'_>, rule: &Rule) -> bool {
    let group = &topology.groups[rule.group];
    rule.kind == RuleKind::Affinity && group.keys != [HOST] && group.total == 0
}

/// Subtracts a pod that was counted on a snapshot node with known labels.
pub(in crate::provision) fn remove_resident(topology: &mut Topology<'_>, membership: Membership<'_>, site: Domain) {
    let spot = Spot { site: Some(site), pins: None };
    for id in membership.counts {
        let group = &mut topology.groups[*id];
        if group.spread().is_some_and(|spread| spread.eligible[site as usize] != Counts::Surely) {
            continue;
        }
        let mut somewhere = false;
        for (position, key) in group.keys.iter().enumerate() {
            if let Some(domain) = domain_at(&topology.keys, *key, spot) {
                let tally = slot(&mut group.tallies[position], domain);
                *tally = tally.saturating_sub(1);
                somewhere = true;
            }
        }
        group.total = group.total.saturating_sub(u64::from(somewhere));
        if !somewhere
            && group.spread().is_some()
            && let Some(pods) = group.spread_mut().and_then(|spread| spread.on_site.get_mut(&site))
        {
            *pods = pods.saturating_sub(1);
        }
    }
    for id in membership.holds {
        let group = &mut topology.groups[*id];
        if let Some(domain) = domain_at(&topology.keys, group.keys[0], spot)
            && let Some(anti) = group.anti_affinity_mut()
        {
            let holders = slot(&mut anti.holders, domain);
            *holders = holders.saturating_sub(1);
        }
    }
}
