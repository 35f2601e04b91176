//! Metrics of the cluster: allocatable resources and requests, costs by workload, and waiting pods. Decides nothing.
//!
//! All metrics are by NodePool, instance type or workload, and labels with many values are limited (docs/metrics.md): a
//! thousand nodes have fewer than two thousand series. Each scrape computes the metrics, and only on the leader, so that sums
//! over replicas are correct.

mod conditions;
mod costs;
mod pods;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::objects::{Node, ResourceList};
use api::quantity::CPU;
use api::{NodeClaim, label};
use daemon::metric::{Gauge, Metrics};
use jiff::Timestamp;
use planner::Catalogue;

use crate::metrics;
use crate::metrics::gauge_set::{GaugeSet, Sample};
use crate::state::index::Index;
use crate::state::pod_decisions::PodDecisions;

pub use pods::Waits;

/// Amounts by resource: cores for CPU, whole units for the rest.
type Amounts = BTreeMap<String, f64>;

/// Reported resources. Each further resource would be a label value.
const RESOURCES: [&str; 5] = [CPU, "memory", "ephemeral-storage", "pods", "nvidia.com/gpu"];

/// Source of prices: returns the catalogue of a NodeClaim, if it is known.
pub type CatalogueLookup<'a> = &'a dyn Fn(&NodeClaim) -> Option<Arc<Catalogue>>;

/// Gauges of the cluster, with the series of the last scrape.
#[derive(Debug)]
pub struct ClusterMetrics {
    exported: GaugeSet,
    waits: Waits,
}

impl ClusterMetrics {
    /// Creates metrics without series. Pods from before `since` are not measured.
    #[must_use]
    pub fn new(since: Timestamp) -> Self {
        Self { exported: GaugeSet::default(), waits: Waits::new(since) }
    }

    /// Updates all metrics.
    pub fn collect(
        &self,
        index: &Index,
        decisions: &PodDecisions,
        prices: CatalogueLookup<'_>,
        metrics: &Metrics,
        now: Timestamp,
    ) {
        self.exported.replace(metrics, samples(index, decisions, prices, now));
        self.waits.observe(index, decisions, metrics);
        let (turned, ended) = index.turns.take();
        conditions::count(turned, ended, metrics);
    }
}

/// Managed node with its reported values.
struct NodeSample<'a> {
    node: &'a Node,
    pool: &'a str,
    kind: &'a str,
    capacity_type: &'a str,
    zone: &'a str,
    /// Catalogue of its NodeClaim.
    catalogue: Option<Arc<Catalogue>>,
    /// Price in dollars per hour.
    price: Option<f64>,
    allocatable: Amounts,
}

/// Returns all gauges of the cluster at `now`.
#[must_use]
pub fn samples(index: &Index, decisions: &PodDecisions, prices: CatalogueLookup<'_>, now: Timestamp) -> Vec<Sample> {
    let machines: Vec<NodeSample<'_>> =
        index.nodes.values().filter_map(|node| machine(index, node.as_ref(), prices)).collect();
    let mut samples = resources(index, &machines);
    samples.extend(ages(&machines, now));
    samples.extend(pools(index));
    samples.extend(conditions::samples(index, now));
    samples.extend(costs::samples(index, &machines));
    samples.extend(types::samples(&machines));
    samples.extend(pods::samples(index, decisions, now));
    samples
}

fn machine<'a>(index: &'a Index, node: &'a Node, prices: CatalogueLookup<'_>) -> Option<NodeSample<'a>> {
    let pool = node.label(label::NODEPOOL)?;
    let word = |key: &str| node.label(key).unwrap_or_default();
    let catalogue = index.claim_of(node).and_then(|claim| prices(claim));
    let mut machine = NodeSample {
        node,
        pool,
        kind: word(label::INSTANCE_TYPE),
        capacity_type: word(label::CAPACITY_TYPE),
        zone: word(label::ZONE),
        catalogue,
        price: None,
        allocatable: amounts(&node.status.allocatable),
    };
    machine.price = types::price(&machine);
    Some(machine)
}

/// Returns the reported resources of a list. Invalid quantities are omitted: the API server accepts none.
fn amounts(list: &ResourceList) -> Amounts {
    let known = list.iter().filter(|(name, _)| RESOURCES.contains(&name.as_str()));
    known.filter_map(|(name, quantity)| Some((name.clone(), units(name, quantity.amount(name).ok()?)))).collect()
}

fn units(resource: &str, amount: i64) -> f64 {
    if resource == CPU { amount as f64 / 1000.0 } else { amount as f64 }
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        *total.entry(resource.clone()).or_default() += amount;
    }
}

/// Resources of the nodes of a NodePool, and requests of their pods.
#[derive(Default)]
struct Sums {
    allocatable: Amounts,
    overhead: Amounts,
    requests: Amounts,
    limits: Amounts,
    daemon_requests: Amounts,
    daemon_limits: Amounts,
}

impl Sums {
    fn add(&mut self, index: &Index, machine: &NodeSample<'_>) {
        add(&mut self.allocatable, &machine.allocatable);
        for (resource, capacity) in amounts(&machine.node.status.capacity) {
            let left = machine.allocatable.get(&resource).copied().unwrap_or_default();
            *self.overhead.entry(resource).or_default() += capacity - left;
        }
        for pod in index.pods_on(machine.node.name()).filter(|pod| !pod.is_terminal()) {
            let (requests, limits) = (pods::requests(pod), pods::limits(pod));
            if pod.is_daemon() {
                add(&mut self.daemon_requests, &requests);
                add(&mut self.daemon_limits, &limits);
            }
            add(&mut self.requests, &requests);
            add(&mut self.limits, &limits);
        }
    }

    fn samples(&self, pool: &str) -> Vec<Sample> {
        let figures: [(&Gauge<metrics::ByNodePoolResourceType<'_>>, &Amounts); 6] = [
            (&metrics::ALLOCATABLE, &self.allocatable),
            (&metrics::OVERHEAD, &self.overhead),
            (&metrics::POD_REQUESTS, &self.requests),
            (&metrics::POD_LIMITS, &self.limits),
            (&metrics::DAEMON_REQUESTS, &self.daemon_requests),
            (&metrics::DAEMON_LIMITS, &self.daemon_limits),
        ];
        let each = figures.into_iter().flat_map(|(gauge, all)| all.iter().map(move |one| (gauge, one)));
        each.map(|(gauge, (resource, amount))| {
            let labels = metrics::ByNodePoolResourceType { nodepool: pool, resource_type: resource };
            Sample::new(gauge, labels, *amount)
        })
        .collect()
    }
}

fn resources(index: &Index, machines: &[NodeSample<'_>]) -> Vec<Sample> {
    let mut by_pool: BTreeMap<&str, Sums> = BTreeMap::new();
    for machine in machines {
        by_pool.entry(machine.pool).or_default().add(index, machine);
    }
    let (mut requested, mut available) = (Amounts::new(), Amounts::new());
    for sums in by_pool.values() {
        add(&mut requested, &sums.requests);
        add(&mut available, &sums.allocatable);
    }
    let used = available.iter().filter(|(_, amount)| **amount > 0.0).map(|(resource, amount)| {
        let share = requested.get(resource).copied().unwrap_or_default() / amount;
        Sample::new(&metrics::UTILIZATION, metrics::ByResourceType { resource_type: resource }, 100.0 * share)
    });
    by_pool.iter().flat_map(|(pool, sums)| sums.samples(pool)).chain(used).collect()
}

/// Returns the age of the oldest node by NodePool.
fn ages(machines: &[NodeSample<'_>], now: Timestamp) -> Vec<Sample> {
    let mut oldest: BTreeMap<&str, f64> = BTreeMap::new();
    for machine in machines {
        if let Some(created) = &machine.node.metadata.creation_timestamp {
            let age = oldest.entry(machine.pool).or_default();
            *age = age.max(since(created.0, now));
        }
    }
    oldest
        .iter()
        .map(|(pool, age)| Sample::new(&metrics::OLDEST_NODE, metrics::ByNodePool { nodepool: pool }, *age))
        .collect()
}

fn since(moment: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(moment).as_secs_f64().max(0.0)
}

fn pools(index: &Index) -> Vec<Sample> {
    let mut samples = Vec::new();
    for pool in index.pools.values() {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let limits = pool.spec.limits.iter().map(|limits| (&metrics::POOL_LIMIT, limits));
        let usage = pool.status.iter().map(|status| (&metrics::POOL_USAGE, &status.resources));
        for (metric, list) in limits.chain(usage) {
            let resources = amounts(list).into_iter();
            samples.extend(resources.map(|(resource, amount)| {
                Sample::new(
                    metric,
                    metrics::ByResourceTypeNodePool { resource_type: &resource, nodepool: name },
                    amount,
                )
            }));
        }
    }
    samples
}
