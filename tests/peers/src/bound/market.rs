//! A snapshot as the bound sees it: kinds of pods, and machines that can be had in any number.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{anyhow, bail};
use planner::{InstanceType, Offer, PodShape, Pool, Requirements, Resources, Snapshot, Taint, Toleration, label};

/// Pods that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Requests, one number a dimension of the market.
    pub needs: Vec<f64>,
    /// How many pods.
    pub count: f64,
    /// How many of them one machine may hold at most.
    pub most: f64,
}

/// Something that can be bought.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The instance type.
    pub name: String,
    /// The cheapest way to buy it, dollars per hour.
    pub price: f64,
    /// What is left for pods, one number a dimension of the market.
    pub room: Vec<f64>,
    /// Which items may go there.
    pub takes: Vec<bool>,
}

/// What is wanted and what can be had.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Market {
    /// Kinds of pods.
    pub items: Vec<Item>,
    /// Machines; those that another one replaces at no more money are left out.
    pub machines: Vec<Machine>,
}

impl Market {
    /// Reads a snapshot without nodes.
    ///
    /// # Errors
    /// When there are nodes, or when a pod fits no machine.
    pub fn of(snapshot: &Snapshot) -> anyhow::Result<Self> {
        if !snapshot.nodes.is_empty() {
            bail!("the bound is for fleets that are bought whole, but the snapshot has {} nodes", snapshot.nodes.len());
        }
        let mut counts: BTreeMap<usize, f64> = BTreeMap::new();
        snapshot.pods.iter().for_each(|pod| *counts.entry(pod.shape).or_default() += 1.0);
        let shapes: Vec<(&PodShape, f64)> =
            counts.iter().map(|(shape, count)| (snapshot.shapes[*shape].as_ref(), *count)).collect();
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
        market.reduced()
    }

    /// The same market without machines that fit nothing or that another one replaces, and without sameness among items.
    ///
    /// # Errors
    /// When an item fits no machine.
    pub fn reduced(mut self) -> anyhow::Result<Self> {
        for machine in &mut self.machines {
            for (takes, item) in machine.takes.iter_mut().zip(&self.items) {
                *takes &= item.needs.iter().zip(&machine.room).all(|(need, room)| need <= room);
            }
        }
        for (position, item) in self.items.iter().enumerate() {
            if !self.machines.iter().any(|machine| machine.takes[position]) {
                return Err(anyhow!("a kind of {} pods that requests {:?} fits no machine", item.count, item.needs));
            }
        }
        self.machines.retain(|machine| machine.takes.iter().any(|takes| *takes));
        self.machines.sort_by(|one, other| one.price.total_cmp(&other.price).then_with(|| one.name.cmp(&other.name)));
        let mut kept: Vec<Machine> = Vec::new();
        for machine in std::mem::take(&mut self.machines) {
            if !kept.iter().any(|cheaper| cheaper.replaces(&machine)) {
                kept.push(machine);
            }
        }
        self.machines = kept;
        Ok(self)
    }
}

impl Machine {
    /// Whether whatever fits the other one fits this one, at no more money.
    fn replaces(&self, other: &Self) -> bool {
        self.price <= other.price
            && other.room.iter().zip(&self.room).all(|(other, own)| other <= own)
            && other.takes.iter().zip(&self.takes).all(|(other, own)| !other || *own)
    }
}

/// One type under one pool, with the daemons that surely come along.
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
    // A daemon that asks for a zone may not come; one that the type alone decides does.
    let by_type = |shape: &PodShape| {
        alternatives(shape).iter().all(|asked| asked.iter().all(|(key, _)| !offer.keys().any(|sold| sold == key)))
    };
    let mut room = kind.allocatable.clone();
    for daemon in snapshot.daemons.iter().filter(|daemon| goes(&daemon.shape) && by_type(&daemon.shape)) {
        room.subtract(&daemon.shape.requests);
    }
    Some(Machine {
        name: kind.name.clone(),
        price: price.0 as f64 / 1e6,
        room: amounts(&room),
        takes: shapes.iter().map(|(shape, _)| goes(shape)).collect(),
    })
}

/// What a pod asks of a node's labels: one of these.
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

/// Whether two pods of the shape can never share a host.
fn keeps_alone(shape: &PodShape, snapshot: &Snapshot) -> bool {
    let own = &shape.namespace;
    let terms = shape.apart.iter().filter(|term| term.key == label::HOSTNAME);
    terms.into_iter().any(|term| term.means(own, own, &shape.labels, &snapshot.namespaces))
}
