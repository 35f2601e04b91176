//! Reasons for unschedulable pods: the nearest miss of every NodePool, computed only for the few shapes that need it.
//!
//! A reason refers to the pod without its preferences. Of several alternatives, the reason names the one that came closest.

use std::collections::BTreeMap;

use crate::{
    Hint, MinValuesPolicy, Operator, PodVerdict, PoolMismatch, Requirement, Requirements, Shortfall, TopologyReason,
    TypesMismatch, UnschedulableReason,
};

use super::capacity::node_template::TemplateId;
use super::capacity::pool_template::{CandidateType, PoolTemplate};
use super::daemon_overhead::tolerates_daemons;
use super::demand::Demand;
use super::demand::capacity_split::SplitPart;
use super::demand::dimensions::{Dimensions, first_lacking};
use super::phases::pin_zone::pinned_templates;
use super::topology::HOST;
use super::{Attempt, PodRun, Solver};

/// Resource or port that a type lacks.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Lack {
    Dimension(usize),
    /// Host port that a DaemonSet pod uses.
    Port(String),
}

/// Records the reason for each shape that has no place.
pub(super) fn give_up(solver: &mut Solver<'_>, queue: &[PodRun]) {
    for run in queue {
        let verdict = if solver.is_spent() {
            PodVerdict::Postponed
        } else {
            PodVerdict::Unschedulable { pools: pool_mismatches(solver, run.shape).into() }
        };
        for pod in &run.pods {
            solver.outcome.verdicts[*pod] = Some(verdict.clone());
        }
    }
}

/// Returns one miss per NodePool, in the order in which NodePools are tried. Static NodePools are omitted, because they
/// launch no nodes for pods.
fn pool_mismatches(solver: &mut Solver<'_>, shape: usize) -> Vec<PoolMismatch> {
    let attempt = Attempt { shape, level: solver.problem.demands[shape].levels.len() - 1 };
    let templates = &solver.capacity.templates;
    let is_whole = |template: &TemplateId| templates.pool_template_of(*template).commitment.is_none();
    let whole: Vec<TemplateId> = templates.growing().filter(is_whole).collect();
    let pool_mismatches = whole.into_iter().map(|pool_template| PoolMismatch {
        pool: solver.capacity.templates.pool_templates[pool_template].pool.name.clone(),
        miss: mismatch(solver, pool_template, attempt),
    });
    pool_mismatches.collect()
}

fn mismatch(solver: &mut Solver<'_>, pool_template: usize, attempt: Attempt) -> UnschedulableReason {
    let own = &solver.capacity.templates.pool_templates[pool_template];
    if let Some(pause) = solver.problem.demands[attempt.shape].shape.pause_in(&own.pool.name) {
        let left = pause.until.0.saturating_sub(solver.problem.input.snapshot.now.0);
        return UnschedulableReason::Paused { failures: pause.failures, remaining: left };
    }
    let class = solver
        .problem
        .requirement_sets
        .of_class(solver.problem.demands[attempt.shape].levels[attempt.level].class)
        .clone();
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
    let pool_mismatches =
        class.alternatives.iter().map(|alternative| mismatch_of(solver, pool_template, *alternative, attempt));
    let mismatch =
        pool_mismatches.max_by_key(UnschedulableReason::nearness).unwrap_or_else(UnschedulableReason::no_types);
    let by_label = matches!(mismatch, UnschedulableReason::Requirement { .. } | UnschedulableReason::Types(_));
    if by_label && is_kept_off_spot(solver, pool_template, attempt.shape) {
        UnschedulableReason::SpotOnly
    } else {
        mismatch
    }
}

/// Reports whether a NodePool could serve pods of an on-demand base if they were other pods of their workload.
fn is_kept_off_spot(solver: &mut Solver<'_>, pool_template: usize, shape: usize) -> bool {
    let Demand { part: SplitPart::Base, shape: own, .. } = solver.problem.demands[shape] else { return false };
    let free = |other: &Demand<'_>| other.part == SplitPart::Free && std::ptr::eq(other.shape, own);
    let Some(other) = solver.problem.demands.iter().find(|other| free(other)) else { return false };
    let alternatives = other
        .levels
        .last()
        .map(|level| solver.problem.requirement_sets.of_class(level.class).alternatives.clone())
        .unwrap_or_default();
    alternatives.into_iter().any(|alternative| {
        let template = solver.capacity.templates.narrowed(
            pool_template,
            alternative,
            &solver.problem.requirement_sets,
            &mut solver.topology,
        );
        template.and_then(|template| with_type(solver, template, shape)).is_some()
    })
}

fn mismatch_of(
    solver: &mut Solver<'_>,
    pool_template: usize,
    alternative: usize,
    attempt: Attempt,
) -> UnschedulableReason {
    let own = &solver.capacity.templates.pool_templates[pool_template];
    let asked = solver.problem.requirement_sets.get(alternative);
    if let Some(key) = own.requirements.first_conflict(asked, own.well_known()) {
        let said = |of: &Requirements| of.get(key).map(|set| set.to_requirements(key)).unwrap_or_default();
        let (near, asked) = (near_miss(key, own), said(asked));
        return UnschedulableReason::Requirement { key: key.to_owned(), own: said(&own.requirements), asked, near };
    }
    let template = solver.capacity.templates.narrowed(
        pool_template,
        alternative,
        &solver.problem.requirement_sets,
        &mut solver.topology,
    );
    if solver.capacity.templates.pool_templates[pool_template].pool.is_inactive && template.is_some() {
        return UnschedulableReason::Inactive;
    }
    match template.and_then(|template| with_type(solver, template, attempt.shape)) {
        None => UnschedulableReason::Types(types_mismatch(solver, pool_template, alternative, attempt.shape)),
        Some(template) => mismatch_of_template(solver, template, attempt),
    }
}

/// Returns the template, or its variant for a reservation, with an available type that holds the pod alone.
fn with_type(solver: &mut Solver<'_>, template: TemplateId, shape: usize) -> Option<TemplateId> {
    let mut ways = vec![template];
    for id in solver.capacity.reservations.available() {
        ways.extend(solver.capacity.templates.reserved(template, &id, &mut solver.topology));
    }
    ways.into_iter().find(|way| solver.capacity.cheapest_for(*way, &solver.problem.demands[shape]).is_some())
}

/// Returns the reason why suitable types cannot be used.
fn mismatch_of_template(solver: &mut Solver<'_>, template: TemplateId, attempt: Attempt) -> UnschedulableReason {
    if let Some((key, asked, found)) = values_short(solver, template, attempt.shape) {
        return UnschedulableReason::MinValues { key, asked, found };
    }
    if let Some(mismatch) = topology_mismatch(solver, template, attempt) {
        return mismatch;
    }
    let pinned = pinned_templates(solver, template, attempt, true);
    if let Some((key, asked, found)) = pinned.first().and_then(|it| values_short(solver, *it, attempt.shape)) {
        return UnschedulableReason::MinValues { key, asked, found };
    }
    let demand = &solver.problem.demands[attempt.shape];
    let pool_template = solver.capacity.templates.get(template).pool_template;
    let entries = solver.capacity.templates.get(template).entries.clone();
    let own = &solver.capacity.templates.pool_templates[pool_template];
    let holding = entries.iter().filter(|entry| own.candidates[entry.candidate].holds(demand.load()));
    let mut exceeded =
        holding.filter_map(|it| solver.capacity.headroom.first_exceeded(pool_template, &it.footprint, &[]));
    let resource = exceeded.next().unwrap_or("nodes").to_owned();
    UnschedulableReason::Limit { resource }
}

fn values_short(solver: &Solver<'_>, template: TemplateId, shape: usize) -> Option<(String, u32, usize)> {
    let demand = &solver.problem.demands[shape];
    let count = |key: &str| solver.capacity.count_values(template, key, demand.load());
    let strict = solver.problem.input.snapshot.policy.min_values == MinValuesPolicy::Strict;
    let counted = solver.capacity.min_values(template).into_iter().map(|(key, asked)| (count(&key), key, asked));
    let short = counted.filter(|(found, _, asked)| strict && found < asked);
    short.map(|(found, key, asked)| (key, asked, found as usize)).next()
}

/// Returns the rule that no domain of the template satisfies, if there is one.
fn topology_mismatch(solver: &mut Solver<'_>, template: TemplateId, attempt: Attempt) -> Option<UnschedulableReason> {
    let demand = &solver.problem.demands[attempt.shape];
    let level = &demand.levels[attempt.level];
    if !solver.topology.allows_host(&level.rules, &demand.excluded_by, None) {
        let refusal = solver.topology.refusal(&level.rules, HOST, &[])?;
        return Some(UnschedulableReason::Topology {
            standing: refusal,
            key: solver.topology.key_name(HOST).to_owned(),
        });
    }
    if !tolerates_daemons(solver, template, attempt) {
        let key = solver.topology.key_name(HOST).to_owned();
        return Some(UnschedulableReason::Topology { standing: TopologyReason::Apart, key });
    }
    if !pinned_templates(solver, template, attempt, true).is_empty() {
        return None;
    }
    for key in solver.problem.demands[attempt.shape].levels[attempt.level].keys.clone() {
        let values = solver.capacity.templates.values(template, key, &mut solver.topology);
        let demand = &solver.problem.demands[attempt.shape];
        let rules = &demand.levels[attempt.level].rules;
        let allowed = |domain: &u32| solver.topology.allows(rules, &demand.excluded_by, key, Some(*domain));
        let name = solver.topology.key_name(key).to_owned();
        if values.is_empty() && !solver.topology.allows(rules, &demand.excluded_by, key, None) {
            let asked = vec![Requirement::new(&name, Operator::Exists, [""; 0])];
            return Some(UnschedulableReason::Requirement { key: name, own: Vec::new(), asked, near: None });
        }
        if !values.iter().any(allowed) {
            let refusal = solver.topology.refusal(rules, key, &values).unwrap_or(TopologyReason::Shunned);
            return Some(UnschedulableReason::Topology { standing: refusal, key: name });
        }
    }
    let keys = solver.problem.demands[attempt.shape].levels[attempt.level]
        .keys
        .iter()
        .map(|key| solver.topology.key_name(*key));
    Some(UnschedulableReason::Topology {
        standing: TopologyReason::Together,
        key: keys.min().unwrap_or_default().to_owned(),
    })
}

/// Counts the excluded types by the first reason of each.
fn types_mismatch(solver: &mut Solver<'_>, pool_template: usize, alternative: usize, shape: usize) -> TypesMismatch {
    let Solver { problem, capacity, .. } = solver;
    let filter = capacity.type_filter(pool_template, alternative, &problem.requirement_sets);
    let (own, demand) = (&capacity.templates.pool_templates[pool_template], &problem.demands[shape]);
    let mut small: BTreeMap<Lack, usize> = BTreeMap::new();
    let mut most: BTreeMap<usize, i64> = BTreeMap::new();
    let (mut unavailable, mut unpriced) = (filter.others, 0);
    let priceless = |offer: &crate::Offer<'_>| {
        offer.offerings(&filter.requirements).next().is_none() && offer.unpriced(&filter.requirements).next().is_some()
    };
    let shifted_zones =
        problem.input.snapshot.catalogues.get(own.pool.catalogue).map(|catalogue| &catalogue.shifted_zones);
    let mut shifted: BTreeMap<String, usize> = BTreeMap::new();
    let mut labels = filter.labels.clone();
    for (candidate, unsold) in &filter.suitable {
        match (lacking(demand, &own.candidates[*candidate]), unsold) {
            (Some(lack), _) => {
                if let Lack::Dimension(dimension) = lack {
                    let free = own.candidates[*candidate].free[dimension];
                    most.entry(dimension).and_modify(|most| *most = free.max(*most)).or_insert(free);
                }
                *small.entry(lack).or_default() += 1;
            }
            (None, Some(key)) => *labels.entry(key.clone()).or_default() += 1,
            (None, None) => {
                unavailable += 1;
                let offer = &own.candidates[*candidate].offer;
                unpriced += usize::from(priceless(offer));
                for zone in shifted_zones.into_iter().flatten() {
                    let has_offering = offer.offerings(&filter.requirements).any(|offering| offering.zone == *zone);
                    if has_offering {
                        *shifted.entry(zone.clone()).or_default() += 1;
                    }
                }
            }
        }
    }
    let shortfall = |(dimension, most): (usize, i64)| Shortfall {
        resource: problem.input.dimensions.name(dimension),
        asked: demand.requests[dimension],
        most,
    };
    // A type that DaemonSet pods fill alone lacks what the pod may not even request.
    let shortfalls = most.into_iter().map(shortfall).filter(|it| it.asked > it.most && it.asked > 0).collect();
    let named: BTreeMap<String, usize> =
        small.into_iter().map(|(lack, types)| (lack.name(&problem.input.dimensions), types)).collect();
    let fits = |candidate: &&usize| lacking(demand, &own.candidates[**candidate]).is_none();
    let without = filter.without.iter().map(|(key, types)| (key, types.iter().filter(fits).count()));
    let reliefs = without.filter(|(_, types)| *types > 0).map(|(key, types)| Hint { key: key.clone(), types });
    let mut reliefs: Vec<Hint> = reliefs.collect();
    reliefs.sort_by(|one, other| other.types.cmp(&one.types).then_with(|| one.key.cmp(&other.key)));
    TypesMismatch {
        total: filter.total,
        labels: labels.into_iter().map(|(key, types)| filter.mismatch_of(key, types)).collect(),
        small: named.into_iter().collect(),
        shortfalls,
        unavailable,
        unpriced,
        shifted,
        reliefs,
        suspicious_cpu: demand.shape.requests.get(crate::Resources::CPU) >= 1_000_000_000,
    }
}

/// Returns the first resource or port that a type lacks for one pod, DaemonSet overhead included.
fn lacking(demand: &Demand<'_>, candidate: &CandidateType<'_>) -> Option<Lack> {
    let short = first_lacking(&demand.requests, &candidate.free).or(candidate.lacking);
    let clash = |port: &&crate::HostPort| candidate.ports.iter().any(|taken| taken.clashes(port));
    let port = || demand.shape.ports.iter().find(clash);
    short
        .map(Lack::Dimension)
        .or_else(|| port().map(|port| Lack::Port(format!("port {}/{}", port.port, port.protocol))))
}

impl Lack {
    fn name(self, dimensions: &Dimensions) -> String {
        match self {
            Self::Dimension(dimension) => dimensions.name(dimension),
            Self::Port(name) => name,
        }
    }
}

/// Returns a label key of the NodePool that resembles this one.
fn near_miss(key: &str, pool_template: &PoolTemplate<'_>) -> Option<String> {
    if pool_template.requirements.get(key).is_some() || pool_template.decides(key) {
        return None;
    }
    let own = pool_template.requirements.iter().map(|(own, _)| own);
    let known = own.chain(pool_template.well_known().iter().map(String::as_str));
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
