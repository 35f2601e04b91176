//! NodePool as a template for new nodes: its requirements, and its instance types with their DaemonSet overhead.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::{
    CapacityType, Daemon, Effect, HostPort, Offer, Offering, Pool, Requirements, Resources, Snapshot, Taint, ValueSet,
    label,
};

use super::demand::with_volumes;
use super::dimensions::{Amounts, Dimensions, first_lacking, fits};
use super::limits::{Footprint, footprint};
use super::requirement_sets::{Tolerance, first_untolerated};
use super::topology::{Counts, PossibleLabels};

/// Placeholder for the name of a new node; no label value can contain a space.
const NEW_NODE: &str = "a new name";

/// NodePool, compiled for the search.
pub(super) struct PoolTemplate<'a> {
    pub(super) pool: &'a Pool,
    pub(super) requirements: Requirements,
    /// Types that the NodePool allows.
    pub(super) candidates: Vec<CandidateType<'a>>,
    /// Label keys that offerings decide.
    pub(super) sold_by: BTreeSet<&'a str>,
    /// Whether any type has an available reservation.
    pub(super) reserves: bool,
    well_known: &'a BTreeSet<String>,
}

/// Instance type under one NodePool.
pub(super) struct CandidateType<'a> {
    pub(super) offer: Offer<'a>,
    /// Positions of the DaemonSets whose pods run on such a node.
    pub(super) daemons: Vec<usize>,
    /// Requests of these pods.
    pub(super) overhead: Resources,
    /// Allocatable resources that remain for other pods.
    pub(super) free: Amounts,
    /// Host ports of DaemonSet pods.
    pub(super) ports: Vec<HostPort>,
    /// First dimension in which DaemonSet pods alone exceed the allocatable resources: such a type takes no pods.
    pub(super) lacking: Option<usize>,
    pub(super) footprint: Footprint,
}

/// Requests and host ports of the pods of a launch.
#[derive(Clone, Copy, Default)]
pub(super) struct Load<'l> {
    pub(super) used: &'l [i64],
    pub(super) ports: &'l [HostPort],
    /// Amounts that the launch has reserved from its NodePool's limits.
    pub(super) held: &'l [i64],
}

/// Taints and labels that all nodes of a NodePool, or the node of one claim, will have.
pub(super) struct NodeOutline<'m> {
    pub(super) taints: &'m [Taint],
    pub(super) labels: &'m BTreeMap<String, String>,
    pub(super) well_known: &'m BTreeSet<String>,
}

/// Constraints of a DaemonSet on a node.
pub(super) struct DaemonDemand<'a> {
    pub(super) daemon: &'a Daemon,
    alternatives: Vec<Requirements>,
}

/// Returns templates in the order in which they are tried: weight, then name, both descending. Static NodePools that lack nodes
/// come last, because they launch no nodes for pods.
pub(super) fn in_order<'a>(snapshot: &'a Snapshot, dimensions: &Dimensions) -> Vec<PoolTemplate<'a>> {
    let mut pools: Vec<&Pool> =
        snapshot.pools.iter().filter(|pool| pool.replicas.is_none_or(|it| it > pool.running)).collect();
    pools.sort_by_key(|pool| (pool.replicas.is_some(), Reverse((pool.weight, pool.name.as_str()))));
    let daemons = daemons(snapshot);
    pools.into_iter().map(|pool| PoolTemplate::new(snapshot, pool, &daemons, dimensions)).collect()
}

/// Returns the constraints of all DaemonSets.
pub(super) fn daemons(snapshot: &Snapshot) -> Vec<DaemonDemand<'_>> {
    snapshot.daemons.iter().map(DaemonDemand::new).collect()
}

/// Reports whether any NodePool or node has a `PreferNoSchedule` taint.
pub(super) fn has_soft_taints(snapshot: &Snapshot) -> bool {
    let pools = snapshot.pools.iter().flat_map(|pool| &pool.taints);
    let nodes = snapshot.nodes.iter().flat_map(|node| &node.taints);
    pools.chain(nodes).any(|taint| taint.effect == Effect::PreferNoSchedule)
}

impl<'a> PoolTemplate<'a> {
    fn new(snapshot: &'a Snapshot, pool: &'a Pool, daemons: &[DaemonDemand<'a>], dimensions: &Dimensions) -> Self {
        let well_known = &snapshot.policy.well_known;
        let own: Requirements = pool.requirements.iter().collect();
        let mut requirements = own.intersection(&Requirements::from_labels(&pool.labels));
        requirements.narrow(label::HOSTNAME, &ValueSet::one(NEW_NODE));
        if pool.replicas.is_some() && requirements.get(label::CAPACITY_TYPE).is_none() {
            // The claim copies the template. Without a capacity type in the template, a static node is on-demand.
            requirements.narrow(label::CAPACITY_TYPE, &ValueSet::one(CapacityType::OnDemand.as_str()));
        }
        let types = snapshot.catalogues.get(pool.catalogue).map_or(&[][..], |catalogue| &catalogue.types);
        let mut pool_template =
            Self { pool, requirements, candidates: Vec::new(), sold_by: BTreeSet::new(), reserves: false, well_known };
        for offer in types.iter().map(Offer::new) {
            if offer.labels_match(&pool_template.requirements, &pool.labels, well_known) {
                pool_template.sold_by.extend(offer.keys());
                pool_template.reserves |=
                    offer.kind.offerings.iter().any(|it| it.available && it.reservation.is_some());
                let candidate = pool_template.candidate(daemons, dimensions, offer);
                pool_template.candidates.push(candidate);
            }
        }
        pool_template
    }

    fn candidate(&self, daemons: &[DaemonDemand<'a>], dimensions: &Dimensions, offer: Offer<'a>) -> CandidateType<'a> {
        let mut overhead = Resources::default();
        let mut ports = Vec::new();
        let outline = NodeOutline { taints: &self.pool.taints, labels: &self.pool.labels, well_known: self.well_known };
        let mut daemons_here = Vec::new();
        let comes = |(_, demand): &(usize, &DaemonDemand<'a>)| demand.comes_with(&outline, &self.requirements, &offer);
        for (position, demand) in daemons.iter().enumerate().filter(comes) {
            daemons_here.push(position);
            overhead.add(&demand.daemon.shape.requests);
            ports.extend(demand.daemon.shape.ports.iter().cloned());
        }
        let mut free = offer.kind.allocatable.clone();
        free.subtract(&overhead);
        CandidateType {
            free: dimensions.node_amounts(&free, &offer.kind.attach_limits),
            lacking: first_lacking(
                &dimensions.amounts(&overhead),
                &dimensions.node_amounts(&offer.kind.allocatable, &offer.kind.attach_limits),
            ),
            footprint: footprint(self.pool, offer.kind),
            offer,
            daemons: daemons_here,
            overhead,
            ports,
        }
    }

    /// Reports whether the instance type or Kubernetes decides the value of a label on a new node.
    pub(super) fn decides(&self, key: &str) -> bool {
        self.well_known.contains(key) || key == label::HOSTNAME
    }

    pub(super) fn well_known(&self) -> &'a BTreeSet<String> {
        self.well_known
    }

    /// Reports whether a type's own labels can satisfy the requirements.
    pub(super) fn labels_match(&self, offer: &Offer<'_>, requirements: &Requirements) -> bool {
        offer.labels_match(requirements, &self.pool.labels, self.well_known)
    }
}

impl<'a> CandidateType<'a> {
    /// Reports whether the type holds a load.
    pub(super) fn holds(&self, load: Load<'_>) -> bool {
        let clash = |port: &HostPort| self.ports.iter().any(|taken| taken.clashes(port));
        fits(load.used, &self.free) && (self.ports.is_empty() || !load.ports.iter().any(clash))
    }

    /// Returns the offerings that a launch with these requirements can use. Reserved offerings count only where the
    /// requirements name the reservation.
    pub(super) fn offerings(&self, requirements: &Requirements) -> impl Iterator<Item = &'a Offering> {
        let named = requirements.get(label::RESERVATION_ID).is_some_and(|set| set.single().is_some());
        self.sold(requirements).filter(move |it| named || it.capacity_type != CapacityType::Reserved)
    }

    /// Returns the available offerings that satisfy the requirements, reserved ones included.
    pub(super) fn sold(&self, requirements: &Requirements) -> impl Iterator<Item = &'a Offering> {
        self.offer.offerings(requirements).filter(|offering| offering.available)
    }
}

impl<'a> DaemonDemand<'a> {
    fn new(daemon: &'a Daemon) -> Self {
        let shape = &daemon.shape;
        let selector: Requirements = shape.selector.iter().collect();
        let alternatives = match shape.affinity.as_slice() {
            [] => vec![selector],
            terms => terms.iter().map(|term| selector.intersection(&term.iter().collect())).collect(),
        };
        Self { daemon, alternatives: with_volumes(shape, &alternatives) }
    }

    /// Reports whether the DaemonSet's pod will run on a node with this outline, these requirements and this type.
    pub(super) fn comes_with(&self, outline: &NodeOutline<'_>, possible: &Requirements, offer: &Offer<'_>) -> bool {
        self.tolerates(outline.taints)
            && self.alternatives.iter().any(|asked| {
                let both = possible.intersection(asked);
                possible.first_conflict(asked, outline.well_known).is_none()
                    && offer.labels_match(&both, outline.labels, outline.well_known)
                    && offer.offerings(&both).next().is_some()
            })
    }

    /// Reports whether the DaemonSet's pod tolerates these taints.
    pub(super) fn tolerates(&self, taints: &[Taint]) -> bool {
        first_untolerated(&self.daemon.shape.tolerations, taints, Tolerance::Lenient).is_none()
    }

    /// Returns how certainly a node satisfies the DaemonSet pod's constraints, given its possible labels.
    pub(super) fn suits(&self, outlook: impl Fn(&str) -> PossibleLabels) -> Counts {
        Counts::of_any(&self.alternatives, outlook)
    }

    /// Reports whether one of the alternatives holds.
    pub(super) fn any(&self, holds: impl Fn(&Requirements) -> bool) -> bool {
        self.alternatives.iter().any(holds)
    }
}
