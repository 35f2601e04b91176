//! What is left on nodes that exist or are on their way.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::{HostPort, Node, Offer, Pod, Requirements, Snapshot, Stage, ValueSet};

use super::Turn;
use super::demand::{Demand, Level};
use super::dimensions::{Amounts, Dimensions, add, fits, times};
use super::retinue::Retinue;
use super::template::{self, DaemonDemand, Mould};
use super::topology::{Domain, KeyId, Spot, Stand, Topology};
use super::wants::{Class, ClassId, Wants};

/// Volumes on a node: driver and claim.
pub(super) type Attached = BTreeSet<(String, String)>;

/// A node that may take pods.
pub(super) struct Room<'a> {
    pub(super) node: &'a Node,
    pub(super) site: Domain,
    left: Amounts,
    ports: Vec<HostPort>,
    attached: Attached,
    /// Set while the claim has no instance: what it may still become.
    open: Option<Requirements>,
    well_known: &'a BTreeSet<String>,
}

/// Rooms in the order in which they are tried, with what was found out about them.
pub(super) struct Rooms<'a> {
    pub(super) list: Vec<Room<'a>>,
    /// Rooms that a class can go to by their labels and taints, apart by how they stand to some keys.
    parts: BTreeMap<(ClassId, Vec<KeyId>), Rc<[Part]>>,
    /// By shape and level, for each part the first room that has not refused for good.
    cursors: BTreeMap<Turn, Vec<usize>>,
}

/// Rooms that stand alike to each of some keys.
struct Part {
    stands: Vec<Stand>,
    rooms: Vec<usize>,
}

impl<'a> Rooms<'a> {
    /// Nodes that may take pods: initialized ones first, then by name.
    pub(super) fn of(
        snapshot: &'a Snapshot,
        dimensions: &Dimensions,
        retinue: &Retinue<'a>,
        topology: &Topology<'a>,
    ) -> Self {
        let daemons = template::daemons(snapshot);
        let usable = (0..).zip(&snapshot.nodes).filter(|(_, node)| node.leaving.is_none());
        let room = |(site, node): (Domain, &'a Arc<Node>)| {
            let mut room = Room::of(snapshot, site, node, dimensions);
            let comes = |it: &&DaemonDemand<'a>| !retinue.is_kept_off(it.daemon, site, node, topology);
            room.expect_daemons(snapshot, daemons.iter().filter(comes), dimensions);
            room
        };
        let mut list: Vec<Room<'a>> = usable.map(room).collect();
        list.sort_by_key(|room| (room.node.stage != Stage::Initialized, room.node.name.as_str()));
        Self { list, parts: BTreeMap::new(), cursors: BTreeMap::new() }
    }

    /// The first room that takes the pod.
    pub(super) fn find(
        &mut self,
        turn: Turn,
        demand: &Demand<'a>,
        pod: &Pod,
        wants: &Wants<'a>,
        topology: &Topology<'a>,
        steps: &mut u64,
    ) -> Option<usize> {
        let level = &demand.levels[turn.level];
        let parts = self.parts(level, wants, topology);
        let cursors = self.cursors.entry(turn).or_insert_with(|| vec![0; parts.len()]);
        let mut best: Option<usize> = None;
        for (part, cursor) in parts.iter().zip(cursors) {
            *steps += 1;
            if !demand.attachments.is_empty() {
                // Who shares a volume that is attached already may fit where another of the shape did not.
                *cursor = 0;
            }
            let mut stands = level.fickle.iter().zip(&part.stands);
            if !stands.all(|(key, stand)| topology.allows_stand(&level.rules, &demand.shunned, *key, *stand)) {
                continue;
            }
            let found = part.rooms[*cursor..].iter().position(|room| {
                *steps += 1;
                self.list[*room].takes(demand, level, pod, topology)
            });
            *cursor = found.map_or(part.rooms.len(), |skipped| *cursor + skipped);
            let room = part.rooms.get(*cursor).copied();
            best = best.into_iter().chain(room).min();
        }
        best
    }

    /// How many rooms the labels and taints of a level suit.
    pub(super) fn count_suitable(&mut self, level: &Level, wants: &Wants<'a>, topology: &Topology<'a>) -> usize {
        self.parts(level, wants, topology).iter().map(|part| part.rooms.len()).sum()
    }

    fn parts(&mut self, level: &Level, wants: &Wants<'a>, topology: &Topology<'a>) -> Rc<[Part]> {
        let name = (level.class, level.fickle.clone());
        if let Some(known) = self.parts.get(&name) {
            return known.clone();
        }
        let class = wants.of_class(level.class);
        let mut parts: BTreeMap<Vec<Stand>, Vec<usize>> = BTreeMap::new();
        for (position, room) in self.list.iter().enumerate().filter(|(_, room)| room.suits(class, wants)) {
            let stands = level.fickle.iter().map(|key| topology.stand(*key, room.spot())).collect();
            parts.entry(stands).or_default().push(position);
        }
        let parts: Rc<[Part]> = parts.into_iter().map(|(stands, rooms)| Part { stands, rooms }).collect();
        self.parts.insert(name, parts.clone());
        parts
    }
}

impl<'a> Room<'a> {
    fn of(snapshot: &'a Snapshot, site: Domain, node: &'a Node, dimensions: &Dimensions) -> Self {
        let undecided = node.stage == Stage::InFlight && !node.requirements.is_empty();
        let open = undecided.then(|| {
            let own: Requirements = node.requirements.iter().collect();
            own.intersection(&Requirements::of_labels(&node.labels))
        });
        let mut left = dimensions.room(&node.allocatable, &node.attach_limits);
        let used = dimensions.amounts(&node.used);
        left.iter_mut().zip(used).for_each(|(left, used)| *left -= used);
        let mut room = Self {
            node,
            site,
            left,
            ports: node.pods.iter().flat_map(|pod| pod.shape.ports.iter().cloned()).collect(),
            attached: BTreeSet::new(),
            open,
            well_known: &snapshot.policy.well_known,
        };
        room.attach_bound(dimensions);
        room
    }

    fn attach_bound(&mut self, dimensions: &Dimensions) {
        for pod in &self.node.pods {
            for (volume, claim) in pod.shape.volumes.iter().zip(&pod.claims) {
                let Some(driver) = &volume.driver else { continue };
                if self.attached.insert((driver.clone(), claim.clone())) {
                    dimensions.add_attachments(&mut self.left, driver, -1);
                }
            }
        }
    }

    /// Keeps room for DaemonSet pods that will come and are not there yet; more than expected change nothing.
    fn expect_daemons<'d>(
        &mut self,
        snapshot: &'a Snapshot,
        daemons: impl Iterator<Item = &'d DaemonDemand<'a>>,
        dimensions: &Dimensions,
    ) where
        'a: 'd,
    {
        let coming: Vec<&DaemonDemand<'a>> = daemons.filter(|demand| self.expects(snapshot, demand)).collect();
        if coming.is_empty() {
            return;
        }
        let mut expected = dimensions.amounts(&crate::Resources::default());
        for demand in coming {
            add(&mut expected, &dimensions.amounts(&demand.daemon.shape.requests), 1);
            self.ports.extend(demand.daemon.shape.ports.iter().cloned());
        }
        let there = dimensions.amounts(&self.node.daemon_used);
        let missing = expected.iter().zip(&there).map(|(expected, there)| (expected - there).max(0));
        self.left.iter_mut().zip(missing).for_each(|(left, missing)| *left -= missing);
    }

    fn expects(&self, snapshot: &'a Snapshot, demand: &DaemonDemand<'a>) -> bool {
        match (&self.open, self.likely_type(snapshot)) {
            (Some(open), Some(offer)) => {
                let mould = Mould { taints: &self.node.taints, labels: &self.node.labels, well_known: self.well_known };
                demand.comes_with(&mould, open, &offer)
            }
            _ => demand.bears(&self.node.taints) && demand.any(|asked| self.meets(asked)),
        }
    }

    /// The type that a claim without an instance is taken for.
    fn likely_type(&self, snapshot: &'a Snapshot) -> Option<Offer<'a>> {
        let pool = snapshot.pools.iter().find(|pool| Some(&pool.name) == self.node.pool.as_ref())?;
        let types = &snapshot.catalogues.get(pool.catalogue)?.types;
        types.iter().find(|kind| Some(&kind.name) == self.node.instance_type.as_ref()).map(Offer::of)
    }

    /// Where the room is.
    pub(super) fn spot(&self) -> Spot<'static> {
        Spot { site: Some(self.site), pins: None }
    }

    /// Whether the pod may go here, as far as a refusal is for good: nodes only fill up.
    pub(super) fn takes(&self, demand: &Demand<'_>, level: &Level, pod: &Pod, topology: &Topology<'_>) -> bool {
        let clash = |port: &HostPort| self.ports.iter().any(|taken| taken.clashes(port));
        fits(&self.asked(demand, pod), &self.left)
            && !demand.shape.ports.iter().any(clash)
            && topology.allows_host(&level.rules, &demand.shunned, Some(self.site))
            && level.keys.iter().all(|key| {
                level.fickle.contains(key) || topology.allows_at(&level.rules, &demand.shunned, *key, self.spot())
            })
    }

    /// Whether the pod may go here in every respect.
    pub(super) fn admits(
        &self,
        demand: &Demand<'_>,
        level: &Level,
        pod: &Pod,
        wants: &Wants<'_>,
        topology: &Topology<'_>,
    ) -> bool {
        self.suits(wants.of_class(level.class), wants)
            && self.takes(demand, level, pod, topology)
            && level.fickle.iter().all(|key| topology.allows_at(&level.rules, &demand.shunned, *key, self.spot()))
    }

    /// How many more such pods there is room for.
    pub(super) fn times(&self, demand: &Demand<'_>) -> usize {
        let none = vec![0; self.left.len()];
        if demand.shape.ports.is_empty() { times(&demand.requests, &none, &self.left) } else { 1 }
    }

    /// Lets pods have their share.
    pub(super) fn take(&mut self, demand: &Demand<'_>, pods: &[&Pod]) {
        for pod in pods {
            let asked = self.asked(demand, pod);
            self.left.iter_mut().zip(asked.iter()).for_each(|(left, asked)| *left -= asked);
            attach(&mut self.attached, demand, pod);
        }
        self.ports.extend(demand.shape.ports.iter().cloned());
    }

    /// What the pod asks for here, where some of its volumes may be attached already.
    fn asked<'d>(&self, demand: &'d Demand<'_>, pod: &Pod) -> Cow<'d, [i64]> {
        asked(demand, pod, &self.attached)
    }

    fn suits(&self, class: &Class<'_>, wants: &Wants<'_>) -> bool {
        class.first_untolerated(&self.node.repelling()).is_none()
            && class.wants.iter().any(|it| self.meets(wants.get(*it)))
    }

    /// Whether every label is as asked, whatever the claim becomes.
    fn meets(&self, asked: &Requirements) -> bool {
        asked.iter().all(|(key, set)| self.meets_one(key, set))
    }

    fn meets_one(&self, key: &str, asked: &ValueSet) -> bool {
        match &self.open {
            None => asked.allows(self.node.labels.get(key).map(String::as_str)),
            Some(open) => match open.get(key) {
                Some(possible) => possible.is_subset(asked),
                None => !self.well_known.contains(key) && asked.allows(None),
            },
        }
    }
}

/// What a pod asks of a place where these volumes are attached.
pub(super) fn asked<'d>(demand: &'d Demand<'_>, pod: &Pod, attached: &Attached) -> Cow<'d, [i64]> {
    if attached.is_empty() || demand.attachments.is_empty() {
        return Cow::Borrowed(&demand.requests);
    }
    let mut amounts = demand.requests.to_vec();
    for (driver, dimension, claim) in demand.attachments_of(pod) {
        if attached.contains(&(driver.to_owned(), claim.to_owned())) {
            amounts[dimension] -= 1;
        }
    }
    Cow::Owned(amounts)
}

/// Notes the pod's volumes as attached.
pub(super) fn attach(attached: &mut Attached, demand: &Demand<'_>, pod: &Pod) {
    attached.extend(demand.attachments_of(pod).map(|(driver, _, claim)| (driver.to_owned(), claim.to_owned())));
}
