//! Zone, or other domain, of a launch: fixed as soon as a pod on it counts for another pod.
//!
//! A launch whose zone is open could start in any of them. A pod that counts in a domain must know its domain, so the launch is
//! pinned to one. Among the domains that the rules allow, the launch prefers one that adds no unexpected domain to a spread.
//! Then cost, number of pods and name decide, the lowest first. Even hosts start in the domain with the fewest pods.

use crate::provision::capacity::node_template::TemplateId;
use crate::provision::daemon_overhead::{daemon_counts, keys_of_daemons};
use crate::provision::topology::DaemonCounts;
use crate::provision::topology::bound_counts::{count_new_domains, guarded_keys};
use crate::provision::{Attempt, Solver};

/// Returns the variants of a template with a fixed value for each relevant key, as the rules allow; best first. A key is
/// relevant to the pods, to DaemonSet pods of the node, or to a spread that may count there. A label that the new node will
/// not have is fixed too: it belongs to no domain, which satisfies anti-affinity. A launch that is not opened yet (`fresh`)
/// adds its DaemonSet pods.
pub(in crate::provision) fn pinned_templates(
    solver: &mut Solver<'_>,
    template: TemplateId,
    attempt: Attempt,
    fresh: bool,
) -> Vec<TemplateId> {
    let mut keys = solver.problem.demands[attempt.shape].levels[attempt.level].keys.clone();
    keys.extend(keys_of_daemons(solver, template));
    keys.extend(guarded_keys(&solver.topology, template, &solver.capacity.templates, &solver.problem.requirement_sets));
    keys.sort_unstable_by_key(|key| solver.topology.key_name(*key));
    keys.dedup();
    let is_open = |key: &usize| {
        let pin = solver.capacity.templates.get(template).pins[*key];
        pin.is_none() && !solver.capacity.templates.values(template, *key, &mut solver.topology).is_empty()
    };
    let (open, settled): (Vec<usize>, Vec<usize>) = keys.into_iter().partition(is_open);
    let daemons = daemon_counts_of(solver, template, fresh, !open.is_empty());
    let demand = &solver.problem.demands[attempt.shape];
    let rules = &demand.levels[attempt.level].rules;
    let pins = &solver.capacity.templates.get(template).pins;
    let allowed = |key: &usize| solver.topology.allows_beside(rules, &demand.excluded_by, *key, pins[*key], &daemons);
    match open.first() {
        _ if !settled.iter().all(allowed) => Vec::new(),
        None => vec![template],
        Some(key) => pin(solver, template, *key, attempt, fresh),
    }
}

/// Returns the DaemonSet pods of a launch that is not opened yet; while its template may become narrower, the best case.
fn daemon_counts_of(solver: &mut Solver<'_>, template: TemplateId, fresh: bool, open: bool) -> DaemonCounts {
    match (fresh, open) {
        (false, _) => DaemonCounts::default(),
        (true, false) => daemon_counts(solver, template),
        (true, true) => daemon_counts(solver, template).at_best(),
    }
}

fn pin(solver: &mut Solver<'_>, template: TemplateId, key: usize, attempt: Attempt, fresh: bool) -> Vec<TemplateId> {
    let values = solver.capacity.templates.values(template, key, &mut solver.topology);
    let mut pinned = Vec::new();
    for domain in values.iter() {
        solver.progress.steps += 1;
        let Some(child) = solver.capacity.templates.pinned(template, key, *domain, &mut solver.topology) else {
            continue;
        };
        let daemons = daemon_counts_of(solver, child, fresh, true);
        let demand = &solver.problem.demands[attempt.shape];
        let level = &demand.levels[attempt.level];
        if !solver.topology.allows_beside(&level.rules, &demand.excluded_by, key, Some(*domain), &daemons) {
            continue;
        }
        let pods = solver.topology.pods_in_domain(&level.rules, key, *domain);
        let cost = solver
            .capacity
            .cheapest_for(child, &solver.problem.demands[attempt.shape])
            .map(|entry| solver.capacity.templates.get(child).entries[entry].cost);
        // Capacity that only a reservation offers is paid already.
        let reserved = solver.capacity.templates.pool_template_of(child).reserves.then_some(0);
        let surprises = count_new_domains(
            &solver.topology,
            key,
            *domain,
            child,
            &solver.capacity.templates,
            &solver.problem.requirement_sets,
        );
        pinned.extend(cost.or(reserved).map(|cost| (surprises, cost, pods, child)));
    }
    let emptiest_first = solver.progress.emptiest_first;
    pinned.sort_by_key(|(surprises, cost, pods, _)| (*surprises, emptiest_first.then_some(*pods), *cost, *pods));
    pinned.truncate(if emptiest_first { 1 } else { pinned.len() });
    pinned.into_iter().flat_map(|(.., child)| pinned_templates(solver, child, attempt, fresh)).collect()
}
