//! Metrics of the cluster: allocatable resources and requests, costs by workload, and waiting pods. Decides nothing.
//!
//! By default all metrics are by NodePool, instance type or workload, and labels with many values are limited
//! (docs/metrics.md): a thousand nodes have fewer than two thousand series. `MetricsDetail` decides about labels and limits;
//! each value is a sum over the objects with equal labels. Each scrape computes the metrics, and only on the leader, so that
//! sums over replicas are correct.

mod commitments;
mod conditions;
mod costs;
mod labels;
mod pods;
mod spend_policies;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::objects::{Node, ResourceList};
use api::quantity::CPU;
use api::{NodeClaim, annotation, label};
use daemon::metric::{Description, LabelPairs, Metrics};
use jiff::Timestamp;
use planner::Catalogue;

use crate::metrics;
use crate::metrics::bounded_names::BoundedNames;
use crate::metrics::detail::MetricsDetail;
use crate::metrics::gauge_set::{GaugeSet, Sample};
use crate::state::index::{ConditionOwner, Index};
use crate::state::plans::pod_decisions::PodDecisions;

use conditions::ConditionSource;
use costs::UnpricedNodes;
pub use pods::Waits;
use types::TypeSource;

/// Amounts by resource: cores for CPU, whole units for the rest.
type Amounts = BTreeMap<String, f64>;

/// Source of catalogues, which have the instance types and their prices.
pub trait CatalogueSource {
    /// Returns the catalogue of a NodeClaim, if it is known.
    fn catalogue_of_claim(&self, claim: &NodeClaim) -> Option<Arc<Catalogue>>;

    /// Returns the catalogue of an EC2NodeClass, if it is known.
    fn catalogue_of_class(&self, class: &str) -> Option<Arc<Catalogue>>;
}

/// Gauges of the cluster, with the series of the last scrape.
#[derive(Debug)]
pub struct ClusterMetrics {
    detail: MetricsDetail,
    /// False if metrics of nodes, NodePools, pods and conditions are left out, apart from conditions of EC2NodeClasses.
    includes_state: bool,
    /// Label by whose values the cost is reported.
    cost_label: Option<String>,
    exported: GaugeSet,
    waits: Waits,
    unpriced: UnpricedNodes,
    /// Names in labels that nodes choose.
    names: BoundedNames,
}

impl ClusterMetrics {
    /// Creates metrics without series. Pods from before `since` are not measured.
    #[must_use]
    pub fn new(detail: MetricsDetail, includes_state: bool, since: Timestamp) -> Self {
        let (exported, unpriced) = (GaugeSet::default(), UnpricedNodes::default());
        let names = BoundedNames::default();
        Self { detail, includes_state, cost_label: None, exported, waits: Waits::new(since), unpriced, names }
    }

    /// Reports the cost also by the values of this label of pods or namespaces.
    #[must_use]
    pub fn with_cost_label(self, cost_label: Option<String>) -> Self {
        Self { cost_label, ..self }
    }

    /// Replaces the gauges. This takes longer than to observe them, and needs no index.
    pub fn publish(&self, metrics: &Metrics, samples: Vec<Sample>) {
        self.exported.replace(metrics, samples);
    }

    /// Updates counters and histograms, and returns all gauges at `now`.
    #[must_use]
    pub fn observe(
        &self,
        index: &Index,
        decisions: &PodDecisions,
        catalogues: &dyn CatalogueSource,
        metrics: &Metrics,
        now: Timestamp,
    ) -> Vec<Sample> {
        let detail = self.detail;
        let nodes: Vec<NodeSample<'_>> =
            index.nodes.values().map(|node| node_sample(index, node.as_ref(), catalogues)).collect();
        let machines: Vec<&NodeSample<'_>> = nodes.iter().filter(|node| !node.pool.is_empty()).collect();
        let mut samples = types::samples(detail, &machines, &TypeSource { index, catalogues });
        let source = ConditionSource { index, names: &self.names, detail };
        samples.extend(conditions::class_samples(source, now));
        if self.includes_state {
            samples.extend(resources(index, detail, &nodes));
            samples.extend(ages(detail, &nodes, now));
            samples.extend(pools(index, detail));
            samples.extend(conditions::samples(source, now));
            samples.extend(costs::samples(index, &machines));
            samples.extend(spend_policies::samples(index));
            samples.extend(commitments::samples(index));
            if let Some(label) = &self.cost_label {
                samples.extend(costs::by_label(index, &machines, label));
            }
            self.waits.observe(index, decisions, metrics);
            let source = pods::PodSource { index, decisions, waits: &self.waits };
            samples.extend(pods::samples(source, detail, now));
        }
        self.unpriced.count(&machines, metrics);
        let (mut turned, mut ended) = index.turns.take();
        turned.retain(|turn| self.includes(turn.speaker));
        ended.retain(|end| self.includes(end.speaker));
        conditions::count(source, &turned, &ended, metrics);
        samples
    }

    /// Reports whether metrics of conditions of this kind are exported.
    fn includes(&self, owner: ConditionOwner) -> bool {
        self.includes_state || owner == ConditionOwner::Class
    }
}

/// Node with its reported values.
struct NodeSample<'a> {
    node: &'a Node,
    /// NodePool; empty for a node of another origin.
    pool: &'a str,
    /// True if the node has a NodeClaim.
    is_managed: bool,
    kind: &'a str,
    capacity_type: &'a str,
    /// Catalogue of its NodeClaim.
    catalogue: Option<Arc<Catalogue>>,
    /// Price in dollars per hour.
    price: Option<f64>,
    allocatable: Amounts,
}

fn node_sample<'a>(index: &'a Index, node: &'a Node, catalogues: &dyn CatalogueSource) -> NodeSample<'a> {
    let label = |key: &str| node.label(key).unwrap_or_default();
    let (pool, claim) = (label(label::NODEPOOL), index.claim_of(node));
    let catalogue = claim.filter(|_| !pool.is_empty()).and_then(|claim| catalogues.catalogue_of_claim(claim));
    let mut sample = NodeSample {
        node,
        pool,
        is_managed: claim.is_some(),
        kind: label(label::INSTANCE_TYPE),
        capacity_type: label(label::CAPACITY_TYPE),
        catalogue,
        price: None,
        allocatable: amounts(&node.status.allocatable),
    };
    sample.price = types::price(&sample);
    sample
}

/// Returns the amounts of a list. Invalid quantities are omitted: the API server accepts none.
fn amounts(list: &ResourceList) -> Amounts {
    let amount = |(name, quantity): (&String, &api::quantity::Quantity)| {
        Some((name.clone(), units(name, quantity.amount(name).ok()?)))
    };
    list.iter().filter_map(amount).collect()
}

fn units(resource: &str, amount: i64) -> f64 {
    if resource == CPU { amount as f64 / 1000.0 } else { amount as f64 }
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        *total.entry(resource.clone()).or_default() += amount;
    }
}

/// Returns one sample per included resource of a list.
fn by_resource(metric: Description, detail: MetricsDetail, labels: &LabelPairs, list: &Amounts) -> Vec<Sample> {
    let included = list.iter().filter(|(resource, _)| detail.includes_resource(resource));
    let sample = |(resource, amount): (&String, &f64)| {
        let mut labels = labels.clone();
        labels.push(("resource_type", labels::resource_type(resource)));
        Sample::labelled(metric, labels, *amount)
    };
    included.map(sample).collect()
}

/// Resources of the nodes with equal labels, and requests of their pods.
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

    fn samples(&self, detail: MetricsDetail, labels: &LabelPairs) -> Vec<Sample> {
        let figures = [
            (metrics::ALLOCATABLE.description(), &self.allocatable),
            (metrics::OVERHEAD.description(), &self.overhead),
            (metrics::POD_REQUESTS.description(), &self.requests),
            (metrics::POD_LIMITS.description(), &self.limits),
            (metrics::DAEMON_REQUESTS.description(), &self.daemon_requests),
            (metrics::DAEMON_LIMITS.description(), &self.daemon_limits),
        ];
        figures.into_iter().flat_map(|(metric, list)| by_resource(metric, detail, labels, list)).collect()
    }
}

fn resources(index: &Index, detail: MetricsDetail, nodes: &[NodeSample<'_>]) -> Vec<Sample> {
    let mut sums: BTreeMap<LabelPairs, Sums> = BTreeMap::new();
    for node in nodes.iter().filter(|node| detail.includes_node_of(node.pool)) {
        sums.entry(labels::of_node(detail, node)).or_default().add(index, node);
    }
    let (mut requested, mut available) = (Amounts::new(), Amounts::new());
    for sums in sums.values() {
        add(&mut requested, &sums.requests);
        add(&mut available, &sums.allocatable);
    }
    let share = |(resource, amount): (&String, &f64)| {
        let share = requested.get(resource).copied().unwrap_or_default() / amount;
        (resource.clone(), 100.0 * share)
    };
    let used: Amounts = available.iter().filter(|(_, amount)| **amount > 0.0).map(share).collect();
    let mut samples: Vec<Sample> = sums.iter().flat_map(|(labels, sums)| sums.samples(detail, labels)).collect();
    samples.extend(by_resource(metrics::UTILIZATION.description(), detail, &LabelPairs::new(), &used));
    samples
}

/// Returns the age of the oldest node with equal labels.
fn ages(detail: MetricsDetail, nodes: &[NodeSample<'_>], now: Timestamp) -> Vec<Sample> {
    let mut oldest: BTreeMap<LabelPairs, f64> = BTreeMap::new();
    for node in nodes.iter().filter(|node| detail.includes_node_of(node.pool)) {
        if let Some(created) = &node.node.metadata.creation_timestamp {
            let age = oldest.entry(labels::of_node(detail, node)).or_default();
            *age = age.max(since(created.0, now));
        }
    }
    let metric = metrics::OLDEST_NODE.description();
    oldest.into_iter().map(|(labels, age)| Sample::labelled(metric, labels, age)).collect()
}

fn since(moment: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(moment).as_secs_f64().max(0.0)
}

fn pools(index: &Index, detail: MetricsDetail) -> Vec<Sample> {
    let mut samples = Vec::new();
    for pool in index.pools.values() {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let limits = pool.spec.limits.iter().map(|limits| (&metrics::POOL_LIMIT, limits));
        let usage = pool.status.iter().map(|status| (&metrics::POOL_USAGE, &status.resources));
        for (metric, list) in limits.chain(usage) {
            // The cost is reported with its usage.
            let is_included = |name: &str| name != annotation::MAX_COST_PER_HOUR && detail.includes_resource(name);
            for (resource, amount) in amounts(list).iter().filter(|(name, _)| is_included(name)) {
                let labels =
                    metrics::ByResourceTypeNodePool { resource_type: &labels::resource_type(resource), nodepool: name };
                samples.push(Sample::new(metric, labels, *amount));
            }
        }
    }
    samples
}
