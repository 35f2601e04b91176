//! Planner's nodes, kept from snapshot to snapshot as long as nothing that they are made of has changed.

use std::sync::Arc;

use api::NodeClaim;
use api::objects::{CSINode, Node};
use jiff::Timestamp;
use planner::{Catalogue, Millis, Resources};

use super::Machine;
use super::translate::{self, Scene};
use crate::Problem;
use crate::records::Group;

/// What is bound or attached to a machine's Node.
struct Setting<'a> {
    pods: Option<&'a Group>,
    drivers: Option<&'a Arc<CSINode>>,
}

/// A planner's node with everything that it was made of.
pub(crate) struct Kept {
    pub(crate) node: Arc<planner::Node>,
    /// What the machine takes of its pool's limits.
    pub(crate) capacity: Resources,
    /// Whether kubelet says that the Node works.
    pub(crate) ready: bool,
    problems: Vec<Problem>,
    source: Source,
    /// The node is right from the first moment until just before the second.
    valid: (Timestamp, Option<Timestamp>),
}

impl Kept {
    /// Whether a NodeClaim stands behind the node.
    pub(crate) fn is_managed(&self) -> bool {
        self.node.claim.is_some()
    }
}

/// Objects are compared by address; the record keeps them alive.
#[derive(Default)]
struct Source {
    claim: Option<Arc<NodeClaim>>,
    node: Option<Arc<Node>>,
    drivers: Option<Arc<CSINode>>,
    catalogue: Option<Arc<Catalogue>>,
    pods: u64,
    nominated_until: Option<Millis>,
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
            && self.pods == other.pods
            && self.nominated_until == other.nominated_until
    }
}

/// One planner's node a machine, in their order; those of `former` that are still right are taken over.
pub(crate) fn refresh(
    scene: &Scene<'_>,
    machines: &[Machine<'_>],
    former: Vec<Kept>,
    problems: &mut Vec<Problem>,
) -> Vec<Kept> {
    let mut former = former.into_iter().peekable();
    let mut groups = scene.records.groups().peekable();
    let mut drivers = drivers(scene).into_iter().peekable();
    let mut all = Vec::with_capacity(machines.len());
    for machine in machines {
        // All four lists are in the order of the same names.
        let name = machine.name();
        while former.next_if(|kept| kept.node.name.as_str() < name).is_some() {}
        while groups.next_if(|(node, _)| node.as_str() < name).is_some() {}
        while drivers.next_if(|(node, _)| *node < name).is_some() {}
        let known = former.next_if(|kept| kept.node.name == name);
        let of_node = || machine.node.is_some();
        let setting = Setting {
            pods: groups.peek().filter(|(node, _)| of_node() && *node == name).map(|(_, group)| *group),
            drivers: drivers.peek().filter(|(node, _)| of_node() && *node == name).map(|(_, drivers)| *drivers),
        };
        let source = source(scene, machine, &setting);
        let now = scene.input.now;
        let right =
            |kept: &Kept| kept.source.is(&source) && kept.valid.0 <= now && kept.valid.1.is_none_or(|end| now < end);
        let kept = known.filter(right);
        let kept = kept.unwrap_or_else(|| make(scene, machine, &setting, source));
        problems.extend(kept.problems.iter().cloned());
        all.push(kept);
    }
    all
}

/// CSINodes by name.
fn drivers<'a>(scene: &Scene<'a>) -> Vec<(&'a str, &'a Arc<CSINode>)> {
    let named = |node: &&'a Arc<CSINode>| (node.metadata.name.as_deref().unwrap_or_default(), *node);
    let mut all: Vec<_> = scene.input.csi_nodes.iter().map(named).collect();
    all.sort_by_key(|(name, _)| *name);
    all
}

fn source(scene: &Scene<'_>, machine: &Machine<'_>, setting: &Setting<'_>) -> Source {
    Source {
        claim: machine.claim.map(Arc::clone),
        node: machine.node.map(Arc::clone),
        drivers: setting.drivers.map(Arc::clone),
        catalogue: scene.catalogue(machine).map(Arc::clone),
        pods: setting.pods.map_or(0, |group| group.version),
        nominated_until: scene.nominated_until(machine),
    }
}

fn make(scene: &Scene<'_>, machine: &Machine<'_>, setting: &Setting<'_>, source: Source) -> Kept {
    let mut problems = Vec::new();
    let pods = scene.records.members(setting.pods);
    let node = translate::node(scene, machine, setting.drivers, &pods, &mut problems);
    let end = pods.iter().filter_map(|record| translate::protected_until(&record.pod, scene.input.now)).min();
    Kept {
        node: Arc::new(node),
        capacity: translate::capacity(scene, machine),
        ready: machine.node.is_some_and(|node| node.is_ready()),
        problems,
        source,
        valid: (scene.input.now, end),
    }
}
