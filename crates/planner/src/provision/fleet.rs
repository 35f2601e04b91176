//! Contents of new launches of a template: the patterns of the cheapest fleet for all pending pods (`fleet_optimizer`).
//!
//! A fleet is computed when the first launch of its template is opened, and its patterns are used one by one. Each launch keeps
//! slots for the pods of its pattern; topology rules decide when each pod takes its slot. Some constraints are not part of the
//! fleet: other pods' anti-affinity, capacity of reservations, ports. Pods with these constraints are placed one by one.

use std::collections::BTreeMap;

use super::dimensions::{Amounts, add, fits};
use super::fleet_optimizer::{self, MachineKind, Pattern, PodItem};
use super::join::{holding, within};
use super::node_template::TemplateId;
use super::open_node::NewNodeOption;
use super::topology::RuleKind;
use super::{Attempt, Solver};
use crate::Resources;

/// Maximum number of shapes per fleet; the shapes with the smallest total requests join launches later.
const MOST_SHAPES: usize = 500;
/// Maximum steps per fleet: the first number for few pods, less the more pods there are, but never less than the last.
const MOST_STEPS: (u64, u64) = (8_000_000, 1_000_000);
/// Maximum for few pods.
const FEW_PODS: u64 = 2_000;

/// Fleets by template.
#[derive(Clone, Default)]
pub(super) struct PlannedFleets {
    of_frame: BTreeMap<TemplateId, Vec<PlannedNode>>,
    /// Most recent result, for templates that differ only in their zone.
    last: Option<FleetState>,
}

#[derive(Clone)]
struct FleetState {
    kinds: Vec<MachineKind>,
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
    elsewhere: Option<i64>,
}

impl Solver<'_> {
    /// Returns the entry and the pods by shape of the next launch in the template's fleet that takes the given shape, this
    /// shape first. Returns `None` when there is none or when it is no longer available.
    pub(super) fn next_planned(
        &mut self,
        fresh: &NewNodeOption,
        turn: Attempt,
    ) -> Option<(usize, Vec<(usize, usize)>)> {
        let bounded = self.headroom.is_bounded(self.frames.get(fresh.frame).template);
        if fresh.reservation.is_some() || !self.is_simple(turn.shape) {
            return None;
        }
        if !self.fleets.of_frame.contains_key(&fresh.frame) {
            let fleet = self.fleet(fresh.frame, turn, bounded);
            self.fleets.of_frame.insert(fresh.frame, fleet);
        }
        let mut load = self.fleets.next(fresh.frame, turn.shape)?;
        load.iter_mut().for_each(|(shape, count)| *count = (*count).min(self.unseated(*shape)));
        load.retain(|(_, count)| *count > 0);
        load.sort_by_key(|(shape, _)| (*shape != turn.shape, *shape));
        load.first().filter(|(shape, _)| *shape == turn.shape)?;
        Some((self.entry_for(fresh, turn, &load)?, load))
    }

    /// Returns the cheapest entry that holds a load, within the limits and with enough types.
    fn entry_for(&self, fresh: &NewNodeOption, turn: Attempt, load: &[(usize, usize)]) -> Option<usize> {
        let mut used: Amounts = vec![0; self.demands[turn.shape].requests.len()].into();
        load.iter().for_each(|(shape, count)| add(&mut used, &self.demands[*shape].requests, *count));
        let entry = self.first_holding(fresh.frame, fresh.entry, &used, &[], &[])?;
        let enough = self.enough_types(fresh.frame, entry, &used, &[], self.least_types(fresh.frame, turn.shape));
        let wanted = self.reservation(fresh.frame, entry, &used, &[], &[]);
        let bearable = within(&self.headroom, self.frames.get(fresh.frame).template, &wanted, &[]);
        (enough && bearable && self.keeps_values(fresh.frame, &used, &[], &[], &fresh.lowered)).then_some(entry)
    }

    /// Computes the fleet for all pending pods that launches of the template can take.
    fn fleet(&mut self, frame: TemplateId, turn: Attempt, bounded: bool) -> Vec<PlannedNode> {
        let guests = self.guests(frame, turn, bounded);
        let kinds = self.kinds(frame, turn.shape);
        let items: Vec<PodItem> = guests
            .iter()
            .map(|guest| PodItem {
                needs: self.demands[guest.shape].requests.to_vec(),
                count: guest.count,
                most: guest.most,
                elsewhere: guest.elsewhere,
            })
            .collect();
        let known = self.fleets.last.take().filter(|last| last.kinds == kinds && last.items == items);
        let worked = known.unwrap_or_else(|| {
            let (patterns, steps) = fleet_optimizer::fleet(&kinds, &items, self.most_steps());
            self.steps += steps;
            FleetState { kinds, items, patterns }
        });
        let shaped = |pattern: &Pattern| {
            let load = pattern.counts.iter().map(|(item, count)| (guests[*item].shape, *count)).collect();
            PlannedNode { load, times: pattern.times }
        };
        let fleet = worked.patterns.iter().map(shaped).collect();
        self.fleets.last = Some(worked);
        fleet
    }

    /// Returns the maximum steps of a fleet: for all pods together, its computation should take no longer than their placement.
    fn most_steps(&self) -> u64 {
        let pods = self.waiting.iter().sum::<usize>() as u64;
        let most = (MOST_STEPS.0 / (1 + pods / FEW_PODS)).max(MOST_STEPS.1);
        most.min(self.snapshot.policy.max_steps.saturating_sub(self.steps) / 4)
    }

    /// Returns instance types of a template within the limits, without those that a cheaper type replaces. While spot requires
    /// a choice of types, only types that leave one remain.
    fn kinds(&self, frame: TemplateId, shape: usize) -> Vec<MachineKind> {
        let own = self.frames.get(frame);
        let least = self.least_types(frame, shape);
        let mut kinds: Vec<MachineKind> = Vec::new();
        for (position, entry) in own.entries.iter().enumerate() {
            let candidate = self.frames.candidate(frame, position);
            let replaced = kinds.iter().any(|kind| fits(&candidate.room, &kind.room));
            if replaced
                || !within(&self.headroom, own.template, &candidate.footprint, &[])
                || !self.enough_types(frame, 0, &candidate.room, &[], least)
            {
                continue;
            }
            kinds.push(MachineKind { cost: entry.cost.max(1), room: candidate.room.to_vec() });
        }
        kinds
    }

    /// Returns pending shapes that the template suits as it is: the given shape first, then those with the greatest total
    /// requests.
    fn guests(&mut self, frame: TemplateId, turn: Attempt, bounded: bool) -> Vec<FleetPods> {
        let priority = self.demands[turn.shape].shape.priority;
        let shapes = (0..self.demands.len()).filter(|shape| *shape != turn.shape);
        let peers = shapes.filter(|shape| !bounded || self.demands[*shape].shape.priority == priority);
        let mut guests: Vec<FleetPods> =
            peers.collect::<Vec<_>>().into_iter().filter_map(|it| self.guest(frame, it)).collect();
        guests.sort_by_cached_key(|guest| {
            (-self.bulk(guest), self.demands[guest.shape].shape, self.demands[guest.shape].part)
        });
        guests.truncate(MOST_SHAPES - 1);
        let level = &self.demands[turn.shape].levels[turn.level];
        let count = self.waiting[turn.shape].max(1).div_ceil(self.topology.breadth(&level.rules));
        let most = self.topology.host_room(&level.rules, None).min(count).max(1);
        guests.insert(0, FleetPods { shape: turn.shape, count, most, elsewhere: None });
        guests
    }

    fn bulk(&self, guest: &FleetPods) -> i64 {
        let requests = &self.demands[guest.shape].shape.requests;
        let count = i64::try_from(guest.count).unwrap_or(i64::MAX);
        (requests.get(Resources::CPU) + (requests.get(Resources::MEMORY) >> 22)).saturating_mul(count)
    }

    fn guest(&mut self, frame: TemplateId, shape: usize) -> Option<FleetPods> {
        let demand = &self.demands[shape];
        let level = &demand.levels[0];
        if self.unseated(shape) == 0
            || !self.is_simple(shape)
            || !self.frames.suits_as_it_is(frame, level.class, &self.wants)
            || level.keys.iter().any(|key| !self.frames.settles(frame, *key, &self.topology))
            || holding(&self.frames, frame, 0, &demand.requests, &[]).next().is_none()
        {
            return None;
        }
        let breadth = self.topology.breadth(&level.rules);
        let planned = if breadth == 1 { self.fleets.planned(shape) } else { 0 };
        let count = self.unseated(shape).saturating_sub(planned).div_ceil(breadth);
        let most = self.topology.host_room(&level.rules, None).min(count);
        (most > 0).then(|| FleetPods { shape, count, most, elsewhere: self.elsewhere(frame, shape) })
    }

    /// Reports whether only size and rules known in advance decide where pods of a shape fit.
    fn is_simple(&self, shape: usize) -> bool {
        let demand = &self.demands[shape];
        let steady = demand.levels[0].rules.iter().all(|rule| match rule.kind {
            RuleKind::Near | RuleKind::Alone => false,
            RuleKind::Apart => !self.topology.limits_each_other(rule),
            RuleKind::Spread { .. } => true,
        });
        demand.shape.ports.is_empty() && demand.attachments.is_empty() && steady
    }

    /// Returns the cost of a pod on nodes of other templates, where that is less than its share of this one.
    fn elsewhere(&mut self, frame: TemplateId, shape: usize) -> Option<i64> {
        let weight = self.frames.template_of(frame).pool.weight;
        let mut least: Option<i64> = None;
        for base in self.frames.growing() {
            let other = self.frames.templates[base].pool.weight;
            if other < weight {
                continue;
            }
            for child in self.natural(base, frame, shape).into_iter().filter(|child| *child != frame) {
                let share = if other > weight { 0 } else { self.share(child, shape) };
                least = Some(least.map_or(share, |least| least.min(share)));
            }
        }
        least.filter(|least| *least < self.share(frame, shape))
    }

    /// Returns the variants of a base template for pods of a shape, in the domains of `frame` where the pods need a known
    /// domain.
    fn natural(&mut self, base: TemplateId, frame: TemplateId, shape: usize) -> Vec<TemplateId> {
        let level = &self.demands[shape].levels[0];
        let children = self.frames.for_class(base, level.class, &self.wants, &mut self.topology);
        let pins: Vec<_> =
            level.keys.iter().filter_map(|key| Some((*key, self.frames.get(frame).pins[*key]?))).collect();
        let mut pinned = |child: TemplateId| {
            pins.iter()
                .try_fold(child, |child, (key, domain)| self.frames.pinned(child, *key, *domain, &mut self.topology))
        };
        children.iter().filter_map(|child| pinned(*child)).collect()
    }

    /// Returns the number of pods of a shape that have neither a place nor a slot.
    fn unseated(&self, shape: usize) -> usize {
        self.waiting[shape].saturating_sub(self.claims.kept(shape))
    }
}

impl PlannedFleets {
    /// Returns the load of the next launch that takes a shape.
    fn next(&mut self, frame: TemplateId, shape: usize) -> Option<Vec<(usize, usize)>> {
        let fleet = self.of_frame.get_mut(&frame)?;
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
        self.of_frame.values().flatten().map(of).sum()
    }
}
