//! Final attempt for pods with spread constraints: existing nodes, evaluated as kube-scheduler evaluates them now.
//!
//! A spread counts every domain that NodePools could open, because launches of this plan may open it. kube-scheduler counts
//! only existing domains, so it may bind a pod for which the stricter rule finds no place. Nothing is launched afterwards:
//! CapacityBuffer pods that need a new node receive one from the next plan.

use crate::PlacementReason;

use super::join::holding;
use super::node_template::TemplateId;
use super::topology::{Domain, RuleKind};
use super::{Attempt, PodPlacement, PodRun, Solver};

impl Solver<'_> {
    /// Repeats rounds over the queue until a round places no pod. Tries pods without a spread constraint only after others were
    /// placed.
    pub(super) fn place_at_present(&mut self, queue: &mut Vec<PodRun>) {
        if !queue.iter().any(|run| self.is_spread(run.shape)) {
            return;
        }
        self.confirm_daemons();
        let launches = self.launches_by_now();
        let mut moved = false;
        loop {
            let mut placed = 0;
            for run in queue.iter_mut() {
                if !moved && !self.is_spread(run.shape) {
                    continue;
                }
                let count = self.place_run_at_present(run, &launches);
                run.pods.drain(..count);
                placed += count;
            }
            queue.retain(|run| !run.pods.is_empty());
            moved = placed > 0;
            if !moved {
                return;
            }
        }
    }

    /// Returns the launches and their sites, each narrowed to the types that hold its present pods.
    pub(super) fn launches_by_now(&mut self) -> Vec<(TemplateId, Domain)> {
        let all = 0..self.claims.list.len();
        all.map(|launch| (self.frame_by_now(launch), self.claims.list[launch].site)).collect()
    }

    pub(super) fn frame_by_now(&mut self, launch: usize) -> TemplateId {
        let claim = &self.claims.list[launch];
        let (_, used) = self.seated(claim);
        let entries: Vec<usize> = holding(&self.frames, claim.frame, 0, &used, &claim.ports).collect();
        self.frames.of_types(claim.frame, &entries, &mut self.topology).unwrap_or(claim.frame)
    }

    fn is_spread(&self, shape: usize) -> bool {
        let level = self.demands[shape].levels.last();
        level.is_some_and(|level| level.rules.iter().any(|rule| matches!(rule.kind, RuleKind::Spread { .. })))
    }

    fn place_run_at_present(&mut self, run: &PodRun, launches: &[(TemplateId, Domain)]) -> usize {
        let mut placed = 0;
        while let Some(pod) = run.pods.get(placed).filter(|_| !self.is_spent()) {
            let Some((turn, room)) = self.room_at_present(run.shape, *pod, launches) else { break };
            self.record(turn, PodPlacement::Room(room), &[*pod], PlacementReason::Room);
            self.closed = true;
            placed += 1;
        }
        placed
    }

    fn room_at_present(
        &mut self,
        shape: usize,
        pod: usize,
        launches: &[(TemplateId, Domain)],
    ) -> Option<(Attempt, usize)> {
        for level in 0..self.demands[shape].levels.len() {
            self.steps += self.rooms.list.len() as u64;
            let demand = &self.demands[shape];
            let own = &demand.levels[level];
            self.topology.look_at_present(&own.rules, launches, &self.frames, &self.wants);
            let object = &self.snapshot.pods[pod];
            let admits = |room: &usize| self.rooms.admits(*room, demand, own, object, &self.wants, &self.topology);
            let found = (0..self.rooms.list.len()).find(admits);
            self.topology.look_ahead(&own.rules);
            if let Some(room) = found {
                return Some((Attempt { shape, level }, room));
            }
        }
        None
    }
}
