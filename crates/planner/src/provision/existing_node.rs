//! Free capacity on existing and in-flight nodes.

pub(super) mod free_capacity;
pub(super) mod utilization;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::utilization_limit::UtilizationLimit;
use crate::{Daemon, HostPort, Node, Offer, Overload, Pod, Requirements, Size, Snapshot, Stage, ValueSet};

use super::Attempt;
use super::capacity::pool_template;
use super::capacity::pool_template::{DaemonDemand, NodeOutline};
use super::daemon_overhead::DaemonOverhead;
use super::demand::dimensions::{Amounts, Dimensions, fits, times};
use super::demand::requirement_sets::{ClassId, DemandClass, RequirementSets};
use super::demand::{Attached, Demand, PreferenceLevel, asked, attach};
use super::topology::{Domain, KeyId, Spot, Stand, Topology};
use free_capacity::FreeCapacity;
use utilization::UtilizationLimits;

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
    /// Pods of the snapshot.
    pods: &'a [Pod],
    left: FreeCapacity,
    parts: NodeParts,
    searches: BTreeMap<Attempt, NodeSearch>,
    /// Measured utilization of nodes, while pods move.
    utilization_limits: UtilizationLimits<'a>,
    /// Earlier state, while a command is tried.
    trial: Option<Trial<'a>>,
}

/// Nodes and cursors that a command has changed so far, in their earlier state.
#[derive(Clone, Default)]
struct Trial<'a> {
    nodes: BTreeMap<usize, (ExistingNode<'a>, Vec<i64>, Option<UtilizationLimit>)>,
    cursors: BTreeMap<Attempt, Vec<usize>>,
}

/// Nodes that a class can use by labels and taints, grouped by their state for some keys.
#[derive(Clone, Default)]
struct NodeParts(BTreeMap<(ClassId, Vec<KeyId>), Arc<[NodePart]>>);

/// Nodes with the same state for each of some keys.
struct NodePart {
    stands: Vec<Stand>,
    nodes: Vec<usize>,
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
    pub(super) fn new(
        snapshot: &'a Snapshot,
        dimensions: &Dimensions,
        daemon_overhead: &DaemonOverhead<'a>,
        topology: &Topology<'a>,
    ) -> Self {
        let daemons = pool_template::daemons(snapshot);
        let mut usable: Vec<(Domain, &'a Node)> =
            (0..).zip(&snapshot.nodes).map(|(site, node)| (site, node.as_ref())).collect();
        let inactive = snapshot.inactive_pools();
        let is_inactive = |node: &Node| node.pool.as_deref().is_some_and(|pool| inactive.contains(pool));
        usable.retain(|(_, node)| node.leaving.is_none() && !is_inactive(node));
        usable.sort_by_key(|(_, node)| (node.stage != Stage::Initialized, node.name.as_str()));
        let mut left = Vec::new();
        let existing = |(site, node): (Domain, &'a Node)| {
            let (mut existing, mut amounts) = ExistingNode::of(snapshot, site, node, dimensions);
            let comes = |it: &&DaemonDemand<'a>| !daemon_overhead.is_kept_off(it.daemon, site, node, topology);
            existing.expect_daemons(&mut amounts, snapshot, daemons.iter().filter(comes), dimensions);
            left.push(amounts);
            existing
        };
        let list: Vec<ExistingNode<'a>> = usable.into_iter().map(existing).collect();
        let (by_name, mut left) = (names_of(&list), FreeCapacity::new(&left));
        let never_registered = (0..list.len()).filter(|node| list[*node].node.never_registered(snapshot.now));
        never_registered.for_each(|node| left.close(node));
        let (parts, searches, utilization_limits) =
            (NodeParts::default(), BTreeMap::new(), UtilizationLimits::default());
        Self { list, by_name, pods: &snapshot.pods, left, parts, searches, utilization_limits, trial: None }
    }

    /// Returns the first node that takes a pod.
    pub(super) fn find(
        &mut self,
        attempt: Attempt,
        demand: &Demand<'a>,
        pod: usize,
        requirement_sets: &RequirementSets<'a>,
        topology: &Topology<'a>,
        steps: &mut u64,
    ) -> Option<usize> {
        let level = &demand.levels[attempt.level];
        let Self { list, pods, left, parts, searches, utilization_limits, trial, .. } = self;
        let NodeSearch { parts, cursors, busy } = searches
            .entry(attempt)
            .or_insert_with(|| NodeSearch::new(parts.of(list, level, requirement_sets, topology)));
        if let Some(trial) = trial {
            trial.cursors.entry(attempt).or_insert_with(|| cursors.clone());
        }
        let mut best = usize::MAX;
        for (part, cursor) in parts.iter().zip(cursors) {
            *steps += 1;
            if !demand.attachments.is_empty() {
                // A pod that shares an attached volume may fit where another pod of the shape did not.
                *cursor = 0;
            }
            let mut stands = level.temporary.iter().zip(&part.stands);
            if !stands.all(|(key, stand)| topology.allows_stand(&level.rules, &demand.excluded_by, *key, *stand)) {
                continue;
            }
            let (mut at, mut for_good) = (*cursor, true);
            while let Some(node) = part.nodes.get(at).copied().filter(|node| *node < best) {
                *steps += 1;
                let full = if demand.attachments.is_empty() { left.full_from(node, &demand.requests) } else { 0 };
                if full > 0 {
                    let reach = part.nodes.len().min(at + full);
                    at += part.nodes[at..reach].partition_point(|other| *other < node + full);
                } else if !list[node].takes(left.row(node), demand, level, &pods[pod], topology) {
                    at += 1;
                } else if utilization_limits.overload(node, pod).is_none() {
                    best = node;
                } else {
                    // A pod of the shape with lower usage may still fit there.
                    for_good &= utilization_limits.is_too_much_for_all(node, attempt.shape);
                    busy.get_or_insert(node);
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
        requirement_sets: &RequirementSets<'a>,
        topology: &Topology<'a>,
    ) -> usize {
        self.parts.of(&self.list, level, requirement_sets, topology).iter().map(|part| part.nodes.len()).sum()
    }

    /// Reports whether a node satisfies all constraints of a pod.
    pub(super) fn admits(
        &self,
        node: usize,
        demand: &Demand<'_>,
        level: &PreferenceLevel,
        pod: usize,
        requirement_sets: &RequirementSets<'_>,
        topology: &Topology<'_>,
    ) -> bool {
        let own = &self.list[node];
        own.suits(requirement_sets.of_class(level.class), requirement_sets)
            && own.takes(self.left.row(node), demand, level, &self.pods[pod], topology)
            && level.temporary.iter().all(|key| topology.allows_at(&level.rules, &demand.excluded_by, *key, own.spot()))
    }

    /// Returns the position of a node.
    pub(super) fn named(&self, node: &str) -> Option<usize> {
        self.by_name.get(node).copied()
    }

    /// Returns how many more such pods fit on a node.
    pub(super) fn times(&self, node: usize, demand: &Demand<'_>) -> usize {
        let none = vec![0; demand.requests.len()];
        if demand.shape.ports.is_empty() { times(&demand.requests, &none, self.left.row(node)) } else { 1 }
    }

    /// Assigns capacity of a node to pods.
    pub(super) fn take(&mut self, node: usize, demand: &Demand<'_>, pods: &[usize]) {
        self.remember(node);
        let own = &mut self.list[node];
        for position in pods {
            let pod = &self.pods[*position];
            self.left.take(node, &asked(demand, pod, &own.attached));
            attach(&mut own.attached, demand, pod);
            self.utilization_limits.take(node, *position);
        }
        own.ports.extend(demand.shape.ports.iter().cloned());
        self.left.settle(node);
    }
}

/// Trials of disruption commands.
impl<'a> ExistingNodes<'a> {
    /// Changes the order in which nodes are tried: by key, then as before. Must run before any search.
    pub(super) fn reorder<K: Ord>(&mut self, key: impl Fn(&Node) -> K) {
        let mut order: Vec<usize> = (0..self.list.len()).collect();
        order.sort_by_cached_key(|node| key(self.list[*node].node));
        let rows: Vec<Amounts> = order.iter().map(|node| self.left.row(*node).into()).collect();
        self.list = order.iter().map(|node| self.list[*node].clone()).collect();
        self.by_name = names_of(&self.list);
        self.left = FreeCapacity::new(&rows);
    }

    /// Counts the measured usage of pods, by position, on nodes with a utilization limit from now on. The limits do not exclude
    /// any pod yet.
    pub(super) fn track_utilization(
        &mut self,
        uses: &'a [Size],
        demand_of: &[usize],
        limit: impl Fn(&Node) -> Option<UtilizationLimit>,
    ) {
        let own = self.list.iter().map(|node| limit(node.node)).collect();
        self.utilization_limits = UtilizationLimits::new(own, uses, demand_of);
    }

    /// Excludes pods from nodes that they would overload.
    pub(super) fn apply_utilization_limits(&mut self) {
        self.utilization_limits.applied = true;
    }

    /// Returns how many of these pods, counted from the first, keep a node below its utilization limit. The first pod does.
    pub(super) fn below_utilization_limit(&self, node: usize, pods: &[usize]) -> usize {
        self.utilization_limits.most(node, pods)
    }

    /// Returns the first node that was too busy for a pod of this attempt.
    pub(super) fn first_overloaded(&self, attempt: Attempt) -> Option<usize> {
        self.searches.get(&attempt)?.busy
    }

    /// Returns the overload that the pod at this position would cause on a node, if any.
    pub(super) fn overload(&self, node: usize, position: usize) -> Option<Overload> {
        self.utilization_limits.overload(node, position)
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
        for (node, (before, row, limit)) in trial.nodes {
            self.list[node] = before;
            self.left.put_back(node, &row);
            self.utilization_limits.put_back(node, limit);
        }
        for (attempt, cursors) in trial.cursors {
            self.searches.entry(attempt).and_modify(|search| search.cursors = cursors);
        }
    }

    /// Excludes a node from further placements.
    pub(super) fn close(&mut self, node: usize) {
        self.remember(node);
        self.left.close(node);
    }

    /// Adds capacity to a node that is not closed. Resets all searches, because nodes that refused may fit now.
    pub(super) fn widen(&mut self, node: usize, by: &[i64]) {
        if let Some(left) = self.left(node) {
            let row: Vec<i64> = left.iter().zip(by).map(|(left, by)| left + by).collect();
            self.left.put_back(node, &row);
            self.searches.clear();
        }
    }

    /// Returns the free capacity of a node that is not closed.
    pub(super) fn left(&self, node: usize) -> Option<&[i64]> {
        (!self.left.is_closed(node)).then(|| self.left.row(node))
    }

    fn remember(&mut self, node: usize) {
        if let Some(trial) = &mut self.trial {
            let (list, left, utilization_limits) = (&self.list, &self.left, &self.utilization_limits);
            let before = || (list[node].clone(), left.row(node).to_vec(), utilization_limits.get(node));
            trial.nodes.entry(node).or_insert_with(before);
        }
    }
}

impl NodeParts {
    fn of<'a>(
        &mut self,
        nodes: &[ExistingNode<'a>],
        level: &PreferenceLevel,
        requirement_sets: &RequirementSets<'a>,
        topology: &Topology<'a>,
    ) -> Arc<[NodePart]> {
        let name = (level.class, level.temporary.clone());
        if let Some(known) = self.0.get(&name) {
            return known.clone();
        }
        let class = requirement_sets.of_class(level.class);
        let mut parts: BTreeMap<Vec<Stand>, Vec<usize>> = BTreeMap::new();
        for (position, node) in nodes.iter().enumerate().filter(|(_, node)| node.suits(class, requirement_sets)) {
            let stands = level.temporary.iter().map(|key| topology.stand(*key, node.spot())).collect();
            parts.entry(stands).or_default().push(position);
        }
        let parts: Arc<[NodePart]> = parts.into_iter().map(|(stands, nodes)| NodePart { stands, nodes }).collect();
        self.0.insert(name, parts.clone());
        parts
    }
}

fn names_of<'a>(nodes: &[ExistingNode<'a>]) -> Arc<BTreeMap<&'a str, usize>> {
    Arc::new(nodes.iter().enumerate().map(|(position, node)| (node.node.name.as_str(), position)).collect())
}

impl NodeSearch {
    fn new(parts: Arc<[NodePart]>) -> Self {
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
        let mut left = dimensions.node_amounts(&node.allocatable, &node.attach_limits);
        dimensions.subtract(&mut left, &node.used);
        let mut existing = Self {
            node,
            site,
            ports: node.pods.iter().flat_map(|pod| pod.shape.ports.iter().cloned()).collect(),
            attached: BTreeSet::new(),
            open,
            well_known: &snapshot.policy.well_known,
        };
        existing.attach_bound(&mut left, dimensions);
        (existing, left)
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

    /// Reserves capacity for DaemonSet pods that do not run yet, or that request more when they are created again. A DaemonSet
    /// with more than its expected requests leaves nothing to another one.
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
        for Daemon { name, shape } in coming.iter().map(|demand| demand.daemon) {
            self.ports.extend(shape.ports.iter().cloned());
            let mut missing = shape.requests.clone();
            self.node.daemon_used.get(name).iter().for_each(|there| missing.subtract(there));
            left.iter_mut().zip(dimensions.amounts(&missing)).for_each(|(left, missing)| *left -= missing.max(0));
        }
    }

    fn expects(&self, snapshot: &'a Snapshot, demand: &DaemonDemand<'a>) -> bool {
        match (&self.open, self.likely_type(snapshot)) {
            (Some(open), Some(offer)) => {
                let in_flight_node =
                    NodeOutline { taints: &self.node.taints, labels: &self.node.labels, well_known: self.well_known };
                demand.comes_with(&in_flight_node, open, &offer)
            }
            _ => demand.tolerates(&self.node.taints) && demand.any(|asked| self.meets(asked)),
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
            && topology.allows_host(&level.rules, &demand.excluded_by, Some(self.site))
            && level.keys.iter().all(|key| {
                level.temporary.contains(key)
                    || topology.allows_at(&level.rules, &demand.excluded_by, *key, self.spot())
            })
    }

    /// Reports whether its labels and taints satisfy a class.
    pub(super) fn suits(&self, class: &DemandClass<'_>, requirement_sets: &RequirementSets<'_>) -> bool {
        class.first_untolerated(&self.node.repelling()).is_none()
            && class.alternatives.iter().any(|it| self.meets(requirement_sets.get(*it)))
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
