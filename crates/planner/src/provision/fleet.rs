//! Contents of new launches of a template: the patterns of the cheapest fleet for all pending pods (`fleet_optimizer`).
//!
//! A fleet is computed when the first launch of its template is opened, and its patterns are used one by one. Each launch keeps
//! slots for the pods of its pattern; topology rules decide when each pod takes its slot. Some constraints are not part of the
//! fleet: other pods' anti-affinity, capacity of reservations, volumes, ports of several workloads. Pods with these constraints
//! are placed one by one.

use std::collections::BTreeMap;

use crate::{HostPort, PodShape, Resources};

use super::capacity::node_template::TemplateId;
use super::capacity::{Capacity, NewNodeOption};
use super::demand::Demand;
use super::demand::dimensions::{Amounts, Load, add, fits};
use super::demand::host_preferences::shared_level;
use super::fleet_optimizer;
use super::fleet_optimizer::{MachineKind, Pattern, PodItem};
use super::select_best::strategy::LoadRule;
use super::topology::RuleKind;
use super::{Attempt, Solver};

/// Maximum number of shapes per fleet; the shapes with the smallest total requests join launches later.
const MOST_SHAPES: usize = 500;
/// Maximum steps per fleet: the first number for few pods, less the more pods there are, but never less than the last.
const MOST_STEPS: (u64, u64) = (8_000_000, 1_000_000);
/// Maximum for few pods.
const FEW_PODS: u64 = 2_000;

/// Fleets by template.
#[derive(Clone, Default)]
pub(super) struct PlannedFleets {
    by_template: BTreeMap<TemplateId, Vec<PlannedNode>>,
    /// Most recent result, for templates that differ only in their zone.
    last: Option<FleetState>,
}

#[derive(Clone)]
struct FleetState {
    machine_kinds: Vec<MachineKind>,
    items: Vec<PodItem>,
    patterns: Vec<Pattern>,
}

/// Launches that are not opened yet: pods by shape, and number of such launches.
#[derive(Clone)]
struct PlannedNode {
    load: Vec<(usize, usize)>,
    times: usize,
}

/// Pods of a shape that may be part of the fleet.
struct FleetPods {
    shape: usize,
    count: usize,
    /// Maximum number of these pods per node.
    most: usize,
    cost_elsewhere: Option<i64>,
}

/// Returns the entry and the pods by shape of the next launch in the template's fleet that takes the given shape, this
/// shape first. Returns `None` when there is none or when it is no longer available.
pub(super) fn next_planned(
    solver: &mut Solver<'_>,
    option: &NewNodeOption,
    attempt: Attempt,
) -> Option<(usize, Vec<(usize, usize)>)> {
    let bounded = solver.capacity.headroom.is_bounded(solver.capacity.templates.get(option.template).pool_template);
    if option.reservation.is_some() || !is_simple(solver, attempt.shape) {
        return None;
    }
    if !solver.progress.fleets.by_template.contains_key(&option.template) {
        let fleet = fleet(solver, option.template, attempt, bounded);
        solver.progress.fleets.by_template.insert(option.template, fleet);
    }
    let mut load = solver.progress.fleets.next(option.template, attempt.shape)?;
    load.iter_mut().for_each(|(shape, count)| *count = (*count).min(without_slot(solver, *shape)));
    load.retain(|(_, count)| *count > 0);
    load.sort_by_key(|(shape, _)| (*shape != attempt.shape, *shape));
    load.first().filter(|(shape, _)| *shape == attempt.shape)?;
    Some((entry_for(&solver.capacity, &solver.problem.demands, option, &load)?, load))
}

/// Returns the cheapest entry that holds a load of pods by shape, within the limits and with enough types for the first shape.
pub(super) fn entry_for(
    capacity: &Capacity<'_>,
    demands: &[Demand<'_>],
    option: &NewNodeOption,
    load: &[(usize, usize)],
) -> Option<usize> {
    let first = &demands[load.first()?.0];
    let mut used: Amounts = vec![0; first.requests.len()].into();
    load.iter().for_each(|(shape, count)| add(&mut used, &demands[*shape].requests, *count));
    let ports: Vec<HostPort> = load.iter().flat_map(|(shape, _)| demands[*shape].shape.ports.clone()).collect();
    let load = Load { used: &used, ports: &ports, held: &[] };
    let entry = capacity.first_holding(option.template, option.entry, load)?;
    let least = capacity.least_types(option.template, first.load());
    let enough = capacity.enough_types(option.template, entry, load, least);
    let wanted = capacity.reservation(option.template, entry, load);
    let within_limits = capacity.headroom.allows(capacity.templates.get(option.template).pool_template, &wanted, &[]);
    (enough && within_limits && capacity.keeps_values(option.template, load, &option.lowered)).then_some(entry)
}

/// Computes the fleet for all pending pods that launches of the template can take.
fn fleet(solver: &mut Solver<'_>, template: TemplateId, attempt: Attempt, bounded: bool) -> Vec<PlannedNode> {
    let fleet_pods = fleet_pods(solver, template, attempt, bounded);
    let machine_kinds = machine_kinds(&solver.capacity, template, &solver.problem.demands[attempt.shape]);
    let items: Vec<PodItem> = fleet_pods
        .iter()
        .map(|pods| PodItem {
            needs: solver.problem.demands[pods.shape].requests.to_vec(),
            count: pods.count,
            most: pods.most,
            cost_elsewhere: pods.cost_elsewhere,
        })
        .collect();
    let known =
        solver.progress.fleets.last.take().filter(|last| last.machine_kinds == machine_kinds && last.items == items);
    let state = known.unwrap_or_else(|| {
        let (patterns, steps) = fleet_optimizer::known_fleets::fleet(&machine_kinds, &items, most_steps(solver));
        solver.progress.steps += steps;
        FleetState { machine_kinds, items, patterns }
    });
    let shaped = |pattern: &Pattern| {
        let load = pattern.counts.iter().map(|(item, count)| (fleet_pods[*item].shape, *count)).collect();
        PlannedNode { load, times: pattern.times }
    };
    let fleet = state.patterns.iter().map(shaped).collect();
    solver.progress.fleets.last = Some(state);
    fleet
}

/// Returns the maximum steps of a fleet: for all pods together, its computation should take no longer than their placement.
fn most_steps(solver: &Solver<'_>) -> u64 {
    let pods = solver.progress.waiting.iter().sum::<usize>() as u64;
    let most = (MOST_STEPS.0 / (1 + pods / FEW_PODS)).max(MOST_STEPS.1);
    most.min(solver.problem.input.snapshot.policy.max_steps.saturating_sub(solver.progress.steps) / 4)
}

/// Returns instance types of a template within the limits, without those that a cheaper type replaces. While spot requires
/// a choice of types, only types that leave one remain.
fn machine_kinds(capacity: &Capacity<'_>, template: TemplateId, demand: &Demand<'_>) -> Vec<MachineKind> {
    let own = capacity.templates.get(template);
    let least = capacity.least_types(template, demand.load());
    let mut machine_kinds: Vec<MachineKind> = Vec::new();
    for (position, entry) in own.entries.iter().enumerate() {
        let candidate = capacity.templates.candidate(template, position);
        let replaced = machine_kinds.iter().any(|kind| fits(&candidate.free, &kind.capacity));
        if replaced
            || !capacity.headroom.allows(own.pool_template, &entry.footprint, &[])
            || !capacity.enough_types(template, 0, Load { used: &candidate.free, ..Load::default() }, least)
        {
            continue;
        }
        machine_kinds.push(MachineKind { cost: entry.cost.max(1), capacity: candidate.free.to_vec() });
    }
    machine_kinds
}

/// Returns pending shapes that the template suits as it is: the given shape first, then those with the greatest total
/// requests.
fn fleet_pods(solver: &mut Solver<'_>, template: TemplateId, attempt: Attempt, bounded: bool) -> Vec<FleetPods> {
    let priority = solver.problem.demands[attempt.shape].shape.priority;
    let shapes = (0..solver.problem.demands.len()).filter(|shape| *shape != attempt.shape);
    let peers = shapes.filter(|shape| !bounded || solver.problem.demands[*shape].shape.priority == priority);
    let mut fleet_pods: Vec<FleetPods> =
        peers.collect::<Vec<_>>().into_iter().filter_map(|it| pods_of_shape(solver, template, it)).collect();
    fleet_pods.sort_by_cached_key(|pods| {
        let Demand { shape, part, .. } = solver.problem.demands[pods.shape];
        (-total_requests(shape, pods.count), shape, part)
    });
    fleet_pods.truncate(MOST_SHAPES - 1);
    let level = &solver.problem.demands[attempt.shape].levels[attempt.level];
    let count = solver.progress.waiting[attempt.shape].max(1).div_ceil(solver.topology.breadth(&level.rules));
    let most = most_per_node(solver, attempt.shape, count).max(1);
    fleet_pods.insert(0, FleetPods { shape: attempt.shape, count, most, cost_elsewhere: None });
    fleet_pods
}

/// Returns the CPU and memory requests of pods in one unit: 1 CPU and 4 GiB count about the same.
pub(super) fn total_requests(PodShape { requests, .. }: &PodShape, pods: usize) -> i64 {
    let count = i64::try_from(pods).unwrap_or(i64::MAX);
    (requests.get(Resources::CPU) + (requests.get(Resources::MEMORY) >> 22)).saturating_mul(count)
}

fn pods_of_shape(solver: &mut Solver<'_>, template: TemplateId, shape: usize) -> Option<FleetPods> {
    let demand = &solver.problem.demands[shape];
    let level = &demand.levels[planned_level(solver, shape)];
    if without_slot(solver, shape) == 0
        || solver.is_paused(template, shape)
        || !is_simple(solver, shape)
        || !solver.capacity.templates.suits_as_it_is(template, level.class, &solver.problem.requirement_sets)
        || level.keys.iter().any(|key| !solver.capacity.templates.settles(template, *key, &solver.topology))
        || solver.capacity.templates.holding(template, 0, demand.load()).next().is_none()
    {
        return None;
    }
    let breadth = solver.topology.breadth(&level.rules);
    let planned = if breadth == 1 { solver.progress.fleets.planned(shape) } else { 0 };
    let count = without_slot(solver, shape).saturating_sub(planned).div_ceil(breadth);
    let most = most_per_node(solver, shape, count);
    (most > 0).then(|| FleetPods { shape, count, most, cost_elsewhere: cost_elsewhere(solver, template, shape) })
}

/// Returns the preference level at which the present strategy plans pods of a shape.
pub(super) fn planned_level(solver: &Solver<'_>, shape: usize) -> usize {
    let progress = &solver.progress;
    let may_share = progress.strategy.load == LoadRule::SharedFleet && !progress.separate.contains(&shape);
    let level = may_share.then(|| shared_level(&solver.problem.demands[shape]));
    level.flatten().unwrap_or(0)
}

/// Returns the most pods of a shape that one node of a fleet may take, of this number. Several pods that prefer separate hosts
/// are on at least two.
fn most_per_node(solver: &Solver<'_>, shape: usize, count: usize) -> usize {
    let level = planned_level(solver, shape);
    let demand = &solver.problem.demands[shape];
    let slots = solver.topology.host_slots(&demand.levels[level].rules, None).min(count);
    let slots = if level > 0 { slots.min(solver.progress.waiting[shape].div_ceil(2)) } else { slots };
    if demand.shape.ports.is_empty() { slots } else { slots.min(1) }
}

/// Reports whether only size and rules known in advance decide where pods of a shape fit.
fn is_simple(solver: &Solver<'_>, shape: usize) -> bool {
    let demand = &solver.problem.demands[shape];
    let steady = demand.levels[planned_level(solver, shape)].rules.iter().all(|rule| match rule.kind {
        RuleKind::Affinity | RuleKind::Exclusive => false,
        RuleKind::AntiAffinity => !solver.topology.limits_each_other(rule),
        RuleKind::Spread { .. } => true,
    });
    demand.attachments.is_empty() && steady && has_own_ports(solver, shape)
}

/// Reports whether no pending pod of another shape needs a host port of this one.
fn has_own_ports(solver: &Solver<'_>, shape: usize) -> bool {
    let ports = |shape: usize| &solver.problem.demands[shape].shape.ports;
    let clashes = |port: &HostPort| ports(shape).iter().any(|own| own.clashes(port));
    let is_rival =
        |other: usize| other != shape && solver.progress.waiting[other] > 0 && ports(other).iter().any(clashes);
    ports(shape).is_empty() || !(0..solver.problem.demands.len()).any(is_rival)
}

/// Returns the cost of a pod on nodes of other templates, where that is less than its share of this one.
fn cost_elsewhere(solver: &mut Solver<'_>, template: TemplateId, shape: usize) -> Option<i64> {
    let weight = solver.capacity.templates.pool_template_of(template).pool.weight;
    let mut least: Option<i64> = None;
    for base in solver.capacity.templates.growing() {
        let other = solver.capacity.templates.pool_templates[base].pool.weight;
        if other < weight || solver.is_paused(base, shape) {
            continue;
        }
        for child in variants_for(solver, base, template, shape).into_iter().filter(|child| *child != template) {
            if solver.capacity.is_used_up(child) {
                continue;
            }
            let share = if other > weight {
                0
            } else {
                solver.capacity.share(child, shape, &solver.problem.demands[shape].requests)
            };
            least = Some(least.map_or(share, |least| least.min(share)));
        }
    }
    least.filter(|least| *least < solver.capacity.share(template, shape, &solver.problem.demands[shape].requests))
}

/// Returns the variants of a base template for pods of a shape, in the domains of `template` where the pods need a known
/// domain.
fn variants_for(solver: &mut Solver<'_>, base: TemplateId, template: TemplateId, shape: usize) -> Vec<TemplateId> {
    let level = &solver.problem.demands[shape].levels[planned_level(solver, shape)];
    let children =
        solver.capacity.templates.for_class(base, level.class, &solver.problem.requirement_sets, &mut solver.topology);
    let pins: Vec<_> =
        level.keys.iter().filter_map(|key| Some((*key, solver.capacity.templates.get(template).pins[*key]?))).collect();
    let mut pinned = |child: TemplateId| {
        pins.iter().try_fold(child, |child, (key, domain)| {
            solver.capacity.templates.pinned(child, *key, *domain, &mut solver.topology)
        })
    };
    children.iter().filter_map(|child| pinned(*child)).collect()
}

/// Returns the number of pods of a shape that have neither a place nor a slot.
fn without_slot(solver: &Solver<'_>, shape: usize) -> usize {
    solver.progress.waiting[shape].saturating_sub(solver.new_nodes.kept(shape))
}

impl PlannedFleets {
    /// Returns the load of the next launch that takes a shape.
    fn next(&mut self, template: TemplateId, shape: usize) -> Option<Vec<(usize, usize)>> {
        let fleet = self.by_template.get_mut(&template)?;
        let planned = fleet.iter_mut().find(|it| it.times > 0 && it.load.iter().any(|(of, _)| *of == shape))?;
        planned.times -= 1;
        Some(planned.load.clone())
    }

    /// Returns the number of pods of a shape in launches that are not opened yet.
    fn planned(&self, shape: usize) -> usize {
        let of = |planned: &PlannedNode| {
            let count = planned.load.iter().find(|(of, _)| *of == shape).map_or(0, |(_, count)| *count);
            count * planned.times
        };
        self.by_template.values().flatten().map(of).sum()
    }
}
