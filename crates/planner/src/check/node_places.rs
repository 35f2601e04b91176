//! Everywhere that pods stand in the end: the snapshot's nodes and the plan's launches, with what is known of their labels.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::{Effect, Node, Plan, PodShape, Requirement, Snapshot, Stage, Taint, Toleration, label};

use super::InFlightNodes;
use super::excluded_daemons::is_running;
use super::in_flight_node::{InFlightNode, Value, is_satisfied};
use super::labels::{alternatives, first_untolerated, satisfied};

/// How sure something is, as long as the cloud has a say in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    Never,
    Maybe,
    Sure,
}

/// One node, or one launch.
pub(super) struct NodePlace<'a> {
    /// How findings call it.
    pub(super) name: String,
    pub(super) node: Option<&'a Node>,
    open: Option<LaunchLabels<'a>>,
    taints: &'a [Taint],
    known: RefCell<BTreeMap<String, Rc<BTreeSet<Value>>>>,
}

/// What decides the labels of a node that is still to come.
struct LaunchLabels<'a> {
    in_flight_node: &'a InFlightNode<'a>,
    /// Positions of the types that the claim lists; without a list all are meant.
    listed: Option<Vec<usize>>,
}

/// The nodes in the order of the snapshot, then the launches in the order of the plan.
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
    /// Every value that a label may have here in the end. Each place is its own host.
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

    /// The same, but a node without a host's label has none: it is only as a domain that its name stands in.
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

    /// Whether the pod of a DaemonSet, the one at this position, is still to come here. One that a node is ready without may
    /// never come.
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

    /// Whether the node is there, and all that comes with it.
    pub(super) fn is_ready(&self) -> bool {
        self.node.is_some_and(|node| node.stage == Stage::Initialized)
    }

    /// Whether the node is one that a spread constraint looks at, under its policies.
    pub(super) fn counts_for(&self, shape: &PodShape, honor_affinity: bool, honor_taints: bool) -> Certainty {
        if self.node.is_some_and(|node| node.leaving.is_some()) || (honor_taints && self.repels(&shape.tolerations)) {
            return Certainty::Never;
        }
        let keys = shape.spread.iter().filter(|it| it.hard).map(|it| self.has(&it.key));
        let affine = if honor_affinity { self.satisfies(shape) } else { Certainty::Sure };
        keys.chain([affine]).min().unwrap_or(Certainty::Sure)
    }

    /// Whether pods without further tolerations are kept away; a cordoned node has a taint that says so.
    fn repels(&self, tolerations: &[Toleration]) -> bool {
        let cordoned =
            self.node.is_some_and(|node| node.unschedulable) && first_untolerated(&cordon(), tolerations).is_some();
        cordoned || first_untolerated(self.taints, tolerations).is_some()
    }

    /// Whether the node will have the label.
    fn has(&self, key: &str) -> Certainty {
        let values = self.values(key);
        match (values.contains(&None), values.iter().any(Option::is_some)) {
            (false, true) => Certainty::Sure,
            (true, true) => Certainty::Maybe,
            (_, false) => Certainty::Never,
        }
    }

    /// Whether the node may be as the pod's node selector and node affinity ask when a label has this value.
    pub(super) fn may_satisfy(&self, shape: &PodShape, key: &str, value: &str) -> bool {
        alternatives(shape).iter().any(|all| {
            all.iter().all(|asked| match asked.key == key {
                true => satisfied(asked, Some(value)),
                false => self.labelled(&asked.key).iter().any(|it| satisfied(asked, it.as_deref())),
            })
        })
    }

    /// Whether the node will be as the pod's node selector and node affinity ask; volumes do not count.
    fn satisfies(&self, shape: &PodShape) -> Certainty {
        let any = |holds: &dyn Fn(&Requirement) -> bool| {
            alternatives(shape).iter().any(|all| all.iter().all(|asked| holds(asked)))
        };
        if any(&|asked| self.labelled(&asked.key).iter().all(|value| satisfied(asked, value.as_deref()))) {
            Certainty::Sure
        } else if any(&|asked| self.labelled(&asked.key).iter().any(|value| satisfied(asked, value.as_deref()))) {
            Certainty::Maybe
        } else {
            Certainty::Never
        }
    }
}

/// The values that a label of a node may have. Each node is its own host.
pub(super) fn domains(node: &Node, in_flight_node: Option<&InFlightNode<'_>>, key: &str) -> Rc<BTreeSet<Value>> {
    let labelled = node.labels.get(key).cloned();
    Rc::new(match in_flight_node {
        _ if key == label::HOSTNAME => BTreeSet::from([Some(labelled.unwrap_or_else(|| node.name.clone()))]),
        Some(in_flight_node) => in_flight_node.values_of(key, None),
        None => BTreeSet::from([labelled]),
    })
}

/// The taint of a node that is cordoned.
pub(super) fn cordon() -> [Taint; 1] {
    let key = "node.kubernetes.io/unschedulable".to_owned();
    [Taint { key, value: String::new(), effect: Effect::NoSchedule }]
}

/// Whether a node, or whatever its claim may become, is what the pod and its volumes require.
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

/// Whether the cloud still has a say in the node's labels.
pub(super) fn undecided(node: &Node) -> bool {
    node.stage == Stage::InFlight && !node.requirements.is_empty()
}
