//! New launches: from the NodePool with the greatest weight that can take the pod; among equal weights the cheapest, then the
//! last by name. Reserved capacity is used first, and so is what a commitment pays for.
//!
//! A launch is opened for as many of the remaining equal pods at once as make each of them cheapest. The first step to a larger
//! type may cost more than it saves until further pods use it.

use std::cmp::Ordering;

use super::pin_zone::pinned_templates;
use crate::provision::capacity::node_template::TemplateId;
use crate::provision::capacity::{Capacity, NewNodeOption, SingleNodePrices};
use crate::provision::daemon_overhead::{absent_daemons, count_daemons, daemon_counts, tolerates_daemons};
use crate::provision::demand::dimensions::{Amounts, Load, add, times};
use crate::provision::demand::{Attached, Demand, attach};
use crate::provision::fleet::next_planned;
use crate::provision::new_node::NewNode;
use crate::provision::select_best::strategy::LoadRule;
use crate::provision::{Attempt, Solver};

/// Returns the cost of a separate launch, as far as known: limits and reservations may have changed since. [`Self::open`]
/// computes the present one.
pub(in crate::provision) fn price_alone(solver: &mut Solver<'_>, attempt: Attempt) -> Option<i64> {
    match solver.capacity.single_node_prices.get(&attempt) {
        Some(known) => known.best.as_ref().map(|option| option.cost),
        None => best_alone(solver, attempt, false).map(|option| option.cost),
    }
}

/// Returns the maximum additional cost of a launch that a pod joins: the cost of a separate launch, or nothing.
pub(in crate::provision) fn price_limit(rule: LoadRule, separate: i64) -> i64 {
    match rule {
        LoadRule::One | LoadRule::Own | LoadRule::Even | LoadRule::Shared | LoadRule::SharedByOwn => separate,
        LoadRule::Fit | LoadRule::Fleet | LoadRule::SharedFleet => 0,
    }
}

/// Opens a launch for the first pods; returns its position and how many of them it takes now.
pub(in crate::provision) fn open_node(
    solver: &mut Solver<'_>,
    attempt: Attempt,
    pods: &[usize],
) -> Option<(usize, usize)> {
    let level = &solver.problem.demands[attempt.shape].levels[attempt.level];
    let settles = !level.keys.is_empty() || !level.temporary.is_empty() || !solver.daemons.is_empty();
    let option = best_alone(solver, attempt, settles)?;
    let (entry, load) = load_of(solver, &option, attempt, pods);
    let now = if solver.problem.demands[attempt.shape].levels[attempt.level].single { 1 } else { load[0].1 };
    let position = open_launch(solver, &option, entry, attempt.shape, &load);
    let demand = &solver.problem.demands[attempt.shape];
    let claim = &mut solver.new_nodes.list[position];
    pods[..now].iter().for_each(|pod| attach(&mut claim.attached, demand, &solver.problem.input.snapshot.pods[*pod]));
    solver.new_nodes.use_slots(position, attempt.shape, now);
    Some((position, now))
}

/// Opens a launch of an option that keeps slots for a load of pods by shape, `shape` among them; returns its position.
pub(in crate::provision) fn open_launch(
    solver: &mut Solver<'_>,
    option: &NewNodeOption,
    entry: usize,
    shape: usize,
    load: &[(usize, usize)],
) -> usize {
    let demand = &solver.problem.demands[shape];
    let mut used: Amounts = vec![0; demand.requests.len()].into();
    load.iter().for_each(|(shape, count)| add(&mut used, &solver.problem.demands[*shape].requests, *count));
    let pool_template = solver.capacity.templates.get(option.template).pool_template;
    let held = solver.capacity.reservation(
        option.template,
        entry,
        Load { used: &used, ports: &demand.shape.ports, held: &[] },
    );
    solver.capacity.headroom.exchange(pool_template, &[], &held);
    let mut claim = NewNode {
        template: option.template,
        site: solver.next_site(),
        pods: Vec::new(),
        used: used.into_vec(),
        entry,
        slots: load.to_vec(),
        ports: demand.shape.ports.clone(),
        attached: Attached::new(),
        held,
        least: 0,
        lowered: option.lowered.clone(),
    };
    claim.least = solver.capacity.least_types(option.template, demand.load());
    if let Some(id) = &option.reservation {
        solver.capacity.reservations.draw(id);
    }
    let position = solver.new_nodes.add(claim);
    count_daemons(solver, position);
    position
}

/// Returns the entry and the pods by shape that a launch is made for, the given shape first.
fn load_of(
    solver: &mut Solver<'_>,
    option: &NewNodeOption,
    attempt: Attempt,
    pods: &[usize],
) -> (usize, Vec<(usize, usize)>) {
    if solver.progress.strategy.load.plans_fleet()
        && let Some(planned) = next_planned(solver, option, attempt)
    {
        return planned;
    }
    let daemons = daemon_counts(solver, option.template);
    let demand = &solver.problem.demands[attempt.shape];
    let level = &demand.levels[attempt.level];
    let left = if demand.share_attachments(solver.problem.input.snapshot, pods) { 1 } else { pods.len() };
    let free = solver.topology.host_slots_beside(&level.rules, None, &daemons);
    let cap = free.min(left.div_ceil(solver.topology.breadth(&level.rules)));
    let cap = if demand.shape.ports.is_empty() { cap.max(1) } else { 1 };
    if matches!(solver.progress.strategy.load, LoadRule::One | LoadRule::Fit) {
        return (option.entry, vec![(attempt.shape, 1)]);
    }
    let (entry, load) = best_load(&solver.capacity, demand, option, cap);
    (entry, vec![(attempt.shape, load)])
}

/// Returns the best launch for one pod. `anew` ignores a cached result although limits and reservations are unchanged: for
/// pods whose rules depend on pods placed since.
pub(in crate::provision) fn best_alone(solver: &mut Solver<'_>, attempt: Attempt, anew: bool) -> Option<NewNodeOption> {
    let generation = solver.capacity.generation();
    let known =
        solver.capacity.single_node_prices.get(&attempt).filter(|known| known.generation == generation && !anew);
    if let Some(known) = known {
        return known.best.clone();
    }
    let best = search_alone(solver, attempt);
    if !solver.progress.emptiest_first {
        solver.capacity.single_node_prices.insert(attempt, SingleNodePrices { generation, best: best.clone() });
    }
    best
}

fn search_alone(solver: &mut Solver<'_>, attempt: Attempt) -> Option<NewNodeOption> {
    let class = solver.problem.demands[attempt.shape].levels[attempt.level].class;
    let mut best: Option<NewNodeOption> = None;
    for base in solver.capacity.templates.growing() {
        let weight = |base: usize| solver.capacity.templates.pool_templates[base].pool.weight;
        let chosen = best.as_ref().map(|option| solver.capacity.templates.get(option.template).pool_template);
        if chosen.is_some_and(|chosen| weight(base) < weight(chosen)) {
            break;
        }
        if solver.is_paused(base, attempt.shape) {
            continue;
        }
        let children =
            solver.capacity.templates.for_class(base, class, &solver.problem.requirement_sets, &mut solver.topology);
        for child in children.iter() {
            for template in pinned_templates(solver, *child, attempt, true) {
                let option = option_for(solver, template, attempt);
                let requests = &solver.problem.demands[attempt.shape].requests;
                let share = |option: &NewNodeOption| solver.capacity.share(option.template, attempt.shape, requests);
                let better = |option: &NewNodeOption| best.as_ref().is_none_or(|best| is_better(option, best, share));
                best = option.filter(better).or(best);
            }
        }
    }
    best
}

/// Reports whether one launch is better than another: fewer absent DaemonSets, then the lower cost for a single pod, then
/// per pod on a full node, its `share`.
fn is_better(one: &NewNodeOption, other: &NewNodeOption, share: impl Fn(&NewNodeOption) -> i64) -> bool {
    match (one.absent, one.cost).cmp(&(other.absent, other.cost)) {
        Ordering::Less => true,
        Ordering::Equal => one.template != other.template && share(one) < share(other),
        Ordering::Greater => false,
    }
}

/// Returns a launch for one pod with a fixed template, if the limits allow one.
fn option_for(solver: &mut Solver<'_>, template: TemplateId, attempt: Attempt) -> Option<NewNodeOption> {
    let demand = &solver.problem.demands[attempt.shape];
    let level = &demand.levels[attempt.level];
    if solver.daemons.is_empty() && !solver.topology.allows_host(&level.rules, &demand.excluded_by, None) {
        return None;
    }
    let mut drawn: Vec<NewNodeOption> = Vec::new();
    for id in solver.capacity.reservations.available() {
        let reserved = solver.capacity.templates.reserved(template, &id, &mut solver.topology);
        let option = reserved.and_then(|reserved| option_in(solver, reserved, attempt));
        drawn.extend(option.map(|option| NewNodeOption { reservation: Some(id), ..option }));
    }
    let smallest = drawn.into_iter().min_by(|one, other| {
        let free = |option: &NewNodeOption| &solver.capacity.templates.candidate(option.template, option.entry).free;
        (one.absent, one.cost, free(one)).cmp(&(other.absent, other.cost, free(other)))
    });
    if smallest.is_some() {
        return smallest;
    }
    option_in(solver, template, attempt)
}

fn option_in(solver: &mut Solver<'_>, template: TemplateId, attempt: Attempt) -> Option<NewNodeOption> {
    solver.progress.steps += 1;
    let from = solver.capacity.cheapest_for(template, &solver.problem.demands[attempt.shape])?;
    let demand = &solver.problem.demands[attempt.shape];
    let load = demand.load();
    let entry = solver.capacity.first_holding(template, from, load)?;
    let lowered = solver.capacity.lowered_values(template, load)?;
    let wanted = solver.capacity.reservation(template, entry, load);
    let pool_template = solver.capacity.templates.get(template).pool_template;
    let within = solver.capacity.headroom.allows(pool_template, &wanted, &[]);
    let cost = solver.capacity.templates.get(template).entries[entry].cost;
    let absent = absent_daemons(solver, template);
    let option = NewNodeOption { template, entry, cost, absent, reservation: None, lowered };
    (within && tolerates_daemons(solver, template, attempt)).then_some(option)
}

/// Returns the entry and the number of pods with the lowest cost per pod; the most pods among equally cheap ones.
fn best_load(capacity: &Capacity<'_>, demand: &Demand<'_>, option: &NewNodeOption, cap: usize) -> (usize, usize) {
    if cap <= 1 {
        return (option.entry, 1);
    }
    let template = capacity.templates.get(option.template);
    let pool_template = &capacity.templates.pool_templates[template.pool_template];
    let none = vec![0; demand.requests.len()];
    let end = template.end_of_class(option.entry);
    let loads: Vec<usize> = template.entries[..end]
        .iter()
        .map(|entry| times(&demand.requests, &none, &pool_template.candidates[entry.candidate].free).min(cap))
        .collect();
    let most = most_with_enough_types(&loads, capacity.least_types(option.template, demand.load()));
    let is_allowed =
        |entry: &usize| capacity.headroom.allows(template.pool_template, &template.entries[*entry].footprint, &[]);
    let ways = (option.entry..end).filter(|it| loads[*it] > 0).filter(is_allowed);
    let ways = ways.map(|it| (it, loads[it].min(most).max(1)));
    let cheapest = ways.min_by(|(one, load), (other, other_load)| {
        let each = i128::from(template.entries[*one].cost) * *other_load as i128;
        each.cmp(&(i128::from(template.entries[*other].cost) * *load as i128)).then(other_load.cmp(load))
    });
    let load = cheapest.map_or(1, |(_, load)| load);
    loaded(capacity, demand, option, load).map_or((option.entry, 1), |entry| (entry, load))
}

/// Returns the entry for this many pods together, if one exists and costs no more than separate launches.
fn loaded(capacity: &Capacity<'_>, demand: &Demand<'_>, option: &NewNodeOption, count: usize) -> Option<usize> {
    let mut used: Amounts = vec![0; demand.requests.len()].into();
    add(&mut used, &demand.requests, count);
    let load = Load { used: &used, ports: &demand.shape.ports, held: &[] };
    let entry = capacity.first_holding(option.template, option.entry, load)?;
    let separate = option.cost.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX));
    let pool_template = capacity.templates.get(option.template).pool_template;
    let wanted = capacity.reservation(option.template, entry, load);
    let within = capacity.headroom.allows(pool_template, &wanted, &[]);
    let cheap = capacity.templates.get(option.template).entries[entry].cost <= separate;
    (within && cheap && capacity.keeps_values(option.template, load, &option.lowered)).then_some(entry)
}

/// Returns the most pods that leave a launch the `least` number of types. `loads` are the most pods of each type.
fn most_with_enough_types(loads: &[usize], least: usize) -> usize {
    if least <= 1 {
        return usize::MAX;
    }
    let mut sorted = loads.to_vec();
    sorted.sort_unstable_by(|one, other| other.cmp(one));
    sorted.get(least - 1).copied().unwrap_or(1)
}
