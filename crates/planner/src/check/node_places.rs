//! Everywhere that pods stand in the end: the snapshot's nodes and the plan's launches, with what is known of their labels.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::{Effect, Node, Plan, PodShape, Requirement, Snapshot, Stage, Taint, Toleration, label};

use super::InFlightNodes;
use super::excluded_daemons::is_there;
use super::in_flight_node::{Mould, Value, is_satisfied};
use super::labels::{alternatives, satisfied, unborne};

/// How sure something is, as long as the cloud has a say in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    Never,
    Maybe,
    Sure,
}

/// One node, or one launch.
pub(super) struct Place<'a> {
    /// How findings call it.
    pub(super) name: String,
    pub(super) node: Option<&'a Node>,
    open: Option<Open<'a>>,
    taints: &'a [Taint],
    known: RefCell<BTreeMap<String, Rc<BTreeSet<Value>>>>,
}

/// What decides the labels of a node that is still to come.
struct Open<'a> {
    mould: &'a Mould<'a>,
    /// Positions of the types that the claim lists; without a list all are meant.
    listed: Option<Vec<usize>>,
}

/// The nodes in the order of the snapshot, then the launches in the order of the plan.
pub(super) fn all<'a>(snapshot: &'a Snapshot, plan: &'a Plan, moulds: &'a InFlightNodes<'a>) -> Vec<Place<'a>> {
    let nodes = snapshot.nodes.iter().enumerate().map(|(position, node)| Place {
        name: format!("node {}", node.name),
        node: Some(node),
        open: moulds.nodes[position].as_deref().map(|mould| Open { mould, listed: None }),
        taints: &node.taints,
        known: RefCell::default(),
    });
    let launches = plan.launches.iter().enumerate().map(|(position, launch)| Place {
        name: format!("launch {position}"),
        node: None,
        open: moulds.of(position).map(|mould| {
            let listed = Some(mould.positions(&launch.instance_types));
            Open { mould, listed }
        }),
        taints: snapshot.pools.iter().find(|pool| pool.name == launch.pool).map_or(&[], |pool| &pool.taints),
        known: RefCell::default(),
    });
    nodes.chain(launches).collect()
}

impl Place<'_> {
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
            Some(open) => open.mould.values_of(key, open.listed.as_deref()),
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
    pub(super) fn awaits(&self, snapshot: &Snapshot, position: usize) -> Answer {
        let daemon = &snapshot.daemons[position].shape;
        if unborne(self.taints, &daemon.tolerations).is_some() {
            return Answer::Never;
        }
        let comes = |open: &Open<'_>| open.mould.brings(position, open.listed.as_deref());
        let Some(node) = self.node else { return self.open.as_ref().map_or(Answer::Never, comes) };
        if is_there(node, daemon) || node.leaving.is_some() {
            return Answer::Never;
        }
        let settled = || {
            let suits = is_satisfied(daemon, |asked| satisfied(asked, node.labels.get(&asked.key).map(String::as_str)));
            if suits { Answer::Sure } else { Answer::Never }
        };
        let most = if node.stage == Stage::Initialized { Answer::Maybe } else { Answer::Sure };
        self.open.as_ref().map_or_else(settled, comes).min(most)
    }

    /// Whether the node is there, and all that comes with it.
    pub(super) fn is_ready(&self) -> bool {
        self.node.is_some_and(|node| node.stage == Stage::Initialized)
    }

    /// Whether the node is one that a spread constraint looks at, under its policies.
    pub(super) fn counts_for(&self, shape: &PodShape, honor_affinity: bool, honor_taints: bool) -> Answer {
        if self.node.is_some_and(|node| node.leaving.is_some()) || (honor_taints && self.repels(&shape.tolerations)) {
            return Answer::Never;
        }
        let keys = shape.spread.iter().filter(|it| it.hard).map(|it| self.has(&it.key));
        let affine = if honor_affinity { self.satisfies(shape) } else { Answer::Sure };
        keys.chain([affine]).min().unwrap_or(Answer::Sure)
    }

    /// Whether pods without further tolerations are kept away; a cordoned node has a taint that says so.
    fn repels(&self, tolerations: &[Toleration]) -> bool {
        let cordoned = self.node.is_some_and(|node| node.unschedulable) && unborne(&cordon(), tolerations).is_some();
        cordoned || unborne(self.taints, tolerations).is_some()
    }

    /// Whether the node will have the label.
    fn has(&self, key: &str) -> Answer {
        let values = self.values(key);
        match (values.contains(&None), values.iter().any(Option::is_some)) {
            (false, true) => Answer::Sure,
            (true, true) => Answer::Maybe,
            (_, false) => Answer::Never,
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
    fn satisfies(&self, shape: &PodShape) -> Answer {
        let any = |holds: &dyn Fn(&Requirement) -> bool| {
            alternatives(shape).iter().any(|all| all.iter().all(|asked| holds(asked)))
        };
        if any(&|asked| self.labelled(&asked.key).iter().all(|value| satisfied(asked, value.as_deref()))) {
            Answer::Sure
        } else if any(&|asked| self.labelled(&asked.key).iter().any(|value| satisfied(asked, value.as_deref()))) {
            Answer::Maybe
        } else {
            Answer::Never
        }
    }
}

/// The values that a label of a node may have. Each node is its own host.
pub(super) fn domains(node: &Node, mould: Option<&Mould<'_>>, key: &str) -> Rc<BTreeSet<Value>> {
    let labelled = node.labels.get(key).cloned();
    Rc::new(match mould {
        _ if key == label::HOSTNAME => BTreeSet::from([Some(labelled.unwrap_or_else(|| node.name.clone()))]),
        Some(mould) => mould.values_of(key, None),
        None => BTreeSet::from([labelled]),
    })
}

/// The taint of a node that is cordoned.
pub(super) fn cordon() -> [Taint; 1] {
    let key = "node.kubernetes.io/unschedulable".to_owned();
    [Taint { key, value: String::new(), effect: Effect::NoSchedule }]
}

/// Whether a node, or whatever its claim may become, is what the pod and its volumes require.
pub(super) fn fulfils(node: &Node, mould: Option<&Mould<'_>>, shape: &PodShape) -> bool {
    is_satisfied(shape, |asked| match (node.labels.get(&asked.key), mould) {
        (Some(value), _) => satisfied(asked, Some(value)),
        (None, None) => satisfied(asked, None),
        (None, Some(mould)) => {
            let values = mould.values_of(&asked.key, None);
            !values.is_empty() && values.iter().all(|value| satisfied(asked, value.as_deref()))
        }
    })
}

/// Whether the cloud still has a say in the node's labels.
pub(super) fn undecided(node: &Node) -> bool {
    node.stage == Stage::InFlight && !node.requirements.is_empty()
}
