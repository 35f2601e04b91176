//! Pods that join a launch which this plan has already opened.
//!
//! A pod joins the first launch that takes it, unless a separate launch is cheaper. The cheapest type that holds all pods must
//! cost at most the present type plus a separate node. A plan is therefore never more expensive than one node per pod.

use std::borrow::Cow;

use crate::{HostPort, Pod};

use super::pin_zone::pinned_templates;
use crate::provision::capacity::limits::Footprint;
use crate::provision::capacity::node_template::TemplateId;
use crate::provision::daemon_overhead::collect_daemons;
use crate::provision::demand::dimensions::{Amounts, Load, add, times};
use crate::provision::demand::{asked, attach};
use crate::provision::new_node::{JoinTarget, NewNode};
use crate::provision::{Attempt, Solver};

/// A launch after some pods have joined.
pub(in crate::provision) struct JoinOption {
    template: TemplateId,
    used: Amounts,
    entry: usize,
    least: usize,
    held: Footprint,
    pods: usize,
}

/// Attempt of pods of one shape to join a launch.
struct JoinSearch<'s, 'a> {
    solver: &'s Solver<'a>,
    attempt: Attempt,
    template: TemplateId,
    first: &'a Pod,
    left: usize,
    /// Cost of a separate launch, if one is possible.
    separate: Option<i64>,
    /// Least number of instance types that the launch must keep for these pods.
    least: usize,
}

/// Places as many of the pods as possible in the first open launch that takes one, and returns its position and their
/// number. `separate` is the cost of a separate launch, if one is possible.
pub(in crate::provision) fn join_launch(
    solver: &mut Solver<'_>,
    attempt: Attempt,
    pods: &[usize],
    separate: Option<i64>,
) -> Option<(usize, usize)> {
    let class = solver.problem.demands[attempt.shape].levels[attempt.level].class;
    let buckets = solver.new_nodes.compatible(
        class,
        &mut solver.capacity.templates,
        &solver.problem.requirement_sets,
        &mut solver.topology,
    );
    for (bucket, children) in buckets.iter() {
        for child in children.iter() {
            if solver.is_paused(*child, attempt.shape) {
                continue;
            }
            solver.progress.steps += 1;
            for template in pinned_templates(solver, *child, attempt, false) {
                let target = JoinTarget { bucket: *bucket, template };
                if let Some((claim, joined)) = find_joinable(solver, attempt, target, pods, separate) {
                    let count = joined.pods;
                    apply(solver, attempt, claim, joined, &pods[..count]);
                    return Some((claim, count));
                }
            }
        }
    }
    None
}

/// Places pods in a launch that keeps slots for their shape, as far as topology rules allow now.
pub(in crate::provision) fn fill_slots(
    solver: &mut Solver<'_>,
    attempt: Attempt,
    pods: &[usize],
) -> Option<(usize, usize)> {
    let class = solver.problem.demands[attempt.shape].levels[attempt.level].class;
    for position in solver.new_nodes.with_slots(attempt.shape) {
        let template = solver.new_nodes.list[position].template;
        let children = solver.capacity.templates.for_class(
            template,
            class,
            &solver.problem.requirement_sets,
            &mut solver.topology,
        );
        let pinned: Vec<TemplateId> =
            children.iter().flat_map(|child| pinned_templates(solver, *child, attempt, false)).collect();
        for template in pinned {
            solver.progress.steps += 1;
            let least = solver.capacity.least_types(template, solver.problem.demands[attempt.shape].load());
            let first = &solver.problem.input.snapshot.pods[pods[0]];
            let joiner = JoinSearch { solver, attempt, template, first, left: pods.len(), separate: Some(0), least };
            if let Some(joined) = joiner.join(&solver.new_nodes.list[position]) {
                let count = joined.pods;
                apply(solver, attempt, position, joined, &pods[..count]);
                return Some((position, count));
            }
        }
    }
    None
}

fn find_joinable(
    solver: &mut Solver<'_>,
    attempt: Attempt,
    target: JoinTarget,
    pods: &[usize],
    separate: Option<i64>,
) -> Option<(usize, JoinOption)> {
    let least = solver.capacity.least_types(target.template, solver.problem.demands[attempt.shape].load());
    let mut claims = std::mem::take(&mut solver.new_nodes);
    let mut steps = 0;
    let first = &solver.problem.input.snapshot.pods[pods[0]];
    let joiner = JoinSearch { solver, attempt, template: target.template, first, left: pods.len(), separate, least };
    let found = claims.find(attempt, target, |_, claim| {
        steps += 1;
        joiner.join(claim)
    });
    solver.new_nodes = claims;
    solver.progress.steps += steps;
    found
}

fn apply(solver: &mut Solver<'_>, attempt: Attempt, position: usize, joined: JoinOption, pods: &[usize]) {
    let pool_template = solver.capacity.templates.get(joined.template).pool_template;
    let demand = &solver.problem.demands[attempt.shape];
    solver.new_nodes.use_slots(position, attempt.shape, pods.len());
    let claim = &mut solver.new_nodes.list[position];
    solver.capacity.headroom.exchange(pool_template, &claim.held, &joined.held);
    claim.used = joined.used.into_vec();
    claim.entry = joined.entry;
    claim.least = joined.least;
    claim.held = joined.held;
    claim.ports.extend(demand.shape.ports.iter().cloned());
    for pod in pods {
        attach(&mut claim.attached, demand, &solver.problem.input.snapshot.pods[*pod]);
    }
    if claim.template != joined.template {
        claim.template = joined.template;
        solver.new_nodes.file(position, joined.template);
        collect_daemons(solver, position);
    }
}

impl JoinSearch<'_, '_> {
    /// Returns the launch with as many of the pods as it takes without a larger type, or with one pod.
    fn join(&self, claim: &NewNode) -> Option<JoinOption> {
        let demand = &self.solver.problem.demands[self.attempt.shape];
        let level = &demand.levels[self.attempt.level];
        let topology = &self.solver.topology;
        let clash = |port: &HostPort| claim.ports.iter().any(|taken| taken.clashes(port));
        if !topology.allows_host(&level.rules, &demand.excluded_by, Some(claim.site))
            || demand.shape.ports.iter().any(clash)
        {
            return None;
        }
        let asked = asked(demand, self.first, &claim.attached);
        let one = self.with(claim, &asked, 1)?;
        let separate = level.single || !demand.shape.ports.is_empty();
        let most = if separate { 1 } else { self.left.min(topology.host_slots(&level.rules, Some(claim.site))) };
        let more = self.most_at_this_price(claim, &asked, &one).min(most);
        Some(self.largest(claim, &asked, more).unwrap_or(one))
    }

    /// Returns how many pods fit without a larger type than the first pod needs.
    fn most_at_this_price(&self, claim: &NewNode, asked: &[i64], one: &JoinOption) -> usize {
        let templates = &self.solver.capacity.templates;
        let pool_template = templates.pool_template_of(one.template);
        let free = &pool_template.candidates[templates.get(one.template).entries[one.entry].candidate].free;
        let slots = claim.slots_for(self.attempt.shape);
        1 + slots.saturating_sub(1) + times(asked, &one.used, free)
    }

    /// Returns the launch with as many pods as possible: more than one, at most `most`.
    fn largest(&self, claim: &NewNode, asked: &[i64], most: usize) -> Option<JoinOption> {
        let (mut low, mut high) = (1, most);
        let mut best = None;
        while low < high {
            let middle = if best.is_none() && high == most { high } else { low + (high - low).div_ceil(2) };
            match self.with(claim, asked, middle) {
                Some(joined) => {
                    best = Some(joined);
                    low = middle;
                }
                None => high = middle - 1,
            }
        }
        best
    }

    /// Returns the launch with this many more pods; `None` when too few types remain or the price is too high.
    fn with(&self, claim: &NewNode, asked: &[i64], pods: usize) -> Option<JoinOption> {
        let templates = &self.solver.capacity.templates;
        let template = templates.get(self.template);
        let unseated = pods.saturating_sub(claim.slots_for(self.attempt.shape));
        let mut used: Amounts = claim.used.clone().into();
        add(&mut used, asked, unseated);
        let ports = self.ports(claim);
        let from = if self.template == claim.template { claim.entry } else { 0 };
        let load = Load { used: &used, ports: &ports, held: &claim.held };
        let capacity = &self.solver.capacity;
        let entry = capacity.first_holding(self.template, from, load)?;
        let old = templates.get(claim.template).entries[claim.entry].cost;
        let limit = old.saturating_add(self.separate.unwrap_or(i64::MAX / 4));
        if template.entries[entry].cost > limit {
            return None;
        }
        let least = claim.least.min(self.least);
        let kept = capacity.enough_types(self.template, entry, load, least)
            && capacity.keeps_values(self.template, load, &claim.lowered);
        let held = capacity.reservation(self.template, entry, load);
        kept.then_some(JoinOption { template: self.template, used, entry, least, held, pods })
    }

    fn ports<'c>(&self, claim: &'c NewNode) -> Cow<'c, [HostPort]> {
        let own = &self.solver.problem.demands[self.attempt.shape].shape.ports;
        if own.is_empty() {
            return Cow::Borrowed(&claim.ports);
        }
        Cow::Owned(claim.ports.iter().chain(own).cloned().collect())
    }
}
