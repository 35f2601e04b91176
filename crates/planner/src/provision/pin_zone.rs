//! Zone, or other domain, of a launch: fixed as soon as a pod on it counts for another pod.
//!
//! A launch whose zone is open could start in any of them. A pod that counts in a domain must know its domain, so the launch is
//! pinned to one. Among the domains that the rules allow, the launch prefers one that adds no unexpected domain to a spread.
//! Then cost, number of pods and name decide, the lowest first.

use super::node_template::TemplateId;
use super::topology::DaemonCounts;
use super::{Attempt, Solver};

impl Solver<'_> {
    /// Returns the variants of a template with a fixed value for each relevant key, as the rules allow; best first. A key is
    /// relevant to the pods, to DaemonSet pods of the node, or to a spread that may count there. A label that the new node will
    /// not have is fixed too: it belongs to no domain, which satisfies anti-affinity. A launch that is not opened yet (`fresh`)
    /// adds its DaemonSet pods.
    pub(super) fn pinned_templates(&mut self, frame: TemplateId, turn: Attempt, fresh: bool) -> Vec<TemplateId> {
        let mut keys = self.demands[turn.shape].levels[turn.level].keys.clone();
        keys.extend(self.keys_of_daemons(frame));
        keys.extend(self.topology.guarded_keys(frame, &self.frames, &self.wants));
        keys.sort_unstable_by_key(|key| self.topology.key_name(*key));
        keys.dedup();
        let is_open = |key: &usize| {
            let pin = self.frames.get(frame).pins[*key];
            pin.is_none() && !self.frames.values(frame, *key, &mut self.topology).is_empty()
        };
        let (open, settled): (Vec<usize>, Vec<usize>) = keys.into_iter().partition(is_open);
        let company = self.daemon_counts_of(frame, fresh, !open.is_empty());
        let demand = &self.demands[turn.shape];
        let rules = &demand.levels[turn.level].rules;
        let pins = &self.frames.get(frame).pins;
        let allowed = |key: &usize| self.topology.allows_beside(rules, &demand.shunned, *key, pins[*key], &company);
        match open.first() {
            _ if !settled.iter().all(allowed) => Vec::new(),
            None => vec![frame],
            Some(key) => self.pin(frame, *key, turn, fresh),
        }
    }

    /// Returns the DaemonSet pods of a launch that is not opened yet; while its template may become narrower, the best case.
    fn daemon_counts_of(&mut self, frame: TemplateId, fresh: bool, open: bool) -> DaemonCounts {
        match (fresh, open) {
            (false, _) => DaemonCounts::default(),
            (true, false) => self.daemon_counts(frame),
            (true, true) => self.daemon_counts(frame).at_best(),
        }
    }

    fn pin(&mut self, frame: TemplateId, key: usize, turn: Attempt, fresh: bool) -> Vec<TemplateId> {
        let values = self.frames.values(frame, key, &mut self.topology);
        let mut pinned = Vec::new();
        for domain in values.iter() {
            self.steps += 1;
            let Some(child) = self.frames.pinned(frame, key, *domain, &mut self.topology) else { continue };
            let company = self.daemon_counts_of(child, fresh, true);
            let demand = &self.demands[turn.shape];
            let level = &demand.levels[turn.level];
            if !self.topology.allows_beside(&level.rules, &demand.shunned, key, Some(*domain), &company) {
                continue;
            }
            let crowd = self.topology.pods_in_domain(&level.rules, key, *domain);
            let cost = self.alone_in(child, turn.shape).map(|entry| self.frames.get(child).entries[entry].cost);
            // Capacity that only a reservation offers is paid already.
            let reserved = self.frames.template_of(child).reserves.then_some(0);
            let surprises = self.topology.surprises(key, *domain, child, &self.frames, &self.wants);
            pinned.extend(cost.or(reserved).map(|cost| (surprises, cost, crowd, child)));
        }
        pinned.sort_by_key(|(surprises, cost, crowd, _)| (*surprises, *cost, *crowd));
        pinned.into_iter().flat_map(|(.., child)| self.pinned_templates(child, turn, fresh)).collect()
    }
}
