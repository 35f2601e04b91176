//! Cache of the planner's nodes, valid as long as their source objects are unchanged.

use std::iter::Peekable;
use std::sync::Arc;

use api::objects::{CSINode, Node, NodeReport, PoolSurge};
use api::{NodeClaim, annotation};
use jiff::Timestamp;
use planner::{Catalogue, MicroDollars, Millis, Resources};

use super::translate::{self, TranslationContext};
use super::{DisruptionState, NodeSource, health, utilization};
use crate::pods::records::Group;
use crate::problem::{UsageError, merge_equal};
use crate::{NeverEvicted, NodeRepair, Problem};

/// Objects that belong to a Node by name.
struct NodeObjects<'a> {
    pods: Option<&'a Group>,
    drivers: Option<&'a Arc<CSINode>>,
    report: Option<&'a Arc<NodeReport>>,
}

/// A planner node with its source objects.
pub(crate) struct CachedNode {
    pub(crate) node: Arc<planner::Node>,
    /// Resources that the node takes from its NodePool's limits.
    pub(crate) capacity: Resources,
    /// Its price, and without an instance the highest possible one.
    pub(crate) cost: MicroDollars,
    pub(crate) disruption_state: DisruptionState,
    problems: Vec<Problem>,
    /// Reason why the utilization report of its agent is ignored.
    usage_error: Option<UsageError>,
    source: Source,
    /// Period of validity: from the first time until just before the second.
    valid: (Timestamp, Option<Timestamp>),
}

impl CachedNode {
    /// Sets the end of nomination. Every plan changes this value for each node with nominated pods, and nothing else of the
    /// node depends on it.
    fn set_nominated_until(&mut self, until: Option<Millis>) {
        if self.node.nominated_until != until {
            Arc::make_mut(&mut self.node).nominated_until = until;
        }
    }

    /// Returns its pods that can never be evicted.
    pub(crate) fn never_evicted(&self) -> impl Iterator<Item = NeverEvicted> {
        self.problems.iter().filter_map(|problem| match problem {
            Problem::NeverEvicted { pod, why, .. } => {
                Some(NeverEvicted { pod: pod.clone(), pool: self.node.pool.clone(), why: why.clone() })
            }
            _ => None,
        })
    }

    /// Reports whether the node has a NodeClaim.
    pub(crate) fn is_managed(&self) -> bool {
        self.node.claim.is_some()
    }
}

/// Source objects, compared by address. The record keeps them alive.
#[derive(Default)]
struct Source {
    claim: Option<Arc<NodeClaim>>,
    node: Option<Arc<Node>>,
    drivers: Option<Arc<CSINode>>,
    catalogue: Option<Arc<Catalogue>>,
    report: Option<Arc<NodeReport>>,
    pods: u64,
    impaired: Option<Timestamp>,
    node_repair: NodeRepair,
    packs: bool,
    surges: Option<PoolSurge>,
}

impl Source {
    fn is_same(&self, other: &Self) -> bool {
        fn same<T>(one: &Option<Arc<T>>, other: &Option<Arc<T>>) -> bool {
            one.as_ref().map(Arc::as_ptr) == other.as_ref().map(Arc::as_ptr)
        }
        same(&self.claim, &other.claim)
            && same(&self.node, &other.node)
            && same(&self.drivers, &other.drivers)
            && same(&self.catalogue, &other.catalogue)
            && same(&self.report, &other.report)
            && self.pods == other.pods
            && self.impaired == other.impaired
            && self.node_repair == other.node_repair
            && (self.packs, self.surges) == (other.packs, other.surges)
    }
}

/// Returns one planner node per node, in their order. Reuses the valid ones of `former`.
pub(crate) fn refresh(
    context: &TranslationContext<'_>,
    machines: &[NodeSource<'_>],
    former: Vec<CachedNode>,
    problems: &mut Vec<Problem>,
) -> Vec<CachedNode> {
    let mut former = former.into_iter().peekable();
    let mut groups = context.records.groups().peekable();
    let mut drivers = by_name(&context.input.csi_nodes, |node| node.metadata.name.as_deref());
    let mut reports = by_name(&context.input.usages, |report| report.metadata.name.as_deref());
    let mut all = Vec::with_capacity(machines.len());
    let mut found = Vec::new();
    for machine in machines {
        // All five lists are sorted by the same names.
        let name = machine.name();
        while former.next_if(|kept| kept.node.name.as_str() < name).is_some() {}
        while groups.next_if(|(node, _)| node.as_str() < name).is_some() {}
        while drivers.next_if(|(node, _)| *node < name).is_some() {}
        while reports.next_if(|(node, _)| *node < name).is_some() {}
        let known = former.next_if(|kept| kept.node.name == name);
        let has_node = || machine.node.is_some();
        let objects = NodeObjects {
            pods: groups.peek().filter(|(node, _)| has_node() && *node == name).map(|(_, group)| *group),
            drivers: drivers.peek().filter(|(node, _)| has_node() && *node == name).map(|(_, drivers)| *drivers),
            report: reports.peek().filter(|(node, _)| has_node() && *node == name).map(|(_, report)| *report),
        };
        let source = source(context, machine, &objects);
        let now = context.input.now;
        let is_valid = |kept: &CachedNode| {
            kept.source.is_same(&source) && kept.valid.0 <= now && kept.valid.1.is_none_or(|end| now < end)
        };
        let kept = known.filter(is_valid);
        let mut kept = kept.unwrap_or_else(|| make(context, machine, &objects, source));
        kept.set_nominated_until(context.nominated_until(machine));
        found.extend(kept.problems.iter().cloned());
        let counts = machine.pool().is_none_or(|pool| !context.ignoring.contains(pool.as_str()));
        found.extend(kept.usage_error.filter(|_| counts).map(|why| Problem::Usage {
            node: name.to_owned(),
            others: 0,
            why,
        }));
        all.push(kept);
    }
    problems.extend(merge_equal(found.into_iter().map(|problem| ((), problem))));
    all
}

/// Sorts objects by their names, which are the names of Nodes.
fn by_name<'a, T>(
    list: &[&'a Arc<T>],
    name: impl Fn(&'a T) -> Option<&'a str>,
) -> Peekable<impl Iterator<Item = (&'a str, &'a Arc<T>)>> {
    let mut all: Vec<(&str, &Arc<T>)> = list.iter().map(|it| (name(it).unwrap_or_default(), *it)).collect();
    all.sort_by_key(|(name, _)| *name);
    all.into_iter().peekable()
}

fn source(context: &TranslationContext<'_>, machine: &NodeSource<'_>, objects: &NodeObjects<'_>) -> Source {
    Source {
        claim: machine.claim.map(Arc::clone),
        node: machine.node.map(Arc::clone),
        drivers: objects.drivers.map(Arc::clone),
        report: objects.report.map(Arc::clone),
        catalogue: context.catalogue(machine).map(Arc::clone),
        pods: objects.pods.map_or(0, |group| group.version),
        impaired: context.impaired_since(machine),
        node_repair: context.input.settings.node_repair,
        packs: machine.pool().is_some_and(|pool| context.packing.contains(pool.as_str())),
        surges: context.surges(machine),
    }
}

fn make(
    context: &TranslationContext<'_>,
    machine: &NodeSource<'_>,
    objects: &NodeObjects<'_>,
    source: Source,
) -> CachedNode {
    let mut problems = Vec::new();
    let pods = context.records.members(objects.pods);
    let now = context.input.now;
    let mut node = translate::node(context, machine, objects.drivers, &pods, &mut problems);
    let report = objects.report.map(|report| health::valid_usage(machine, report, now));
    let usage = report.and_then(Result::ok);
    node.usage = usage.map(|usage| planner::Usage {
        newcomers: utilization::newcomers(usage, pods.iter().map(|record| (record.pod.as_ref(), record.taken()))),
        ..utilization::node_usage(usage)
    });
    for (bound, record) in node.pods.iter_mut().zip(&pods) {
        bound.used = usage.and_then(|usage| utilization::used_by(&record.pod, usage));
        // Only these pods need their sizing.
        if source.packs || record.restorable && record.pod.annotation(annotation::REQUESTED).is_some() {
            bound.sizing = Some(Box::new(utilization::sizing(&record.pod, record.requested(), usage)));
        }
    }
    let protected = pods.iter().filter_map(|record| record.pod.protected_until(now));
    let end = protected.chain(objects.report.and_then(|report| report.usage.changes_after(now))).min();
    CachedNode {
        capacity: translate::capacity(context, machine),
        cost: translate::cost(context, machine, node.price),
        node: Arc::new(node),
        disruption_state: machine.disruption_state(),
        problems,
        usage_error: report.and_then(Result::err),
        source,
        valid: (now, end),
    }
}
