//! Reports of what nodes use: which of them nobody needs any more, and those that count as metrics, so that nothing has to run on
//! the nodes to scrape them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::label;
use api::objects::{Node, NodeReport};
use api::usage::{STALE_AFTER, Usage};
use daemon::metric::Metrics;
use jiff::{SignedDuration, Timestamp};

use crate::act::{Step, Target};
use crate::index::{Index, key_of};
use crate::metrics;

/// All that a decision about a report depends on.
pub struct View {
    /// The report.
    pub report: Arc<NodeReport>,
    /// Whether there is a Node of its name.
    pub has_node: bool,
    /// The moment of the look.
    pub now: Timestamp,
}

/// What to do.
#[derive(Debug, Default)]
pub struct Decision {
    /// Now, in order.
    pub steps: Vec<Step>,
    /// When to look again.
    pub after: Option<Duration>,
}

/// The view of one report, if there is one.
#[must_use]
pub fn view(index: &Index, name: &str, now: Timestamp) -> Option<View> {
    let report = Arc::clone(index.usages.get(name)?);
    Some(View { report, has_node: index.nodes.get(name).is_some(), now })
}

/// A report goes when its node is gone and it has become stale: then no agent writes it any more. Reports cannot be owned by
/// their Nodes, because a node may not say who owns an object.
#[must_use]
pub fn decide(view: &View) -> Decision {
    let meta = &view.report.metadata;
    if view.has_node || meta.deletion_timestamp.is_some() {
        return Decision::default();
    }
    let age = view.now.duration_since(view.report.usage.measured_at);
    let left = STALE_AFTER - age;
    // What comes from the future will never be stale by our clock.
    if left > SignedDuration::ZERO && age >= SignedDuration::ZERO {
        return Decision { after: Some(left.unsigned_abs()), ..Decision::default() };
    }
    let uid = meta.uid.clone().unwrap_or_default();
    Decision { steps: vec![Step::Delete(Target::Usage(key_of(view.report.as_ref())), uid)], after: None }
}

/// The series of nodes that were last exported.
#[derive(Debug, Default)]
pub struct Exported(Mutex<BTreeSet<(String, String)>>);

impl Exported {
    /// Sets the figures of all nodes whose report counts at `now`, and forgets those of all others.
    pub fn refresh(&self, index: &Index, metrics: &Metrics, now: Timestamp) {
        let mut current = BTreeSet::new();
        for node in index.nodes.values() {
            if let Some(usage) = index.usage_of(node, now) {
                let pool = node.label(label::NODEPOOL).unwrap_or_default();
                set(metrics, node, pool, usage);
                current.insert((node.name().to_owned(), pool.to_owned()));
            }
        }
        let ignored = index.usages.len().saturating_sub(current.len());
        metrics.set(&metrics::USAGE_REPORTS, &["current"], current.len() as f64);
        metrics.set(&metrics::USAGE_REPORTS, &["ignored"], ignored as f64);
        let mut exported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (node, pool) in exported.difference(&current) {
            forget(metrics, node, pool);
        }
        *exported = current;
    }
}

fn set(metrics: &Metrics, node: &Node, pool: &str, usage: &Usage) {
    let labels = [node.name(), pool];
    metrics.set(&metrics::USAGE_CPU, &labels, usage.cpu.p95 as f64 / 1000.0);
    metrics.set(&metrics::USAGE_MEMORY, &labels, usage.memory.p95 as f64);
    metrics.set(&metrics::USAGE_OOM_KILLS, &labels, f64::from(usage.oom_kills));
    for (resource, share) in
        usage.pressure.iter().flat_map(|it| [("cpu", it.cpu), ("memory", it.memory), ("io", it.io)])
    {
        metrics.set(&metrics::USAGE_PRESSURE, &[node.name(), pool, resource], f64::from(share) / 1000.0);
    }
}

fn forget(metrics: &Metrics, node: &str, pool: &str) {
    for metric in [&metrics::USAGE_CPU, &metrics::USAGE_MEMORY, &metrics::USAGE_OOM_KILLS] {
        metrics.forget(metric, &[node, pool]);
    }
    for resource in ["cpu", "memory", "io"] {
        metrics.forget(&metrics::USAGE_PRESSURE, &[node, pool, resource]);
    }
}

#[cfg(test)]
mod tests;
