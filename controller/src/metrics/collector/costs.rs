//! Costs of nodes and workloads. The price of a node is divided among its pods by their requests. So the costs of all workloads
//! add up to the whole price, including idle capacity.

use std::collections::{BTreeMap, BTreeSet};

use api::objects::{Pod, cost_label};
use api::{annotation, label};
use daemon::metric::{Metrics, NoLabels};
use parking_lot::Mutex;
use planner::Resources;

use super::{Amounts, NodeSample, pods};
use crate::metrics::gauge_set::Sample;
use crate::metrics::{self, ByNodePoolInstanceTypeCapacityType as Kind};
use crate::state::index::Index;

/// Maximum number of workloads, and of values of a label, that are reported by name.
const OWNERS: usize = 50;
/// Maximum number of combinations of NodePool, instance type and capacity type that are reported separately.
const KINDS: usize = 100;
/// Label value for the rest.
const OTHER: &str = "other";
/// Label value for nodes without pods.
const IDLE: &str = "idle";
/// Label value for pods without the label.
const NONE: &str = "none";

#[derive(Clone, Copy, Default)]
struct Cost {
    dollars: f64,
    pods: f64,
}

pub(super) fn samples(index: &Index, machines: &[&NodeSample<'_>]) -> Vec<Sample> {
    let mut by_pool: BTreeMap<&str, f64> = BTreeMap::new();
    for machine in machines {
        *by_pool.entry(machine.pool).or_default() += machine.price.unwrap_or_default();
    }
    let unpriced = machines.iter().filter(|machine| machine.price.is_none()).count();
    let mut samples: Vec<Sample> = by_pool
        .iter()
        .map(|(pool, dollars)| Sample::new(&metrics::POOL_COST, metrics::ByNodePool { nodepool: pool }, *dollars))
        .collect();
    samples.push(Sample::new(&metrics::UNPRICED, NoLabels, unpriced as f64));
    samples.extend(limits(index, machines));
    samples.extend(kinds(machines));
    samples.extend(zones(machines));
    let workload = |pod: &Pod| (pod.namespace().to_owned(), workload(pod));
    let in_none = |name: &str| (String::new(), name.to_owned());
    let costs = shared(index, machines, workload, in_none(IDLE));
    for ((namespace, workload), cost) in dearest(costs, in_none(OTHER)) {
        let labels = metrics::ByNamespaceWorkload { namespace: &namespace, workload: &workload };
        samples.push(Sample::new(&metrics::WORKLOAD_COST, labels, cost.dollars));
        samples.push(Sample::new(&metrics::WORKLOAD_PODS, labels, cost.pods));
    }
    samples
}

/// Returns limit and usage of NodePools whose cost is limited, in dollars per hour, as for a limited resource. A limit that is no price
/// permits nothing.
fn limits(index: &Index, machines: &[&NodeSample<'_>]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for pool in index.pools.values() {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let Some(limit) = pool.max_cost_per_hour().unwrap_or(Some(0)) else { continue };
        let fee = dollars(pool.node_fee().unwrap_or_default());
        let own = machines.iter().filter(|machine| machine.pool == name);
        let used: f64 = own.map(|machine| machine.price.unwrap_or_default() + fee).sum();
        let labels = metrics::ByResourceTypeNodePool { resource_type: annotation::MAX_COST_PER_HOUR, nodepool: name };
        samples.push(Sample::new(&metrics::POOL_LIMIT, labels, dollars(limit)));
        samples.push(Sample::new(&metrics::POOL_USAGE, labels, used));
    }
    samples
}

pub(super) fn dollars(micro: i64) -> f64 {
    micro as f64 / 1e6
}

/// Returns the cost by the values of a label of pods. A pod without it counts for the label of its namespace.
pub(super) fn by_label(index: &Index, machines: &[&NodeSample<'_>], label: &str) -> Vec<Sample> {
    let namespace = |pod: &Pod| index.namespaces.get(pod.namespace()).map(AsRef::as_ref);
    let value = |pod: &Pod| cost_label(pod, namespace(pod), label).unwrap_or(NONE).to_owned();
    let costs = shared(index, machines, value, IDLE.to_owned());
    let samples = |(value, cost): (String, Cost)| {
        let labels = metrics::ByLabelValue { label, value: &value };
        [Sample::new(&metrics::LABEL_COST, labels, cost.dollars), Sample::new(&metrics::LABEL_PODS, labels, cost.pods)]
    };
    dearest(costs, OTHER.to_owned()).into_iter().flat_map(samples).collect()
}

/// Nodes whose price was unknown at the last scrape, by name.
#[derive(Debug, Default)]
pub(super) struct UnpricedNodes(Mutex<BTreeSet<String>>);

impl UnpricedNodes {
    /// Counts nodes whose price became unknown, or is unknown since they came.
    pub(super) fn count(&self, machines: &[&NodeSample<'_>], metrics: &Metrics) {
        let mut known = self.0.lock();
        let mut present = BTreeSet::new();
        for NodeSample { node, pool, .. } in machines.iter().filter(|machine| machine.price.is_none()) {
            if !known.contains(node.name()) {
                metrics.add(&metrics::COST_ERRORS, metrics::ByNodePool { nodepool: pool }, 1.0);
            }
            present.insert(node.name().to_owned());
        }
        *known = present;
    }
}

/// Counts nodes by NodePool, instance type and capacity type. The rarest are reported together, by last name among equals.
fn kinds(machines: &[&NodeSample<'_>]) -> Vec<Sample> {
    let mut counts: BTreeMap<Kind<'_>, f64> = BTreeMap::new();
    for machine in machines {
        let NodeSample { pool, kind, capacity_type, .. } = **machine;
        *counts.entry(Kind { nodepool: pool, instance_type: kind, capacity_type }).or_default() += 1.0;
    }
    let mut kinds: Vec<_> = counts.into_iter().collect();
    kinds.sort_by(|one, other| other.1.total_cmp(&one.1));
    let rest = kinds.split_off(kinds.len().min(KINDS));
    let mut others: BTreeMap<Kind<'_>, f64> = BTreeMap::new();
    for (kind, count) in rest {
        *others.entry(Kind { instance_type: OTHER, ..kind }).or_default() += count;
    }
    kinds.into_iter().chain(others).map(|(labels, count)| Sample::new(&metrics::NODES, labels, count)).collect()
}

/// Counts nodes by capacity type and zone.
fn zones(machines: &[&NodeSample<'_>]) -> impl Iterator<Item = Sample> {
    let mut counts: BTreeMap<metrics::ByCapacityTypeZone<'_>, f64> = BTreeMap::new();
    for machine in machines {
        let zone = machine.node.label(label::ZONE).unwrap_or_default();
        *counts.entry(metrics::ByCapacityTypeZone { capacity_type: machine.capacity_type, zone }).or_default() += 1.0;
    }
    counts.into_iter().map(|(labels, count)| Sample::new(&metrics::ZONE_NODES, labels, count))
}

/// Divides the price of each node among the owners of its pods. A node without requests counts as `idle`.
fn shared<K: Ord + Clone>(
    index: &Index,
    machines: &[&NodeSample<'_>],
    owner: impl Fn(&Pod) -> K,
    idle: K,
) -> BTreeMap<K, Cost> {
    let mut costs: BTreeMap<K, Cost> = BTreeMap::new();
    for machine in machines {
        let pods: Vec<&Pod> =
            index.pods_on(machine.node.name()).filter(|pod| !pod.is_terminal()).map(AsRef::as_ref).collect();
        let weights: Vec<f64> = pods.iter().map(|pod| weight(pod, &machine.allocatable)).collect();
        let (price, whole) = (machine.price.unwrap_or_default(), weights.iter().sum::<f64>());
        if whole <= 0.0 {
            costs.entry(idle.clone()).or_default().dollars += price;
        }
        for (pod, weight) in pods.iter().zip(weights) {
            let cost = costs.entry(owner(pod)).or_default();
            cost.pods += 1.0;
            if whole > 0.0 {
                cost.dollars += price * weight / whole;
            }
        }
    }
    costs
}

/// Returns the weight of a pod's requests in the division of its node's price, as [`Resources::share_of`]: CPU, memory and each kind of
/// accelerator have equal weight.
fn weight(pod: &Pod, allocatable: &Amounts) -> f64 {
    let asked = pods::requests(pod);
    let all = allocatable.iter().filter(|(name, whole)| **whole > 0.0 && Resources::is_paid_for(name));
    all.filter_map(|(name, whole)| Some(asked.get(name)? / whole)).sum()
}

/// Returns the workload of a pod. A ReplicaSet represents its Deployment, whose name it has with a hash.
fn workload(pod: &Pod) -> String {
    let Some(owner) = pod.controller() else { return "Pod".to_owned() };
    let hash = pod.metadata.labels.as_ref().and_then(|labels| labels.get(label::POD_TEMPLATE_HASH));
    let deployment = hash.and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
    match deployment {
        Some(name) if owner.kind == "ReplicaSet" => format!("Deployment/{name}"),
        _ => format!("{}/{}", owner.kind, owner.name),
    }
}

/// Returns the most expensive owners, and the sum of the rest as `other`.
fn dearest<K>(costs: BTreeMap<K, Cost>, other: K) -> Vec<(K, Cost)> {
    let mut all: Vec<_> = costs.into_iter().collect();
    all.sort_by(|one, other| other.1.dollars.total_cmp(&one.1.dollars));
    let rest = all.split_off(all.len().min(OWNERS));
    if !rest.is_empty() {
        let sum = rest.iter().fold(Cost::default(), |sum, (_, cost)| Cost {
            dollars: sum.dollars + cost.dollars,
            pods: sum.pods + cost.pods,
        });
        all.push((other, sum));
    }
    all
}
