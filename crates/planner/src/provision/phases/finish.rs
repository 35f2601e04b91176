//! Conversion of planned nodes into launches: instance types within the limits, and requirements in the form of the API.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    CapacityType, Launch, MicroDollars, MinValuesPolicy, Operator, Plan, PodVerdict, Purpose, Report, Requirement,
    Requirements, ValueSet, label,
};

use crate::provision::capacity::Capacity;
use crate::provision::capacity::node_template::{NodeTemplates, TemplateId};
use crate::provision::capacity::pool_template::PoolTemplate;
use crate::provision::capacity::priced_type::CapacityTypes;
use crate::provision::demand::dimensions::Load;
use crate::provision::new_node::NewNode;
use crate::provision::topology::Domain;
use crate::provision::{Problem, Solver};

pub(in crate::provision) fn finish(mut solver: Solver<'_>) -> Plan {
    let claims = std::mem::take(&mut solver.new_nodes.list);
    let (problem, capacity) = (&solver.problem, &mut solver.capacity);
    let launches = to_launches(problem, capacity, claims);
    Plan {
        nominations: std::mem::take(&mut solver.outcome.nominations),
        moves: Vec::new(),
        resizes: Vec::new(),
        saved_by_usage: MicroDollars::default(),
        report: Report {
            pods: solver.outcome.verdicts.drain(..).map(|it| it.unwrap_or(PodVerdict::Postponed)).collect(),
            nodes: Vec::new(),
            pools_without_types: pools_without_offerings(&solver.capacity.templates),
            pools_short_of_values: pools_short_of_values(&solver),
            unpacked: Vec::new(),
            preferences: Vec::new(),
            order: std::mem::take(&mut solver.outcome.order),
            steps: solver.progress.steps,
        },
        launches,
    }
}

/// Returns NodePools without any available instance type, independent of the pods.
fn pools_without_offerings(templates: &NodeTemplates<'_>) -> Vec<String> {
    names(templates.pool_templates.iter().filter(|it| it.commitment.is_none() && !offers(it)))
}

fn offers(pool_template: &PoolTemplate<'_>) -> bool {
    let sound = pool_template.requirements.iter().all(|(_, set)| !set.is_empty());
    sound && pool_template.candidates.iter().any(|it| it.sold(&pool_template.requirements).next().is_some())
}

/// Returns NodePools with available instance types that have fewer values of a label than `minValues` requires, independent of
/// the pods. A policy that lowers `minValues` needs no other types.
fn pools_short_of_values(solver: &Solver<'_>) -> Vec<String> {
    if solver.problem.input.snapshot.policy.min_values != MinValuesPolicy::Strict {
        return Vec::new();
    }
    let is_short = |pool_template: &&PoolTemplate<'_>| {
        let asked = pool_template.requirements.iter().filter_map(|(key, set)| Some((key, set, set.min_values()?)));
        pool_template.commitment.is_none()
            && offers(pool_template)
            && asked.into_iter().any(|(key, set, asked)| {
                let mut values = BTreeSet::new();
                for candidate in &pool_template.candidates {
                    candidate.values(candidate.sold(&pool_template.requirements), key, &mut values);
                }
                values.retain(|value| set.allows(Some(value)));
                values.len() < asked as usize
            })
    };
    names(solver.capacity.templates.pool_templates.iter().filter(is_short))
}

fn names<'a>(pool_templates: impl Iterator<Item = &'a PoolTemplate<'a>>) -> Vec<String> {
    let mut names: Vec<String> = pool_templates.map(|it| it.pool.name.clone()).collect();
    names.sort();
    names
}

pub(in crate::provision) fn to_launches(
    problem: &Problem<'_>,
    capacity: &mut Capacity<'_>,
    claims: Vec<NewNode>,
) -> Vec<Launch> {
    let left = (1..=claims.len()).rev();
    claims.into_iter().zip(left).map(|(claim, left)| to_launch(problem, capacity, claim, left)).collect()
}

/// Converts a planned node, the first of this many.
fn to_launch(problem: &Problem<'_>, capacity: &mut Capacity<'_>, claim: NewNode, launches: usize) -> Launch {
    let (mut requests, used) = problem.requests_of(&claim);
    let load = Load { used: &used, ..claim.load() };
    let fitting: Vec<usize> = capacity.templates.holding(claim.template, 0, load).collect();
    let listed = capacity.take_types(claim.template, &claim.held, fitting, launches);
    let list = capacity.type_list(claim.template, listed);
    let template = capacity.templates.get(claim.template);
    let pool_template = &capacity.templates.pool_templates[template.pool_template];
    let (lowered, relaxed) = lowered_values(capacity, &claim, load);
    if !claim.pods.is_empty() {
        requests.add(&list.overhead);
    }
    let purpose = if pool_template.pool.replicas.is_some() { Purpose::Static } else { Purpose::Provision };
    let mut requirements = api_requirements(&template.requirements, pool_template, list.sold_as);
    for requirement in &mut requirements {
        let lower = |asked: u32| lowered.get(&requirement.key).map_or(asked, |found| asked.min(*found));
        requirement.min_values = requirement.min_values.map(lower);
    }
    Launch {
        pool: pool_template.pool.name.clone(),
        requirements,
        price: list.price,
        commitment: pool_template.pays_for.map(|commitment| commitment.name.clone()),
        requests,
        min_instance_types: min_instance_types(capacity, claim.template, &lowered),
        instance_types: list.names,
        pods: claim.pods,
        purpose,
        min_values_relaxed: relaxed,
    }
}

/// Returns labels with fewer values than `minValues` requires, with their number, and reports whether there are any.
fn lowered_values(capacity: &Capacity<'_>, claim: &NewNode, load: Load<'_>) -> (BTreeMap<String, u32>, bool) {
    let found = |key: &String| capacity.count_values(claim.template, key, load);
    let lowered: BTreeMap<String, u32> = claim.lowered.keys().map(|key| (key.clone(), found(key))).collect();
    let asked = capacity.min_values(claim.template);
    let relaxed = asked.iter().any(|(key, asked)| lowered.get(key).is_some_and(|found| found < asked));
    (lowered, relaxed)
}

fn min_instance_types(capacity: &Capacity<'_>, template: TemplateId, lowered: &BTreeMap<String, u32>) -> Option<u32> {
    let (_, asked) = capacity.min_values(template).into_iter().find(|(key, _)| key == label::INSTANCE_TYPE)?;
    Some(lowered.get(label::INSTANCE_TYPE).map_or(asked, |found| asked.min(*found)))
}

/// Converts requirements into the form of the API: fixes values that only the claim can decide, and lists the available
/// capacity types.
fn api_requirements(
    requirements: &Requirements,
    pool_template: &PoolTemplate<'_>,
    sold_as: CapacityTypes,
) -> Vec<Requirement> {
    let mut requirements = requirements.clone();
    settle(&mut requirements, pool_template);
    let sold_as = sold_as.iter().map(CapacityType::as_str);
    requirements.add(&Requirement::new(label::CAPACITY_TYPE, Operator::In, sold_as));
    requirements.remove(label::HOSTNAME);
    requirements.remove(label::INSTANCE_TYPE);
    requirements.to_vec()
}

/// Fixes labels that only the claim can give the node. Where such a label is required and several values are possible, one is
/// chosen; otherwise the node would start without the label.
fn settle(requirements: &mut Requirements, pool_template: &PoolTemplate<'_>) {
    let open = |(key, set): &(&str, &ValueSet)| !pool_template.decides(key) && !set.allows(None);
    let chosen: Vec<(String, String)> =
        requirements.iter().filter(open).filter_map(|(key, set)| Some((key.to_owned(), set.any()?))).collect();
    for (key, value) in chosen {
        requirements.narrow(&key, &ValueSet::one(&value));
    }
}

/// Returns the launches and their sites, each narrowed to the types that hold its present pods.
pub(in crate::provision) fn launches_by_now(solver: &mut Solver<'_>) -> Vec<(TemplateId, Domain)> {
    let all = 0..solver.new_nodes.list.len();
    all.map(|launch| (present_template(solver, launch), solver.new_nodes.list[launch].site)).collect()
}

pub(in crate::provision) fn present_template(solver: &mut Solver<'_>, launch: usize) -> TemplateId {
    let claim = &solver.new_nodes.list[launch];
    let (_, used) = solver.problem.requests_of(claim);
    let entries: Vec<usize> =
        solver.capacity.templates.holding(claim.template, 0, Load { used: &used, ..claim.load() }).collect();
    solver.capacity.templates.of_types(claim.template, &entries, &mut solver.topology).unwrap_or(claim.template)
}

/// Returns launches to the cheapest type that holds their actual pods, without unused slots.
pub(in crate::provision) fn trim_launches(solver: &mut Solver<'_>) {
    for position in 0..solver.new_nodes.list.len() {
        let claim = &solver.new_nodes.list[position];
        if claim.slots.iter().all(|(_, kept)| *kept == 0) {
            continue;
        }
        let (_, used) = solver.problem.requests_of(claim);
        let entry = solver.capacity.first_holding(claim.template, 0, Load { used: &used, ..claim.load() });
        let claim = &mut solver.new_nodes.list[position];
        claim.entry = entry.unwrap_or(claim.entry);
        claim.used = used.into_vec();
        claim.slots.clear();
    }
}

/// Returns the score of this solution.
pub(in crate::provision) fn score(solver: &Solver<'_>) -> Score {
    let placed = solver.outcome.order.len();
    (solver.problem.input.snapshot.pods.len() - placed, costs(solver).sum(), solver.new_nodes.list.len())
}

/// Returns the cost of each launch.
pub(in crate::provision) fn costs(solver: &Solver<'_>) -> impl Iterator<Item = i64> {
    let entries = |claim: &NewNode| &solver.capacity.templates.get(claim.template).entries;
    solver.new_nodes.list.iter().map(move |claim| entries(claim)[claim.entry].cost)
}

/// Score of a solution, lower is better: pods without a place, cost of its launches, number of launches.
pub(in crate::provision) type Score = (usize, i64, usize);
