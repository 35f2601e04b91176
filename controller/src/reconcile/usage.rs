//! Reports of what nodes use: which of them nobody needs any more, and those that count as metrics, so that nothing has to run on
//! the nodes to scrape them.

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

/// All that a decision about a report depends on.
pub struct UsageView {
    /// The report.
    pub report: Arc<NodeReport>,
    /// Whether there is a Node of its name.
    pub has_node: bool,
    /// The moment of the look.
    pub now: Timestamp,
}

/// What to do.
#[derive(Debug, Default)]
pub struct UsageDecision {
    /// Now, in order.
    pub steps: Vec<Operation>,
    /// When to look again.
    pub after: Option<Duration>,
}

/// The view of one report, if there is one.
#[must_use]
pub fn view(index: &Index, name: &str, now: Timestamp) -> Option<UsageView> {
    let report = Arc::clone(index.usages.get(name)?);
    Some(UsageView { report, has_node: index.nodes.get(name).is_some(), now })
}

/// A report goes when its node is gone and it has become stale: then no agent writes it any more. Reports cannot be owned by
/// their Nodes, because a node may not say who owns an object.
#[must_use]
pub fn decide(view: &UsageView) -> UsageDecision {
    let meta = &view.report.metadata;
    if view.has_node || meta.deletion_timestamp.is_some() {
        return UsageDecision::default();
    }
    let age = view.now.duration_since(view.report.usage.measured_at);
    let left = STALE_AFTER - age;
    // What comes from the future will never be stale by our clock.
    if left > SignedDuration::ZERO && age >= SignedDuration::ZERO {
        return UsageDecision { after: Some(left.unsigned_abs()), ..UsageDecision::default() };
    }
    let uid = meta.uid.clone().unwrap_or_default();
    UsageDecision { steps: vec![Operation::Delete(Target::Usage(key_of(view.report.as_ref())), uid)], after: None }
}

/// What nodes of a pool use.
#[derive(Debug, Default)]
struct Sum {
    cpu: f64,
    memory: f64,
    oom_kills: f64,
    /// The worst node's, by resource.
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
            Sample::new(&metrics::USAGE_CPU, &[pool], self.cpu),
            Sample::new(&metrics::USAGE_MEMORY, &[pool], self.memory),
            Sample::new(&metrics::USAGE_OOM_KILLS, &[pool], self.oom_kills),
        ];
        let pressure = self.pressure.iter();
        samples.extend(pressure.map(|(kind, share)| Sample::new(&metrics::USAGE_PRESSURE, &[pool, kind], *share)));
        samples
    }
}

/// The figures of all nodes whose report counts at `now`, by pool: nodes themselves have them in their NodeUsages.
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
    samples.push(Sample::new(&metrics::USAGE_REPORTS, &["current"], current as f64));
    samples.push(Sample::new(&metrics::USAGE_REPORTS, &["ignored"], ignored as f64));
    samples
}

#[cfg(test)]
mod tests;
