//! What a node that is still to come may turn out to be: which types, which offerings, which labels.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::{InstanceType, Launch, Node, Offering, Operator, PodShape, Pool, Requirement, Snapshot, label};

use super::labels::{Labels, alternatives, carries, possible, satisfied};
use super::node_places::Certainty;

/// Stands for a value that nobody mentions, and for the name that a new node will have.
const UNMENTIONED: &str = "a value that nobody mentions";

/// A label of one node: its value, or that it has none.
pub(super) type Value = Option<String>;

/// A claim without an instance: a launch of the plan, or one that is on its way.
pub(super) struct InFlightNode<'a> {
    snapshot: &'a Snapshot,
    /// What the claim keeps to.
    own: Vec<&'a Requirement>,
    /// Custom labels come from here only: a key that is named nowhere in it stays absent.
    named: &'a [Requirement],
    /// Labels that the node gets anyway.
    given: &'a Labels,
    /// The types that there are, with the offerings that are as the claim asks, to be had now or not.
    pub(super) kinds: Vec<(&'a InstanceType, Vec<&'a Offering>)>,
    known: RefCell<BTreeMap<String, Vec<BTreeSet<Value>>>>,
    suited: RefCell<BTreeMap<usize, Rc<[bool]>>>,
    daemons: OnceCell<Vec<Vec<usize>>>,
    index: OnceCell<BTreeMap<String, usize>>,
}

impl<'a> InFlightNode<'a> {
    /// All types of the pool, as the launch asks.
    pub(super) fn from_launch(snapshot: &'a Snapshot, pool: &'a Pool, launch: &'a Launch) -> Self {
        let types = snapshot.catalogues.get(pool.catalogue).map_or(&[][..], |it| &it.types);
        let own = launch.requirements.iter().chain(&pool.requirements).collect();
        Self::new(snapshot, own, &pool.requirements, &pool.labels, types.iter())
    }

    /// The types that a claim in flight still allows.
    pub(super) fn from_node(snapshot: &'a Snapshot, node: &'a Node) -> Self {
        let pool = snapshot.pools.iter().find(|pool| Some(&pool.name) == node.pool.as_ref());
        let own: Vec<&Requirement> = node.requirements.iter().collect();
        match pool.and_then(|pool| snapshot.catalogues.get(pool.catalogue)) {
            Some(catalogue) => Self::new(snapshot, own, &node.requirements, &node.labels, catalogue.types.iter()),
            None => {
                let all = snapshot.catalogues.iter().flat_map(|it| &it.types);
                Self::new(snapshot, own, &node.requirements, &node.labels, all)
            }
        }
    }

    fn new(
        snapshot: &'a Snapshot,
        own: Vec<&'a Requirement>,
        named: &'a [Requirement],
        given: &'a Labels,
        types: impl Iterator<Item = &'a InstanceType>,
    ) -> Self {
        let (known, suited, daemons, index) =
            (RefCell::default(), RefCell::default(), OnceCell::new(), OnceCell::new());
        let mut in_flight_node = Self { snapshot, own, named, given, kinds: Vec::new(), known, suited, daemons, index };
        let keys: BTreeSet<&String> = in_flight_node.own.iter().map(|own| &own.key).chain(given.keys()).collect();
        // A launch lists a few dozen types of more than a thousand: most are left aside by their names.
        let mut keys: Vec<&str> = keys.into_iter().map(String::as_str).collect();
        keys.sort_by_key(|key| *key != label::INSTANCE_TYPE);
        let possible = |kind: &'a InstanceType| {
            kind.offerings.iter().filter(|it| in_flight_node.allows(kind, it, &keys)).collect()
        };
        let kinds = types.map(|kind| (kind, possible(kind)));
        in_flight_node.kinds = kinds.collect();
        in_flight_node
    }

    /// Whether every label that is spoken of can be as the claim asks.
    fn allows(&self, kind: &InstanceType, offering: &Offering, keys: &[&str]) -> bool {
        keys.iter().all(|key| {
            if *key != label::HOSTNAME && carries(kind, offering, key) {
                return possible(kind, offering, key).into_iter().any(|value| self.agrees(key, value));
            }
            !self.values(kind, offering, key, &[]).is_empty()
        })
    }

    /// Every value that a label may have on a node of this type and offering; of values without end those that the claim
    /// or `mentioned` names, and one that nobody does.
    fn values(&self, kind: &InstanceType, offering: &Offering, key: &str, mentioned: &[String]) -> Vec<Value> {
        let free = || {
            let named = self.own.iter().filter(|own| own.key == key).flat_map(|own| &own.values);
            let all = named.chain(mentioned).cloned().chain([UNMENTIONED.to_owned()]);
            all.map(Some).chain([None]).collect::<Vec<Value>>()
        };
        let owned = |values: Vec<Option<&str>>| values.into_iter().map(|it| it.map(str::to_owned)).collect();
        let mut values: Vec<Value> = if key == label::HOSTNAME && !self.given.contains_key(key) {
            vec![Some(UNMENTIONED.to_owned())]
        } else if carries(kind, offering, key) {
            owned(possible(kind, offering, key))
        } else if let Some(given) = self.given.get(key) {
            vec![Some(given.clone())]
        } else if self.named.iter().any(|own| own.key == key) && !self.snapshot.policy.well_known.contains(key) {
            free()
        } else {
            vec![None]
        };
        values.retain(|value| self.agrees(key, value.as_deref()));
        values
    }

    fn agrees(&self, key: &str, value: Option<&str>) -> bool {
        let mut own = self.own.iter().filter(|own| own.key == key);
        own.all(|own| satisfied(own, value)) && self.given.get(key).is_none_or(|given| Some(given.as_str()) == value)
    }

    /// For each type whether the pods of a shape can go there, whichever offering the node comes from.
    pub(super) fn compatible_types(&self, shape: usize) -> Rc<[bool]> {
        let mut suited = self.suited.borrow_mut();
        let whole = &self.snapshot.shapes[shape];
        let every = |(kind, offerings): &(&InstanceType, Vec<&Offering>)| {
            offerings.iter().all(|offering| self.certainly_starts(kind, offering, whole))
        };
        Rc::clone(suited.entry(shape).or_insert_with(|| self.kinds.iter().map(every).collect()))
    }

    /// For each type the daemons whose pods may come along, taints aside.
    pub(super) fn daemons(&self) -> &[Vec<usize>] {
        let all = |(kind, offerings): &(&InstanceType, Vec<&Offering>)| {
            let comes = |daemon: &usize| {
                offerings.iter().any(|it| self.possibly_starts(kind, it, &self.snapshot.daemons[*daemon].shape))
            };
            (0..self.snapshot.daemons.len()).filter(comes).collect()
        };
        self.daemons.get_or_init(|| self.kinds.iter().map(all).collect())
    }

    /// Whether a daemon's pod comes with a node of one of the listed kinds (all, when there is no list), taints aside.
    pub(super) fn starts_daemon(&self, daemon: usize, listed: Option<&[usize]>) -> Certainty {
        let shape = &self.snapshot.daemons[daemon].shape;
        let all: Vec<usize> = (0..self.kinds.len()).collect();
        let of_kind = |position: &usize| {
            let (kind, offerings) = &self.kinds[*position];
            let sure = offerings.iter().all(|offering| self.certainly_starts(kind, offering, shape));
            match (self.daemons()[*position].contains(&daemon), sure) {
                (true, true) => Certainty::Sure,
                (true, false) => Certainty::Maybe,
                (false, _) => Certainty::Never,
            }
        };
        let sold = listed.unwrap_or(&all).iter().filter(|position| !self.kinds[**position].1.is_empty());
        let answers: BTreeSet<Certainty> = sold.map(of_kind).collect();
        match (answers.first(), answers.last()) {
            (Some(least), Some(most)) if least == most => *most,
            (_, Some(Certainty::Never) | None) => Certainty::Never,
            _ => Certainty::Maybe,
        }
    }

    /// Whether the pod's required terms hold for whatever node this type and offering give.
    fn certainly_starts(&self, kind: &InstanceType, offering: &Offering, shape: &PodShape) -> bool {
        let holds = |asked: &Requirement| {
            let values = self.values(kind, offering, &asked.key, &asked.values);
            values.iter().all(|value| satisfied(asked, value.as_deref()))
        };
        is_satisfied(shape, holds)
    }

    /// Whether a node of this type and offering may come up as the pod's required terms ask. A label that is left to
    /// chance is not set, so only values that the claim names count.
    fn possibly_starts(&self, kind: &InstanceType, offering: &Offering, shape: &PodShape) -> bool {
        let holds = |asked: &Requirement| {
            let mut values = self.values(kind, offering, &asked.key, &[]);
            values.retain(|value| asked.key == label::HOSTNAME || value.as_deref() != Some(UNMENTIONED));
            values.iter().any(|value| satisfied(asked, value.as_deref()))
        };
        is_satisfied(shape, holds)
    }

    /// Where the named types stand among the kinds; unknown ones nowhere.
    pub(super) fn positions(&self, names: &[String]) -> Vec<usize> {
        let index: &BTreeMap<String, usize> = self.index.get_or_init(|| {
            self.kinds.iter().enumerate().map(|(position, (kind, _))| (kind.name.clone(), position)).collect()
        });
        names.iter().filter_map(|name| index.get(name.as_str()).copied()).collect()
    }

    /// Every value that a label may have on a node of one of the kinds at these positions (all, when there is no list).
    pub(super) fn values_of(&self, key: &str, listed: Option<&[usize]>) -> BTreeSet<Value> {
        let mut known = self.known.borrow_mut();
        let by_kind = known.entry(key.to_owned()).or_insert_with(|| self.values_by_kind(key));
        let mut values = BTreeSet::new();
        let mut more = |of_kind: &BTreeSet<Value>| {
            if !of_kind.is_subset(&values) {
                values.extend(of_kind.iter().cloned());
            }
        };
        match listed {
            None => by_kind.iter().for_each(more),
            Some(listed) => listed.iter().for_each(|position| more(&by_kind[*position])),
        }
        values
    }

    fn shapes(&self) -> impl Iterator<Item = &PodShape> {
        let pods = self.snapshot.shapes.iter().map(AsRef::as_ref);
        pods.chain(self.snapshot.daemons.iter().map(|daemon| &daemon.shape))
    }

    fn values_by_kind(&self, key: &str) -> Vec<BTreeSet<Value>> {
        let mentioned: Vec<String> = self.shapes().flat_map(|shape| mentions(shape, key)).collect();
        let of_kind = |(kind, offerings): &(&InstanceType, Vec<&Offering>)| {
            offerings.iter().flat_map(|offering| self.values(kind, offering, key, &mentioned)).collect()
        };
        self.kinds.iter().map(of_kind).collect()
    }
}

/// Whether one of the node affinity's alternatives, and one of each volume's, holds as a whole.
pub(super) fn is_satisfied(shape: &PodShape, holds: impl Fn(&Requirement) -> bool) -> bool {
    let volume = |alternatives: &Vec<Vec<Requirement>>| {
        alternatives.is_empty() || alternatives.iter().any(|all| all.iter().all(&holds))
    };
    alternatives(shape).iter().any(|all| all.iter().all(|it| holds(it)))
        && shape.volumes.iter().all(|it| volume(&it.alternatives))
}

/// The values that a pod's node selector and affinity name for a label.
fn mentions(shape: &PodShape, key: &str) -> Vec<String> {
    let all = shape.selector.iter().chain(shape.affinity.iter().flatten()).filter(|it| it.key == key);
    all.filter(|it| matches!(it.operator, Operator::In | Operator::NotIn)).flat_map(|it| it.values.clone()).collect()
}
