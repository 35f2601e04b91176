//! NodeUsages: the deletion of unused ones, and metrics of the valid ones, so that nothing has to run on nodes for scrapes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::label;
use api::objects::NodeReport;
use api::usage::{STALE_AFTER, Usage};
use jiff::{SignedDuration, Timestamp};

use crate::metrics;
use crate::metrics::gauge_set::Sample;
use crate::state::index::{Index, key_of};
use crate::write::writer::{Operation, Target};

/// Input of a decision about a NodeUsage.
pub struct UsageView {
    /// NodeUsage to decide about.
    pub report: Arc<NodeReport>,
    /// True if a Node of this name exists.
    pub has_node: bool,
    /// Time of the reconcile.
    pub now: Timestamp,
}

/// Decision about a NodeUsage.
#[derive(Debug, Default)]
pub struct UsageDecision {
    /// Operations in order.
    pub steps: Vec<Operation>,
    /// Delay before the next reconcile.
    pub after: Option<Duration>,
}

/// Returns the view of one NodeUsage, if it exists.
#[must_use]
pub fn view(index: &Index, name: &str, now: Timestamp) -> Option<UsageView> {
    let report = Arc::clone(index.usages.get(name)?);
    Some(UsageView { report, has_node: index.nodes.get(name).is_some(), now })
}

/// Deletes a NodeUsage that is stale and whose node is gone: no agent writes it any more. A Node cannot be the owner of its
/// NodeUsage, because a node may not set the owner of an object.
#[must_use]
pub fn decide(view: &UsageView) -> UsageDecision {
    let meta = &view.report.metadata;
    if view.has_node || meta.deletion_timestamp.is_some() {
        return UsageDecision::default();
    }
    let age = view.now.duration_since(view.report.usage.measured_at);
    let left = STALE_AFTER - age;
    // A measurement from the future never becomes stale by this clock.
    if left > SignedDuration::ZERO && age >= SignedDuration::ZERO {
        return UsageDecision { after: Some(left.unsigned_abs()), ..UsageDecision::default() };
    }
    let uid = meta.uid.clone().unwrap_or_default();
    UsageDecision { steps: vec![Operation::Delete(Target::Usage(key_of(view.report.as_ref())), uid)], after: None }
}

/// Utilization of the nodes of a NodePool.
#[derive(Debug, Default)]
struct Sum {
    cpu: f64,
    memory: f64,
    oom_kills: f64,
    /// Pressure of the worst node, by resource.
    pressure: BTreeMap<&'static str, f64>,
}

impl Sum {
    fn add(&mut self, usage: &Usage) {
        self.cpu += usage.cpu.p95 as f64 / 1000.0;
        self.memory += usage.memory.p95 as f64;
        self.oom_kills += f64::from(usage.oom_kills);
        let shares = usage.pressure.iter().flat_map(|it| [("cpu", it.cpu), ("memory", it.memory), ("io", it.io)]);
        for (resource, share) in shares {
            let worst = self.pressure.entry(resource).or_default();
            *worst = worst.max(f64::from(share) / 1000.0);
        }
    }

    fn samples(&self, pool: &str) -> Vec<Sample> {
        let mut samples = vec![
            Sample::new(&metrics::USAGE_CPU, metrics::ByNodePool { nodepool: pool }, self.cpu),
            Sample::new(&metrics::USAGE_MEMORY, metrics::ByNodePool { nodepool: pool }, self.memory),
            Sample::new(&metrics::USAGE_OOM_KILLS, metrics::ByNodePool { nodepool: pool }, self.oom_kills),
        ];
        let pressure = self.pressure.iter();
        samples.extend(pressure.map(|(kind, share)| {
            Sample::new(
                &metrics::USAGE_PRESSURE,
                metrics::ByNodePoolResource { nodepool: pool, resource: kind },
                *share,
            )
        }));
        samples
    }
}

/// Returns the metrics of all valid NodeUsages at `now`, by NodePool. The values of single nodes are in their NodeUsages.
#[must_use]
pub fn samples(index: &Index, now: Timestamp) -> Vec<Sample> {
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    let mut current = 0_usize;
    for node in index.nodes.values() {
        if let Some(usage) = index.usage_of(node, now) {
            sums.entry(node.label(label::NODEPOOL).unwrap_or_default()).or_default().add(usage);
            current += 1;
        }
    }
    let ignored = index.usages.len().saturating_sub(current);
    let mut samples: Vec<Sample> = sums.iter().flat_map(|(pool, sum)| sum.samples(pool)).collect();
    samples.push(Sample::new(&metrics::USAGE_REPORTS, metrics::ByState { state: "current" }, current as f64));
    samples.push(Sample::new(&metrics::USAGE_REPORTS, metrics::ByState { state: "ignored" }, ignored as f64));
    samples
}

#[cfg(test)]
mod tests;
