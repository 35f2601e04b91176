//! Planner's nodes, kept from snapshot to snapshot as long as nothing that they are made of has changed.

use std::sync::Arc;

use api::NodeClaim;
use api::objects::{CSINode, Node};
use jiff::Timestamp;
use planner::{Catalogue, Millis, Resources};

use super::Machine;
use super::translate::{self, Scene};
use crate::Problem;

/// A planner's node with everything that it was made of.
pub(crate) struct Kept {
    pub(crate) node: Arc<planner::Node>,
    /// What the machine takes of its pool's limits.
    pub(crate) capacity: Resources,
    problems: Vec<Problem>,
    source: Source,
    /// The node is right from the first moment until just before the second.
    valid: (Timestamp, Option<Timestamp>),
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
    let mut all = Vec::with_capacity(machines.len());
    for machine in machines {
        while former.next_if(|kept| kept.node.name.as_str() < machine.name()).is_some() {}
        let known = former.next_if(|kept| kept.node.name == machine.name());
        let source = source(scene, machine);
        let now = scene.input.now;
        let right =
            |kept: &Kept| kept.source.is(&source) && kept.valid.0 <= now && kept.valid.1.is_none_or(|end| now < end);
        let kept = known.filter(right);
        let kept = kept.unwrap_or_else(|| make(scene, machine, source));
        problems.extend(kept.problems.iter().cloned());
        all.push(kept);
    }
    all
}

fn source(scene: &Scene<'_>, machine: &Machine<'_>) -> Source {
    Source {
        claim: machine.claim.map(Arc::clone),
        node: machine.node.map(Arc::clone),
        drivers: scene.drivers(machine).map(Arc::clone),
        catalogue: scene.catalogue(machine).map(Arc::clone),
        pods: scene.group(machine).map_or(0, |group| group.version),
        nominated_until: scene.nominated_until(machine),
    }
}

fn make(scene: &Scene<'_>, machine: &Machine<'_>, source: Source) -> Kept {
    let mut problems = Vec::new();
    let pods = scene.records.members(scene.group(machine));
    let node = translate::node(scene, machine, &pods, &mut problems);
    let end = pods.iter().filter_map(|record| translate::protected_until(&record.pod, scene.input.now)).min();
    Kept {
        node: Arc::new(node),
        capacity: translate::capacity(scene, machine),
        problems,
        source,
        valid: (scene.input.now, end),
    }
}
