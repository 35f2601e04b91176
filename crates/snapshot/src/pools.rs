//! NodePools that can be used now, with the resources that their nodes take from the limits.

mod budgets;
pub(crate) mod commitments;
mod replacements;
pub(crate) mod spend;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{PoolSurge, ResourceList};
use api::{NodePool, annotation, condition, label, nodepool, status};
use jiff::Timestamp;
use planner::{
    Catalogue, ConsolidationPolicy, Disruption, InstanceType, Leaving, MicroDollars, MinimumSavings, Offer, Packing,
    Pool, PreferencePremium, Requirements, Resources, Utilization,
};

use crate::catalogues::Catalogues;
use crate::nodes::CachedNode;
use crate::problem::ineffective_in_pool;
use crate::{Input, Problem, millis, quantities, requirements, taints};
use replacements::OpenReplacements;

/// The nodes of one NodePool.
type NodesOfPool<'a> = Vec<&'a CachedNode>;

/// Translates the ready NodePools that are not being deleted, ordered by name.
pub(crate) fn translate(
    input: &Input<'_>,
    catalogues: &Catalogues,
    nodes: &[CachedNode],
    problems: &mut Vec<Problem>,
) -> Vec<Pool> {
    let mut by_pool: BTreeMap<&str, NodesOfPool<'_>> = BTreeMap::new();
    for kept in nodes {
        by_pool.entry(kept.node.pool.as_deref().unwrap_or_default()).or_default().push(kept);
    }
    problems.extend(input.pools.iter().flat_map(|pool| ineffective_in_pool(pool)));
    let open = OpenReplacements::new(input);
    let usable = input.pools.iter().filter(|pool| is_usable(input, pool));
    let mut pools: Vec<Pool> = usable
        .filter_map(|pool| {
            let own = by_pool.remove(pool.metadata.name.as_deref().unwrap_or_default()).unwrap_or_default();
            let view = PoolView { pool, own: &own, open: &open };
            translate_one(input, catalogues, &view, problems)
        })
        .collect();
    pools.sort_by(|one, other| one.name.cmp(&other.name));
    pools
}

/// Reports whether the NodePool is part of the snapshot.
pub(crate) fn is_usable(input: &Input<'_>, pool: &NodePool) -> bool {
    let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let is_live = pool.metadata.deletion_timestamp.is_none();
    let served = pool.spec.replicas.is_none() || input.settings.static_pools;
    is_live && served && status::is_true(conditions, condition::READY)
}

/// NodePool with the objects that its translation depends on.
struct PoolView<'a> {
    pool: &'a NodePool,
    own: &'a NodesOfPool<'a>,
    open: &'a OpenReplacements<'a>,
}

fn translate_one(
    input: &Input<'_>,
    catalogues: &Catalogues,
    view: &PoolView<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Pool> {
    let PoolView { pool, own, open } = *view;
    let name = pool.metadata.name.clone().unwrap_or_default();
    let template = &pool.spec.template.spec;
    let class = &template.node_class_ref.name;
    let Some(catalogue) = catalogues.position(&name, class) else {
        problems.push(Problem::NoCatalogue { pool: name, class: class.clone() });
        return None;
    };
    let limits = pool.spec.limits.as_ref();
    let limits = limits.map(|limits| quantities::resources(&resource_limits(limits), "NodePool", &name, problems));
    let node_fee = node_fee(pool, &name, catalogues.extras(catalogue), problems);
    let is_static = pool.spec.replicas.is_some();
    let (usage, running) = (usage(own, is_static), own.iter().filter(|kept| is_running(kept)).count());
    Some(Pool {
        weight: pool.spec.weight.unwrap_or_default(),
        catalogue,
        // The API server has validated the requirements. An invalid one allows no value and is therefore harmless.
        requirements: pool.template_requirements().iter().map(requirements::convert).collect(),
        labels: labels(pool, &name),
        taints: template.taints.iter().flatten().filter_map(taints::taint).collect(),
        limits,
        usage,
        disruption: disruption(input, pool, &name, own, problems),
        replicas: pool.spec.replicas.map(|count| u32::try_from(count.max(0)).unwrap_or(u32::MAX)),
        running: u32::try_from(running).unwrap_or(u32::MAX),
        replacements: open.state(&name, input.delays.replacements.get(&name), input.now),
        is_inactive: is_inactive(pool, &name, input.now, problems),
        paused_until: input.delays.static_pools.get(&name).map(|until| millis(*until)),
        cost_limit: cost_limit(pool, &name, problems),
        cost: MicroDollars(own.iter().map(|kept| hourly_cost(kept, node_fee)).sum()),
        node_fee,
        preference_premium: preference_premium(pool, &name, problems),
        name,
    })
}

/// Reports whether the NodePool has times and none of them now. With times that cannot be read it is active: a typing error must not
/// remove nodes.
fn is_inactive(pool: &NodePool, name: &str, now: Timestamp, problems: &mut Vec<Problem>) -> bool {
    let is_active = pool.is_active(now).unwrap_or_else(|error| {
        problems.push(Problem::ActiveTimes { pool: name.to_owned(), error });
        true
    });
    !is_active
}

/// Returns the cost of a node beside its instance: the fee of the NodePool, and the `extras` of the EC2NodeClass.
fn node_fee(pool: &NodePool, name: &str, extras: MicroDollars, problems: &mut Vec<Problem>) -> MicroDollars {
    let fee = pool.node_fee().unwrap_or_else(|error| {
        problems.push(Problem::NodeFee { pool: name.to_owned(), error });
        0
    });
    MicroDollars(fee + extras.0)
}

/// Returns the limits without that of the cost, which is no resource of nodes.
fn resource_limits(limits: &ResourceList) -> ResourceList {
    let resources = limits.iter().filter(|(name, _)| *name != annotation::MAX_COST_PER_HOUR);
    resources.map(|(name, quantity)| (name.clone(), quantity.clone())).collect()
}

/// Returns the limit of the cost. With one that cannot be read, nothing is launched: a limit that fails open would be none.
fn cost_limit(pool: &NodePool, name: &str, problems: &mut Vec<Problem>) -> Option<MicroDollars> {
    let limit = pool.max_cost_per_hour().unwrap_or_else(|error| {
        problems.push(Problem::CostLimit { pool: name.to_owned(), error });
        Some(0)
    });
    limit.map(MicroDollars)
}

/// Returns what a node costs per hour until it is gone; nothing for a node that no controller launched.
fn hourly_cost(kept: &CachedNode, node_fee: MicroDollars) -> i64 {
    if kept.is_managed() { kept.cost.0 + node_fee.0 } else { 0 }
}

fn preference_premium(pool: &NodePool, name: &str, problems: &mut Vec<Problem>) -> Option<PreferencePremium> {
    let premium = pool.preference_premium().unwrap_or_else(|error| {
        problems.push(Problem::PreferencePremium { pool: name.to_owned(), error });
        None
    });
    premium.map(PreferencePremium::from)
}

/// Returns the labels of every node of the NodePool.
pub(crate) fn labels(pool: &NodePool, name: &str) -> BTreeMap<String, String> {
    let template = &pool.spec.template;
    let own = template.metadata.labels.iter().flatten();
    let mut labels: BTreeMap<String, String> =
        own.map(|(key, value)| (label::canonical(key).to_owned(), value.clone())).collect();
    let class = &template.spec.node_class_ref;
    labels.insert(label::NODEPOOL.to_owned(), name.to_owned());
    labels.insert(label::node_class_key(&class.group, &class.kind), class.name.clone());
    labels
}

/// Reports whether a node belongs to the NodePool and stays there.
fn is_running(kept: &CachedNode) -> bool {
    kept.is_managed() && kept.node.leaving.is_none()
}

/// Reports whether the node only says that its instance ends. Until its NodeClaim is deleted the node counts for the limits: nodes
/// that invent notices must not exceed them.
fn is_only_noticed(kept: &CachedNode) -> bool {
    let interrupted = matches!(kept.node.leaving, Some(Leaving::Interrupted { .. }));
    kept.is_managed() && interrupted && !kept.disruption_state.deleted
}

/// Returns the resources that count for the limits. A node without an instance counts as its largest possible type. As in
/// Karpenter, a leaving node counts for a static NodePool until the node is gone, and not at all for other NodePools.
fn usage(own: &NodesOfPool<'_>, is_static: bool) -> Resources {
    let mut usage = Resources::default();
    let mut count = 0;
    let counts = |kept: &&&CachedNode| is_running(kept) || is_only_noticed(kept) || is_static && kept.is_managed();
    for kept in own.iter().filter(counts) {
        count += 1;
        usage.add(&kept.capacity);
    }
    if count > 0 {
        usage.set(Resources::NODES, count);
    }
    usage
}

fn disruption(
    input: &Input<'_>,
    pool: &NodePool,
    name: &str,
    own: &NodesOfPool<'_>,
    problems: &mut Vec<Problem>,
) -> Disruption {
    let after = &pool.spec.disruption.consolidate_after;
    let nanos = after.nanos().unwrap_or_else(|_| {
        problems.push(Problem::ConsolidateAfter { pool: name.to_owned(), text: after.0.clone() });
        None
    });
    let faults = pool.disruption_faults().into_iter();
    problems.extend(faults.map(|fault| Problem::Disruption { pool: name.to_owned(), fault }));
    // A static NodePool keeps its number of nodes, empty or not.
    let dynamic = pool.spec.replicas.is_none();
    Disruption {
        consolidate_after: nanos.filter(|_| dynamic).map(|nanos| nanos.div_euclid(1_000_000)),
        policy: match pool.spec.disruption.consolidation_policy {
            nodepool::ConsolidationPolicy::WhenEmpty => ConsolidationPolicy::WhenEmpty,
            nodepool::ConsolidationPolicy::WhenEmptyOrUnderutilized => ConsolidationPolicy::WhenEmptyOrUnderutilized,
            nodepool::ConsolidationPolicy::Balanced => ConsolidationPolicy::Balanced,
        },
        budgets: budgets::remaining(pool, own, input.now),
        worth: minimum_savings(pool),
        utilization: match pool.utilization().unwrap_or_default() {
            nodepool::Utilization::Ignore => Utilization::Ignore,
            nodepool::Utilization::Pack if input.settings.resize => Utilization::Pack,
            nodepool::Utilization::Observe | nodepool::Utilization::Pack => Utilization::Observe,
        },
        packing: packing_rules(pool),
        canary: budgets::drift_canary(pool, own),
    }
}

/// Returns the catalogue without the instance types that none of these NodePools can launch, whatever the pods require. Types for
/// which `keeps` is true remain.
#[must_use]
pub fn launchable_types(
    pools: &[Arc<NodePool>],
    catalogue: &Catalogue,
    keeps: impl Fn(&InstanceType) -> bool,
) -> Catalogue {
    let outline = |pool: &Arc<NodePool>| {
        let required: Vec<planner::Requirement> =
            pool.template_requirements().iter().map(requirements::convert).collect();
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        (required.iter().collect::<Requirements>(), labels(pool, name))
    };
    let outlines: Vec<_> = pools.iter().map(outline).collect();
    // Without well-known labels, an unknown label excludes no type.
    let none = BTreeSet::new();
    let suits = |kind: &InstanceType| {
        let offer = Offer::new(kind);
        outlines.iter().any(|(required, labels)| offer.labels_match(required, labels, &none))
    };
    let types = catalogue.types.iter().filter(|kind| suits(kind) || keeps(kind)).cloned().collect();
    Catalogue { types, ..catalogue.clone() }
}

/// Returns how far a NodePool's requests are lowered. Invalid annotations count as absent.
#[must_use]
pub fn packing_rules(pool: &NodePool) -> Packing {
    let usual = Packing::default();
    Packing {
        margin: pool.pack_margin().ok().flatten().unwrap_or(usual.margin),
        floor: pool.pack_floor().ok().flatten().unwrap_or(usual.floor),
        history: pool.pack_min_history().ok().flatten().unwrap_or(usual.history),
    }
}

/// Returns the names of NodePools that lower requests.
pub(crate) fn packing_pools<'a>(input: &Input<'a>) -> BTreeSet<&'a str> {
    let packs = |pool: &&&Arc<NodePool>| pool.utilization() == Ok(nodepool::Utilization::Pack);
    let pools = input.pools.iter().filter(|_| input.settings.resize);
    pools.filter(packs).filter_map(|pool| pool.metadata.name.as_deref()).collect()
}

/// Returns the names of NodePools that ignore utilization reports.
pub(crate) fn ignoring_pools<'a>(input: &Input<'a>) -> BTreeSet<&'a str> {
    let ignoring = input.pools.iter().filter(|pool| pool.utilization() == Ok(nodepool::Utilization::Ignore));
    ignoring.filter_map(|pool| pool.metadata.name.as_deref()).collect()
}

/// Returns the names of NodePools that start a copy of a single-replica pod before its eviction; `None` if no pod can have a
/// copy.
pub(crate) fn surging_pools<'a>(input: &Input<'a>) -> Option<BTreeMap<&'a str, PoolSurge>> {
    let of_pool = |pool: &&'a Arc<NodePool>| Some((pool.metadata.name.as_deref()?, pool.surges().unwrap_or_default()));
    input.settings.surge.then(|| input.pools.iter().filter_map(of_pool).collect())
}

fn minimum_savings(pool: &NodePool) -> MinimumSavings {
    let usual = MinimumSavings::default();
    MinimumSavings {
        share: pool.min_saving().ok().flatten().unwrap_or(usual.share),
        per_pod: pool.min_saving_per_pod().ok().flatten().map_or(usual.per_pod, MicroDollars),
        warm_up: pool.warm_up().ok().flatten().map_or(usual.warm_up, |nanos| nanos.div_euclid(1_000_000)),
        lost_work: pool.lost_work_counts().unwrap_or(usual.lost_work),
    }
}
