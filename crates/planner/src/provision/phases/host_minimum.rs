//! Minimum of pods on hosts, on which the rules of spreads over hosts rely while a plan is made.
//!
//! A plan starts from the pods that every host has, or will have by nominations. `even_hosts` relies on what it plans for each
//! new host. A plan that ends with fewer pods on some host is made again with a minimum of 0.

use std::collections::{BTreeMap, BTreeSet};

use crate::provision::Solver;
use crate::provision::topology::host_minimum::{HostCounts, host_counts, host_minimum, host_spreads, rely_on_minimum};
use crate::provision::topology::{Domain, GroupId, RuleKind};

/// Pods by spread and host.
type PodsByHost = BTreeMap<(GroupId, Domain), u32>;

/// Relies on the pods that every host has now, nominated pods included.
pub(in crate::provision) fn rely_on_present_pods(solver: &mut Solver<'_>) {
    let groups: Vec<GroupId> = host_spreads(&solver.topology).collect();
    if groups.is_empty() {
        return;
    }
    let (nominated, min_domains) = (nominated_pods(solver), min_domains_of_groups(solver));
    for group in groups {
        let minimum = present_hosts(solver, group, &nominated).minimum(least_domains(&min_domains, group));
        rely_on_minimum(&mut solver.topology, group, minimum);
    }
}

/// Relies on no minimum above 0.
pub(in crate::provision) fn rely_on_no_pods(solver: &mut Solver<'_>) {
    let groups: Vec<GroupId> = host_spreads(&solver.topology).collect();
    groups.into_iter().for_each(|group| rely_on_minimum(&mut solver.topology, group, 0));
}

/// Returns the spreads for which some host has fewer pods than the plan relies on.
pub(in crate::provision) fn missed_minimums(solver: &Solver<'_>) -> BTreeSet<GroupId> {
    let relied = host_spreads(&solver.topology).filter(|group| host_minimum(&solver.topology, *group) > 0);
    let groups: Vec<GroupId> = relied.collect();
    if groups.is_empty() {
        return BTreeSet::new();
    }
    let min_domains = min_domains_of_groups(solver);
    let minimum =
        |group: GroupId| present_hosts(solver, group, &PodsByHost::new()).minimum(least_domains(&min_domains, group));
    groups.into_iter().filter(|group| minimum(*group) < host_minimum(&solver.topology, *group)).collect()
}

/// Counts the hosts of a spread, with launches and these further pods.
pub(in crate::provision) fn present_hosts(solver: &Solver<'_>, group: GroupId, more: &PodsByHost) -> HostCounts {
    host_counts(
        &solver.topology,
        group,
        solver.new_nodes.list.iter().map(|claim| (claim.template, claim.site)),
        &solver.capacity.templates,
        &solver.problem.requirement_sets,
        |site| more.get(&(group, site)).copied().unwrap_or(0),
    )
}

/// Returns the greatest `minDomains` of the rules of each spread.
pub(in crate::provision) fn min_domains_of_groups(solver: &Solver<'_>) -> BTreeMap<GroupId, usize> {
    let mut greatest: BTreeMap<GroupId, usize> = BTreeMap::new();
    let rules = solver.problem.demands.iter().flat_map(|demand| &demand.levels).flat_map(|level| &level.rules);
    for rule in rules {
        if let RuleKind::Spread { min_domains, .. } = rule.kind {
            greatest.entry(rule.group).and_modify(|it| *it = min_domains.max(*it)).or_insert(min_domains);
        }
    }
    greatest
}

fn least_domains(min_domains: &BTreeMap<GroupId, usize>, group: GroupId) -> usize {
    min_domains.get(&group).copied().unwrap_or(1)
}

/// Returns pods without a place by their nominations.
fn nominated_pods(solver: &Solver<'_>) -> PodsByHost {
    let mut pods = PodsByHost::new();
    for (position, pod) in solver.problem.input.snapshot.pods.iter().enumerate() {
        let node = pod.nominated.as_deref().filter(|_| solver.outcome.verdicts[position].is_none());
        if let Some(node) = node.and_then(|name| solver.existing.named(name)) {
            let site = solver.existing.list[node].site;
            for group in &solver.problem.demand(position).counts {
                *pods.entry((*group, site)).or_default() += 1;
            }
        }
    }
    pods
}
