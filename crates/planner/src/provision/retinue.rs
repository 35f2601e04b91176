//! DaemonSet pods that come with a node: they are there before any other pod, and other pods see them.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::{Node, Snapshot};

use super::demand::{Demand, Level};
use super::frame::{FrameId, Frames};
use super::template::{self, DaemonDemand};
use super::topology::{self, Counts, Domain, GroupId, HOST, KeyId, Membership, Pods, Rule, RuleKind, Spot, Topology};
use super::{Solver, Turn};

/// The DaemonSets that it matters to somebody where their pods are.
pub(super) struct Retinue<'a> {
    members: Vec<Member<'a>>,
    /// By frame, which of the members come with its launches.
    known: BTreeMap<FrameId, Rc<[(usize, Counts)]>>,
}

struct Member<'a> {
    demand: DaemonDemand<'a>,
    /// Its place among the snapshot's DaemonSets.
    position: usize,
    counts: Vec<GroupId>,
    holds: Vec<GroupId>,
    /// Required anti-affinity of others against its pods.
    shunned: Vec<GroupId>,
    rules: Vec<Rule>,
    /// Keys whose value must be known where its pods are.
    keys: Vec<KeyId>,
}

impl<'a> Member<'a> {
    fn of(demand: DaemonDemand<'a>, position: usize, topology: &mut Topology<'a>) -> Self {
        let shape = &demand.daemon.shape;
        let (counts, holds, shunned) = (topology.counting(shape), topology.holding(shape), topology.shunning(shape));
        let rules: Vec<Rule> = holds.iter().map(|group| Rule::apart(*group)).collect();
        let keys = topology.keys_to_settle(&rules, &counts, &shunned);
        Self { demand, position, counts, holds, shunned, rules, keys }
    }

    /// Whether a pod may stand beside this one on a node where nobody else is.
    fn bears(&self, demand: &Demand<'_>, level: &Level, topology: &Topology<'_>) -> bool {
        let refuses = |rule: &Rule| match rule.kind {
            RuleKind::Apart => true,
            RuleKind::Spread { max_skew, .. } => topology.is_of(rule.group, HOST) && max_skew <= u32::from(rule.own),
            RuleKind::Near | RuleKind::Alone => false,
        };
        !demand.shunned.iter().any(|group| self.holds.contains(group))
            && !level.rules.iter().any(|rule| self.counts.contains(&rule.group) && refuses(rule))
    }

    /// Whether those who are there already let it come to a launch of a frame.
    fn may_come(&self, frame: FrameId, frames: &Frames<'_>, topology: &Topology<'_>) -> bool {
        let pins = &frames.get(frame).pins;
        self.keys.iter().all(|key| topology.allows(&self.rules, &self.shunned, *key, pins[*key]))
    }

    /// Whether a launch of a frame brings it along.
    fn comes_with(&self, frame: FrameId, frames: &Frames<'_>) -> Counts {
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

    /// Whether it will come to a node of the snapshot where it is not yet. One that a node is ready without may never come.
    fn comes_to(&self, snapshot: &Snapshot, node: &Node) -> Counts {
        let own = &self.demand.daemon.shape;
        let is_own = |pod: &&crate::BoundPod| {
            let labels = &pod.shape.labels;
            pod.shape.namespace == own.namespace && own.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        };
        if node.leaving.is_some() || !self.demand.bears(&node.taints) || node.pods.iter().any(|pod| is_own(&pod)) {
            return Counts::Never;
        }
        let most = if node.stage == crate::Stage::Initialized { Counts::Perhaps } else { Counts::Surely };
        most.min(self.demand.suits(|key| topology::outlook(snapshot, node, key)))
    }
}

impl<'a> Retinue<'a> {
    /// Finds the DaemonSets that matter, and counts their pods that are still to come to the snapshot's nodes.
    pub(super) fn of(snapshot: &'a Snapshot, topology: &mut Topology<'a>) -> Self {
        let all = template::daemons(snapshot).into_iter().enumerate();
        let mut members: Vec<Member<'a>> = all.map(|(position, it)| Member::of(it, position, topology)).collect();
        members.retain(|member| !member.counts.is_empty() || !member.holds.is_empty());
        for member in &members {
            let membership = Membership { counts: &member.counts, holds: &member.holds };
            for (site, node) in (0..).zip(&snapshot.nodes) {
                let there = member.comes_to(snapshot, node);
                if there != Counts::Never {
                    let spot = Spot { site: Some(site), pins: None };
                    topology.record(membership, spot, Pods { count: 1, there }, |_, _| Counts::Never);
                }
            }
        }
        Self { members, known: BTreeMap::new() }
    }

    /// Whether nobody looks at the pods of any DaemonSet.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The members that come with launches of a frame.
    fn with(&mut self, frame: FrameId, frames: &Frames<'a>) -> Rc<[(usize, Counts)]> {
        let members = &self.members;
        let all = || {
            let each = members.iter().enumerate().map(|(position, it)| (position, it.comes_with(frame, frames)));
            each.filter(|(_, there)| *there != Counts::Never).collect()
        };
        Rc::clone(self.known.entry(frame).or_insert_with(all))
    }
}

impl Solver<'_> {
    /// Whether a pod may stand beside the daemons that may come with a fresh launch, and they where it would be.
    pub(super) fn bears_retinue(&mut self, frame: FrameId, turn: Turn) -> bool {
        if self.retinue.is_empty() {
            return true;
        }
        let coming = self.retinue.with(frame, &self.frames);
        let demand = &self.demands[turn.shape];
        let level = &demand.levels[turn.level];
        coming.iter().map(|(member, _)| &self.retinue.members[*member]).all(|member| {
            member.bears(demand, level, &self.topology) && member.may_come(frame, &self.frames, &self.topology)
        })
    }

    /// Counts the daemons that may come with a launch: where a key is not settled, as nodes for nobody in particular leave
    /// it, perhaps in each of its domains.
    pub(super) fn count_retinue(&mut self, claim: usize) {
        if self.retinue.is_empty() {
            return;
        }
        let frame = self.claims.list[claim].frame;
        let open = self.open_domains(frame);
        let claim = &self.claims.list[claim];
        let spot = claim.spot(self.frames.get(frame));
        for (member, there) in self.retinue.with(frame, &self.frames).iter() {
            let member = &self.retinue.members[*member];
            let membership = Membership { counts: &member.counts, holds: &member.holds };
            let suits = |id, spread: &_| self.frames.counts(frame, id, spread, &self.wants);
            self.topology.record(membership, spot, Pods { count: 1, there: *there }, suits);
            for pins in &open {
                let somewhere = Spot { site: None, pins: Some(pins) };
                let pods = Pods { count: 1, there: Counts::Perhaps };
                self.topology.record(membership, somewhere, pods, suits);
            }
        }
    }

    /// For each domain of a key that matters to the daemons and that launches of a frame leave open, pins with it alone.
    fn open_domains(&mut self, frame: FrameId) -> Vec<Vec<Option<Domain>>> {
        let mut keys = self.keys_of_retinue(frame);
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

    /// Keys whose value a launch of a frame must have settled for its daemons' sake.
    pub(super) fn keys_of_retinue(&mut self, frame: FrameId) -> Vec<KeyId> {
        if self.retinue.is_empty() {
            return Vec::new();
        }
        let coming = self.retinue.with(frame, &self.frames);
        coming.iter().flat_map(|(member, _)| self.retinue.members[*member].keys.iter().copied()).collect()
    }
}
