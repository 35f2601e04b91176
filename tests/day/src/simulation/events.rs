//! Events of the day: workloads, faults and their ends.

use std::sync::Arc;

use api::objects::Node;
use api::{annotation, condition};
use planner::CapacityType;
use serde_json::json;
use simulator::api_server::{BUDGETS, CLAIMS, NODES, PODS};
use simulator::watches::WATCHED;

use super::{NOTICE, Simulation, key};
use crate::clock::{Moment, timestamp};
use crate::faults::{self, Fault, Recovery};
use crate::market::Instance;
use crate::trace::Event;

impl Simulation {
    pub(super) fn happen(&mut self, event: Event) {
        self.cluster_state.changed = self.cluster_state.changed.max(self.cluster_state.now);
        let surroundings = Arc::clone(&self.stage.cluster.surroundings);
        match event {
            Event::Come(app) => {
                surroundings.want(&app.name, app.workload());
                app.budget().into_iter().for_each(|budget| self.stage.cluster.server.create(BUDGETS, budget));
                self.cluster_state.apps.insert(app.name.clone(), app);
            }
            Event::Scale(app, wanted) => {
                surroundings.scale(&app, wanted);
                self.cluster_state.apps.entry(app).and_modify(|app| app.wanted = wanted);
            }
            Event::Use(app, percent) => _ = self.cluster_state.apps.entry(app).and_modify(|app| app.uses = percent),
            Event::Drift(every) => {
                let outdated = json!({"metadata": {"annotations": {annotation::NODEPOOL_HASH: "0"}}});
                for name in self.cluster_state.claims.keys().step_by(every.max(1)) {
                    self.stage.cluster.server.change(CLAIMS, name, &outdated);
                }
            }
            Event::Fault(fault) => {
                self.record.faults += 1;
                self.fault(fault);
            }
            Event::Recovery(recovery) => self.recover(&recovery),
        }
        // The disruption controller knows the new numbers before the next eviction.
        surroundings.step();
        self.see();
    }

    fn fault(&mut self, fault: Fault) {
        let now = self.cluster_state.now;
        match fault {
            Fault::Notice(target) => self.notice(target),
            Fault::Loss(target) => {
                if let Some(instance) = self.machine(target, |_| true) {
                    self.stage.expect_end(&instance.ec2);
                    self.cluster_state.market.instances.entry(instance.id.clone()).and_modify(|it| it.noticed = true);
                    self.stage.cluster.ec2.kill(&instance.ec2);
                }
            }
            Fault::Dry(target, lasts) => {
                for pool in faults::sold_out(&self.cluster_state.market, target) {
                    self.stage.cluster.ec2.set_stock(pool.clone(), Some(0));
                    self.cluster_state.market.dry.insert(pool, now + lasts);
                }
            }
            Fault::ControllerCrash(writes) => self.stage.crash_after(writes),
            Fault::Stall(lasts) => self.stage.stall(now + lasts),
            Fault::Silence(target, lasts) => self.silence(target, now + lasts),
            Fault::Crash(target) => self.crash_pod(target),
            Fault::Panic(target) => self.stage.panic_at(target, false),
            Fault::Bug(target) => self.stage.panic_at(target, true),
            Fault::StoppedWatch(target, lasts) => self.stop_watch(target, now + lasts),
            Fault::Pause(lasts) => {
                let paused = self.stage.pause(now + lasts);
                self.recovers(now + lasts, paused.map(Recovery::Connections));
            }
            Fault::CutOff(lasts) => {
                let cut_off = self.stage.cut_off(now + lasts);
                self.recovers(now + lasts, cut_off.map(Recovery::Connections));
            }
            Fault::FalseNode(target, lasts) => self.falsify(target, now + lasts),
        }
    }

    /// Schedules the end of a fault.
    fn recovers(&mut self, at: Moment, recoveries: impl IntoIterator<Item = Recovery>) {
        recoveries.into_iter().for_each(|recovery| self.at(at, Event::Recovery(recovery)));
    }

    fn recover(&mut self, recovery: &Recovery) {
        match recovery {
            Recovery::Watch(process, plural, lists) => self.stage.resume_watch(*process, plural, *lists),
            Recovery::Connections(process) => {
                WATCHED.iter().for_each(|plural| self.stage.resume_watch(*process, plural, false));
            }
            Recovery::FalseNode(node) => {
                self.false_nodes.end(node, &self.stage.cluster.server);
                let instance = self.cluster_state.market.instances.get_mut(node);
                if let Some(instance) = instance.filter(|instance| !instance.ending) {
                    instance.noticed = true;
                    let id = instance.ec2.clone();
                    self.stage.expect_end(&id);
                    self.stage.cluster.ec2.kill(&id);
                }
            }
        }
    }

    fn silence(&mut self, target: usize, until: Moment) {
        if let Some(instance) = self.machine(target, |_| true) {
            self.cluster_state.market.instances.entry(instance.id.clone()).and_modify(|it| it.agent_dead = true);
            self.back.insert((until, instance.id));
        }
    }

    fn crash_pod(&self, target: usize) {
        let pods = self.cluster_state.pods.iter().filter(|(_, pod)| pod.ready.is_some());
        let pods: Vec<&String> = pods.map(|(name, _)| name).collect();
        if let Some(pod) = pods.get(target % pods.len().max(1)) {
            self.stage.cluster.server.remove(PODS, &key(pod));
        }
    }

    fn stop_watch(&mut self, target: usize, until: Moment) {
        let plural = WATCHED[target / 2 % WATCHED.len()];
        let processes = self.stage.stop_watch(plural);
        self.record.stopped_watches += 1;
        self.audit.blinded(plural, self.cluster_state.now, until);
        let lists = !target.is_multiple_of(2);
        self.recovers(until, processes.into_iter().map(|process| Recovery::Watch(process, plural, lists)));
    }

    /// Lets the programs of a node write false objects.
    fn falsify(&mut self, target: usize, until: Moment) {
        let honest = |it: &Instance| !self.cluster_state.is_false(&it.id);
        let Some(instance) = self.machine(target, honest) else { return };
        let victim = self.machine(target + 1, |it| honest(it) && it.id != instance.id);
        let provider_id =
            |it: &Instance| self.cluster_state.nodes.get(&it.id).map(|node| node.spec.provider_id.clone());
        let (Some(own), victim) = (provider_id(&instance), victim.as_ref().and_then(provider_id)) else { return };
        self.record.false_nodes += 1;
        self.false_nodes.start(&instance.id, &own, &victim.unwrap_or_default(), target as u64);
        self.cluster_state.false_nodes.insert(instance.id.clone());
        self.recovers(until, [Recovery::FalseNode(instance.id)]);
    }

    fn machine(&self, target: usize, meant: impl Fn(&Instance) -> bool) -> Option<Instance> {
        let there = |it: &&Instance| !it.ending && !it.noticed && self.cluster_state.nodes.contains_key(&it.id);
        let all: Vec<&Instance> =
            self.cluster_state.market.instances.values().filter(|it| meant(it)).filter(there).collect();
        all.get(target % all.len().max(1)).map(|instance| (*instance).clone())
    }

    /// Interrupts a spot instance. Its agent reports the notice on the Node, and the controller receives the message of EC2.
    fn notice(&mut self, target: usize) {
        let Some(instance) = self.machine(target, |it| it.capacity_type == CapacityType::Spot) else { return };
        self.record.notices += 1;
        self.stage.expect_end(&instance.ec2);
        self.stage.cluster.ec2.interrupt(&instance.ec2, timestamp(self.cluster_state.now + NOTICE));
        self.cluster_state.market.instances.entry(instance.id.clone()).and_modify(|it| it.noticed = true);
        if !instance.agent_dead {
            self.report_notice(&instance.id);
        }
    }

    /// Writes the condition of an agent whose instance is interrupted, and cordons its node.
    pub(super) fn report_notice(&self, node: &str) {
        let server = &self.stage.cluster.server;
        let Some(found) = server.get::<Node>(NODES, node) else { return };
        let now = timestamp(self.cluster_state.now);
        let mut conditions: Vec<_> = found.status.conditions.iter().map(|it| json!(it)).collect();
        conditions.push(json!({
            "type": condition::INTERRUPTED, "status": condition::TRUE, "reason": "SpotInterruption",
            "message": format!("deadline={}", timestamp(self.cluster_state.now + NOTICE)),
            "lastTransitionTime": simulator::api_server::text(now),
        }));
        server.change(NODES, node, &json!({"spec": {"unschedulable": true}, "status": {"conditions": conditions}}));
    }
}
