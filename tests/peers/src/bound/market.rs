//! Snapshot as the bound uses it: kinds of pods, and nodes that can be launched in any number.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{anyhow, bail};
use planner::{InstanceType, Offer, PodShape, Pool, Requirements, Resources, Snapshot, Taint, Toleration, label};

/// Pods with identical constraints.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Requests, one number per dimension.
    pub needs: Vec<f64>,
    /// Number of pods.
    pub count: f64,
    /// Most pods of this kind on one node.
    pub most: f64,
}

/// Instance type of a NodePool that can be launched.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Name of the instance type.
    pub name: String,
    /// Price of the cheapest offering, in dollars per hour.
    pub price: f64,
    /// Remaining capacity for pods, one number per dimension.
    pub allocatable: Vec<f64>,
    /// True for each item whose pods may be placed there.
    pub takes: Vec<bool>,
}

/// Pods and offerings of a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Market {
    /// Kinds of pods.
    pub items: Vec<Item>,
    /// Nodes that can be launched, without those that another one replaces at the same or a lower price.
    pub machines: Vec<Machine>,
}

impl Market {
    /// Reads a snapshot without nodes.
    ///
    /// # Errors
    /// Returns an error if there are nodes, or if a pod fits no instance type.
    pub fn of(snapshot: &Snapshot) -> anyhow::Result<Self> {
        Self::whole(snapshot)?.reduced()
    }

    /// Reads a snapshot without nodes, and keeps all nodes that can be launched. The items are those of [`kinds`].
    ///
    /// # Errors
    /// Returns an error if there are nodes.
    pub(super) fn whole(snapshot: &Snapshot) -> anyhow::Result<Self> {
        if !snapshot.nodes.is_empty() {
            bail!("the bound is for fleets that are bought whole, but the snapshot has {} nodes", snapshot.nodes.len());
        }
        let shapes = kinds(snapshot);
        let names: BTreeSet<&str> =
            shapes.iter().flat_map(|(shape, _)| shape.requests.iter().map(|(name, _)| name)).collect();
        let amounts = |of: &Resources| -> Vec<f64> { names.iter().map(|name| of.get(name) as f64).collect() };
        let items = shapes.iter().map(|(shape, count)| Item {
            needs: amounts(&shape.requests),
            count: *count,
            most: if keeps_alone(shape, snapshot) { 1.0 } else { *count },
        });
        let mut market = Self { items: items.collect(), machines: Vec::new() };
        for pool in snapshot.pools.iter().filter(|pool| pool.replicas.is_none()) {
            let types = snapshot.catalogues.get(pool.catalogue).map_or(&[][..], |catalogue| &catalogue.types);
            market.machines.extend(types.iter().filter_map(|kind| machine(snapshot, pool, kind, &shapes, &amounts)));
        }
        Ok(market)
    }

    /// Removes nodes that fit nothing or that another one replaces.
    ///
    /// # Errors
    /// Returns an error if an item fits no instance type.
    pub fn reduced(mut self) -> anyhow::Result<Self> {
        self.exclude_what_does_not_fit();
        if let Some(item) = self.item_without_machine() {
            return Err(anyhow!("a kind of {} pods that requests {:?} fits no machine", item.count, item.needs));
        }
        self.machines.retain(|machine| machine.takes.iter().any(|takes| *takes));
        Ok(self.without_replaced())
    }

    /// Returns the most pods of each item on one node.
    pub(super) fn limits(&self) -> Vec<f64> {
        self.items.iter().map(|item| item.most).collect()
    }

    /// Corrects `takes` for items that are larger than the node.
    pub(super) fn exclude_what_does_not_fit(&mut self) {
        for machine in &mut self.machines {
            for (takes, item) in machine.takes.iter_mut().zip(&self.items) {
                *takes &= item.needs.iter().zip(&machine.allocatable).all(|(need, allocatable)| need <= allocatable);
            }
        }
    }

    /// Returns the first item that no node takes.
    pub(super) fn item_without_machine(&self) -> Option<&Item> {
        let placed = |position: usize| self.machines.iter().any(|machine| machine.takes[position]);
        self.items.iter().enumerate().find(|(position, _)| !placed(*position)).map(|(_, item)| item)
    }

    /// Removes nodes that another one replaces.
    pub(super) fn without_replaced(mut self) -> Self {
        self.machines.sort_by(|one, other| one.price.total_cmp(&other.price).then_with(|| one.name.cmp(&other.name)));
        let mut kept: Vec<Machine> = Vec::new();
        for machine in std::mem::take(&mut self.machines) {
            if !kept.iter().any(|cheaper| cheaper.replaces(&machine)) {
                kept.push(machine);
            }
        }
        self.machines = kept;
        self
    }
}

/// Returns the distinct constraints of the pods, each with the number of its pods.
pub(super) fn kinds(snapshot: &Snapshot) -> Vec<(&PodShape, f64)> {
    let mut counts: BTreeMap<usize, f64> = BTreeMap::new();
    snapshot.pods.iter().for_each(|pod| *counts.entry(pod.shape).or_default() += 1.0);
    counts.iter().map(|(shape, count)| (snapshot.shapes[*shape].as_ref(), *count)).collect()
}

impl Machine {
    /// Reports whether every filling of the other node fits this one, at the same or a lower price.
    fn replaces(&self, other: &Self) -> bool {
        self.price <= other.price
            && other.allocatable.iter().zip(&self.allocatable).all(|(other, own)| other <= own)
            && other.takes.iter().zip(&self.takes).all(|(other, own)| !other || *own)
    }
}

/// Returns one instance type of one NodePool, less the overhead of the DaemonSets that certainly run there.
fn machine(
    snapshot: &Snapshot,
    pool: &Pool,
    kind: &InstanceType,
    shapes: &[(&PodShape, f64)],
    amounts: &dyn Fn(&Resources) -> Vec<f64>,
) -> Option<Machine> {
    let well_known = &snapshot.policy.well_known;
    let offer = Offer::new(kind);
    let own: Requirements = pool.requirements.iter().collect();
    let own = own.intersection(&Requirements::from_labels(&pool.labels));
    let suits = |asked: &Requirements| {
        let both = own.intersection(asked);
        own.first_conflict(asked, well_known).is_none()
            && offer.labels_match(&both, &pool.labels, well_known)
            && offer.price(&both).is_some()
    };
    let nothing = Requirements::default();
    let price = offer.price(&own).filter(|_| suits(&nothing))?;
    let goes = |shape: &PodShape| bears(&shape.tolerations, &pool.taints) && alternatives(shape).iter().any(suits);
    // A DaemonSet that selects a zone may not run there; one that depends on the type alone does.
    let by_type = |shape: &PodShape| {
        alternatives(shape).iter().all(|asked| asked.iter().all(|(key, _)| !offer.keys().any(|sold| sold == key)))
    };
    let mut allocatable = kind.allocatable.clone();
    for daemon in snapshot.daemons.iter().filter(|daemon| goes(&daemon.shape) && by_type(&daemon.shape)) {
        allocatable.subtract(&daemon.shape.requests);
    }
    Some(Machine {
        name: kind.name.clone(),
        price: price.0 as f64 / 1e6,
        allocatable: amounts(&allocatable),
        takes: shapes.iter().map(|(shape, _)| goes(shape)).collect(),
    })
}

/// Returns the alternative requirements of a pod for node labels; one of them must be satisfied.
fn alternatives(shape: &PodShape) -> Vec<Requirements> {
    let selector: Requirements = shape.selector.iter().collect();
    match shape.affinity.as_slice() {
        [] => vec![selector],
        terms => terms.iter().map(|term| selector.intersection(&term.iter().collect())).collect(),
    }
}

fn bears(tolerations: &[Toleration], taints: &[Taint]) -> bool {
    let hard = taints.iter().filter(|taint| taint.effect != planner::Effect::PreferNoSchedule);
    hard.into_iter().all(|taint| tolerations.iter().any(|it| it.tolerates(taint)))
}

/// Reports whether two pods of the shape can never share a host.
fn keeps_alone(shape: &PodShape, snapshot: &Snapshot) -> bool {
    let own = &shape.namespace;
    let terms = shape.apart.iter().filter(|term| term.key == label::HOSTNAME);
    terms.into_iter().any(|term| term.means(own, own, &shape.labels, &snapshot.namespaces))
}
