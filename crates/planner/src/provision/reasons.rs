//! Why a pod has no place: the nearest miss of every pool, worked out for the few shapes that need it.
//!
//! What counts is the pod without its preferences. Of several alternatives the one that came nearest is told.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::{LabelMiss, MinValuesPolicy, Miss, Offer, PoolMiss, Relief, Requirements, Standing, TypesMiss};

use super::frame::FrameId;
use super::template::Template;
use super::topology::HOST;
use super::{Solver, Turn};

impl Solver<'_> {
    /// One miss a pool, in the order in which pools are tried; static pools make no nodes for pods.
    pub(super) fn misses(&mut self, shape: usize) -> Vec<PoolMiss> {
        let turn = Turn { shape, level: self.demands[shape].levels.len() - 1 };
        let misses = self.frames.growing().map(|template| PoolMiss {
            pool: self.frames.templates[template].pool.name.clone(),
            miss: self.miss(template, turn),
        });
        misses.collect()
    }

    fn miss(&mut self, template: usize, turn: Turn) -> Miss {
        let own = &self.frames.templates[template];
        let class = self.wants.of_class(self.demands[turn.shape].levels[turn.level].class).clone();
        if let Some(taint) = class.first_untolerated(&own.pool.taints) {
            return Miss::Taint { taint: taint.to_string() };
        }
        if let Some((key, _)) = own.requirements.iter().find(|(_, set)| set.is_empty()) {
            return Miss::Requirement { key: key.to_owned(), near: None };
        }
        let misses = class.wants.iter().map(|want| self.miss_of(template, *want, turn));
        misses.max_by_key(Miss::nearness).unwrap_or_else(Miss::no_types)
    }

    fn miss_of(&mut self, template: usize, want: usize, turn: Turn) -> Miss {
        let own = &self.frames.templates[template];
        let asked = self.wants.get(want);
        if let Some(key) = own.requirements.first_conflict(asked, own.well_known()) {
            return Miss::Requirement { key: key.to_owned(), near: near_miss(key, own) };
        }
        let frame = self.frames.narrowed(template, want, &self.wants, &mut self.topology);
        match frame.and_then(|frame| self.had(frame, turn.shape)) {
            None => Miss::Types(self.types_miss(template, want, turn.shape)),
            Some(frame) => self.miss_of_frame(frame, turn),
        }
    }

    /// The frame, or what a reservation makes of it, where a type that can be had holds the pod alone.
    fn had(&mut self, frame: FrameId, shape: usize) -> Option<FrameId> {
        let mut ways = vec![frame];
        for id in self.reservations.available() {
            ways.extend(self.frames.reserved(frame, &id, &mut self.topology));
        }
        ways.into_iter().find(|way| self.alone_in(*way, shape).is_some())
    }

    /// Why types that would do cannot be used.
    fn miss_of_frame(&mut self, frame: FrameId, turn: Turn) -> Miss {
        if let Some((key, asked, found)) = self.values_short(frame, turn.shape) {
            return Miss::MinValues { key, asked, found };
        }
        if let Some(miss) = self.topology_miss(frame, turn) {
            return miss;
        }
        let settled = self.settled(frame, turn);
        if let Some((key, asked, found)) = settled.first().and_then(|it| self.values_short(*it, turn.shape)) {
            return Miss::MinValues { key, asked, found };
        }
        let demand = &self.demands[turn.shape];
        let template = self.frames.get(frame).template;
        let entries = self.frames.get(frame).entries.clone();
        let own = &self.frames.templates[template];
        let holding = entries.iter().filter(|entry| own.holds(entry, &demand.requests, &demand.shape.ports));
        let mut exceeded = holding
            .filter_map(|it| self.headroom.first_exceeded(template, &own.candidates[it.candidate].footprint, &[]));
        let resource = exceeded.next().unwrap_or("nodes").to_owned();
        Miss::Limit { resource }
    }

    fn values_short(&self, frame: FrameId, shape: usize) -> Option<(String, u32, usize)> {
        let demand = &self.demands[shape];
        let count = |key: &str| self.count_values(frame, key, &demand.requests, &demand.shape.ports, &[]);
        let strict = self.snapshot.policy.min_values == MinValuesPolicy::Strict;
        let counted = self.min_values(frame).into_iter().map(|(key, asked)| (count(&key), key, asked));
        let short = counted.filter(|(found, _, asked)| strict && found < asked);
        short.map(|(found, key, asked)| (key, asked, found as usize)).next()
    }

    /// The rule that no domain of the frame satisfies, if there is one.
    fn topology_miss(&mut self, frame: FrameId, turn: Turn) -> Option<Miss> {
        let demand = &self.demands[turn.shape];
        let level = &demand.levels[turn.level];
        if !self.topology.allows_host(&level.rules, &demand.shunned, None) {
            let standing = self.topology.standing(&level.rules, HOST, &[])?;
            return Some(Miss::Topology { standing, key: self.topology.key_name(HOST).to_owned() });
        }
        if !self.bears_retinue(frame, turn) {
            let key = self.topology.key_name(HOST).to_owned();
            return Some(Miss::Topology { standing: Standing::Apart, key });
        }
        if !self.settled(frame, turn).is_empty() {
            return None;
        }
        for key in self.demands[turn.shape].levels[turn.level].keys.clone() {
            let values = self.frames.values(frame, key, &mut self.topology);
            let demand = &self.demands[turn.shape];
            let rules = &demand.levels[turn.level].rules;
            let allowed = |domain: &u32| self.topology.allows(rules, &demand.shunned, key, Some(*domain));
            let name = self.topology.key_name(key).to_owned();
            if values.is_empty() && !self.topology.allows(rules, &demand.shunned, key, None) {
                return Some(Miss::Requirement { key: name, near: None });
            }
            if !values.iter().any(allowed) {
                let standing = self.topology.standing(rules, key, &values).unwrap_or(Standing::Shunned);
                return Some(Miss::Topology { standing, key: name });
            }
        }
        let keys = self.demands[turn.shape].levels[turn.level].keys.iter().map(|key| self.topology.key_name(*key));
        Some(Miss::Topology { standing: Standing::Together, key: keys.min().unwrap_or_default().to_owned() })
    }

    /// Why every type falls out, counted by the first reason of each.
    fn types_miss(&mut self, template: usize, want: usize, shape: usize) -> TypesMiss {
        let mismatches = self.mismatches(template, want);
        let own = &self.frames.templates[template];
        let types = self.snapshot.catalogues.get(own.pool.catalogue).map_or(&[][..], |catalogue| &catalogue.types);
        let mut tally = Tally::default();
        // Candidates stand in the order of the types that they are.
        let mut candidates = own.candidates.iter().peekable();
        for (kind, mismatch) in types.iter().zip(mismatches.iter()) {
            let candidate = candidates.next_if(|candidate| std::ptr::eq(candidate.offer.kind, kind));
            if let Some(key) = mismatch {
                *tally.labels.entry(key.clone()).or_default() += 1;
            } else if let Some(resource) = candidate.and_then(|candidate| self.lacking(candidate, shape)) {
                *tally.small.entry(resource).or_default() += 1;
            } else {
                tally.unavailable += 1;
            }
        }
        TypesMiss {
            total: types.len(),
            labels: tally.labels.into_iter().map(|(key, types)| LabelMiss { key, types }).collect(),
            small: tally.small.into_iter().collect(),
            unavailable: tally.unavailable,
            relief: self.relief(template, want, shape),
            suspicious_cpu: self.demands[shape].shape.requests.get(crate::Resources::CPU) >= 1_000_000_000,
        }
    }

    /// For each type of a pool's catalogue the first label that cannot be as the pool and a pod require together.
    fn mismatches(&mut self, template: usize, want: usize) -> Rc<[Option<String>]> {
        if let Some(known) = self.mismatches.get(&(template, want)) {
            return known.clone();
        }
        let own = &self.frames.templates[template];
        let requirements = own.requirements.narrowed(self.wants.get(want), own.well_known());
        let types = self.snapshot.catalogues.get(own.pool.catalogue).map_or(&[][..], |catalogue| &catalogue.types);
        let found: Rc<[Option<String>]> =
            types.iter().map(|kind| mismatch(own, &Offer::of(kind), &requirements).map(str::to_owned)).collect();
        self.mismatches.insert((template, want), found.clone());
        found
    }

    /// What a type has too little of for one pod, daemons counted.
    fn lacking(&self, candidate: &super::template::Candidate<'_>, shape: usize) -> Option<String> {
        let demand = &self.demands[shape];
        let short = super::dimensions::first_lacking(&demand.requests, &candidate.room).or(candidate.crowded);
        let clash = |port: &crate::HostPort| candidate.ports.iter().any(|taken| taken.clashes(port));
        let clashing = demand.shape.ports.iter().find(|port| clash(port));
        let port = || clashing.map(|port| format!("port {}/{}", port.port, port.protocol));
        short.map(|dimension| self.dimensions.name(dimension)).or_else(port)
    }

    /// The requirement of the pod without which most types would do.
    fn relief(&self, template: usize, want: usize, shape: usize) -> Option<Relief> {
        let own = &self.frames.templates[template];
        let asked = self.wants.get(want);
        let without = |key: &str| {
            let mut fewer = asked.clone();
            fewer.remove(key);
            let requirements = own.requirements.narrowed(&fewer, own.well_known());
            let fits = own.candidates.iter().filter(|candidate| {
                mismatch(own, &candidate.offer, &requirements).is_none()
                    && self.lacking(candidate, shape).is_none()
                    && candidate.offerings(&requirements).next().is_some()
            });
            fits.count()
        };
        let reliefs = asked.iter().map(|(key, _)| Relief { key: key.to_owned(), types: without(key) });
        reliefs.filter(|relief| relief.types > 0).max_by_key(|relief| relief.types)
    }
}

/// The first label of a type that cannot be as required.
fn mismatch<'r>(template: &Template<'_>, offer: &Offer<'_>, requirements: &'r Requirements) -> Option<&'r str> {
    if template.labels_match(offer, requirements) {
        return None;
    }
    let alone = |key: &str, set: &crate::ValueSet| {
        let mut alone = Requirements::default();
        alone.narrow(key, set);
        template.labels_match(offer, &alone)
    };
    requirements.iter().find(|(key, set)| !alone(key, set)).map(|(key, _)| key)
}

/// A label that the pool knows and that is written nearly like this one.
fn near_miss(key: &str, template: &Template<'_>) -> Option<String> {
    if template.requirements.get(key).is_some() || template.decides(key) {
        return None;
    }
    let own = template.requirements.iter().map(|(own, _)| own);
    let known = own.chain(template.well_known().iter().map(String::as_str));
    let near = known.filter(|known| is_typo(key, known) || ends_alike(key, known));
    near.min().map(str::to_owned)
}

/// The same name under another prefix, or without one.
fn ends_alike(key: &str, known: &str) -> bool {
    let name = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
    key != known && name(key) == name(known)
}

/// At most two letters added, left out or changed.
fn is_typo(one: &str, other: &str) -> bool {
    const MOST: usize = 2;
    if one == other || one.len().abs_diff(other.len()) > MOST {
        return false;
    }
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (line, left) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, right) in other.chars().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row.last().is_some_and(|distance| *distance <= MOST)
}

#[derive(Default)]
struct Tally {
    labels: BTreeMap<String, usize>,
    small: BTreeMap<String, usize>,
    unavailable: usize,
}
