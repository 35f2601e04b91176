//! DaemonSet pods that come with a new node: they are there before any other pod, and other pods see them.

use crate::Snapshot;

use super::demand::{Demand, Level};
use super::frame::FrameId;
use super::topology::{GroupId, HOST, RuleKind, Spot, SpreadGroup, Topology};
use super::{Solver, Turn};

/// By DaemonSet, the groups that count its pods and those of the anti-affinity that they hold.
pub(super) struct Retinue {
    members: Vec<Member>,
}

struct Member {
    counts: Vec<GroupId>,
    holds: Vec<GroupId>,
}

impl Member {
    fn matters(&self) -> bool {
        !self.counts.is_empty() || !self.holds.is_empty()
    }

    /// Whether a pod may stand beside this one on a node where nobody else is.
    fn bears(&self, demand: &Demand<'_>, level: &Level, topology: &Topology<'_>) -> bool {
        let refuses = |rule: &super::topology::Rule| match rule.kind {
            RuleKind::Apart => true,
            RuleKind::Spread { max_skew, .. } => topology.is_of(rule.group, HOST) && max_skew <= u32::from(rule.own),
            RuleKind::Near | RuleKind::Alone => false,
        };
        !demand.shunned.iter().any(|group| self.holds.contains(group))
            && !level.rules.iter().any(|rule| self.counts.contains(&rule.group) && refuses(rule))
    }
}

impl Retinue {
    pub(super) fn of<'a>(snapshot: &'a Snapshot, topology: &mut Topology<'a>) -> Self {
        let member = |daemon: &'a crate::Daemon| Member {
            counts: topology.counting(&daemon.shape),
            holds: topology.holding(&daemon.shape),
        };
        Self { members: snapshot.daemons.iter().map(member).collect() }
    }
}

impl Solver<'_> {
    /// Whether a pod may stand beside the daemons of every type that a fresh launch lists.
    pub(super) fn bears_retinue(&self, frame: FrameId, turn: Turn) -> bool {
        let demand = &self.demands[turn.shape];
        let level = &demand.levels[turn.level];
        let refuses = |member: &Member| member.matters() && !member.bears(demand, level, &self.topology);
        let unborne: Vec<bool> = self.retinue.members.iter().map(refuses).collect();
        !unborne.contains(&true) || !self.daemons_of(frame).into_iter().any(|daemon| unborne[daemon])
    }

    /// Counts the daemons that may come with a launch.
    pub(super) fn count_retinue(&mut self, claim: usize) {
        if !self.retinue.members.iter().any(Member::matters) {
            return;
        }
        let claim = &self.claims.list[claim];
        for daemon in self.daemons_of(claim.frame) {
            let Member { counts, holds } = &self.retinue.members[daemon];
            let frame = self.frames.get(claim.frame);
            let spot = Spot { site: Some(claim.site), pins: Some(&frame.pins) };
            let (frames, wants) = (&self.frames, &self.wants);
            let suits = |id, spread: &SpreadGroup<'_>| frames.counts(claim.frame, id, spread, wants);
            self.topology.record(counts, holds, spot, 1, suits);
        }
    }

    /// Positions of the DaemonSets whose pods come with one of a frame's types at least.
    fn daemons_of(&self, frame: FrameId) -> Vec<usize> {
        let own = self.frames.get(frame);
        let candidates = &self.frames.templates[own.template].candidates;
        let mut daemons: Vec<usize> =
            own.entries.iter().flat_map(|entry| &candidates[entry.candidate].daemons).copied().collect();
        daemons.sort_unstable();
        daemons.dedup();
        daemons
    }
}
