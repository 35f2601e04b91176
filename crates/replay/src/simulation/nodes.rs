//! Nodes of NodePools: their begin, their commands, their drains and their end.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::status::Conditioned;
use api::{NodeClaim, annotation, condition, label};
use jiff::{SignedDuration, Timestamp};
use planner::PlannedCommand;

use super::{Command, Simulation};
use crate::agenda::Event;
use crate::drain::{Drain, evictable, is_over};
use crate::history::RecordedNode;
use crate::machine;

/// Time from the end of a drain to the end of the instance.
const TERMINATION: SignedDuration = SignedDuration::from_secs(2);
/// Notice that EC2 gives before the end of a spot instance.
const NOTICE: SignedDuration = SignedDuration::from_mins(2);

impl Simulation<'_> {
    /// Takes over the nodes of the first state. A NodeClaim without an instance is planned again.
    pub(super) fn begin_nodes(&mut self) {
        let begin = self.replay.history.begin;
        for recorded in &self.replay.history.nodes {
            let Some((claim, node)) = &recorded.at_begin else { continue };
            let Some(launched) = recorded.launched.filter(|_| claim.is_true(condition::LAUNCHED)) else { continue };
            let name = &recorded.claim;
            self.cluster.claims.insert(name.clone(), Arc::clone(claim));
            self.counters.launched.insert(name.clone(), launched.max(begin));
            match node.as_ref().filter(|_| claim.is_true(condition::INITIALIZED)) {
                Some(node) => drop(self.cluster.nodes.insert(node.name().to_owned(), Arc::clone(node))),
                None => {
                    let due = (launched + self.replay.pace.boot).max(begin);
                    self.agenda.enter(due, Event::Initialized(name.clone()));
                }
            }
            if claim.metadata.deletion_timestamp.is_some() {
                self.begin_drain(name);
            }
        }
    }

    pub(super) fn initialize(&mut self, claim: &str) {
        let now = self.cluster.now;
        let Some(own) = self.cluster.claims.get_mut(claim) else { return };
        let node = machine::initialized(Arc::make_mut(own), now);
        self.cluster.nodes.insert(node.name().to_owned(), Arc::new(node));
        self.may_bind = true;
        self.passes.request_for_savings(now);
        let mut ready = Vec::new();
        for command in &mut self.commands {
            command.awaits.retain(|awaited| awaited != claim);
        }
        self.commands.retain(|command| {
            if command.awaits.is_empty() {
                ready.extend(command.claims.clone());
            }
            !command.awaits.is_empty()
        });
        ready.iter().for_each(|claim| self.begin_drain(claim));
    }

    /// Begins a command: its nodes drain once all replacements are initialized.
    pub(super) fn command(&mut self, planned: &PlannedCommand, launched: &BTreeMap<usize, String>) {
        let awaits: Vec<String> = planned.replacements.iter().filter_map(|it| launched.get(it)).cloned().collect();
        if awaits.len() < planned.replacements.len() {
            return;
        }
        let reason = planned.reason.as_str();
        let claims: Vec<String> = planned.nodes.iter().map(|node| node.claim.clone()).collect();
        for claim in &claims {
            self.cluster.mark_disrupted(claim, reason, &awaits.join(","));
            *self.counters.disrupted.entry(reason.to_owned()).or_default() += 1;
        }
        for replacement in &awaits {
            if let Some(claim) = self.cluster.claims.get_mut(replacement) {
                let annotations = Arc::make_mut(claim).metadata.annotations.get_or_insert_default();
                annotations.insert(annotation::REPLACES.to_owned(), claims.join(","));
            }
        }
        match awaits.is_empty() {
            true => claims.iter().for_each(|claim| self.begin_drain(claim)),
            false => self.commands.push(Command { claims, awaits }),
        }
    }

    pub(super) fn begin_drain(&mut self, claim: &str) {
        let now = self.cluster.now;
        let Some(own) = self.cluster.claims.get(claim) else { return };
        if let Some(end) = drain_end(own, now) {
            self.agenda.enter(end, Event::Overdue(claim.to_owned()));
        }
        self.cluster.delete_claim(claim);
        self.drains.entry(claim.to_owned()).or_default();
    }

    /// Evicts what can be evicted now, and ends the instances of empty nodes.
    pub(super) fn drain_nodes(&mut self) {
        let now = self.cluster.now;
        let claims: Vec<(String, Drain)> = self.drains.iter().map(|(claim, drain)| (claim.clone(), *drain)).collect();
        for (claim, drain) in claims {
            if let Some(node) = self.cluster.node_of(&claim) {
                while let Some(uid) = evictable(&mut self.cluster, &node, drain) {
                    self.evict(&uid);
                }
                if !is_over(&self.cluster, &node) {
                    continue;
                }
            }
            self.drains.remove(&claim);
            self.agenda.enter(now + TERMINATION, Event::Terminated(claim));
        }
    }

    pub(super) fn terminate(&mut self, claim: &str) {
        let now = self.cluster.now;
        self.end_span(claim, now);
        self.drains.remove(claim);
        for uid in self.cluster.remove_claim(claim) {
            self.lose(&uid);
        }
        self.passes.request_for_savings(now);
    }

    /// Interrupts a node like the recorded one: of the same instance type, zone and capacity type. Without such a node nothing happens.
    pub(super) fn interrupt(&mut self, position: usize) {
        let recorded = &self.replay.history.nodes[position];
        let like = |claim: &&Arc<NodeClaim>| is_like(claim, recorded) && claim.metadata.deletion_timestamp.is_none();
        let own = self.cluster.claims.get(&recorded.claim).filter(like);
        let Some(claim) = own.or_else(|| self.cluster.claims.values().find(like)) else { return };
        let name = claim.metadata.name.clone().unwrap_or_default();
        self.counters.interrupted += 1;
        self.begin_drain(&name);
        self.agenda.enter(self.cluster.now + NOTICE, Event::Overdue(name.clone()));
        self.agenda.enter(self.cluster.now + NOTICE, Event::Terminated(name));
    }
}

fn is_like(claim: &NodeClaim, recorded: &RecordedNode) -> bool {
    let own = claim.metadata.labels.as_ref();
    let equal = |key: &str| own.and_then(|own| own.get(key)) == recorded.labels.get(key);
    [label::INSTANCE_TYPE, label::ZONE, label::CAPACITY_TYPE].into_iter().all(equal)
}

/// Returns the end of a drain that begins now, if the NodeClaim limits it.
fn drain_end(claim: &NodeClaim, now: Timestamp) -> Option<Timestamp> {
    let nanos = claim.spec.termination_grace_period.as_ref()?.nanos().ok()??;
    now.checked_add(SignedDuration::from_nanos(nanos)).ok()
}
