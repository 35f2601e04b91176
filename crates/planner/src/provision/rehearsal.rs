//! Rehearsal of a plan. A plan is rehearsed when its launches bring DaemonSet pods that topology rules of other pods count. In
//! the rehearsal all nodes are up, each with its DaemonSet pods, and the plan's pods are bound in their order.
//!
//! A plan in progress counts only the launches that it has opened so far. Several launches together may satisfy a spread that
//! one alone violates. Spreads are therefore not strict at first; only a plan that fails its rehearsal is made again strictly.

use std::collections::BTreeSet;

use super::node_template::TemplateId;
use super::topology::{Domain, HOST, Spot};
use super::{Attempt, PodPlacement, Solver};
use crate::PodVerdict;

impl Solver<'_> {
    /// Reports whether every pod can be bound where it was planned. Discards the counts of the plan.
    pub(super) fn rehearse(&mut self) -> bool {
        if self.daemon_overhead.is_empty() {
            return true;
        }
        self.topology.begin_again();
        self.count_residents();
        self.daemon_overhead.forget_doubts();
        (0..self.claims.list.len()).for_each(|claim| self.count_daemons(claim));
        self.confirm_daemons();
        let launches = self.launches_by_now();
        let residents: BTreeSet<usize> = self.residents.iter().map(|resident| resident.pod).collect();
        let (mut moving, own): (Vec<usize>, Vec<usize>) = self.order.iter().partition(|pod| residents.contains(pod));
        if !own.into_iter().all(|pod| self.binds(pod, &launches)) {
            return false;
        }
        // Disruption commands run in parallel: a pod without a place is tried again when other pods have theirs.
        let mut before = usize::MAX;
        while moving.len() < before {
            before = moving.len();
            moving.retain(|pod| !self.binds(*pod, &launches));
        }
        moving.is_empty()
    }

    /// Binds a pod at its planned place if its rules allow that place.
    fn binds(&mut self, pod: usize, launches: &[(TemplateId, Domain)]) -> bool {
        let shape = self.demand_of[pod];
        let Some(place) = self.place_of(pod) else { return true };
        let admitted = self.admits_now(shape, place, launches);
        if admitted {
            self.count(Attempt { shape, level: self.demands[shape].levels.len() - 1 }, place, 1);
        }
        admitted
    }

    pub(super) fn place_of(&self, pod: usize) -> Option<PodPlacement> {
        match self.verdicts[pod].as_ref()? {
            PodVerdict::Existing { node, .. } => self.rooms.named(node).map(PodPlacement::Room),
            PodVerdict::Launch { launch, .. } => Some(PodPlacement::Claim(*launch)),
            _ => None,
        }
    }

    /// Returns the site and the topology values of a place.
    pub(super) fn spot_of(&self, place: PodPlacement) -> Spot<'_> {
        match place {
            PodPlacement::Room(room) => self.rooms.list[room].spot(),
            PodPlacement::Claim(claim) => self.claims.list[claim].spot(self.frames.get(self.claims.list[claim].frame)),
        }
    }

    /// Reports whether the strict rules of a shape hold at a place, among the nodes that exist.
    fn admits_now(&mut self, shape: usize, place: PodPlacement, launches: &[(TemplateId, Domain)]) -> bool {
        let demand = &self.demands[shape];
        let rules = demand.strict_rules();
        self.topology.look_at_present(rules, launches, &self.frames, &self.wants);
        let spot = self.spot_of(place);
        let keys = demand.levels.last().map_or(&[][..], |level| &level.keys).iter().copied().chain([HOST]);
        let admitted = keys.into_iter().all(|key| match place {
            PodPlacement::Room(_) if key != HOST => self.topology.allows_at(rules, &demand.shunned, key, spot),
            _ => self.topology.allows(rules, &demand.shunned, key, self.topology.domain_at(key, spot)),
        });
        self.topology.look_ahead(rules);
        admitted
    }
}
