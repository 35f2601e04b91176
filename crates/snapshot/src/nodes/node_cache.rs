//! Cache of the planner's nodes, valid as long as their source objects are unchanged.

use std::iter::Peekable;
use std::sync::Arc;

use api::objects::{CSINode, Node, NodeReport};
use api::{NodeClaim, annotation};
use jiff::Timestamp;
use planner::{Catalogue, Millis, Resources};

use super::translate::{self, TranslationContext};
use super::{NodeSource, NodeState, health, sizes};
use crate::problem::UsageError;
use crate::records::Group;
use crate::{NeverEvicted, Problem, annotation_errors};

/// Objects that belong to a Node by name.
struct Setting<'a> {
    pods: Option<&'a Group>,
    drivers: Option<&'a Arc<CSINode>>,
    report: Option<&'a Arc<NodeReport>>,
}

/// A planner node with its source objects.
pub(crate) struct CachedNode {
    pub(crate) node: Arc<planner::Node>,
    /// Resources that the node takes from its NodePool's limits.
    pub(crate) capacity: Resources,
    pub(crate) standing: NodeState,
    problems: Vec<Problem>,
    /// Reason why the utilization report of its agent is ignored.
    unused: Option<UsageError>,
    source: Source,
    /// Period of validity: from the first time until just before the second.
    valid: (Timestamp, Option<Timestamp>),
}

impl CachedNode {
    /// Sets the end of nomination. Every plan changes this value for each node with nominated pods, and nothing else of the
    /// node depends on it.
    fn promise_until(&mut self, until: Option<Millis>) {
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
    node_repair: bool,
    packs: bool,
    surges: bool,
}

impl Source {
    fn is(&self, other: &Self) -> bool {
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
    scene: &TranslationContext<'_>,
    machines: &[NodeSource<'_>],
    former: Vec<CachedNode>,
    problems: &mut Vec<Problem>,
) -> Vec<CachedNode> {
    let mut former = former.into_iter().peekable();
    let mut groups = scene.records.groups().peekable();
    let mut drivers = by_name(&scene.input.csi_nodes, |node| node.metadata.name.as_deref());
    let mut reports = by_name(&scene.input.usages, |report| report.metadata.name.as_deref());
    let mut all = Vec::with_capacity(machines.len());
    let mut told = Vec::new();
    for machine in machines {
        // All five lists are sorted by the same names.
        let name = machine.name();
        while former.next_if(|kept| kept.node.name.as_str() < name).is_some() {}
        while groups.next_if(|(node, _)| node.as_str() < name).is_some() {}
        while drivers.next_if(|(node, _)| *node < name).is_some() {}
        while reports.next_if(|(node, _)| *node < name).is_some() {}
        let known = former.next_if(|kept| kept.node.name == name);
        let of_node = || machine.node.is_some();
        let setting = Setting {
            pods: groups.peek().filter(|(node, _)| of_node() && *node == name).map(|(_, group)| *group),
            drivers: drivers.peek().filter(|(node, _)| of_node() && *node == name).map(|(_, drivers)| *drivers),
            report: reports.peek().filter(|(node, _)| of_node() && *node == name).map(|(_, report)| *report),
        };
        let source = source(scene, machine, &setting);
        let now = scene.input.now;
        let right = |kept: &CachedNode| {
            kept.source.is(&source) && kept.valid.0 <= now && kept.valid.1.is_none_or(|end| now < end)
        };
        let kept = known.filter(right);
        let mut kept = kept.unwrap_or_else(|| make(scene, machine, &setting, source));
        kept.promise_until(scene.nominated_until(machine));
        told.extend(kept.problems.iter().cloned());
        let counts = machine.pool().is_none_or(|pool| !scene.ignoring.contains(pool.as_str()));
        told.extend(kept.unused.filter(|_| counts).map(|why| Problem::Usage { node: name.to_owned(), others: 0, why }));
        all.push(kept);
    }
    problems.extend(annotation_errors::once(told.into_iter().map(|problem| ((), problem))));
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

fn source(scene: &TranslationContext<'_>, machine: &NodeSource<'_>, setting: &Setting<'_>) -> Source {
    Source {
        claim: machine.claim.map(Arc::clone),
        node: machine.node.map(Arc::clone),
        drivers: setting.drivers.map(Arc::clone),
        report: setting.report.map(Arc::clone),
        catalogue: scene.catalogue(machine).map(Arc::clone),
        pods: setting.pods.map_or(0, |group| group.version),
        impaired: scene.impaired_since(machine),
        node_repair: scene.input.settings.node_repair,
        packs: machine.pool().is_some_and(|pool| scene.packing.contains(pool.as_str())),
        surges: scene.surges(machine),
    }
}

fn make(scene: &TranslationContext<'_>, machine: &NodeSource<'_>, setting: &Setting<'_>, source: Source) -> CachedNode {
    let mut problems = Vec::new();
    let pods = scene.records.members(setting.pods);
    let now = scene.input.now;
    let mut node = translate::node(scene, machine, setting.drivers, &pods, &mut problems);
    let report = setting.report.map(|report| health::usage(machine, report, now));
    let usage = report.and_then(Result::ok);
    node.usage = usage.map(|usage| planner::Usage {
        newcomers: sizes::newcomers(usage, pods.iter().map(|record| (record.pod.as_ref(), record.taken()))),
        ..sizes::node_usage(usage)
    });
    for (bound, record) in node.pods.iter_mut().zip(&pods) {
        bound.used = usage.and_then(|usage| sizes::used_by(&record.pod, usage));
        // Only these pods need their sizing.
        if source.packs || record.pod.annotation(annotation::REQUESTED).is_some() {
            bound.sizing = Some(Box::new(sizes::sizing(&record.pod, usage)));
        }
    }
    let protected = pods.iter().filter_map(|record| record.pod.protected_until(now));
    let end = protected.chain(setting.report.and_then(|report| report.usage.changes_after(now))).min();
    CachedNode {
        node: Arc::new(node),
        capacity: translate::capacity(scene, machine),
        standing: machine.standing(),
        problems,
        unused: report.and_then(Result::err),
        source,
        valid: (now, end),
    }
}
