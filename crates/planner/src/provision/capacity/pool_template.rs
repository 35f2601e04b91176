//! NodePool as a template for new nodes: its requirements, and its instance types with their DaemonSet overhead.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::{
    CapacityType, Commitment, Daemon, Effect, HostPort, InstanceType, Offer, Offering, Pool, Requirements, Resources,
    Snapshot, Taint, ValueSet, label,
};

use crate::provision::demand::dimensions::{Amounts, Dimensions, Load, first_lacking, fits};
use crate::provision::demand::requirement_sets::{Tolerance, first_untolerated};
use crate::provision::demand::with_volumes;
use crate::provision::topology::{Counts, PossibleLabels};

/// Placeholder for the name of a new node; no label value can contain a space.
const NEW_NODE: &str = "a new name";

/// NodePool, compiled for the search. It has a further template for each commitment that pays for some of its nodes.
pub(in crate::provision) struct PoolTemplate<'a> {
    pub(in crate::provision) pool: &'a Pool,
    pub(in crate::provision) requirements: Requirements,
    /// Types that the NodePool allows.
    pub(in crate::provision) candidates: Vec<CandidateType<'a>>,
    /// Label keys that offerings decide.
    pub(in crate::provision) sold_by: BTreeSet<&'a str>,
    /// True if any type has an available reservation.
    pub(in crate::provision) reserves: bool,
    /// True if the cost of the nodes is limited. Then a launch requests one capacity type, so that its cost is known.
    pub(in crate::provision) counts_cost: bool,
    /// Position of the commitment that pays for the launches of this template.
    pub(in crate::provision) commitment: Option<usize>,
    /// This commitment.
    pub(in crate::provision) pays_for: Option<&'a Commitment>,
    well_known: &'a BTreeSet<String>,
}

/// Instance type under one NodePool.
pub(in crate::provision) struct CandidateType<'a> {
    pub(in crate::provision) offer: Offer<'a>,
    /// Positions of the DaemonSets whose pods run on such a node.
    pub(in crate::provision) daemons: Vec<usize>,
    /// Requests of these pods.
    pub(in crate::provision) overhead: Resources,
    /// Allocatable resources that remain for other pods.
    pub(in crate::provision) free: Amounts,
    /// Host ports of DaemonSet pods.
    pub(in crate::provision) ports: Vec<HostPort>,
    /// First dimension in which DaemonSet pods alone exceed the allocatable resources: such a type takes no pods.
    pub(in crate::provision) lacking: Option<usize>,
    /// True if launches avoid the type while ordinary types fit.
    pub(in crate::provision) exotic: bool,
}

/// Taints and labels that all nodes of a NodePool, or the node of one claim, will have.
pub(in crate::provision) struct NodeOutline<'m> {
    pub(in crate::provision) taints: &'m [Taint],
    pub(in crate::provision) labels: &'m BTreeMap<String, String>,
    pub(in crate::provision) well_known: &'m BTreeSet<String>,
}

/// Constraints of a DaemonSet on a node.
pub(in crate::provision) struct DaemonDemand<'a> {
    pub(in crate::provision) daemon: &'a Daemon,
    alternatives: Vec<Requirements>,
}

/// Returns templates in the order in which they are tried: weight, then name, both descending. Static NodePools that lack nodes
/// come last, because they launch no nodes for pods.
pub(in crate::provision) fn in_order<'a>(snapshot: &'a Snapshot, dimensions: &Dimensions) -> Vec<PoolTemplate<'a>> {
    let mut pools: Vec<&Pool> = snapshot.pools.iter().filter(|pool| lacks_nodes(pool)).collect();
    pools.sort_by_key(|pool| (pool.replicas.is_some(), Reverse((pool.weight, pool.name.as_str()))));
    let daemons = daemons(snapshot);
    let usable: Vec<usize> = usable_commitments(snapshot);
    let mut templates = Vec::new();
    for pool in pools {
        templates.push(PoolTemplate::new(snapshot, pool, None, &daemons, dimensions));
        let committed = usable
            .iter()
            .filter(|_| pool.replicas.is_none())
            .map(|commitment| PoolTemplate::new(snapshot, pool, Some(*commitment), &daemons, dimensions));
        templates.extend(committed.filter(|template| !template.candidates.is_empty()));
    }
    templates
}

/// Returns the positions of the commitments of which something is left, or that a removal of nodes could release.
fn usable_commitments(snapshot: &Snapshot) -> Vec<usize> {
    let used: BTreeSet<&str> =
        snapshot.nodes.iter().flat_map(|node| &node.paid).map(|share| share.commitment.as_str()).collect();
    let all = snapshot.commitments.iter().enumerate();
    all.filter(|(_, it)| it.left > 0 || used.contains(it.name.as_str())).map(|(position, _)| position).collect()
}

/// Reports whether the NodePool launches nodes for pods, or lacks nodes of its replicas.
fn lacks_nodes(pool: &Pool) -> bool {
    pool.replicas.is_none_or(|replicas| replicas > pool.running && !pool.is_inactive)
}

/// Returns the constraints of all DaemonSets.
pub(in crate::provision) fn daemons(snapshot: &Snapshot) -> Vec<DaemonDemand<'_>> {
    snapshot.daemons.iter().map(DaemonDemand::new).collect()
}

/// Reports whether any NodePool or node has a `PreferNoSchedule` taint.
pub(in crate::provision) fn has_soft_taints(snapshot: &Snapshot) -> bool {
    let pools = snapshot.pools.iter().flat_map(|pool| &pool.taints);
    let nodes = snapshot.nodes.iter().flat_map(|node| &node.taints);
    pools.chain(nodes).any(|taint| taint.effect == Effect::PreferNoSchedule)
}

/// Restricts requirements to the nodes that a commitment pays for.
fn narrow_to(requirements: &mut Requirements, commitment: &Commitment) {
    requirements.narrow(label::CAPACITY_TYPE, &ValueSet::one(CapacityType::OnDemand.as_str()));
    commitment.zone.iter().for_each(|zone| requirements.narrow(label::ZONE, &ValueSet::one(zone)));
}

impl<'a> PoolTemplate<'a> {
    fn new(
        snapshot: &'a Snapshot,
        pool: &'a Pool,
        commitment: Option<usize>,
        daemons: &[DaemonDemand<'a>],
        dimensions: &Dimensions,
    ) -> Self {
        let well_known = &snapshot.policy.well_known;
        let own: Requirements = pool.requirements.iter().collect();
        let mut requirements = own.intersection(&Requirements::from_labels(&pool.labels));
        requirements.narrow(label::HOSTNAME, &ValueSet::one(NEW_NODE));
        if pool.replicas.is_some() && requirements.get(label::CAPACITY_TYPE).is_none() {
            // The claim copies the template. Without a capacity type in the template, a static node is on-demand.
            requirements.narrow(label::CAPACITY_TYPE, &ValueSet::one(CapacityType::OnDemand.as_str()));
        }
        let pays_for = commitment.and_then(|position| snapshot.commitments.get(position));
        pays_for.into_iter().for_each(|commitment| narrow_to(&mut requirements, commitment));
        let types = snapshot.catalogues.get(pool.catalogue).map_or(&[][..], |catalogue| &catalogue.types);
        let is_paid = |kind: &&InstanceType| pays_for.is_none_or(|it| it.use_of(&kind.name).is_some());
        let mut pool_template = Self {
            pool,
            requirements,
            candidates: Vec::new(),
            sold_by: BTreeSet::new(),
            reserves: false,
            counts_cost: snapshot.limits_cost_of(pool),
            commitment,
            pays_for,
            well_known,
        };
        for offer in types.iter().filter(is_paid).map(Offer::new) {
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
            exotic: offer.kind.is_exotic(),
            offer,
            daemons: daemons_here,
            overhead,
            ports,
        }
    }

    /// Reports whether the instance type or Kubernetes decides the value of a label on a new node.
    pub(in crate::provision) fn decides(&self, key: &str) -> bool {
        self.well_known.contains(key) || key == label::HOSTNAME
    }

    pub(in crate::provision) fn well_known(&self) -> &'a BTreeSet<String> {
        self.well_known
    }

    /// Reports whether a type's own labels can satisfy the requirements.
    pub(in crate::provision) fn labels_match(&self, offer: &Offer<'_>, requirements: &Requirements) -> bool {
        offer.labels_match(requirements, &self.pool.labels, self.well_known)
    }
}

impl<'a> CandidateType<'a> {
    /// Reports whether the type holds a load.
    pub(in crate::provision) fn holds(&self, load: Load<'_>) -> bool {
        let clash = |port: &HostPort| self.ports.iter().any(|taken| taken.clashes(port));
        fits(load.used, &self.free) && (self.ports.is_empty() || !load.ports.iter().any(clash))
    }

    /// Returns the offerings that a launch with these requirements can use. Reserved offerings count only where the
    /// requirements name the reservation.
    pub(in crate::provision) fn offerings(&self, requirements: &Requirements) -> impl Iterator<Item = &'a Offering> {
        let named = requirements.get(label::RESERVATION_ID).is_some_and(|set| set.single().is_some());
        self.sold(requirements).filter(move |it| named || it.capacity_type != CapacityType::Reserved)
    }

    /// Returns the available offerings that satisfy the requirements, reserved ones included.
    pub(in crate::provision) fn sold(&self, requirements: &Requirements) -> impl Iterator<Item = &'a Offering> {
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
    pub(in crate::provision) fn comes_with(
        &self,
        outline: &NodeOutline<'_>,
        possible: &Requirements,
        offer: &Offer<'_>,
    ) -> bool {
        self.tolerates(outline.taints)
            && self.alternatives.iter().any(|asked| {
                let both = possible.intersection(asked);
                possible.first_conflict(asked, outline.well_known).is_none()
                    && offer.labels_match(&both, outline.labels, outline.well_known)
                    && offer.offerings(&both).next().is_some()
            })
    }

    /// Reports whether the DaemonSet's pod tolerates these taints.
    pub(in crate::provision) fn tolerates(&self, taints: &[Taint]) -> bool {
        first_untolerated(&self.daemon.shape.tolerations, taints, Tolerance::Lenient).is_none()
    }

    /// Returns how certainly a node satisfies the DaemonSet pod's constraints, given its possible labels.
    pub(in crate::provision) fn suits(&self, outlook: impl Fn(&str) -> PossibleLabels) -> Counts {
        Counts::of_any(&self.alternatives, outlook)
    }

    /// Reports whether one of the alternatives holds.
    pub(in crate::provision) fn any(&self, holds: impl Fn(&Requirements) -> bool) -> bool {
        self.alternatives.iter().any(holds)
    }
}
