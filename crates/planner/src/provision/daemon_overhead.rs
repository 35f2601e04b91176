//! DaemonSet pods of a new node: they run there before any other pod, and topology rules of other pods count them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{Daemon, Node, Snapshot, Stage};

use super::capacity::node_template::{NodeTemplates, TemplateId};
use super::capacity::pool_template;
use super::capacity::pool_template::DaemonDemand;
use super::demand::{Demand, PreferenceLevel};
use super::phases::finish::present_template;
use super::topology;
use super::topology::daemon_counts::{
    add_daemons, admit_daemons, begin_groups, brought_pods, confirm_pods, exceeded_groups, expect_pods, record_limits,
    remember_groups, withdraw_pods,
};
use super::topology::{
    CountedPods, Counts, DaemonCounts, Domain, GroupId, HOST, KeyId, Membership, Rule, RuleKind, Spot, Topology,
};
use super::{Attempt, PodPlacement, Solver};

/// DaemonSets whose pods matter for inter-pod constraints.
#[derive(Clone)]
pub(super) struct DaemonOverhead<'a> {
    members: Arc<[DaemonMember<'a>]>,
    /// By template, the members that run on its launches, and the number of members that are excluded.
    known: BTreeMap<TemplateId, (ArrivingDaemons, usize)>,
    /// Groups of which a launch would have brought more pods than the rules of placed pods allow.
    not_tolerated: BTreeSet<GroupId>,
    /// Launches with members that may not run there.
    doubtful: BTreeSet<(usize, usize)>,
    /// Launches with open keys when their members were counted: the template of that moment, and the domains in which the
    /// members are still counted.
    simulated_placement: BTreeMap<usize, (TemplateId, Vec<Pins>)>,
}

/// Values by key.
type Pins = Vec<Option<Domain>>;

/// Positions of members, and how certainly they come.
type ArrivingDaemons = Arc<[(usize, Counts)]>;

struct DaemonMember<'a> {
    demand: DaemonDemand<'a>,
    /// Its position among the snapshot's DaemonSets.
    position: usize,
    counts: Vec<GroupId>,
    holds: Vec<GroupId>,
    /// Groups of other pods' required anti-affinity that exclude its pods.
    excluded_by: Vec<GroupId>,
    rules: Vec<Rule>,
    /// Keys whose value must be known where its pods run.
    keys: Vec<KeyId>,
    /// By key, domains from which running pods exclude its pods.
    excluded_domains: BTreeMap<KeyId, BTreeSet<Domain>>,
}

impl<'a> DaemonMember<'a> {
    fn new(demand: DaemonDemand<'a>, position: usize, topology: &mut Topology<'a>) -> Self {
        let shape = &demand.daemon.shape;
        let (counts, holds) = (topology.counting(shape), topology.holding(shape));
        let excluded_by = topology.excluding(&counts);
        let rules: Vec<Rule> = holds.iter().map(|group| Rule::anti_affinity(*group)).collect();
        let keys = topology.keys_to_settle(&rules, &counts, &excluded_by);
        let of_key = |key: KeyId| (key, topology.refused(&rules, &excluded_by, key));
        let all = [HOST].into_iter().chain(keys.iter().copied()).map(of_key);
        let excluded_domains = all.filter(|(_, domains)| !domains.is_empty()).collect();
        Self { demand, position, counts, holds, excluded_by, rules, keys, excluded_domains }
    }

    /// Reports whether a pod can share an otherwise empty node with this one, as far as anti-affinity decides.
    fn tolerates(&self, demand: &Demand<'_>, level: &PreferenceLevel) -> bool {
        let refuses = |rule: &Rule| rule.kind == RuleKind::AntiAffinity && self.counts.contains(&rule.group);
        !demand.excluded_by.iter().any(|group| self.holds.contains(group)) && !level.rules.iter().any(refuses)
    }

    /// Reports whether running pods exclude it from a snapshot node in every domain that the node may start in.
    fn is_excluded_at(&self, site: Domain, topology: &Topology<'_>) -> bool {
        let spot = Spot { site: Some(site), pins: None };
        self.excluded_domains.iter().any(|(key, domains)| {
            let mut possible = topology.possible(*key, spot).peekable();
            possible.peek().is_some() && possible.all(|domain| domains.contains(&domain))
        })
    }

    /// Reports the same for launches of a template.
    fn is_excluded_from(&self, template: TemplateId, templates: &NodeTemplates<'_>, topology: &Topology<'_>) -> bool {
        self.excluded_domains.iter().filter(|(key, _)| **key != HOST).any(|(key, domains)| {
            let possible = templates.value_names(template, topology.key_name(*key));
            let is_excluded = |value: &String| topology.known(*key, value).is_some_and(|it| domains.contains(&it));
            !possible.is_empty() && possible.iter().all(is_excluded)
        })
    }

    /// Reports whether pods that exist already allow it on a launch of a template.
    fn may_come(&self, template: TemplateId, templates: &NodeTemplates<'_>, topology: &Topology<'_>) -> bool {
        let pins = &templates.get(template).pins;
        self.keys.iter().all(|key| topology.allows(&self.rules, &self.excluded_by, *key, pins[*key]))
    }

    /// Returns whether a launch of a template brings it, if no pod excludes it.
    fn belongs_to(&self, template: TemplateId, templates: &NodeTemplates<'_>) -> Counts {
        let own = templates.get(template);
        let candidates = &templates.pool_templates[own.pool_template].candidates;
        let mut brought = own.entries.iter().map(|it| candidates[it.candidate].daemons.contains(&self.position));
        let by_type = match (brought.clone().any(|it| it), brought.all(|it| it)) {
            (true, true) => Counts::Surely,
            (true, false) => Counts::Perhaps,
            (false, _) => Counts::Never,
        };
        by_type.min(self.demand.suits(|key| templates.outlook(template, key)))
    }

    /// Reports whether one of its pods runs on a node already.
    fn is_on(&self, node: &Node) -> bool {
        let own = &self.demand.daemon.shape;
        let is_own = |pod: &crate::BoundPod| {
            let labels = &pod.shape.labels;
            pod.shape.namespace == own.namespace && own.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        };
        node.pods.iter().any(is_own)
    }

    /// Returns whether it will run on a snapshot node where it does not run yet. A node that is ready without it may never run
    /// it.
    fn comes_to(&self, snapshot: &Snapshot, site: Domain, topology: &Topology<'_>) -> Counts {
        let node = &snapshot.nodes[site as usize];
        let excluded_daemons = !self.demand.tolerates(&node.taints) || self.is_excluded_at(site, topology);
        if node.leaving.is_some() || excluded_daemons || self.is_on(node) {
            return Counts::Never;
        }
        let most = if node.stage == Stage::Initialized { Counts::Perhaps } else { Counts::Surely };
        most.min(self.demand.suits(|key| topology::possible_labels(snapshot, node, key)))
    }
}

impl<'a> DaemonOverhead<'a> {
    /// Finds the DaemonSets that matter, and counts their future pods on the snapshot's nodes.
    pub(super) fn new(snapshot: &'a Snapshot, topology: &mut Topology<'a>) -> Self {
        let all = pool_template::daemons(snapshot).into_iter().enumerate();
        let mut members: Vec<DaemonMember<'a>> =
            all.map(|(position, it)| DaemonMember::new(it, position, topology)).collect();
        members.retain(|member| !member.counts.is_empty() || !member.holds.is_empty());
        for member in &members {
            let membership = Membership { counts: &member.counts, holds: &member.holds };
            for site in (0..).zip(&snapshot.nodes).map(|(site, _)| site) {
                let there = member.comes_to(snapshot, site, topology);
                if there != Counts::Never {
                    let spot = Spot { site: Some(site), pins: None };
                    topology.record(membership, spot, CountedPods { count: 1, there }, |_, _| Counts::Never);
                    if snapshot.nodes[site as usize].stage != Stage::Initialized {
                        expect_pods(topology, &member.counts, spot);
                    }
                }
            }
        }
        Self {
            members: members.into(),
            known: BTreeMap::new(),
            not_tolerated: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            simulated_placement: BTreeMap::new(),
        }
    }

    /// Returns groups of which launches that were not opened would have brought too many pods.
    pub(super) fn not_tolerated(&self) -> BTreeSet<GroupId> {
        self.not_tolerated.clone()
    }

    /// Discards uncertain pods and their domains, before all are counted again.
    pub(super) fn forget_doubts(&mut self) {
        self.doubtful.clear();
        self.simulated_placement.clear();
    }

    /// Reports whether no rule counts the pods of any DaemonSet.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Reports whether running pods exclude a DaemonSet's pod from a node where it does not run yet. While they run, it needs
    /// no capacity there.
    pub(super) fn is_kept_off(&self, daemon: &Daemon, site: Domain, node: &Node, topology: &Topology<'a>) -> bool {
        let mut members = self.members.iter().filter(|member| std::ptr::eq(member.demand.daemon, daemon));
        members.any(|member| member.is_excluded_at(site, topology) && !member.is_on(node))
    }

    /// Returns the members that run on launches of a template, and the number of members that running pods exclude there.
    fn with(
        &mut self,
        template: TemplateId,
        templates: &NodeTemplates<'a>,
        topology: &Topology<'a>,
    ) -> (ArrivingDaemons, usize) {
        let members = &self.members;
        let all = || {
            let each = members.iter().enumerate().map(|(position, it)| (position, it.belongs_to(template, templates)));
            let belong = each.filter(|(_, there)| *there != Counts::Never);
            let belong: ArrivingDaemons = belong.collect();
            let comes =
                |(position, _): &&(usize, Counts)| !members[*position].is_excluded_from(template, templates, topology);
            let coming: ArrivingDaemons = belong.iter().filter(comes).copied().collect();
            let absent = belong.len() - coming.len();
            (coming, absent)
        };
        self.known.entry(template).or_insert_with(all).clone()
    }

    /// Returns the keys by which running pods exclude some DaemonSet pod from domains.
    pub(super) fn excluded_keys(&self) -> Vec<KeyId> {
        let keys = self.members.iter().flat_map(|member| member.excluded_domains.keys().copied());
        keys.filter(|key| *key != HOST).collect()
    }
}

/// Determines the DaemonSet pods that every future node brings.
pub(super) fn begin_daemons(solver: &mut Solver<'_>, strict: bool) {
    if solver.daemons.is_empty() {
        return remember_groups(&mut solver.topology);
    }
    let mut least: BTreeMap<GroupId, u32> = BTreeMap::new();
    for base in 0..solver.capacity.templates.pool_templates.len() {
        let (coming, _) = solver.daemons.with(base, &solver.capacity.templates, &solver.topology);
        let members = coming.iter().map(|(member, there)| (solver.daemons.members[*member].counts.clone(), *there));
        for (id, count) in
            brought_pods(&solver.topology, members, base, &solver.capacity.templates, &solver.problem.requirement_sets)
        {
            least.entry(id).and_modify(|known| *known = count.min(*known)).or_insert(count);
        }
    }
    begin_groups(&mut solver.topology, &least, strict);
}

/// Reports whether a pod tolerates the DaemonSet pods of a new launch, and they tolerate it, and all placed pods tolerate
/// them.
pub(super) fn tolerates_daemons(solver: &mut Solver<'_>, template: TemplateId, attempt: Attempt) -> bool {
    if solver.daemons.is_empty() {
        return true;
    }
    let (coming, _) = solver.daemons.with(template, &solver.capacity.templates, &solver.topology);
    let daemons = daemon_counts(solver, template);
    let demand = &solver.problem.demands[attempt.shape];
    let level = &demand.levels[attempt.level];
    let borne = coming.iter().map(|(member, _)| &solver.daemons.members[*member]).all(|member| {
        member.tolerates(demand, level) && member.may_come(template, &solver.capacity.templates, &solver.topology)
    });
    let spot = Spot { site: Some(solver.next_site()), pins: Some(&solver.capacity.templates.get(template).pins) };
    let not_tolerated = exceeded_groups(&solver.topology, &daemons, spot);
    solver.daemons.not_tolerated.extend(&not_tolerated);
    borne
        && not_tolerated.is_empty()
        && solver.topology.allows_beside(&level.rules, &demand.excluded_by, HOST, Some(Domain::MAX), &daemons)
}

/// Returns the DaemonSet pods of a launch of a template.
pub(super) fn daemon_counts(solver: &mut Solver<'_>, template: TemplateId) -> DaemonCounts {
    let mut daemons = DaemonCounts::default();
    if !solver.daemons.is_empty() {
        let (coming, _) = solver.daemons.with(template, &solver.capacity.templates, &solver.topology);
        let suits =
            |id, spread: &_| solver.capacity.templates.counts(template, id, spread, &solver.problem.requirement_sets);
        for (member, there) in coming.iter() {
            let groups = &solver.daemons.members[*member].counts;
            add_daemons(&solver.topology, &mut daemons, groups, CountedPods { count: 1, there: *there }, suits);
        }
    }
    daemons
}

/// Records how many further DaemonSet pods the rules of pods, about to be counted at a place, allow.
pub(super) fn note_limits(solver: &mut Solver<'_>, attempt: Attempt, place: PodPlacement) {
    if solver.daemons.is_empty() {
        return;
    }
    let rules = solver.problem.demands[attempt.shape].strict_rules();
    match place {
        PodPlacement::Existing(node) => record_limits(&mut solver.topology, rules, solver.existing.list[node].spot()),
        PodPlacement::New(claim) => {
            let claim = &solver.new_nodes.list[claim];
            record_limits(&mut solver.topology, rules, claim.spot(solver.capacity.templates.get(claim.template)));
        }
    }
}

/// Returns the number of DaemonSets without a pod on a launch of a template because running pods exclude them.
pub(super) fn absent_daemons(solver: &mut Solver<'_>, template: TemplateId) -> usize {
    if solver.daemons.is_empty() {
        0
    } else {
        solver.daemons.with(template, &solver.capacity.templates, &solver.topology).1
    }
}

/// Counts the DaemonSet pods that may come with a launch. Where a key is not fixed, as on nodes of static NodePools, they
/// count as possible in each of its domains.
pub(super) fn count_daemons(solver: &mut Solver<'_>, claim: usize) {
    if solver.daemons.is_empty() {
        return;
    }
    let template = solver.new_nodes.list[claim].template;
    let (open, daemons) = (open_domains(solver, template), daemon_counts(solver, template));
    let (coming, _) = solver.daemons.with(template, &solver.capacity.templates, &solver.topology);
    if solver.capacity.templates.pool_template_of(template).pool.replicas.is_none() {
        let doubtful = coming.iter().filter(|(_, there)| *there == Counts::Perhaps);
        solver.daemons.doubtful.extend(doubtful.map(|(member, _)| (claim, *member)));
    }
    let spot = solver.new_nodes.list[claim].spot(solver.capacity.templates.get(template));
    admit_daemons(
        &mut solver.topology,
        &daemons,
        spot,
        template,
        &solver.capacity.templates,
        &solver.problem.requirement_sets,
    );
    for (member, there) in coming.iter() {
        let member = &solver.daemons.members[*member];
        let membership = Membership { counts: &member.counts, holds: &member.holds };
        let suits =
            |id, spread: &_| solver.capacity.templates.counts(template, id, spread, &solver.problem.requirement_sets);
        solver.topology.record(membership, spot, CountedPods { count: 1, there: *there }, suits);
        expect_pods(&mut solver.topology, &member.counts, spot);
        for pins in &open {
            let somewhere = Spot { site: None, pins: Some(pins) };
            let pods = CountedPods { count: 1, there: Counts::Perhaps };
            solver.topology.record(membership, somewhere, pods, suits);
            expect_pods(&mut solver.topology, &member.counts, somewhere);
        }
    }
    if !open.is_empty() {
        solver.daemons.simulated_placement.insert(claim, (template, open));
    }
}

/// Removes a launch's DaemonSet pods from the other domains of a key, once the launch has fixed the key.
pub(super) fn collect_daemons(solver: &mut Solver<'_>, claim: usize) {
    let Some((before, open)) = solver.daemons.simulated_placement.remove(&claim) else { return };
    let (coming, _) = solver.daemons.with(before, &solver.capacity.templates, &solver.topology);
    let now = &solver.capacity.templates.get(solver.new_nodes.list[claim].template).pins;
    let agrees = |pins: &Pins| pins.iter().zip(now).all(|(was, is)| was.is_none() || is.is_none() || was == is);
    let (left, ruled_out): (Vec<Pins>, Vec<Pins>) = open.into_iter().partition(agrees);
    for pins in &ruled_out {
        for (member, _) in coming.iter() {
            let member = &solver.daemons.members[*member];
            let membership = Membership { counts: &member.counts, holds: &member.holds };
            let suits =
                |id, spread: &_| solver.capacity.templates.counts(before, id, spread, &solver.problem.requirement_sets);
            withdraw_pods(&mut solver.topology, membership, pins, suits);
        }
    }
    if !left.is_empty() {
        solver.daemons.simulated_placement.insert(claim, (before, left));
    }
}

/// Counts as certain the DaemonSet pods that run on every type that holds the launch's present pods. The launch can no
/// longer become another type.
pub(super) fn confirm_daemons(solver: &mut Solver<'_>) {
    for (position, member) in std::mem::take(&mut solver.daemons.doubtful) {
        let narrow = present_template(solver, position);
        let (claim, own) = (&solver.new_nodes.list[position], &solver.daemons.members[member]);
        if own.belongs_to(narrow, &solver.capacity.templates) == Counts::Surely {
            let suits =
                |id, spread: &_| solver.capacity.templates.counts(narrow, id, spread, &solver.problem.requirement_sets);
            confirm_pods(
                &mut solver.topology,
                &own.counts,
                claim.spot(solver.capacity.templates.get(claim.template)),
                suits,
            );
        } else {
            solver.daemons.doubtful.insert((position, member));
        }
    }
}

/// Returns pins with one domain each, for every domain that matters to the DaemonSets and that launches of a template leave
/// open.
fn open_domains(solver: &mut Solver<'_>, template: TemplateId) -> Vec<Pins> {
    let mut keys = keys_of_daemons(solver, template);
    keys.sort_unstable();
    keys.dedup();
    let mut all = Vec::new();
    for key in keys {
        let none = vec![None; solver.capacity.templates.get(template).pins.len()];
        if solver.capacity.templates.get(template).pins[key].is_none() {
            for domain in solver.capacity.templates.values(template, key, &mut solver.topology).iter() {
                let mut pins = none.clone();
                pins[key] = Some(*domain);
                all.push(pins);
            }
        }
    }
    all
}

/// Returns keys whose value a launch of a template must fix for its DaemonSet pods.
pub(super) fn keys_of_daemons(solver: &mut Solver<'_>, template: TemplateId) -> Vec<KeyId> {
    if solver.daemons.is_empty() {
        return Vec::new();
    }
    let (coming, _) = solver.daemons.with(template, &solver.capacity.templates, &solver.topology);
    coming.iter().flat_map(|(member, _)| solver.daemons.members[*member].keys.iter().copied()).collect()
}
