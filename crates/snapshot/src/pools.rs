//! NodePools that may be used now, with what their nodes already take of their limits.

use std::collections::BTreeMap;

use api::{NodePool, condition, label, status};
use planner::{Disruption, Pool, Resources};

use crate::nodes::{self, Machine};
use crate::{Input, Machines, Problem, budget, quantities, shapes};

/// Ready, dynamic pools that stay, by name.
pub(crate) fn translate(input: &Input<'_>, machines: &Machines<'_>, problems: &mut Vec<Problem>) -> Vec<Pool> {
    let mut pools: Vec<Pool> = input
        .pools
        .iter()
        .filter(|pool| usable(pool))
        .filter_map(|pool| one(input, machines, pool, problems))
        .collect();
    pools.sort_by(|one, other| one.name.cmp(&other.name));
    pools
}

fn usable(pool: &NodePool) -> bool {
    let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let stays = pool.metadata.deletion_timestamp.is_none();
    stays && pool.spec.replicas.is_none() && status::is_true(conditions, condition::READY)
}

fn one(input: &Input<'_>, machines: &Machines<'_>, pool: &NodePool, problems: &mut Vec<Problem>) -> Option<Pool> {
    let name = pool.metadata.name.clone().unwrap_or_default();
    let template = &pool.spec.template.spec;
    let class = &template.node_class_ref.name;
    let Some(catalogue) = input.catalogues.keys().position(|known| known == class) else {
        problems.push(Problem::NoCatalogue { pool: name, class: class.clone() });
        return None;
    };
    let own: Vec<&Machine<'_>> = machines.iter().filter(|machine| machine.pool() == Some(&name)).collect();
    let limits = pool.spec.limits.as_ref();
    let limits = limits.map(|limits| quantities::resources(limits, "NodePool", &name, problems));
    Some(Pool {
        weight: pool.spec.weight.unwrap_or_default(),
        catalogue,
        // The API server has validated them; what slipped through allows nothing, so it can do no harm.
        requirements: template.requirements.iter().map(shapes::lenient).collect(),
        labels: labels(pool, &name),
        taints: template.taints.iter().flatten().filter_map(shapes::taint).collect(),
        limits,
        usage: usage(input, &own),
        disruption: disruption(pool, &name, &own, problems),
        name,
        ..Pool::default()
    })
}

/// Labels that every node of the pool gets.
fn labels(pool: &NodePool, name: &str) -> BTreeMap<String, String> {
    let template = &pool.spec.template;
    let own = template.metadata.labels.iter().flatten();
    let mut labels: BTreeMap<String, String> =
        own.map(|(key, value)| (label::canonical(key).to_owned(), value.clone())).collect();
    let class = &template.spec.node_class_ref;
    labels.insert(label::NODEPOOL.to_owned(), name.to_owned());
    labels.insert(label::node_class_key(&class.group, &class.kind), class.name.clone());
    labels
}

/// Capacity of the machines that stay; one without an instance counts as the largest that it may become.
fn usage(input: &Input<'_>, own: &[&Machine<'_>]) -> Resources {
    let mut usage = Resources::default();
    for machine in own.iter().filter(|machine| machine.is_managed() && machine.leaving().is_none()) {
        usage.add(&nodes::capacity(input, machine));
        usage.add(&Resources::from_iter([(Resources::NODES, 1)]));
    }
    usage
}

fn disruption(pool: &NodePool, name: &str, own: &[&Machine<'_>], problems: &mut Vec<Problem>) -> Disruption {
    let after = &pool.spec.disruption.consolidate_after;
    let nanos = after.nanos().unwrap_or_else(|_| {
        problems.push(Problem::ConsolidateAfter { pool: name.to_owned(), text: after.0.clone() });
        None
    });
    Disruption {
        consolidate_after: nanos.map(|nanos| nanos.div_euclid(1_000_000)),
        empty_budget: budget::empty(pool, own, problems),
    }
}
