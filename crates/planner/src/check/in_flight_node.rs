//! Possible results of a future node: its types, offerings and labels.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::{InstanceType, Launch, Node, Offering, Operator, PodShape, Pool, Requirement, Snapshot, label};

use super::labels::{Labels, alternatives, carries, may_hold, possible, satisfied};

/// Placeholder for a value that no requirement names, and for the name of a new node.
pub(super) const UNMENTIONED: &str = "an unmentioned value";

/// Label of one node: its value, or its absence.
pub(super) type Value = Option<String>;

/// Certainty of a fact while the cloud still has a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    Never,
    Maybe,
    Sure,
}

/// Claim without an instance: a launch of the plan, or an in-flight claim.
pub(super) struct InFlightNode<'a> {
    snapshot: &'a Snapshot,
    /// Requirements of the claim.
    own: Vec<&'a Requirement>,
    /// Only source of custom labels: a key without an entry here remains absent.
    named: &'a [Requirement],
    /// Labels that the node receives anyway.
    given: &'a Labels,
    /// All types, with the offerings that satisfy the claim, available or not.
    pub(super) kinds: Vec<(&'a InstanceType, Vec<&'a Offering>)>,
    known: RefCell<BTreeMap<String, Vec<BTreeSet<Value>>>>,
    suited: RefCell<BTreeMap<usize, Rc<[bool]>>>,
    daemons: OnceCell<Vec<Vec<usize>>>,
    index: OnceCell<BTreeMap<String, usize>>,
}

impl<'a> InFlightNode<'a> {
    /// Creates the value for a launch, with all types of the NodePool.
    pub(super) fn from_launch(snapshot: &'a Snapshot, pool: &'a Pool, launch: &'a Launch) -> Self {
        let types = snapshot.catalogues.get(pool.catalogue).map_or(&[][..], |it| &it.types);
        let own = launch.requirements.iter().chain(&pool.requirements).collect();
        Self::new(snapshot, own, &pool.requirements, &pool.labels, types.iter())
    }

    /// Creates the value for an in-flight claim, with the types that the claim still allows.
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
        // A launch lists a few dozen types of more than a thousand: their names exclude most of them.
        let mut keys: Vec<&str> = keys.into_iter().map(String::as_str).collect();
        keys.sort_by_key(|key| *key != label::INSTANCE_TYPE);
        let possible = |kind: &'a InstanceType| {
            kind.offerings.iter().filter(|it| in_flight_node.allows(kind, it, &keys)).collect()
        };
        let kinds = types.map(|kind| (kind, possible(kind)));
        in_flight_node.kinds = kinds.collect();
        in_flight_node
    }

    /// Reports whether every relevant label can satisfy the claim.
    fn allows(&self, kind: &InstanceType, offering: &Offering, keys: &[&str]) -> bool {
        keys.iter().all(|key| {
            if *key != label::HOSTNAME && carries(kind, offering, key) {
                return possible(kind, offering, key).into_iter().any(|value| self.agrees(key, value));
            }
            !self.values(kind, offering, key, &[]).is_empty()
        })
    }

    /// Returns every value that a label may have on a node of this type and offering. For an infinite set, returns the values
    /// that the claim or `mentioned` names, and one that no requirement names.
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

    /// Returns for each type whether the pods of a shape fit, with every offering of the node.
    pub(super) fn compatible_types(&self, shape: usize) -> Rc<[bool]> {
        let mut suited = self.suited.borrow_mut();
        let whole = &self.snapshot.shapes[shape];
        let every = |(kind, offerings): &(&InstanceType, Vec<&Offering>)| {
            offerings.iter().all(|offering| self.certainly_starts(kind, offering, whole))
        };
        Rc::clone(suited.entry(shape).or_insert_with(|| self.kinds.iter().map(every).collect()))
    }

    /// Returns for each type the DaemonSets whose pods may run there; taints are ignored.
    pub(super) fn daemons(&self) -> &[Vec<usize>] {
        let all = |(kind, offerings): &(&InstanceType, Vec<&Offering>)| {
            let comes = |daemon: &usize| {
                offerings.iter().any(|it| self.possibly_starts(kind, it, &self.snapshot.daemons[*daemon].shape))
            };
            (0..self.snapshot.daemons.len()).filter(comes).collect()
        };
        self.daemons.get_or_init(|| self.kinds.iter().map(all).collect())
    }

    /// Returns whether a DaemonSet's pod runs on a node of one of the listed types (all, without a list); taints are ignored.
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

    /// Reports whether the pod's required terms hold for every possible node of this type and offering.
    fn certainly_starts(&self, kind: &InstanceType, offering: &Offering, shape: &PodShape) -> bool {
        let holds = |asked: &Requirement| {
            let values = self.values(kind, offering, &asked.key, &asked.values);
            values.iter().all(|value| satisfied(asked, value.as_deref()))
        };
        is_satisfied(shape, holds)
    }

    /// Reports whether a node of this type and offering may satisfy the pod's required terms. A label without a fixed value is
    /// not set, so only values that the claim names count.
    fn possibly_starts(&self, kind: &InstanceType, offering: &Offering, shape: &PodShape) -> bool {
        let is_set = |key: &str, value: &Value| key == label::HOSTNAME || value.as_deref() != Some(UNMENTIONED);
        is_satisfied_by(shape, |all| {
            may_hold(all, |key, holds| {
                let values = self.values(kind, offering, key, &[]);
                values.iter().any(|value| is_set(key, value) && holds(value.as_deref()))
            })
        })
    }

    /// Returns the positions of the named types; unknown types have none.
    pub(super) fn positions(&self, names: &[String]) -> Vec<usize> {
        let index: &BTreeMap<String, usize> = self.index.get_or_init(|| {
            self.kinds.iter().enumerate().map(|(position, (kind, _))| (kind.name.clone(), position)).collect()
        });
        names.iter().filter_map(|name| index.get(name.as_str()).copied()).collect()
    }

    /// Returns every value that a label may have on a node of one of the types at these positions (all, without a list).
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

/// Reports whether one alternative of the node affinity, and one of each volume, holds completely.
pub(super) fn is_satisfied(shape: &PodShape, holds: impl Fn(&Requirement) -> bool) -> bool {
    is_satisfied_by(shape, |all| all.iter().all(|it| holds(it)))
}

/// Like `is_satisfied`, by whole conjunctions.
fn is_satisfied_by(shape: &PodShape, holds: impl Fn(&[&Requirement]) -> bool) -> bool {
    let volume = |alternatives: &Vec<Vec<Requirement>>| {
        alternatives.is_empty() || alternatives.iter().any(|all| holds(&all.iter().collect::<Vec<_>>()))
    };
    alternatives(shape).iter().any(|all| holds(all)) && shape.volumes.iter().all(|it| volume(&it.alternatives))
}

/// Returns the values that a pod's node selector and affinity name for a label.
fn mentions(shape: &PodShape, key: &str) -> Vec<String> {
    let all = shape.selector.iter().chain(shape.affinity.iter().flatten()).filter(|it| it.key == key);
    all.filter(|it| matches!(it.operator, Operator::In | Operator::NotIn)).flat_map(|it| it.values.clone()).collect()
}
