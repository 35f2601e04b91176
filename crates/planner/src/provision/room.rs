//! What is left on nodes that exist or are on their way.

use std::collections::BTreeSet;

use crate::{Node, Offer, Requirements, Resources, Snapshot, Stage, ValueSet};

use super::demand::{Demand, Tolerance};
use super::overhead;

/// A node that may take pods.
pub(super) struct Room<'a> {
    pub(super) node: &'a Node,
    left: Resources,
    /// Set while the claim has no instance: what it may still become.
    open: Option<Requirements>,
    well_known: &'a BTreeSet<String>,
}

/// Nodes that may take pods: initialized ones first, then by name.
pub(super) fn in_order(snapshot: &Snapshot) -> Vec<Room<'_>> {
    let daemons: Vec<Demand<'_>> = snapshot.daemons.iter().map(|daemon| Demand::of(&daemon.shape)).collect();
    let usable = snapshot.nodes.iter().filter(|node| node.leaving.is_none() && !node.unschedulable);
    let mut rooms: Vec<Room<'_>> = usable.map(|node| Room::of(snapshot, node, &daemons)).collect();
    rooms.sort_by_key(|room| (room.node.stage != Stage::Initialized, room.node.name.as_str()));
    rooms
}

impl<'a> Room<'a> {
    fn of(snapshot: &'a Snapshot, node: &'a Node, daemons: &[Demand<'a>]) -> Self {
        let undecided = node.stage == Stage::InFlight && !node.requirements.is_empty();
        let open = undecided.then(|| {
            let own: Requirements = node.requirements.iter().collect();
            own.intersection(&Requirements::of_labels(&node.labels))
        });
        let mut left = node.allocatable.clone();
        left.subtract(&node.used);
        let mut room = Self { node, left, open, well_known: &snapshot.policy.well_known };
        let expected = room.expected_daemons(snapshot, daemons);
        room.reserve(&expected);
        room
    }

    /// Requests of the DaemonSet pods that this node will have, running or not.
    fn expected_daemons(&self, snapshot: &'a Snapshot, daemons: &[Demand<'a>]) -> Resources {
        let mut expected = Resources::default();
        let mut count = |demand: &Demand<'_>| expected.add(demand.requests);
        match (&self.open, self.likely_type(snapshot)) {
            (Some(open), Some(offer)) => {
                overhead::daemons(snapshot, daemons, open, &self.node.labels, &self.node.taints, &offer)
                    .for_each(count);
            }
            _ => daemons.iter().filter(|demand| self.matches(demand, Tolerance::Lenient)).for_each(&mut count),
        }
        expected
    }

    /// The type that a claim without an instance is taken for.
    fn likely_type(&self, snapshot: &'a Snapshot) -> Option<Offer<'a>> {
        let pool = snapshot.pools.iter().find(|pool| Some(&pool.name) == self.node.pool.as_ref())?;
        let types = &snapshot.catalogues.get(pool.catalogue)?.types;
        types.iter().find(|kind| Some(&kind.name) == self.node.instance_type.as_ref()).map(Offer::of)
    }

    /// Keeps room for daemons that are expected and not there yet; more daemons than expected change nothing.
    fn reserve(&mut self, expected: &Resources) {
        let missing =
            |(name, amount): (&str, i64)| (name.to_owned(), (amount - self.node.daemon_used.get(name)).max(0));
        let missing: Resources = expected.iter().map(missing).collect();
        self.left.subtract(&missing);
    }

    /// Whether the pod may go here.
    pub(super) fn takes(&self, demand: &Demand<'_>, tolerance: Tolerance) -> bool {
        demand.requests.fits(&self.left) && self.matches(demand, tolerance)
    }

    /// Lets a pod have its share.
    pub(super) fn take(&mut self, demand: &Demand<'_>) {
        self.left.subtract(demand.requests);
    }

    fn matches(&self, demand: &Demand<'_>, tolerance: Tolerance) -> bool {
        demand.first_untolerated(&self.node.taints, tolerance).is_none()
            && demand.alternatives.iter().any(|asked| asked.iter().all(|(key, set)| self.meets(key, set)))
    }

    /// Whether one label is as asked, whatever the claim becomes.
    fn meets(&self, key: &str, asked: &ValueSet) -> bool {
        match &self.open {
            None => asked.allows(self.node.labels.get(key).map(String::as_str)),
            Some(open) => match open.get(key) {
                Some(possible) => possible.is_subset(asked),
                None => !self.well_known.contains(key) && asked.allows(None),
            },
        }
    }
}
