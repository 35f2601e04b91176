//! Places of pods in the final state: the snapshot's nodes and the plan's launches, with their known labels.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::{Effect, Node, Plan, PodShape, Requirement, Snapshot, Stage, Taint, Toleration, label};

use super::InFlightNodes;
use super::in_flight_node::{Certainty, InFlightNode, Value, is_satisfied};
use super::labels::{alternatives, first_untolerated, may_hold, satisfied};

/// Node, or launch.
pub(super) struct NodePlace<'a> {
    /// Name in findings.
    pub(super) name: String,
    pub(super) node: Option<&'a Node>,
    open: Option<LaunchLabels<'a>>,
    taints: &'a [Taint],
    known: RefCell<BTreeMap<String, Rc<BTreeSet<Value>>>>,
}

/// Origin of the labels of a future node.
struct LaunchLabels<'a> {
    in_flight_node: &'a InFlightNode<'a>,
    /// Positions of the types that the claim lists; all types without a list.
    listed: Option<Vec<usize>>,
}

/// Returns the nodes in the order of the snapshot, then the launches in the order of the plan.
pub(super) fn all<'a>(
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    in_flight_nodes: &'a InFlightNodes<'a>,
) -> Vec<NodePlace<'a>> {
    let nodes = snapshot.nodes.iter().enumerate().map(|(position, node)| NodePlace {
        name: format!("node {}", node.name),
        node: Some(node),
        open: in_flight_nodes.nodes[position]
            .as_deref()
            .map(|in_flight_node| LaunchLabels { in_flight_node, listed: None }),
        taints: &node.taints,
        known: RefCell::default(),
    });
    let launches = plan.launches.iter().enumerate().map(|(position, launch)| NodePlace {
        name: format!("launch {position}"),
        node: None,
        open: in_flight_nodes.get(position).map(|in_flight_node| {
            let listed = Some(in_flight_node.positions(&launch.instance_types));
            LaunchLabels { in_flight_node, listed }
        }),
        taints: snapshot.pools.iter().find(|pool| pool.name == launch.pool).map_or(&[], |pool| &pool.taints),
        known: RefCell::default(),
    });
    nodes.chain(launches).collect()
}

impl NodePlace<'_> {
    /// Returns every value that a label may have here in the final state. Each place is its own host.
    pub(super) fn values(&self, key: &str) -> Rc<BTreeSet<Value>> {
        if let Some(known) = self.known.borrow().get(key) {
            return Rc::clone(known);
        }
        let values = Rc::new(self.work_out(key));
        self.known.borrow_mut().insert(key.to_owned(), Rc::clone(&values));
        values
    }

    fn work_out(&self, key: &str) -> BTreeSet<Value> {
        let labelled = self.node.and_then(|node| node.labels.get(key)).cloned();
        match &self.open {
            _ if key == label::HOSTNAME => BTreeSet::from([Some(labelled.unwrap_or_else(|| self.host()))]),
            Some(open) => open.in_flight_node.values_of(key, open.listed.as_deref()),
            None => BTreeSet::from([labelled]),
        }
    }

    /// Returns the same, except that a node without a hostname label has no value: its name counts only as a domain.
    fn labelled(&self, key: &str) -> Rc<BTreeSet<Value>> {
        match self.node {
            Some(node) if key == label::HOSTNAME && self.open.is_none() => {
                Rc::new(BTreeSet::from([node.labels.get(key).cloned()]))
            }
            _ => self.values(key),
        }
    }

    fn host(&self) -> String {
        self.node.map_or_else(|| self.name.clone(), |node| node.name.clone())
    }

    /// Returns whether the pod of the DaemonSet at this position will start here. A node that is ready without the pod may
    /// never run it.
    pub(super) fn awaits(&self, snapshot: &Snapshot, position: usize) -> Certainty {
        let daemon = &snapshot.daemons[position].shape;
        if first_untolerated(self.taints, &daemon.tolerations).is_some() {
            return Certainty::Never;
        }
        let comes = |open: &LaunchLabels<'_>| open.in_flight_node.starts_daemon(position, open.listed.as_deref());
        let Some(node) = self.node else { return self.open.as_ref().map_or(Certainty::Never, comes) };
        if is_running(node, daemon) || node.leaving.is_some() {
            return Certainty::Never;
        }
        let settled = || {
            let suits = is_satisfied(daemon, |asked| satisfied(asked, node.labels.get(&asked.key).map(String::as_str)));
            if suits { Certainty::Sure } else { Certainty::Never }
        };
        let most = if node.stage == Stage::Initialized { Certainty::Maybe } else { Certainty::Sure };
        self.open.as_ref().map_or_else(settled, comes).min(most)
    }

    /// Reports whether the node is initialized, with all its DaemonSet pods.
    pub(super) fn is_ready(&self) -> bool {
        self.node.is_some_and(|node| node.stage == Stage::Initialized)
    }

    /// Returns whether a spread constraint counts the node, under its policies.
    pub(super) fn counts_for(&self, shape: &PodShape, honor_affinity: bool, honor_taints: bool) -> Certainty {
        if self.node.is_some_and(|node| node.leaving.is_some()) || (honor_taints && self.repels(&shape.tolerations)) {
            return Certainty::Never;
        }
        let keys = shape.spread.iter().filter(|it| it.hard).map(|it| self.has(&it.key));
        let affine = if honor_affinity { self.satisfies(shape) } else { Certainty::Sure };
        keys.chain([affine]).min().unwrap_or(Certainty::Sure)
    }

    /// Reports whether taints exclude pods with only these tolerations; a cordoned node has a taint.
    fn repels(&self, tolerations: &[Toleration]) -> bool {
        let cordoned =
            self.node.is_some_and(|node| node.unschedulable) && first_untolerated(&cordon(), tolerations).is_some();
        cordoned || first_untolerated(self.taints, tolerations).is_some()
    }

    /// Returns whether the node will have the label.
    fn has(&self, key: &str) -> Certainty {
        let values = self.values(key);
        match (values.contains(&None), values.iter().any(Option::is_some)) {
            (false, true) => Certainty::Sure,
            (true, true) => Certainty::Maybe,
            (_, false) => Certainty::Never,
        }
    }

    /// Reports whether the node may satisfy the pod's node selector and node affinity when a label has this value.
    pub(super) fn may_satisfy(&self, shape: &PodShape, key: &str, value: &str) -> bool {
        alternatives(shape).iter().any(|all| {
            may_hold(all, |own, holds| match own == key {
                true => holds(Some(value)),
                false => self.labelled(own).iter().any(|it| holds(it.as_deref())),
            })
        })
    }

    /// Returns whether the node will satisfy the pod's node selector and node affinity; volumes do not count.
    fn satisfies(&self, shape: &PodShape) -> Certainty {
        let all = alternatives(shape);
        let surely =
            |asked: &&Requirement| self.labelled(&asked.key).iter().all(|value| satisfied(asked, value.as_deref()));
        let possibly = |all: &Vec<&Requirement>| {
            may_hold(all, |key, holds| self.labelled(key).iter().any(|value| holds(value.as_deref())))
        };
        if all.iter().any(|all| all.iter().all(surely)) {
            Certainty::Sure
        } else if all.iter().any(possibly) {
            Certainty::Maybe
        } else {
            Certainty::Never
        }
    }
}

/// Returns the possible values of a node's label. Each node is its own host.
pub(super) fn domains(node: &Node, in_flight_node: Option<&InFlightNode<'_>>, key: &str) -> Rc<BTreeSet<Value>> {
    let labelled = node.labels.get(key).cloned();
    Rc::new(match in_flight_node {
        _ if key == label::HOSTNAME => BTreeSet::from([Some(labelled.unwrap_or_else(|| node.name.clone()))]),
        Some(in_flight_node) => in_flight_node.values_of(key, None),
        None => BTreeSet::from([labelled]),
    })
}

/// Returns the taint of a cordoned node.
pub(super) fn cordon() -> [Taint; 1] {
    let key = "node.kubernetes.io/unschedulable".to_owned();
    [Taint { key, value: String::new(), effect: Effect::NoSchedule }]
}

/// Reports whether a node, or every possible result of its claim, satisfies the pod and its volumes.
pub(super) fn meets_requirements(node: &Node, in_flight_node: Option<&InFlightNode<'_>>, shape: &PodShape) -> bool {
    is_satisfied(shape, |asked| match (node.labels.get(&asked.key), in_flight_node) {
        (Some(value), _) => satisfied(asked, Some(value)),
        (None, None) => satisfied(asked, None),
        (None, Some(in_flight_node)) => {
            let values = in_flight_node.values_of(&asked.key, None);
            !values.is_empty() && values.iter().all(|value| satisfied(asked, value.as_deref()))
        }
    })
}

/// Reports whether the cloud still decides labels of the node.
pub(super) fn undecided(node: &Node) -> bool {
    node.stage == Stage::InFlight && !node.requirements.is_empty()
}

/// Reports whether a pod of the DaemonSet, recognised by its labels, runs on a node already.
pub(super) fn is_running(node: &Node, daemon: &PodShape) -> bool {
    node.pods.iter().map(|pod| &pod.shape).any(|shape| {
        let labels = &shape.labels;
        shape.namespace == daemon.namespace && daemon.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    })
}
