//! Pods that join a launch which this plan has already opened.
//!
//! A pod joins the first launch that takes it, unless a separate launch is cheaper. The cheapest type that holds all pods must
//! cost at most the present type plus a separate node. A plan is therefore never more expensive than one node per pod.

use std::borrow::Cow;

use crate::{HostPort, Pod};

use super::dimensions::{Amounts, add, times};
use super::existing_node::{asked, attach};
use super::limits::{Footprint, Headroom};
use super::new_node::NewNode;
use super::node_template::{NodeTemplates, TemplateId};
use super::{Attempt, Solver};

/// A launch after some pods have joined.
pub(super) struct JoinOption {
    frame: TemplateId,
    used: Amounts,
    entry: usize,
    least: usize,
    held: Footprint,
    pods: usize,
}

/// Attempt of pods of one shape to join a launch.
struct JoinSearch<'s, 'a> {
    solver: &'s Solver<'a>,
    turn: Attempt,
    frame: TemplateId,
    first: &'a Pod,
    left: usize,
    /// Cost of a separate launch, if one is possible.
    alone: Option<i64>,
    /// Least number of instance types that the launch must keep for these pods.
    least: usize,
}

impl<'a> Solver<'a> {
    /// Places as many of the pods as possible in the first open launch that takes one, and returns its position and their
    /// number. `alone` is the cost of a separate launch, if one is possible.
    pub(super) fn join(&mut self, turn: Attempt, pods: &[usize], alone: Option<i64>) -> Option<(usize, usize)> {
        let class = self.demands[turn.shape].levels[turn.level].class;
        let buckets = self.claims.compatible(class, &mut self.frames, &self.wants, &mut self.topology);
        for (bucket, children) in buckets.iter() {
            for child in children.iter() {
                self.steps += 1;
                for frame in self.pinned_templates(*child, turn, false) {
                    if let Some((claim, joined)) = self.find_joinable(turn, (*bucket, frame), pods, alone) {
                        let count = joined.pods;
                        self.apply(turn, claim, joined, &pods[..count]);
                        return Some((claim, count));
                    }
                }
            }
        }
        None
    }

    /// Places pods in a launch that keeps slots for their shape, as far as topology rules allow now.
    pub(super) fn sit(&mut self, turn: Attempt, pods: &[usize]) -> Option<(usize, usize)> {
        let class = self.demands[turn.shape].levels[turn.level].class;
        for position in self.claims.with_seats(turn.shape) {
            let frame = self.claims.list[position].frame;
            let children = self.frames.for_class(frame, class, &self.wants, &mut self.topology);
            let settled: Vec<TemplateId> =
                children.iter().flat_map(|child| self.pinned_templates(*child, turn, false)).collect();
            for frame in settled {
                self.steps += 1;
                let least = self.least_types(frame, turn.shape);
                let first = &self.snapshot.pods[pods[0]];
                let joiner = JoinSearch { solver: self, turn, frame, first, left: pods.len(), alone: Some(0), least };
                if let Some(joined) = joiner.join(&self.claims.list[position]) {
                    let count = joined.pods;
                    self.apply(turn, position, joined, &pods[..count]);
                    return Some((position, count));
                }
            }
        }
        None
    }

    fn find_joinable(
        &mut self,
        turn: Attempt,
        place: (usize, TemplateId),
        pods: &[usize],
        alone: Option<i64>,
    ) -> Option<(usize, JoinOption)> {
        let least = self.least_types(place.1, turn.shape);
        let mut claims = std::mem::take(&mut self.claims);
        let mut steps = 0;
        let first = &self.snapshot.pods[pods[0]];
        let joiner = JoinSearch { solver: self, turn, frame: place.1, first, left: pods.len(), alone, least };
        let found = claims.find((turn.shape, turn.level), place, |_, claim| {
            steps += 1;
            joiner.join(claim)
        });
        self.claims = claims;
        self.steps += steps;
        found
    }

    fn apply(&mut self, turn: Attempt, position: usize, joined: JoinOption, pods: &[usize]) {
        let template = self.frames.get(joined.frame).template;
        let demand = &self.demands[turn.shape];
        self.claims.seat(position, turn.shape, pods.len());
        let claim = &mut self.claims.list[position];
        self.headroom.exchange(template, &claim.held, &joined.held);
        claim.used = joined.used.into_vec();
        claim.entry = joined.entry;
        claim.least = joined.least;
        claim.held = joined.held;
        claim.ports.extend(demand.shape.ports.iter().cloned());
        for pod in pods {
            attach(&mut claim.attached, demand, &self.snapshot.pods[*pod]);
        }
        if claim.frame != joined.frame {
            claim.frame = joined.frame;
            self.claims.file(position, joined.frame);
            self.collect_daemons(position);
        }
    }
}

impl JoinSearch<'_, '_> {
    /// Returns the launch with as many of the pods as it takes without a larger type, or with one pod.
    fn join(&self, claim: &NewNode) -> Option<JoinOption> {
        let demand = &self.solver.demands[self.turn.shape];
        let level = &demand.levels[self.turn.level];
        let topology = &self.solver.topology;
        let clash = |port: &HostPort| claim.ports.iter().any(|taken| taken.clashes(port));
        if !topology.allows_host(&level.rules, &demand.shunned, Some(claim.site))
            || demand.shape.ports.iter().any(clash)
        {
            return None;
        }
        let asked = asked(demand, self.first, &claim.attached);
        let one = self.with(claim, &asked, 1)?;
        let alone = level.single || !demand.shape.ports.is_empty();
        let most = if alone { 1 } else { self.left.min(topology.host_room(&level.rules, Some(claim.site))) };
        let more = self.most_at_this_price(claim, &asked, &one).min(most);
        Some(self.largest(claim, &asked, more).unwrap_or(one))
    }

    /// Returns how many pods fit without a larger type than the first pod needs.
    fn most_at_this_price(&self, claim: &NewNode, asked: &[i64], one: &JoinOption) -> usize {
        let frames = &self.solver.frames;
        let template = frames.template_of(one.frame);
        let room = &template.candidates[frames.get(one.frame).entries[one.entry].candidate].room;
        let seats = claim.seats_for(self.turn.shape);
        1 + seats.saturating_sub(1) + times(asked, &one.used, room)
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
        let frames = &self.solver.frames;
        let frame = frames.get(self.frame);
        let unseated = pods.saturating_sub(claim.seats_for(self.turn.shape));
        let mut used: Amounts = claim.used.clone().into();
        add(&mut used, asked, unseated);
        let ports = self.ports(claim);
        let from = if self.frame == claim.frame { claim.entry } else { 0 };
        let entry = self.solver.first_holding(self.frame, from, &used, &ports, &claim.held)?;
        let old = frames.get(claim.frame).entries[claim.entry].cost;
        let bearable = old.saturating_add(self.alone.unwrap_or(i64::MAX / 4));
        if frame.entries[entry].cost > bearable {
            return None;
        }
        let least = claim.least.min(self.least);
        let kept = self.solver.enough_types(self.frame, entry, &used, &ports, least)
            && self.solver.keeps_values(self.frame, &used, &ports, &claim.held, &claim.lowered);
        let held = self.solver.reservation(self.frame, entry, &used, &ports, &claim.held);
        kept.then_some(JoinOption { frame: self.frame, used, entry, least, held, pods })
    }

    fn ports<'c>(&self, claim: &'c NewNode) -> Cow<'c, [HostPort]> {
        let own = &self.solver.demands[self.turn.shape].shape.ports;
        if own.is_empty() {
            return Cow::Borrowed(&claim.ports);
        }
        Cow::Owned(claim.ports.iter().chain(own).cloned().collect())
    }
}

impl Solver<'_> {
    /// Returns the first entry, from a position on, that holds the used resources and that the limits allow.
    pub(super) fn first_holding(
        &self,
        frame: TemplateId,
        from: usize,
        used: &[i64],
        ports: &[HostPort],
        held: &[i64],
    ) -> Option<usize> {
        let own = self.frames.get(frame);
        let template = &self.frames.templates[own.template];
        let holds = |position: &usize| {
            let entry = &own.entries[*position];
            template.holds(entry, used, ports)
                && within(&self.headroom, own.template, &template.candidates[entry.candidate].footprint, held)
        };
        (from..own.entries.len()).find(holds)
    }

    /// Reports whether at least `least` types, from a position on, hold the used resources.
    pub(super) fn enough_types(
        &self,
        frame: TemplateId,
        from: usize,
        used: &[i64],
        ports: &[HostPort],
        least: usize,
    ) -> bool {
        least <= 1 || holding(&self.frames, frame, from, used, ports).take(least).count() >= least
    }
}

/// Returns the positions of entries, from one on, that hold the used resources.
pub(super) fn holding<'f>(
    frames: &'f NodeTemplates<'_>,
    frame: TemplateId,
    from: usize,
    used: &'f [i64],
    ports: &'f [HostPort],
) -> impl Iterator<Item = usize> + 'f {
    let own = frames.get(frame);
    let template = &frames.templates[own.template];
    (from..own.entries.len()).filter(move |position| template.holds(&own.entries[*position], used, ports))
}

pub(super) fn within(headroom: &Headroom, template: usize, wanted: &[i64], held: &[i64]) -> bool {
    !headroom.is_bounded(template) || headroom.first_exceeded(template, wanted, held).is_none()
}
