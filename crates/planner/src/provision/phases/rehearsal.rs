//! Rehearsal of a plan. A plan is rehearsed when its launches bring DaemonSet pods that topology rules of other pods count. In
//! the rehearsal all nodes are up, each with its DaemonSet pods, and the plan's pods are bound in their order.
//!
//! A plan in progress counts only the launches that it has opened so far. Several launches together may satisfy a spread that
//! one alone violates. Spreads are therefore not strict at first; only a plan that fails its rehearsal is made again strictly.
//!
//! A plan that relies on a minimum of hosts is rehearsed too. kube-scheduler binds its pods in turns, the emptiest hosts first;
//! the rehearsal finds such an order.

use std::collections::{BTreeMap, BTreeSet};

use super::finish::launches_by_now;
use super::host_minimum::missed_minimums;
use crate::provision::capacity::node_template::TemplateId;
use crate::provision::daemon_overhead::{confirm_daemons, count_daemons};
use crate::provision::topology::bound_counts::new_domains_of;
use crate::provision::topology::current_domains::{look_ahead, look_at_present};
use crate::provision::topology::daemon_counts::restart_groups;
use crate::provision::topology::host_minimum::relies_on_hosts;
use crate::provision::topology::{Domain, HOST, KnownDomains};
use crate::provision::{Attempt, PodPlacement, Solver};

/// Reports whether every pod can be bound where it was planned. Discards the counts of the plan.
pub(in crate::provision) fn rehearse(solver: &mut Solver<'_>) -> bool {
    let relies = relies(solver);
    if solver.daemons.is_empty() && !relies {
        return true;
    }
    restart_groups(&mut solver.topology);
    solver.count_residents();
    solver.daemons.forget_doubts();
    (0..solver.new_nodes.list.len()).for_each(|claim| count_daemons(solver, claim));
    confirm_daemons(solver);
    let launches = launches_by_now(solver);
    let residents: BTreeSet<usize> = solver.problem.residents.iter().map(|resident| resident.pod).collect();
    let (mut moving, own): (Vec<usize>, Vec<usize>) =
        solver.outcome.order.iter().partition(|pod| residents.contains(pod));
    if relies {
        return moving.is_empty() && bind_in_turns(solver, own, &launches);
    }
    if !own.into_iter().all(|pod| binds(solver, pod, &launches)) {
        return false;
    }
    // Disruption commands run in parallel: a pod without a place is tried again when other pods have theirs.
    let mut before = usize::MAX;
    while moving.len() < before {
        before = moving.len();
        moving.retain(|pod| !binds(solver, *pod, &launches));
    }
    moving.is_empty()
}

/// Reports whether the plan relies on an order of binding that is not its own.
fn relies(solver: &Solver<'_>) -> bool {
    solver.progress.is_dealt || relies_on_hosts(&solver.topology)
}

/// Binds pods in any order that their rules allow, pods of CapacityBuffers last, and records this order; reports whether all
/// are bound.
fn bind_in_turns(solver: &mut Solver<'_>, order: Vec<usize>, launches: &[(TemplateId, Domain)]) -> bool {
    let is_buffer = |pod: &usize| solver.problem.input.snapshot.pods[*pod].holder.is_some();
    let (buffers, real): (Vec<usize>, Vec<usize>) = order.into_iter().partition(is_buffer);
    let mut bound = Vec::new();
    for pods in [real, buffers] {
        let mut waiting = in_turns(solver, pods);
        while !waiting.is_empty() {
            let before = waiting.len();
            waiting.retain(|pod| {
                let binds = binds(solver, *pod, launches);
                bound.extend(binds.then_some(*pod));
                !binds
            });
            if waiting.len() == before {
                return false;
            }
        }
    }
    solver.outcome.order = bound;
    true
}

/// Returns pods so that those of one shape take turns over their places; each shape keeps its positions in the order.
fn in_turns(solver: &Solver<'_>, mut pods: Vec<usize>) -> Vec<usize> {
    let mut runs: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (position, pod) in pods.iter().enumerate() {
        let shape = solver.problem.demand_of[*pod];
        if !solver.problem.demands[shape].strict_rules().is_empty() {
            runs.entry(shape).or_default().push(position);
        }
    }
    for positions in runs.values() {
        let mut turns: BTreeMap<Option<PodPlacement>, usize> = BTreeMap::new();
        let mut own: Vec<(usize, usize)> = Vec::new();
        for position in positions {
            let turn = turns.entry(solver.place_of(pods[*position])).or_default();
            own.push((*turn, pods[*position]));
            *turn += 1;
        }
        own.sort_by_key(|(turn, _)| *turn);
        positions.iter().zip(own).for_each(|(position, (_, pod))| pods[*position] = pod);
    }
    pods
}

/// Binds a pod at its planned place if its rules allow that place.
fn binds(solver: &mut Solver<'_>, pod: usize, launches: &[(TemplateId, Domain)]) -> bool {
    let shape = solver.problem.demand_of[pod];
    let Some(place) = solver.place_of(pod) else { return true };
    let admitted = admits_now(solver, shape, place, launches);
    if admitted {
        solver.count(Attempt { shape, level: solver.problem.demands[shape].levels.len() - 1 }, place, 1);
    }
    admitted
}

/// Reports whether the strict rules of a shape hold at a place, among the nodes that exist.
fn admits_now(solver: &mut Solver<'_>, shape: usize, place: PodPlacement, launches: &[(TemplateId, Domain)]) -> bool {
    let demand = &solver.problem.demands[shape];
    let rules = demand.strict_rules();
    look_at_present(
        &mut solver.topology,
        rules,
        launches,
        &solver.capacity.templates,
        &solver.problem.requirement_sets,
    );
    let spot = solver.spot_of(place);
    let keys = demand.levels.last().map_or(&[][..], |level| &level.keys).iter().copied().chain([HOST]);
    let admitted = keys.into_iter().all(|key| match place {
        PodPlacement::Existing(_) if key != HOST => solver.topology.allows_at(rules, &demand.excluded_by, key, spot),
        _ => solver.topology.allows(rules, &demand.excluded_by, key, solver.topology.domain_at(key, spot)),
    });
    look_ahead(&mut solver.topology, rules);
    admitted
}

/// Returns domains that the plan's launches open and that a spread did not count, and spreads whose hosts have fewer pods than
/// the plan relies on. If pods have no place, also returns groups
/// to which the launches would have added more pods than the plan allows. Consumes the plan, because it is rehearsed.
pub(in crate::provision) fn new_domains(solver: &mut Solver<'_>) -> KnownDomains {
    let mut templates: Vec<TemplateId> = solver.new_nodes.list.iter().map(|claim| claim.template).collect();
    templates.sort_unstable();
    templates.dedup();
    let (known, sets) = (&solver.capacity.templates, &solver.problem.requirement_sets);
    let domains = templates.into_iter().flat_map(|it| new_domains_of(&solver.topology, it, known, sets)).collect();
    let complete = solver.outcome.order.len() == solver.problem.input.snapshot.pods.len();
    let (relies, pinned) = (relies(solver), missed_minimums(solver));
    let holds = pinned.is_empty() && rehearse(solver);
    KnownDomains {
        domains,
        joined: if complete { BTreeSet::new() } else { solver.daemons.not_tolerated() },
        strict: !holds && !relies,
        all_pinned: !holds && pinned.is_empty() && relies,
        pinned,
    }
}
