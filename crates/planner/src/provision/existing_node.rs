//! Free capacity on existing and in-flight nodes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::utilization_limit::UtilizationLimit;
use crate::{HostPort, Node, Offer, Overload, Pod, Requirements, Size, Snapshot, Stage, ValueSet};

use super::Attempt;
use super::daemon_overhead::DaemonOverhead;
use super::demand::{Demand, PreferenceLevel};
use super::dimensions::{Amounts, Dimensions, add, fits, times};
use super::free_capacity::FreeCapacity;
use super::pool_template::{self, DaemonDemand, NodeOutline};
use super::requirement_sets::{ClassId, DemandClass, RequirementSets};
use super::topology::{Domain, KeyId, Spot, Stand, Topology};
use super::utilization::UtilizationLimits;

/// Volumes on a node: driver and claim.
pub(super) type Attached = BTreeSet<(String, String)>;

/// Node that may take pods.
#[derive(Clone)]
pub(super) struct ExistingNode<'a> {
    pub(super) node: &'a Node,
    pub(super) site: Domain,
    ports: Vec<HostPort>,
    attached: Attached,
    /// Possible labels while the claim has no instance.
    open: Option<Requirements>,
    well_known: &'a BTreeSet<String>,
}

/// Existing nodes in the order in which they are tried, with cached search results.
#[derive(Clone)]
pub(super) struct ExistingNodes<'a> {
    pub(super) list: Vec<ExistingNode<'a>>,
    by_name: Arc<BTreeMap<&'a str, usize>>,
    left: FreeCapacity,
    parts: NodeParts,
    searches: BTreeMap<Attempt, NodeSearch>,
    /// Measured utilization of nodes, while pods move.
    ceilings: UtilizationLimits<'a>,
    /// Earlier state, while a command is tried.
    trial: Option<Trial<'a>>,
}

/// Nodes and cursors that a command has changed so far, in their earlier state.
#[derive(Clone, Default)]
struct Trial<'a> {
    rooms: BTreeMap<usize, (ExistingNode<'a>, Vec<i64>, Option<UtilizationLimit>)>,
    cursors: BTreeMap<Attempt, Vec<usize>>,
}

/// Nodes that a class can use by labels and taints, grouped by their state for some keys.
#[derive(Clone, Default)]
struct NodeParts(BTreeMap<(ClassId, Vec<KeyId>), Arc<[NodePart]>>);

/// Nodes with the same state for each of some keys.
struct NodePart {
    stands: Vec<Stand>,
    rooms: Vec<usize>,
}

/// Progress of the search for pods of an attempt: for each part the first node that has not refused for good.
#[derive(Clone)]
struct NodeSearch {
    parts: Arc<[NodePart]>,
    cursors: Vec<usize>,
    /// First node that only its utilization limit excluded for some pod.
    busy: Option<usize>,
}

impl<'a> ExistingNodes<'a> {
    /// Returns nodes that may take pods: initialized nodes first, then by name. Nodes that expired before registration take no
    /// pods.
    pub(super) fn of(
        snapshot: &'a Snapshot,
        dimensions: &Dimensions,
        daemon_overhead: &DaemonOverhead<'a>,
        topology: &Topology<'a>,
    ) -> Self {
        let daemons = pool_template::daemons(snapshot);
        let mut usable: Vec<(Domain, &'a Node)> =
            (0..).zip(&snapshot.nodes).map(|(site, node)| (site, node.as_ref())).collect();
        usable.retain(|(_, node)| node.leaving.is_none());
        usable.sort_by_key(|(_, node)| (node.stage != Stage::Initialized, node.name.as_str()));
        let mut left = Vec::new();
        let room = |(site, node): (Domain, &'a Node)| {
            let (mut room, mut amounts) = ExistingNode::of(snapshot, site, node, dimensions);
            let comes = |it: &&DaemonDemand<'a>| !daemon_overhead.is_kept_off(it.daemon, site, node, topology);
            room.expect_daemons(&mut amounts, snapshot, daemons.iter().filter(comes), dimensions);
            left.push(amounts);
            room
        };
        let list: Vec<ExistingNode<'a>> = usable.into_iter().map(room).collect();
        let (by_name, mut left) = (names_of(&list), FreeCapacity::new(&left));
        let stillborn = (0..list.len()).filter(|room| list[*room].node.never_registered(snapshot.now));
        stillborn.for_each(|room| left.close(room));
        let (parts, searches, ceilings) = (NodeParts::default(), BTreeMap::new(), UtilizationLimits::default());
        Self { list, by_name, left, parts, searches, ceilings, trial: None }
    }

    /// Returns the first node that takes the pod at this position.
    pub(super) fn find(
        &mut self,
        turn: Attempt,
        demand: &Demand<'a>,
        (position, pod): (usize, &Pod),
        wants: &RequirementSets<'a>,
        topology: &Topology<'a>,
        steps: &mut u64,
    ) -> Option<usize> {
        let level = &demand.levels[turn.level];
        let Self { list, left, parts, searches, ceilings, trial, .. } = self;
        let NodeSearch { parts, cursors, busy } =
            searches.entry(turn).or_insert_with(|| NodeSearch::of(parts.of(list, level, wants, topology)));
        if let Some(trial) = trial {
            trial.cursors.entry(turn).or_insert_with(|| cursors.clone());
        }
        let mut best = usize::MAX;
        for (part, cursor) in parts.iter().zip(cursors) {
            *steps += 1;
            if !demand.attachments.is_empty() {
                // A pod that shares an attached volume may fit where another pod of the shape did not.
                *cursor = 0;
            }
            let mut stands = level.fickle.iter().zip(&part.stands);
            if !stands.all(|(key, stand)| topology.allows_stand(&level.rules, &demand.shunned, *key, *stand)) {
                continue;
            }
            let (mut at, mut for_good) = (*cursor, true);
            while let Some(room) = part.rooms.get(at).copied().filter(|room| *room < best) {
                *steps += 1;
                let full = if demand.attachments.is_empty() { left.full_from(room, &demand.requests) } else { 0 };
                if full > 0 {
                    let reach = part.rooms.len().min(at + full);
                    at += part.rooms[at..reach].partition_point(|other| *other < room + full);
                } else if !list[room].takes(left.row(room), demand, level, pod, topology) {
                    at += 1;
                } else if ceilings.overload(room, position).is_none() {
                    best = room;
                } else {
                    // A pod of the shape with lower usage may still fit there.
                    for_good &= ceilings.is_too_much_for_all(room, turn.shape);
                    busy.get_or_insert(room);
                    at += 1;
                }
                if for_good {
                    *cursor = at;
                }
            }
        }
        (best < usize::MAX).then_some(best)
    }

    /// Returns the number of nodes whose labels and taints satisfy a level.
    pub(super) fn count_suitable(
        &mut self,
        level: &PreferenceLevel,
        wants: &RequirementSets<'a>,
        topology: &Topology<'a>,
    ) -> usize {
        self.parts.of(&self.list, level, wants, topology).iter().map(|part| part.rooms.len()).sum()
    }

    /// Reports whether a node satisfies all constraints of a pod.
    pub(super) fn admits(
        &self,
        room: usize,
        demand: &Demand<'_>,
        level: &PreferenceLevel,
        pod: &Pod,
        wants: &RequirementSets<'_>,
        topology: &Topology<'_>,
    ) -> bool {
        let own = &self.list[room];
        own.suits(wants.of_class(level.class), wants)
            && own.takes(self.left.row(room), demand, level, pod, topology)
            && level.fickle.iter().all(|key| topology.allows_at(&level.rules, &demand.shunned, *key, own.spot()))
    }

    /// Returns the position of a node.
    pub(super) fn named(&self, node: &str) -> Option<usize> {
        self.by_name.get(node).copied()
    }

    /// Returns how many more such pods fit on a node.
    pub(super) fn times(&self, room: usize, demand: &Demand<'_>) -> usize {
        let none = vec![0; demand.requests.len()];
        if demand.shape.ports.is_empty() { times(&demand.requests, &none, self.left.row(room)) } else { 1 }
    }

    /// Assigns capacity of a node to the pods at these positions.
    pub(super) fn take(&mut self, room: usize, demand: &Demand<'_>, positions: &[usize], all: &[Pod]) {
        self.remember(room);
        let own = &mut self.list[room];
        for position in positions {
            let pod = &all[*position];
            self.left.take(room, &asked(demand, pod, &own.attached));
            attach(&mut own.attached, demand, pod);
            self.ceilings.take(room, *position);
        }
        own.ports.extend(demand.shape.ports.iter().cloned());
        self.left.settle(room);
    }
}

/// Trials of disruption commands.
impl<'a> ExistingNodes<'a> {
    /// Changes the order in which nodes are tried: by key, then as before. Must run before any search.
    pub(super) fn reorder<K: Ord>(&mut self, key: impl Fn(&Node) -> K) {
        let mut order: Vec<usize> = (0..self.list.len()).collect();
        order.sort_by_cached_key(|room| key(self.list[*room].node));
        let rows: Vec<Amounts> = order.iter().map(|room| self.left.row(*room).into()).collect();
        self.list = order.iter().map(|room| self.list[*room].clone()).collect();
        self.by_name = names_of(&self.list);
        self.left = FreeCapacity::new(&rows);
    }

    /// Counts the measured usage of pods, by position, on nodes with a utilization limit from now on. The limits do not exclude
    /// any pod yet.
    pub(super) fn track_utilization(
        &mut self,
        uses: &'a [Size],
        demand_of: &[usize],
        ceiling: impl Fn(&Node) -> Option<UtilizationLimit>,
    ) {
        let own = self.list.iter().map(|room| ceiling(room.node)).collect();
        self.ceilings = UtilizationLimits::new(own, uses, demand_of);
    }

    /// Excludes pods from nodes that they would overload.
    pub(super) fn apply_utilization_limits(&mut self) {
        self.ceilings.heeded = true;
    }

    /// Returns how many of these pods, counted from the first, keep a node below its utilization limit. The first pod does.
    pub(super) fn below_utilization_limit(&self, room: usize, pods: &[usize]) -> usize {
        self.ceilings.most(room, pods)
    }

    /// Returns the first node that was too busy for a pod of this attempt.
    pub(super) fn first_overloaded(&self, turn: Attempt) -> Option<usize> {
        self.searches.get(&turn)?.busy
    }

    /// Returns the overload that the pod at this position would cause on a node, if any.
    pub(super) fn overload(&self, room: usize, position: usize) -> Option<Overload> {
        self.ceilings.overload(room, position)
    }

    /// Begins a command that can be reverted.
    pub(super) fn try_out(&mut self) {
        self.trial = Some(Trial::default());
    }

    /// Accepts the command.
    pub(super) fn keep(&mut self) {
        self.trial = None;
    }

    /// Reverts the command.
    pub(super) fn undo(&mut self) {
        let Some(trial) = self.trial.take() else { return };
        for (room, (before, row, ceiling)) in trial.rooms {
            self.list[room] = before;
            self.left.put_back(room, &row);
            self.ceilings.put_back(room, ceiling);
        }
        for (turn, cursors) in trial.cursors {
            self.searches.entry(turn).and_modify(|search| search.cursors = cursors);
        }
    }

    /// Excludes a node from further placements.
    pub(super) fn close(&mut self, room: usize) {
        self.remember(room);
        self.left.close(room);
    }

    /// Adds capacity to a node that is not closed. Resets all searches, because nodes that refused may fit now.
    pub(super) fn widen(&mut self, room: usize, by: &[i64]) {
        if let Some(left) = self.left(room) {
            let row: Vec<i64> = left.iter().zip(by).map(|(left, by)| left + by).collect();
            self.left.put_back(room, &row);
            self.searches.clear();
        }
    }

    /// Returns the free capacity of a node that is not closed.
    pub(super) fn left(&self, room: usize) -> Option<&[i64]> {
        (!self.left.is_closed(room)).then(|| self.left.row(room))
    }

    fn remember(&mut self, room: usize) {
        if let Some(trial) = &mut self.trial {
            let (list, left, ceilings) = (&self.list, &self.left, &self.ceilings);
            let before = || (list[room].clone(), left.row(room).to_vec(), ceilings.get(room));
            trial.rooms.entry(room).or_insert_with(before);
        }
    }
}

impl NodeParts {
    fn of<'a>(
        &mut self,
        rooms: &[ExistingNode<'a>],
        level: &PreferenceLevel,
        wants: &RequirementSets<'a>,
        topology: &Topology<'a>,
    ) -> Arc<[NodePart]> {
        let name = (level.class, level.fickle.clone());
        if let Some(known) = self.0.get(&name) {
            return known.clone();
        }
        let class = wants.of_class(level.class);
        let mut parts: BTreeMap<Vec<Stand>, Vec<usize>> = BTreeMap::new();
        for (position, room) in rooms.iter().enumerate().filter(|(_, room)| room.suits(class, wants)) {
            let stands = level.fickle.iter().map(|key| topology.stand(*key, room.spot())).collect();
            parts.entry(stands).or_default().push(position);
        }
        let parts: Arc<[NodePart]> = parts.into_iter().map(|(stands, rooms)| NodePart { stands, rooms }).collect();
        self.0.insert(name, parts.clone());
        parts
    }
}

fn names_of<'a>(rooms: &[ExistingNode<'a>]) -> Arc<BTreeMap<&'a str, usize>> {
    Arc::new(rooms.iter().enumerate().map(|(position, room)| (room.node.name.as_str(), position)).collect())
}

impl NodeSearch {
    fn of(parts: Arc<[NodePart]>) -> Self {
        Self { cursors: vec![0; parts.len()], parts, busy: None }
    }
}

impl<'a> ExistingNode<'a> {
    /// Creates a node with the capacity that its pods leave free.
    fn of(snapshot: &'a Snapshot, site: Domain, node: &'a Node, dimensions: &Dimensions) -> (Self, Amounts) {
        let undecided = node.stage == Stage::InFlight && !node.requirements.is_empty();
        let open = undecided.then(|| {
            let own: Requirements = node.requirements.iter().collect();
            own.intersection(&Requirements::from_labels(&node.labels))
        });
        let mut left = dimensions.room(&node.allocatable, &node.attach_limits);
        dimensions.subtract(&mut left, &node.used);
        let mut room = Self {
            node,
            site,
            ports: node.pods.iter().flat_map(|pod| pod.shape.ports.iter().cloned()).collect(),
            attached: BTreeSet::new(),
            open,
            well_known: &snapshot.policy.well_known,
        };
        room.attach_bound(&mut left, dimensions);
        (room, left)
    }

    fn attach_bound(&mut self, left: &mut Amounts, dimensions: &Dimensions) {
        for pod in &self.node.pods {
            for (volume, claim) in pod.shape.volumes.iter().zip(&pod.claims) {
                let Some(driver) = &volume.driver else { continue };
                if self.attached.insert((driver.clone(), claim.clone())) {
                    dimensions.add_attachments(left, driver, -1);
                }
            }
        }
    }

    /// Reserves capacity for DaemonSet pods that do not run yet. More DaemonSet pods than expected change nothing.
    fn expect_daemons<'d>(
        &mut self,
        left: &mut Amounts,
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
        left.iter_mut().zip(missing).for_each(|(left, missing)| *left -= missing);
    }

    fn expects(&self, snapshot: &'a Snapshot, demand: &DaemonDemand<'a>) -> bool {
        match (&self.open, self.likely_type(snapshot)) {
            (Some(open), Some(offer)) => {
                let in_flight_node =
                    NodeOutline { taints: &self.node.taints, labels: &self.node.labels, well_known: self.well_known };
                demand.comes_with(&in_flight_node, open, &offer)
            }
            _ => demand.bears(&self.node.taints) && demand.any(|asked| self.meets(asked)),
        }
    }

    /// Returns the type that a claim without an instance is assumed to be.
    fn likely_type(&self, snapshot: &'a Snapshot) -> Option<Offer<'a>> {
        let pool = snapshot.pools.iter().find(|pool| Some(&pool.name) == self.node.pool.as_ref())?;
        let types = &snapshot.catalogues.get(pool.catalogue)?.types;
        types.iter().find(|kind| Some(&kind.name) == self.node.instance_type.as_ref()).map(Offer::new)
    }

    /// Returns the node's location for topology rules.
    pub(super) fn spot(&self) -> Spot<'static> {
        Spot { site: Some(self.site), pins: None }
    }

    /// Reports whether the pod fits into the free capacity, considering only refusals that are permanent: nodes only become
    /// fuller.
    fn takes(
        &self,
        left: &[i64],
        demand: &Demand<'_>,
        level: &PreferenceLevel,
        pod: &Pod,
        topology: &Topology<'_>,
    ) -> bool {
        let clash = |port: &HostPort| self.ports.iter().any(|taken| taken.clashes(port));
        fits(&asked(demand, pod, &self.attached), left)
            && !demand.shape.ports.iter().any(clash)
            && topology.allows_host(&level.rules, &demand.shunned, Some(self.site))
            && level.keys.iter().all(|key| {
                level.fickle.contains(key) || topology.allows_at(&level.rules, &demand.shunned, *key, self.spot())
            })
    }

    /// Reports whether its labels and taints satisfy a class.
    pub(super) fn suits(&self, class: &DemandClass<'_>, wants: &RequirementSets<'_>) -> bool {
        class.first_untolerated(&self.node.repelling()).is_none()
            && class.wants.iter().any(|it| self.meets(wants.get(*it)))
    }

    /// Reports whether every label satisfies the requirements, in every possible state of the claim.
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

/// Returns the amounts that a pod adds where these volumes are attached.
pub(super) fn asked<'d>(demand: &'d Demand<'_>, pod: &Pod, attached: &Attached) -> Cow<'d, [i64]> {
    if demand.attachments.is_empty() || attached.is_empty() {
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

/// Records the pod's volumes as attached.
pub(super) fn attach(attached: &mut Attached, demand: &Demand<'_>, pod: &Pod) {
    attached.extend(demand.attachments_of(pod).map(|(driver, _, claim)| (driver.to_owned(), claim.to_owned())));
}
