//! Reasons for unschedulable pods: the nearest miss of every NodePool, computed only for the few shapes that need it.
//!
//! A reason refers to the pod without its preferences. Of several alternatives, the reason names the one that came closest.

use std::collections::BTreeMap;

use crate::{
    Hint, MinValuesPolicy, Operator, PoolMismatch, Requirement, Requirements, TopologyReason, TypesMismatch,
    UnschedulableReason,
};

use super::capacity_split::SplitPart;
use super::demand::Demand;
use super::dimensions::first_lacking;
use super::node_template::TemplateId;
use super::pool_template::{CandidateType, PoolTemplate};
use super::topology::HOST;
use super::{Attempt, Solver};

/// Resource or port that a type lacks.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Lack {
    Dimension(usize),
    /// Host port that a DaemonSet pod uses.
    Port(String),
}

impl Solver<'_> {
    /// Returns one miss per NodePool, in the order in which NodePools are tried. Static NodePools are omitted, because they
    /// launch no nodes for pods.
    pub(super) fn misses(&mut self, shape: usize) -> Vec<PoolMismatch> {
        let turn = Attempt { shape, level: self.demands[shape].levels.len() - 1 };
        let misses = self.frames.growing().map(|template| PoolMismatch {
            pool: self.frames.templates[template].pool.name.clone(),
            miss: self.miss(template, turn),
        });
        misses.collect()
    }

    fn miss(&mut self, template: usize, turn: Attempt) -> UnschedulableReason {
        let own = &self.frames.templates[template];
        let class = self.wants.of_class(self.demands[turn.shape].levels[turn.level].class).clone();
        if let Some(taint) = class.first_untolerated(&own.pool.taints) {
            return UnschedulableReason::Taint { taint: taint.to_string() };
        }
        if let Some((key, _)) = own.requirements.iter().find(|(_, set)| set.is_empty()) {
            return UnschedulableReason::Requirement {
                key: key.to_owned(),
                own: Vec::new(),
                asked: Vec::new(),
                near: None,
            };
        }
        let misses = class.wants.iter().map(|want| self.miss_of(template, *want, turn));
        let miss = misses.max_by_key(UnschedulableReason::nearness).unwrap_or_else(UnschedulableReason::no_types);
        let by_label = matches!(miss, UnschedulableReason::Requirement { .. } | UnschedulableReason::Types(_));
        if by_label && self.is_kept_off_spot(template, turn.shape) { UnschedulableReason::SpotOnly } else { miss }
    }

    /// Reports whether a NodePool could serve pods of an on-demand base if they were other pods of their workload.
    fn is_kept_off_spot(&mut self, template: usize, shape: usize) -> bool {
        let Demand { part: SplitPart::Base, shape: own, .. } = self.demands[shape] else { return false };
        let free = |other: &Demand<'_>| other.part == SplitPart::Free && std::ptr::eq(other.shape, own);
        let Some(other) = self.demands.iter().find(|other| free(other)) else { return false };
        let wants = other.levels.last().map(|level| self.wants.of_class(level.class).wants.clone()).unwrap_or_default();
        wants.into_iter().any(|want| {
            let frame = self.frames.narrowed(template, want, &self.wants, &mut self.topology);
            frame.and_then(|frame| self.had(frame, shape)).is_some()
        })
    }

    fn miss_of(&mut self, template: usize, want: usize, turn: Attempt) -> UnschedulableReason {
        let own = &self.frames.templates[template];
        let asked = self.wants.get(want);
        if let Some(key) = own.requirements.first_conflict(asked, own.well_known()) {
            let said = |of: &Requirements| of.get(key).map(|set| set.to_requirements(key)).unwrap_or_default();
            let (near, asked) = (near_miss(key, own), said(asked));
            return UnschedulableReason::Requirement { key: key.to_owned(), own: said(&own.requirements), asked, near };
        }
        let frame = self.frames.narrowed(template, want, &self.wants, &mut self.topology);
        match frame.and_then(|frame| self.had(frame, turn.shape)) {
            None => UnschedulableReason::Types(self.types_miss(template, want, turn.shape)),
            Some(frame) => self.miss_of_frame(frame, turn),
        }
    }

    /// Returns the template, or its variant for a reservation, with an available type that holds the pod alone.
    fn had(&mut self, frame: TemplateId, shape: usize) -> Option<TemplateId> {
        let mut ways = vec![frame];
        for id in self.reservations.available() {
            ways.extend(self.frames.reserved(frame, &id, &mut self.topology));
        }
        ways.into_iter().find(|way| self.alone_in(*way, shape).is_some())
    }

    /// Returns the reason why suitable types cannot be used.
    fn miss_of_frame(&mut self, frame: TemplateId, turn: Attempt) -> UnschedulableReason {
        if let Some((key, asked, found)) = self.values_short(frame, turn.shape) {
            return UnschedulableReason::MinValues { key, asked, found };
        }
        if let Some(miss) = self.topology_miss(frame, turn) {
            return miss;
        }
        let settled = self.pinned_templates(frame, turn, true);
        if let Some((key, asked, found)) = settled.first().and_then(|it| self.values_short(*it, turn.shape)) {
            return UnschedulableReason::MinValues { key, asked, found };
        }
        let demand = &self.demands[turn.shape];
        let template = self.frames.get(frame).template;
        let entries = self.frames.get(frame).entries.clone();
        let own = &self.frames.templates[template];
        let holding = entries.iter().filter(|entry| own.holds(entry, &demand.requests, &demand.shape.ports));
        let mut exceeded = holding
            .filter_map(|it| self.headroom.first_exceeded(template, &own.candidates[it.candidate].footprint, &[]));
        let resource = exceeded.next().unwrap_or("nodes").to_owned();
        UnschedulableReason::Limit { resource }
    }

    fn values_short(&self, frame: TemplateId, shape: usize) -> Option<(String, u32, usize)> {
        let demand = &self.demands[shape];
        let count = |key: &str| self.count_values(frame, key, &demand.requests, &demand.shape.ports, &[]);
        let strict = self.snapshot.policy.min_values == MinValuesPolicy::Strict;
        let counted = self.min_values(frame).into_iter().map(|(key, asked)| (count(&key), key, asked));
        let short = counted.filter(|(found, _, asked)| strict && found < asked);
        short.map(|(found, key, asked)| (key, asked, found as usize)).next()
    }

    /// Returns the rule that no domain of the template satisfies, if there is one.
    fn topology_miss(&mut self, frame: TemplateId, turn: Attempt) -> Option<UnschedulableReason> {
        let demand = &self.demands[turn.shape];
        let level = &demand.levels[turn.level];
        if !self.topology.allows_host(&level.rules, &demand.shunned, None) {
            let standing = self.topology.standing(&level.rules, HOST, &[])?;
            return Some(UnschedulableReason::Topology { standing, key: self.topology.key_name(HOST).to_owned() });
        }
        if !self.tolerates_daemons(frame, turn) {
            let key = self.topology.key_name(HOST).to_owned();
            return Some(UnschedulableReason::Topology { standing: TopologyReason::Apart, key });
        }
        if !self.pinned_templates(frame, turn, true).is_empty() {
            return None;
        }
        for key in self.demands[turn.shape].levels[turn.level].keys.clone() {
            let values = self.frames.values(frame, key, &mut self.topology);
            let demand = &self.demands[turn.shape];
            let rules = &demand.levels[turn.level].rules;
            let allowed = |domain: &u32| self.topology.allows(rules, &demand.shunned, key, Some(*domain));
            let name = self.topology.key_name(key).to_owned();
            if values.is_empty() && !self.topology.allows(rules, &demand.shunned, key, None) {
                let asked = vec![Requirement::new(&name, Operator::Exists, [""; 0])];
                return Some(UnschedulableReason::Requirement { key: name, own: Vec::new(), asked, near: None });
            }
            if !values.iter().any(allowed) {
                let standing = self.topology.standing(rules, key, &values).unwrap_or(TopologyReason::Shunned);
                return Some(UnschedulableReason::Topology { standing, key: name });
            }
        }
        let keys = self.demands[turn.shape].levels[turn.level].keys.iter().map(|key| self.topology.key_name(*key));
        Some(UnschedulableReason::Topology {
            standing: TopologyReason::Together,
            key: keys.min().unwrap_or_default().to_owned(),
        })
    }

    /// Counts the excluded types by the first reason of each.
    fn types_miss(&mut self, template: usize, want: usize, shape: usize) -> TypesMismatch {
        let outlook = self.type_filter(template, want);
        let own = &self.frames.templates[template];
        let mut small: BTreeMap<Lack, usize> = BTreeMap::new();
        let (mut unavailable, mut unpriced) = (outlook.others, 0);
        let priceless = |offer: &crate::Offer<'_>| {
            offer.offerings(&outlook.requirements).next().is_none()
                && offer.unpriced(&outlook.requirements).next().is_some()
        };
        let mut labels = outlook.labels.clone();
        for (candidate, unsold) in &outlook.suitable {
            match (self.lacking(&own.candidates[*candidate], shape), unsold) {
                (Some(lack), _) => *small.entry(lack).or_default() += 1,
                (None, Some(key)) => *labels.entry(key.clone()).or_default() += 1,
                (None, None) => {
                    unavailable += 1;
                    unpriced += usize::from(priceless(&own.candidates[*candidate].offer));
                }
            }
        }
        let named: BTreeMap<String, usize> = small.into_iter().map(|(lack, types)| (self.name(lack), types)).collect();
        let fits = |candidate: &&usize| self.lacking(&own.candidates[**candidate], shape).is_none();
        let without = outlook.without.iter().map(|(key, types)| (key, types.iter().filter(fits).count()));
        let reliefs = without.filter(|(_, types)| *types > 0).map(|(key, types)| Hint { key: key.clone(), types });
        let mut reliefs: Vec<Hint> = reliefs.collect();
        reliefs.sort_by(|one, other| other.types.cmp(&one.types).then_with(|| one.key.cmp(&other.key)));
        TypesMismatch {
            total: outlook.total,
            labels: labels.into_iter().map(|(key, types)| outlook.mismatch_of(key, types)).collect(),
            small: named.into_iter().collect(),
            unavailable,
            unpriced,
            reliefs,
            suspicious_cpu: self.demands[shape].shape.requests.get(crate::Resources::CPU) >= 1_000_000_000,
        }
    }

    /// Returns the first resource or port that a type lacks for one pod, DaemonSet overhead included.
    fn lacking(&self, candidate: &CandidateType<'_>, shape: usize) -> Option<Lack> {
        let demand = &self.demands[shape];
        let short = first_lacking(&demand.requests, &candidate.room).or(candidate.crowded);
        let clash = |port: &&crate::HostPort| candidate.ports.iter().any(|taken| taken.clashes(port));
        let port = || demand.shape.ports.iter().find(clash);
        short
            .map(Lack::Dimension)
            .or_else(|| port().map(|port| Lack::Port(format!("port {}/{}", port.port, port.protocol))))
    }

    fn name(&self, lack: Lack) -> String {
        match lack {
            Lack::Dimension(dimension) => self.dimensions.name(dimension),
            Lack::Port(name) => name,
        }
    }
}

/// Returns a label key of the NodePool that resembles this one.
fn near_miss(key: &str, template: &PoolTemplate<'_>) -> Option<String> {
    if template.requirements.get(key).is_some() || template.decides(key) {
        return None;
    }
    let own = template.requirements.iter().map(|(own, _)| own);
    let known = own.chain(template.well_known().iter().map(String::as_str));
    let near = known.filter(|known| is_typo(key, known) || ends_alike(key, known));
    near.min().map(str::to_owned)
}

/// Reports whether two keys have the same name under different prefixes, or one without a prefix.
fn ends_alike(key: &str, known: &str) -> bool {
    let name = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
    key != known && name(key) == name(known)
}

/// Reports whether the keys differ by at most two inserted, deleted or changed letters.
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
