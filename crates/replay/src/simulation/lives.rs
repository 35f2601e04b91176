//! Lives of nodes and pods in the simulated cluster: begin, commands, drains, owners, kube-scheduler, kubelet and end.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::objects::{Pod, PodStatus};
use api::status::{Conditioned, Time};
use api::{NodeClaim, annotation, condition, label};
use jiff::{SignedDuration, Timestamp};
use planner::PlannedCommand;

use super::{Command, Simulation};
use crate::cluster::set_condition;
use crate::drain::{Drain, evictable, is_over};
use crate::event_queue::Event;
use crate::history::RecordedNode;
use crate::machine;
use crate::workload::{Slot, SlotEnd};

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
                    self.event_queue.enter(due, Event::Initialized(name.clone()));
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
            self.event_queue.enter(end, Event::Overdue(claim.to_owned()));
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
            self.event_queue.enter(now + TERMINATION, Event::Terminated(claim));
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
        self.event_queue.enter(self.cluster.now + NOTICE, Event::Overdue(name.clone()));
        self.event_queue.enter(self.cluster.now + NOTICE, Event::Terminated(name));
    }
}

impl Simulation<'_> {
    /// Begins the demand of a slot. In the first state its pod may have a node already.
    pub(super) fn arrive(&mut self, slot: usize) {
        let Slot { ends, at_begin, .. } = &self.slots[slot];
        if let SlotEnd::At(at) = ends {
            self.event_queue.enter((*at).max(self.cluster.now), Event::Leaves(slot));
        }
        let at_begin = at_begin.clone().filter(|(node, _)| self.cluster.nodes.contains_key(node));
        let uid = self.create_pod(slot);
        if let Some((node, ready)) = at_begin {
            self.bind(&uid, &node);
            if let Some(ready) = ready {
                self.start(&uid, ready);
            }
        } else if !self.since_begin().is_zero() {
            self.counters.pods += 1;
        }
    }

    /// Creates the next pod of a slot and returns its UID.
    fn create_pod(&mut self, slot: usize) -> String {
        let now = self.cluster.now;
        let state = &mut self.states[slot];
        let mut pod = self.slots[slot].pod.as_ref().clone();
        let mut uid = pod.metadata.uid.clone().unwrap_or_default();
        if state.made > 0 {
            uid = format!("{uid}-{}", state.made);
            if !pod.is_stateful() {
                pod.metadata.name = Some(format!("{}-{}", pod.name(), state.made));
            }
        }
        state.made += 1;
        state.uid = Some(uid.clone());
        pod.metadata.uid = Some(uid.clone());
        pod.metadata.creation_timestamp = Some(Time(now));
        pod.status = PodStatus { phase: "Pending".to_owned(), ..PodStatus::default() };
        set_condition(&mut pod, condition::POD_SCHEDULED, false, now);
        self.slot_of.insert(uid.clone(), slot);
        self.cluster.set_pod(&uid, pod);
        self.may_bind = true;
        uid
    }

    /// Ends the demand of a slot: its workload was scaled down.
    pub(super) fn leave(&mut self, slot: usize) {
        self.states[slot].is_over = true;
        if let Some(uid) = self.states[slot].uid.clone() {
            self.delete_pod(&uid);
        }
    }

    /// Lets kube-scheduler bind pods, and requests a plan for those that find no node.
    pub(super) fn bind_pods(&mut self) {
        let now = self.cluster.now;
        if self.cluster.pending().is_empty() {
            self.may_bind = false;
        }
        if !self.may_bind || now < self.bind_after {
            return;
        }
        self.may_bind = false;
        self.bind_after = now + self.passes.bind_pause();
        for (uid, node) in self.passes.bindings(&mut self.cluster) {
            let created = self.cluster.pod(&uid).and_then(|pod| Some(pod.metadata.creation_timestamp.as_ref()?.0));
            // As in the figures of the recording, pods of the first state do not count.
            if let Some(created) = created.filter(|created| *created > self.replay.history.begin) {
                self.counters.waits.push(i64::try_from(now.duration_since(created).as_millis()).unwrap_or(i64::MAX));
            }
            self.bind(&uid, &node);
            self.event_queue.enter(now + self.replay.pace.start, Event::Started(uid));
        }
        if self.cluster.pending().iter().any(|uid| !self.passes.has_promised(uid)) {
            self.passes.request_for_pods(now);
        }
    }

    fn bind(&mut self, uid: &str, node: &str) {
        let now = self.cluster.now;
        self.passes.forget(uid);
        self.cluster.change_pod(uid, |pod| {
            pod.spec.node_name = node.to_owned();
            set_condition(pod, condition::POD_SCHEDULED, true, now);
        });
        if !self.since_begin().is_zero() {
            self.cluster.note_pod_event(node);
        }
    }

    /// Makes a bound pod ready. A pod of the first state has been running `since` an earlier time.
    pub(super) fn start(&mut self, uid: &str, since: Timestamp) {
        if self.cluster.pod(uid).is_none_or(|pod| pod.is_terminating()) {
            return;
        }
        self.cluster.change_pod(uid, |pod| {
            pod.status.phase = "Running".to_owned();
            pod.status.start_time = Some(Time(since));
            set_condition(pod, condition::READY, true, since);
        });
        let slot = self.slot_of.get(uid).map(|slot| &self.slots[*slot]);
        if let Some(SlotEnd::AfterRunning(lasts)) = slot.map(|slot| slot.ends) {
            self.event_queue.enter((since + lasts).max(self.cluster.now), Event::Completed(uid.to_owned()));
        }
    }

    /// Ends a pod that has done its work, with the demand of its slot.
    pub(super) fn complete(&mut self, uid: &str) {
        if let Some(slot) = self.slot_of.get(uid).filter(|_| self.cluster.pod(uid).is_some()) {
            self.states[*slot].is_over = true;
            self.remove_pod(uid);
        }
    }

    /// Requests the deletion of a pod, which stops soon if it runs.
    fn delete_pod(&mut self, uid: &str) {
        let now = self.cluster.now;
        let Some(pod) = self.cluster.pod(uid).filter(|pod| !pod.is_terminating()) else { return };
        if !pod.is_ready() {
            self.remove_pod(uid);
            return;
        }
        self.cluster.change_pod(uid, |pod| pod.metadata.deletion_timestamp = Some(Time(now)));
        self.event_queue.enter(now + self.replay.pace.stop, Event::Stopped(uid.to_owned()));
    }

    pub(super) fn evict(&mut self, uid: &str) {
        self.counters.evicted += 1;
        self.delete_pod(uid);
        self.replace(uid);
    }

    /// Removes a pod whose node has ended.
    pub(super) fn lose(&mut self, uid: &str) {
        let is_terminating = self.cluster.pod(uid).is_none_or(|pod| pod.is_terminating());
        self.remove_pod(uid);
        if !is_terminating {
            self.replace(uid);
        }
    }

    /// Creates the pod that its owner creates in place of this one.
    fn replace(&mut self, uid: &str) {
        let Some(slot) = self.slot_of.get(uid).copied() else { return };
        let is_present = self.states[slot].uid.as_deref() == Some(uid);
        if !is_present || self.states[slot].is_over {
            return;
        }
        if self.slots[slot].is_replaced {
            self.counters.pods += 1;
            self.create_pod(slot);
        } else {
            self.states[slot].is_over = true;
        }
    }

    pub(super) fn remove_pod(&mut self, uid: &str) {
        let now = self.cluster.now;
        let node = self.cluster.pod(uid).map(|pod| pod.spec.node_name.clone()).unwrap_or_default();
        self.passes.forget(uid);
        self.cluster.remove_pod(uid);
        if !node.is_empty() {
            self.cluster.note_pod_event(&node);
            self.passes.request_for_savings(now);
            self.may_bind = true;
        }
    }

    /// Takes over a pod that belongs to its node. On nodes of NodePools only those of the first state count: the planner itself keeps
    /// capacity for DaemonSets on the nodes of the replay.
    pub(super) fn set_node_pod(&mut self, pod: &Arc<Pod>) {
        let node = &pod.spec.node_name;
        let is_first = self.since_begin().is_zero() && self.cluster.nodes.contains_key(node);
        if is_first || self.is_foreign(node) {
            let name = format!("{}/{}", pod.namespace(), pod.name());
            self.cluster.set_pod(&node_pod_key(&name), pod.as_ref().clone());
        }
    }

    pub(super) fn remove_node_pod(&mut self, name: &str) {
        let key = node_pod_key(name);
        if self.cluster.pod(&key).is_some_and(|pod| self.is_foreign(&pod.spec.node_name)) {
            self.cluster.remove_pod(&key);
        }
    }

    /// Removes a Node without a NodePool. Its pods need another node.
    pub(super) fn remove_foreign_node(&mut self, name: &str) {
        if !self.is_foreign(name) {
            return;
        }
        let pods = self.cluster.pods_on(name);
        self.cluster.nodes.remove(name);
        pods.iter().for_each(|uid| self.lose(uid));
    }
}

/// Returns the key of a pod that belongs to its node, from its namespace and name.
fn node_pod_key(name: &str) -> String {
    format!("node/{name}")
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
