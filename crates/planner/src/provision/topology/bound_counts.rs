//! Pods of the snapshot's nodes, counted in their groups and domains.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::provision::capacity::node_template::{NodeTemplates, TemplateId};
use crate::provision::demand::bound_pods::BoundPods;
use crate::provision::demand::requirement_sets::RequirementSets;
use crate::provision::demand::shared_claims::SharedClaims;
use crate::{Node, Offer, Operator, Requirements, Snapshot, Stage};

use super::groups::{Counts, Eligibility, PossibleLabels, SpreadGroup};
use super::{
    CountedPods, Domain, GroupId, HOST, KeyId, Membership, Prospects, Spot, SpreadState, Topology, TopologyGroup,
};

/// Facts that a plan must know from its beginning, because an earlier attempt found them too late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownDomains {
    /// Spreads with a domain that some launch will open; `None` where a launch must fix which domain it opens.
    pub(in crate::provision) domains: BTreeSet<(GroupId, Option<String>)>,
    /// Groups to which launches add DaemonSet pods: pods with rules on these groups are placed after all others.
    pub(in crate::provision) joined: BTreeSet<GroupId>,
    /// True if each launch with its DaemonSet pods must satisfy spreads by itself, because all launches together did not.
    pub(in crate::provision) strict: bool,
    /// Spreads over hosts for which a plan relied on a minimum above 0 in vain.
    pub(in crate::provision) pinned: BTreeSet<GroupId>,
    /// True if a plan must not rely on any minimum of hosts.
    pub(in crate::provision) all_pinned: bool,
}

impl KnownDomains {
    pub(crate) fn extend(&mut self, more: Self) {
        self.domains.extend(more.domains);
        self.joined.extend(more.joined);
        self.strict |= more.strict;
        self.pinned.extend(more.pinned);
        self.all_pinned |= more.all_pinned;
    }
}

/// One pod that certainly exists.
const ONE: CountedPods = CountedPods { count: 1, there: Counts::Surely };

/// Creates groups for the anti-affinity of bound pods and DaemonSet pods.
pub(in crate::provision) fn add_bound_terms<'a>(
    topology: &mut Topology<'a>,
    snapshot: &'a Snapshot,
    bound: &BoundPods<'a>,
) {
    let daemons = snapshot.daemons.iter().map(|daemon| &daemon.shape);
    for shape in bound.shapes.iter().copied().chain(daemons) {
        for term in &shape.apart {
            topology.held(&shape.namespace, term);
        }
    }
}

/// Counts all bound pods, except those that the plan places again and those that terminate with their node.
pub(in crate::provision) fn count_bound<'a>(
    topology: &mut Topology<'a>,
    snapshot: &'a Snapshot,
    bound: &BoundPods<'a>,
    requirement_sets: &RequirementSets<'a>,
    shared: &SharedClaims<'a>,
) {
    if topology.is_empty() {
        return;
    }
    locate_nodes(topology, snapshot);
    find_eligible(topology, snapshot, requirement_sets);
    let moving: BTreeSet<&str> =
        snapshot.pods.iter().filter(|pod| pod.leaving_node.is_some()).map(|pod| pod.uid.as_str()).collect();
    let memberships: Vec<(Vec<GroupId>, Vec<GroupId>)> =
        bound.shapes.iter().map(|shape| (topology.counting(shape), topology.holding(shape))).collect();
    for (site, (node, pods)) in bound.by_node(snapshot).enumerate() {
        let spot = Spot { site: Domain::try_from(site).ok(), pins: None };
        for (pod, shape) in pods {
            let (counts, holds) = &memberships[shape];
            let matters = !counts.is_empty() || !holds.is_empty() || !pod.claims.is_empty();
            if !matters || moving.contains(pod.uid.as_str()) {
                continue;
            }
            let claims: Vec<GroupId> = shared.rules(&pod.claims).map(|rule| rule.group).collect();
            topology.record(Membership { counts: &claims, holds: &[] }, spot, ONE, |_, _| Counts::Surely);
            let goes = node.leaving.is_some() && !pod.reschedulable;
            if !pod.ending && !goes {
                topology.record(Membership { counts, holds }, spot, ONE, |_, _| Counts::Surely);
            }
        }
    }
}

/// Records the value of each key on every node; a node's name is its site.
fn locate_nodes(topology: &mut Topology<'_>, snapshot: &Snapshot) {
    for key in (0..topology.keys.len()).filter(|key| *key != HOST) {
        let name = topology.keys[key].name.clone();
        let values = snapshot.nodes.iter().map(|node| node.labels.get(&name));
        let domains = values.map(|value| value.map(|value| topology.domain(key, value)));
        topology.keys[key].of_site = domains.collect();
        for (site, node) in snapshot.nodes.iter().enumerate() {
            record_open_values(topology, snapshot, key, site, node);
        }
    }
}

/// Records the values that an in-flight claim may still receive; a single possible value counts as known.
fn record_open_values(topology: &mut Topology<'_>, snapshot: &Snapshot, key: usize, site: usize, node: &Node) {
    if node.stage != Stage::InFlight || topology.keys[key].of_site[site].is_some() {
        return;
    }
    let PossibleLabels { values, lacking, .. } = possible_labels(snapshot, node, &topology.keys[key].name);
    let values: Vec<Domain> = values.iter().map(|value| topology.domain(key, value)).collect();
    match values[..] {
        [] => {}
        [only] if !lacking => topology.keys[key].of_site[site] = Some(only),
        _ => {
            let site = Domain::try_from(site).unwrap_or(Domain::MAX);
            topology.keys[key].open.insert(site, Prospects { values, lacking });
        }
    }
}

/// Determines on which nodes a spread counts pods, and in which domains of undecided nodes. Leaving nodes are no domains
/// for a plan.
fn find_eligible<'a>(topology: &mut Topology<'a>, snapshot: &Snapshot, requirement_sets: &RequirementSets<'a>) {
    let mut known: BTreeMap<Eligibility<'a>, Arc<[Counts]>> = BTreeMap::new();
    for group in topology.groups.iter_mut() {
        let key = &topology.keys[group.keys[0]];
        let Some(SpreadState { group: spread, eligible, prospects, .. }) = group.spread_mut() else { continue };
        let counts = || snapshot.nodes.iter().map(|node| spread.counts_at(snapshot, node, requirement_sets)).collect();
        *eligible = known.entry(spread.eligibility()).or_insert_with(counts).clone();
        let open = key.open.iter().map(|(site, open)| {
            let node = &snapshot.nodes[*site as usize];
            let counts =
                |domain: &&Domain| spread.counts_in(snapshot, node, &key.values[**domain as usize], requirement_sets);
            (*site, open.values.iter().filter(counts).copied().collect())
        });
        *prospects = open.collect();
    }
}

/// Returns the domains of the nodes on which a spread may count pods.
pub(super) fn occupied_domains(topology: &Topology<'_>, key: KeyId, spread: &SpreadState<'_>) -> BTreeSet<Domain> {
    let mut domains: Vec<Domain> = occupants(topology, key, spread).map(|(domain, _)| domain).collect();
    domains.sort_unstable();
    domains.dedup();
    domains.into_iter().collect()
}

/// Returns these domains, each with the sites that are in it or may start in it.
pub(super) fn occupants(
    topology: &Topology<'_>,
    key: KeyId,
    spread: &SpreadState<'_>,
) -> impl Iterator<Item = (Domain, Domain)> {
    let sites = (0..).zip(spread.eligible.iter()).filter(|(_, counts)| **counts != Counts::Never);
    sites.flat_map(move |(site, _)| {
        let prospects = spread.prospects.get(&site);
        let spot = Spot { site: Some(site), pins: None };
        let own = prospects.is_none().then(|| topology.possible(key, spot)).into_iter().flatten();
        prospects.into_iter().flatten().copied().chain(own).map(move |domain| (domain, site))
    })
}

/// Returns the domains that certainly contain a node on which a spread counts pods.
pub(super) fn certain_domains(topology: &Topology<'_>, key: KeyId, spread: &SpreadState<'_>) -> BTreeSet<Domain> {
    let sites = (0..).zip(spread.eligible.iter()).filter(|(_, counts)| **counts == Counts::Surely);
    sites.filter_map(|(site, _)| topology.domain_at(key, Spot { site: Some(site), pins: None })).collect()
}

/// Determines the domains of each spread: domains of nodes that count, domains that NodePools can open for its pods, and
/// domains of other pods' launches (`known`).
pub(in crate::provision) fn find_reachable<'a>(
    topology: &mut Topology<'a>,
    templates: &mut NodeTemplates<'a>,
    requirement_sets: &RequirementSets<'a>,
    known: &KnownDomains,
) {
    for id in 0..topology.groups.len() {
        let key = topology.groups[id].keys[0];
        let Some(state) = topology.groups[id].spread().filter(|_| key != HOST) else { continue };
        let spread = state.group.clone();
        let occupied = occupied_domains(topology, key, state);
        let mut reachable: BTreeSet<Domain> = occupied
            .into_iter()
            .filter(|domain| spread.knows(topology.value(key, *domain), requirement_sets))
            .collect();
        let (alternatives, tolerations) = &spread.reach;
        for base in templates.bases_tolerated(tolerations) {
            for alternative in alternatives {
                if let Some(template) = templates.narrowed(base, *alternative, requirement_sets, topology) {
                    reachable.extend(templates.values(template, key, topology).iter());
                }
            }
        }
        let more: Vec<&String> =
            known.domains.iter().filter(|(of, _)| *of == id).filter_map(|(_, value)| value.as_ref()).collect();
        reachable.extend(more.into_iter().map(|value| topology.domain(key, value)));
        if let Some(spread) = topology.groups[id].spread_mut() {
            spread.domains.guarded = known.domains.contains(&(id, None));
            spread.domains.reachable = reachable.into_iter().collect();
        }
    }
}

/// Returns domains that launches of a template open, or may open, and that an applicable spread did not count.
pub(in crate::provision) fn new_domains_of<'a>(
    topology: &Topology<'a>,
    template: TemplateId,
    templates: &NodeTemplates<'a>,
    requirement_sets: &RequirementSets<'a>,
) -> BTreeSet<(GroupId, Option<String>)> {
    let mut found = BTreeSet::new();
    for (id, key, SpreadState { domains, .. }) in
        spreads_on(topology, template, templates, requirement_sets).filter(|(_, key, _)| *key != HOST)
    {
        let key = &topology.keys[key];
        let known = |value: &String| key.known.get(value).is_some_and(|domain| domains.reachable.contains(domain));
        let values = templates.settled_values(template, &key.name);
        let settles = values.len() <= 1 || domains.guarded;
        let new = values.into_iter().filter(|value| !known(value));
        found.extend(new.map(|value| (id, settles.then_some(value))));
    }
    found
}

/// Returns keys that launches of a template must fix: otherwise they could open domains that a spread does not count.
pub(in crate::provision) fn guarded_keys<'a>(
    topology: &Topology<'a>,
    template: TemplateId,
    templates: &NodeTemplates<'a>,
    requirement_sets: &RequirementSets<'a>,
) -> Vec<KeyId> {
    if !has_guarded_spread(topology) {
        return Vec::new();
    }
    let spreads = spreads_on(topology, template, templates, requirement_sets);
    let mut keys: Vec<KeyId> = spreads.filter(|(.., spread)| spread.domains.guarded).map(|(_, key, _)| key).collect();
    keys.sort_unstable_by_key(|key| &topology.keys[*key].name);
    keys.dedup();
    keys
}

/// Returns how many spreads gain an unexpected domain from a launch of a template in a domain of a key.
pub(in crate::provision) fn count_new_domains<'a>(
    topology: &Topology<'a>,
    key: KeyId,
    domain: Domain,
    template: TemplateId,
    templates: &NodeTemplates<'a>,
    requirement_sets: &RequirementSets<'a>,
) -> usize {
    if !has_guarded_spread(topology) {
        return 0;
    }
    let spreads = spreads_on(topology, template, templates, requirement_sets).filter(|(_, own, _)| *own == key);
    spreads.filter(|(.., spread)| !spread.domains.reachable.contains(&domain)).count()
}

/// Reports whether some spread requires that launches fix their domain.
fn has_guarded_spread(topology: &Topology<'_>) -> bool {
    topology.groups.iter().filter_map(TopologyGroup::spread).any(|spread| spread.domains.guarded)
}

/// Returns the spreads that may count pods on launches of a template, with their keys.
pub(super) fn spreads_on<'a, 's>(
    topology: &'s Topology<'a>,
    template: TemplateId,
    templates: &'s NodeTemplates<'a>,
    requirement_sets: &'s RequirementSets<'a>,
) -> impl Iterator<Item = (GroupId, KeyId, &'s SpreadState<'a>)> {
    let spreads =
        topology.groups.iter().enumerate().filter_map(|(id, group)| Some((id, group.keys[0], group.spread()?)));
    spreads.filter(move |(id, _, spread)| {
        templates.counts(template, *id, &spread.group, requirement_sets) != Counts::Never
    })
}

impl SpreadGroup<'_> {
    /// Reports whether pods on a node count. A leaving node is no domain for a plan; a cordon counts as a taint.
    fn counts_at(&self, snapshot: &Snapshot, node: &Node, requirement_sets: &RequirementSets<'_>) -> Counts {
        if node.leaving.is_some() || self.excludes_taints(&node.repelling()) {
            return Counts::Never;
        }
        if node.stage != Stage::InFlight || node.requirements.is_empty() {
            return self.counts_with(requirement_sets, &node.labels);
        }
        self.counts_on(requirement_sets, |key| possible_labels(snapshot, node, key))
    }

    /// Reports whether pods on a node may count if its domain becomes this one.
    fn counts_in(&self, snapshot: &Snapshot, node: &Node, value: &str, requirement_sets: &RequirementSets<'_>) -> bool {
        let known = |key: &str| {
            if key == self.key { PossibleLabels::settled(value) } else { possible_labels(snapshot, node, key) }
        };
        self.counts_on(requirement_sets, known) != Counts::Never
    }
}

/// Returns the possible values of a node's label. An in-flight claim may start with any value of its requirements, or of its
/// types and all their offerings. An offering that is unavailable now may have been available at launch.
pub(in crate::provision) fn possible_labels(snapshot: &Snapshot, node: &Node, key: &str) -> PossibleLabels {
    if let Some(value) = node.labels.get(key) {
        return PossibleLabels { values: BTreeSet::from([value.clone()]), lacking: false, open: None };
    }
    if node.stage != Stage::InFlight || node.requirements.is_empty() {
        return PossibleLabels { values: BTreeSet::new(), lacking: true, open: None };
    }
    let requirements: Requirements = node.requirements.iter().collect();
    let pool = snapshot.pools.iter().find(|pool| Some(&pool.name) == node.pool.as_ref());
    let types = pool.and_then(|pool| snapshot.catalogues.get(pool.catalogue)).map_or(&[][..], |it| &it.types);
    let mut values = BTreeSet::new();
    let mut lacking = false;
    for offer in types.iter().map(Offer::new) {
        let alike = offer.labels_match(&requirements, &node.labels, &snapshot.policy.well_known);
        if alike && offer.offerings(&requirements).next().is_some() {
            let own = offer.kind.labels.get(key).into_iter().flatten().map(String::as_str);
            let sold = offer.offerings(&requirements).filter_map(|offering| offering.value(key));
            let before = values.len();
            values.extend(own.chain(sold).map(str::to_owned));
            lacking |= values.len() == before && !offer.carries(key);
        }
    }
    let asked = requirements.get(key);
    if values.is_empty() {
        let named = node.requirements.iter().filter(|it| it.key == key && it.operator == Operator::In);
        values.extend(named.flat_map(|it| it.values.iter().cloned()));
    }
    values.retain(|value| asked.is_none_or(|set| set.allows(Some(value))));
    let lacking = values.is_empty() || (lacking && asked.is_none_or(|set| set.allows(None)));
    PossibleLabels { lacking, values, open: None }
}
