//! DaemonSet pods of a new node: they run there before any other pod, and topology rules of other pods count them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{Daemon, Node, Snapshot, Stage};

use super::demand::{Demand, PreferenceLevel};
use super::node_template::{NodeTemplates, TemplateId};
use super::pool_template::{self, DaemonDemand};
use super::topology::{
    self, CountedPods, Counts, DaemonCounts, Domain, GroupId, HOST, KeyId, Membership, Rule, RuleKind, Spot, Topology,
};
use super::{Attempt, PodPlacement, Solver};

/// DaemonSets whose pods matter for inter-pod constraints.
#[derive(Clone)]
pub(super) struct DaemonOverhead<'a> {
    members: Arc<[DaemonMember<'a>]>,
    /// By template, the members that run on its launches, and the number of members that are excluded.
    known: BTreeMap<TemplateId, (ArrivingDaemons, usize)>,
    /// Groups of which a launch would have brought more pods than the rules of placed pods allow.
    unborne: BTreeSet<GroupId>,
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
    shunned: Vec<GroupId>,
    rules: Vec<Rule>,
    /// Keys whose value must be known where its pods run.
    keys: Vec<KeyId>,
    /// By key, domains from which running pods exclude its pods.
    barred: BTreeMap<KeyId, BTreeSet<Domain>>,
}

impl<'a> DaemonMember<'a> {
    fn new(demand: DaemonDemand<'a>, position: usize, topology: &mut Topology<'a>) -> Self {
        let shape = &demand.daemon.shape;
        let (counts, holds) = (topology.counting(shape), topology.holding(shape));
        let shunned = topology.excluding(&counts);
        let rules: Vec<Rule> = holds.iter().map(|group| Rule::apart(*group)).collect();
        let keys = topology.keys_to_settle(&rules, &counts, &shunned);
        let of_key = |key: KeyId| (key, topology.refused(&rules, &shunned, key));
        let all = [HOST].into_iter().chain(keys.iter().copied()).map(of_key);
        let barred = all.filter(|(_, domains)| !domains.is_empty()).collect();
        Self { demand, position, counts, holds, shunned, rules, keys, barred }
    }

    /// Reports whether a pod can share an otherwise empty node with this one, as far as anti-affinity decides.
    fn bears(&self, demand: &Demand<'_>, level: &PreferenceLevel) -> bool {
        let refuses = |rule: &Rule| rule.kind == RuleKind::Apart && self.counts.contains(&rule.group);
        !demand.shunned.iter().any(|group| self.holds.contains(group)) && !level.rules.iter().any(refuses)
    }

    /// Reports whether running pods exclude it from a snapshot node in every domain that the node may start in.
    fn is_barred_at(&self, site: Domain, topology: &Topology<'_>) -> bool {
        let spot = Spot { site: Some(site), pins: None };
        self.barred.iter().any(|(key, domains)| {
            let mut possible = topology.possible(*key, spot).peekable();
            possible.peek().is_some() && possible.all(|domain| domains.contains(&domain))
        })
    }

    /// Reports the same for launches of a template.
    fn is_barred_from(&self, frame: TemplateId, frames: &NodeTemplates<'_>, topology: &Topology<'_>) -> bool {
        self.barred.iter().filter(|(key, _)| **key != HOST).any(|(key, domains)| {
            let possible = frames.value_names(frame, topology.key_name(*key));
            let is_barred = |value: &String| topology.known(*key, value).is_some_and(|it| domains.contains(&it));
            !possible.is_empty() && possible.iter().all(is_barred)
        })
    }

    /// Reports whether pods that exist already allow it on a launch of a template.
    fn may_come(&self, frame: TemplateId, frames: &NodeTemplates<'_>, topology: &Topology<'_>) -> bool {
        let pins = &frames.get(frame).pins;
        self.keys.iter().all(|key| topology.allows(&self.rules, &self.shunned, *key, pins[*key]))
    }

    /// Returns whether a launch of a template brings it, if no pod excludes it.
    fn belongs_to(&self, frame: TemplateId, frames: &NodeTemplates<'_>) -> Counts {
        let own = frames.get(frame);
        let candidates = &frames.templates[own.template].candidates;
        let mut brought = own.entries.iter().map(|it| candidates[it.candidate].daemons.contains(&self.position));
        let by_type = match (brought.clone().any(|it| it), brought.all(|it| it)) {
            (true, true) => Counts::Surely,
            (true, false) => Counts::Perhaps,
            (false, _) => Counts::Never,
        };
        by_type.min(self.demand.suits(|key| frames.outlook(frame, key)))
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
        let excluded_daemons = !self.demand.bears(&node.taints) || self.is_barred_at(site, topology);
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
                        topology.expect(&member.counts, spot);
                    }
                }
            }
        }
        Self {
            members: members.into(),
            known: BTreeMap::new(),
            unborne: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            simulated_placement: BTreeMap::new(),
        }
    }

    /// Returns groups of which launches that were not opened would have brought too many pods.
    pub(super) fn unborne(&self) -> BTreeSet<GroupId> {
        self.unborne.clone()
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
        members.any(|member| member.is_barred_at(site, topology) && !member.is_on(node))
    }

    /// Returns the members that run on launches of a template, and the number of members that running pods exclude there.
    fn with(
        &mut self,
        frame: TemplateId,
        frames: &NodeTemplates<'a>,
        topology: &Topology<'a>,
    ) -> (ArrivingDaemons, usize) {
        let members = &self.members;
        let all = || {
            let each = members.iter().enumerate().map(|(position, it)| (position, it.belongs_to(frame, frames)));
            let belong = each.filter(|(_, there)| *there != Counts::Never);
            let belong: ArrivingDaemons = belong.collect();
            let comes = |(position, _): &&(usize, Counts)| !members[*position].is_barred_from(frame, frames, topology);
            let coming: ArrivingDaemons = belong.iter().filter(comes).copied().collect();
            let absent = belong.len() - coming.len();
            (coming, absent)
        };
        self.known.entry(frame).or_insert_with(all).clone()
    }

    /// Returns the keys by which running pods exclude some DaemonSet pod from domains.
    pub(super) fn barred_keys(&self) -> Vec<KeyId> {
        let keys = self.members.iter().flat_map(|member| member.barred.keys().copied());
        keys.filter(|key| *key != HOST).collect()
    }
}

impl Solver<'_> {
    /// Determines the DaemonSet pods that every future node brings.
    pub(super) fn begin_daemons(&mut self, strict: bool) {
        if self.daemon_overhead.is_empty() {
            return;
        }
        let mut least: BTreeMap<GroupId, u32> = BTreeMap::new();
        for base in 0..self.frames.templates.len() {
            let (coming, _) = self.daemon_overhead.with(base, &self.frames, &self.topology);
            let members =
                coming.iter().map(|(member, there)| (self.daemon_overhead.members[*member].counts.clone(), *there));
            for (id, count) in self.topology.brought(members, base, &self.frames, &self.wants) {
                least.entry(id).and_modify(|known| *known = count.min(*known)).or_insert(count);
            }
        }
        self.topology.begin(&least, strict);
    }

    /// Reports whether a pod tolerates the DaemonSet pods of a new launch, and they tolerate it, and all placed pods tolerate
    /// them.
    pub(super) fn tolerates_daemons(&mut self, frame: TemplateId, turn: Attempt) -> bool {
        if self.daemon_overhead.is_empty() {
            return true;
        }
        let (coming, _) = self.daemon_overhead.with(frame, &self.frames, &self.topology);
        let company = self.daemon_counts(frame);
        let demand = &self.demands[turn.shape];
        let level = &demand.levels[turn.level];
        let borne = coming
            .iter()
            .map(|(member, _)| &self.daemon_overhead.members[*member])
            .all(|member| member.bears(demand, level) && member.may_come(frame, &self.frames, &self.topology));
        let spot = Spot { site: Some(self.next_site()), pins: Some(&self.frames.get(frame).pins) };
        let unborne = self.topology.exceeded_by(&company, spot);
        self.daemon_overhead.unborne.extend(&unborne);
        borne
            && unborne.is_empty()
            && self.topology.allows_beside(&level.rules, &demand.shunned, HOST, Some(Domain::MAX), &company)
    }

    /// Returns the DaemonSet pods of a launch of a template.
    pub(super) fn daemon_counts(&mut self, frame: TemplateId) -> DaemonCounts {
        let mut company = DaemonCounts::default();
        if !self.daemon_overhead.is_empty() {
            let (coming, _) = self.daemon_overhead.with(frame, &self.frames, &self.topology);
            let suits = |id, spread: &_| self.frames.counts(frame, id, spread, &self.wants);
            for (member, there) in coming.iter() {
                let groups = &self.daemon_overhead.members[*member].counts;
                self.topology.count_daemons(&mut company, groups, CountedPods { count: 1, there: *there }, suits);
            }
        }
        company
    }

    /// Records how many further DaemonSet pods the rules of pods, about to be counted at a place, allow.
    pub(super) fn note_limits(&mut self, turn: Attempt, place: PodPlacement) {
        if self.daemon_overhead.is_empty() {
            return;
        }
        let rules = self.demands[turn.shape].strict_rules();
        match place {
            PodPlacement::Room(room) => self.topology.note_limits(rules, self.rooms.list[room].spot()),
            PodPlacement::Claim(claim) => {
                let claim = &self.claims.list[claim];
                self.topology.note_limits(rules, claim.spot(self.frames.get(claim.frame)));
            }
        }
    }

    /// Returns the number of DaemonSets without a pod on a launch of a template because running pods exclude them.
    pub(super) fn absent_daemons(&mut self, frame: TemplateId) -> usize {
        if self.daemon_overhead.is_empty() {
            0
        } else {
            self.daemon_overhead.with(frame, &self.frames, &self.topology).1
        }
    }

    /// Counts the DaemonSet pods that may come with a launch. Where a key is not fixed, as on nodes of static NodePools, they
    /// count as possible in each of its domains.
    pub(super) fn count_daemons(&mut self, claim: usize) {
        if self.daemon_overhead.is_empty() {
            return;
        }
        let frame = self.claims.list[claim].frame;
        let (open, company) = (self.open_domains(frame), self.daemon_counts(frame));
        let (coming, _) = self.daemon_overhead.with(frame, &self.frames, &self.topology);
        if self.frames.template_of(frame).pool.replicas.is_none() {
            let doubtful = coming.iter().filter(|(_, there)| *there == Counts::Perhaps);
            self.daemon_overhead.doubtful.extend(doubtful.map(|(member, _)| (claim, *member)));
        }
        let spot = self.claims.list[claim].spot(self.frames.get(frame));
        self.topology.admits_daemons(&company, spot, frame, &self.frames, &self.wants);
        for (member, there) in coming.iter() {
            let member = &self.daemon_overhead.members[*member];
            let membership = Membership { counts: &member.counts, holds: &member.holds };
            let suits = |id, spread: &_| self.frames.counts(frame, id, spread, &self.wants);
            self.topology.record(membership, spot, CountedPods { count: 1, there: *there }, suits);
            self.topology.expect(&member.counts, spot);
            for pins in &open {
                let somewhere = Spot { site: None, pins: Some(pins) };
                let pods = CountedPods { count: 1, there: Counts::Perhaps };
                self.topology.record(membership, somewhere, pods, suits);
                self.topology.expect(&member.counts, somewhere);
            }
        }
        if !open.is_empty() {
            self.daemon_overhead.simulated_placement.insert(claim, (frame, open));
        }
    }

    /// Removes a launch's DaemonSet pods from the other domains of a key, once the launch has fixed the key.
    pub(super) fn collect_daemons(&mut self, claim: usize) {
        let Some((before, open)) = self.daemon_overhead.simulated_placement.remove(&claim) else { return };
        let (coming, _) = self.daemon_overhead.with(before, &self.frames, &self.topology);
        let now = &self.frames.get(self.claims.list[claim].frame).pins;
        let agrees = |pins: &Pins| pins.iter().zip(now).all(|(was, is)| was.is_none() || is.is_none() || was == is);
        let (left, ruled_out): (Vec<Pins>, Vec<Pins>) = open.into_iter().partition(agrees);
        for pins in &ruled_out {
            for (member, _) in coming.iter() {
                let member = &self.daemon_overhead.members[*member];
                let membership = Membership { counts: &member.counts, holds: &member.holds };
                let suits = |id, spread: &_| self.frames.counts(before, id, spread, &self.wants);
                self.topology.withdraw(membership, pins, suits);
            }
        }
        if !left.is_empty() {
            self.daemon_overhead.simulated_placement.insert(claim, (before, left));
        }
    }

    /// Counts as certain the DaemonSet pods that run on every type that holds the launch's present pods. The launch can no
    /// longer become another type.
    pub(super) fn confirm_daemons(&mut self) {
        for (position, member) in std::mem::take(&mut self.daemon_overhead.doubtful) {
            let narrow = self.frame_by_now(position);
            let (claim, own) = (&self.claims.list[position], &self.daemon_overhead.members[member]);
            if own.belongs_to(narrow, &self.frames) == Counts::Surely {
                let suits = |id, spread: &_| self.frames.counts(narrow, id, spread, &self.wants);
                self.topology.confirm(&own.counts, claim.spot(self.frames.get(claim.frame)), suits);
            } else {
                self.daemon_overhead.doubtful.insert((position, member));
            }
        }
    }

    /// Returns pins with one domain each, for every domain that matters to the DaemonSets and that launches of a template leave
    /// open.
    fn open_domains(&mut self, frame: TemplateId) -> Vec<Pins> {
        let mut keys = self.keys_of_daemons(frame);
        keys.sort_unstable();
        keys.dedup();
        let mut all = Vec::new();
        for key in keys {
            let none = vec![None; self.frames.get(frame).pins.len()];
            if self.frames.get(frame).pins[key].is_none() {
                for domain in self.frames.values(frame, key, &mut self.topology).iter() {
                    let mut pins = none.clone();
                    pins[key] = Some(*domain);
                    all.push(pins);
                }
            }
        }
        all
    }

    /// Returns keys whose value a launch of a template must fix for its DaemonSet pods.
    pub(super) fn keys_of_daemons(&mut self, frame: TemplateId) -> Vec<KeyId> {
        if self.daemon_overhead.is_empty() {
            return Vec::new();
        }
        let (coming, _) = self.daemon_overhead.with(frame, &self.frames, &self.topology);
        coming.iter().flat_map(|(member, _)| self.daemon_overhead.members[*member].keys.iter().copied()).collect()
    }
}
