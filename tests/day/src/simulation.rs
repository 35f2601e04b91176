//! Complete simulation: one clock on which workloads, EC2, Kubernetes, agents and the controller act in a fixed order.

use std::collections::{BTreeMap, BTreeSet};

use api::condition;
use api::objects::NodeCondition;
use api::status::Conditioned;
use planner::CapacityType;

use crate::audit::Audit;
use crate::clock::{MINUTE, Moment, SECOND, START, timestamp};
use crate::controller::{Controller, Hands};
use crate::draining::Draining;
use crate::faults::{self, Fault};
use crate::machines::Machines;
use crate::market::Market;
use crate::record::Record;
use crate::reports::Reports;
use crate::setup::Setup;
use crate::trace::Event;
use crate::world::World;

/// Time from a spot interruption notice to the end of the instance.
const NOTICE: i64 = 2 * MINUTE;

/// Complete simulation of a cluster.
pub struct Simulation {
    /// Simulated cluster.
    pub world: World,
    /// Checker of the invariants.
    pub audit: Audit,
    /// Data for the report.
    pub record: Record,
    /// Kerf's controller.
    pub controller: Controller,
    machines: Machines,
    agents: BTreeMap<String, (Moment, Draining)>,
    script: BTreeMap<(Moment, usize), Event>,
    /// Restarts of agents, by moment.
    back: BTreeSet<(Moment, String)>,
    scripted: usize,
    reports: Reports,
    grain: i64,
}

impl Simulation {
    /// Creates a simulation at its first moment.
    ///
    /// # Errors
    /// Returns an error if an object cannot be generated or a data file of Kerf is damaged.
    pub fn new(setup: &Setup) -> anyhow::Result<Self> {
        let market = Market::new(&mut crate::dice::Dice::new(setup.seed), &setup.sizes)?;
        let world = World::new(START, market, setup.pools()?);
        Ok(Self {
            world,
            audit: Audit::new(setup.budgets()),
            record: Record::default(),
            controller: Controller::default(),
            machines: Machines::new(setup.seed, setup.duds),
            agents: BTreeMap::new(),
            script: BTreeMap::new(),
            back: BTreeSet::new(),
            scripted: 0,
            reports: Reports::new(START),
            grain: setup.grain.max(1),
        })
    }

    /// Schedules an event.
    pub fn at(&mut self, at: Moment, event: Event) {
        self.scripted += 1;
        self.script.insert((at, self.scripted), event);
    }

    /// Runs until a moment.
    ///
    /// # Errors
    /// Returns an error if an object cannot be generated.
    pub fn run(&mut self, until: Moment) -> anyhow::Result<()> {
        loop {
            let next = self.next().max(self.world.now + 1);
            let at = next.saturating_add(self.grain - 1).div_euclid(self.grain).saturating_mul(self.grain).min(until);
            self.record.tick(&self.world, at);
            self.world.now = at;
            self.step()?;
            if at >= until {
                return Ok(());
            }
        }
    }

    /// Lets all instances that are launched from now on register.
    pub fn only_good_machines(&mut self) {
        self.machines.only_good();
    }

    /// Returns the pods that have been pending for longer than `span`.
    pub fn waits_longer_than(&self, span: Moment) -> impl Iterator<Item = &String> {
        let since = self.world.now - span;
        self.world.pods.iter().filter(move |(_, pod)| pod.node.is_none() && pod.created < since).map(|(name, _)| name)
    }

    fn next(&self) -> Moment {
        let script = self.script.keys().next().map(|(at, _)| *at);
        let agents = self.agents.values().map(|(at, _)| *at).min();
        let back = self.back.first().map(|(at, _)| *at);
        let all = [script, self.machines.next(), agents, back, self.world.next()];
        all.into_iter().flatten().chain([self.controller.next(), self.reports.next()]).min().unwrap_or(Moment::MAX)
    }

    fn step(&mut self) -> anyhow::Result<()> {
        let now = self.world.now;
        while self.script.first_key_value().is_some_and(|((at, _), _)| *at <= now) {
            let Some((_, event)) = self.script.pop_first() else { break };
            self.happen(event)?;
        }
        self.machines.happen(&mut self.world)?;
        self.agents();
        self.world.settle()?;
        if std::mem::take(&mut self.world.news) {
            self.controller.ask();
        }
        let hands = &mut Hands {
            world: &mut self.world,
            machines: &mut self.machines,
            audit: &mut self.audit,
            record: &mut self.record,
        };
        self.controller.work(hands);
        self.world.settle()?;
        self.audit.step(&self.world);
        Ok(())
    }

    fn agents(&mut self) {
        let now = self.world.now;
        while self.back.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, id)) = self.back.pop_first() else { break };
            if let Some(instance) = self.world.market.instances.get_mut(&id) {
                instance.agent_dead = false;
            }
        }
        self.agents.retain(|node, _| self.world.nodes.contains_key(node));
        for (node, (at, draining)) in self.agents.iter_mut().filter(|(_, (at, _))| *at <= now) {
            let dead = self.world.market.instances.get(node).is_some_and(|it| it.agent_dead);
            *at = if dead { now + SECOND } else { draining.drive(&mut self.world, node, &mut self.audit) };
        }
        self.reports.refresh(&mut self.world);
    }

    fn happen(&mut self, event: Event) -> anyhow::Result<()> {
        self.world.changed = self.world.changed.max(self.world.now);
        match event {
            Event::Come(app) => self.world.add(app)?,
            Event::Scale(app, wanted) => self.world.scale(&app, wanted),
            Event::Use(app, percent) => self.world.uses(&app, percent),
            Event::Drift(every) => {
                let at = timestamp(self.world.now);
                let names: Vec<String> = self.world.claims.keys().step_by(every.max(1)).cloned().collect();
                for name in names {
                    self.world.edit_claim(&name, |claim| {
                        claim.set(condition::DRIFTED, condition::TRUE, "AMIDrift", "", at);
                    });
                }
                self.controller.ask();
            }
            Event::Fault(fault) => {
                self.record.faults += 1;
                self.fault(fault);
            }
        }
        Ok(())
    }

    fn fault(&mut self, fault: Fault) {
        let now = self.world.now;
        match fault {
            Fault::Notice(whom) => self.notice(whom),
            Fault::Loss(whom) => {
                if let Some(id) = self.machine(whom, |_| true) {
                    self.machines.ends(&id, now);
                }
            }
            Fault::Dry(whom, lasts) => {
                let shelves = faults::sold_out(&self.world.market, whom);
                self.world.market.dry.extend(shelves.into_iter().map(|shelf| (shelf, now + lasts)));
            }
            Fault::Death(steps) => self.controller.light(steps),
            Fault::Stall(lasts) => self.world.stalled_until = now + lasts,
            Fault::Silence(whom, lasts) => {
                if let Some(id) = self.machine(whom, |_| true) {
                    self.world.market.instances.entry(id.clone()).and_modify(|it| it.agent_dead = true);
                    self.back.insert((now + lasts, id));
                }
            }
            Fault::Crash(whom) => {
                let pods: Vec<&String> =
                    self.world.pods.iter().filter(|(_, pod)| pod.ready.is_some()).map(|(name, _)| name).collect();
                if let Some(pod) = pods.get(whom % pods.len().max(1)).map(|pod| (*pod).clone()) {
                    self.world.end(&pod, 0);
                }
            }
        }
    }

    fn machine(&self, whom: usize, meant: impl Fn(&crate::market::Instance) -> bool) -> Option<String> {
        let all: Vec<&String> = self
            .world
            .market
            .instances
            .iter()
            .filter(|(id, it)| meant(it) && !it.ending && !it.noticed && self.world.nodes.contains_key(*id))
            .map(|(id, _)| id)
            .collect();
        all.get(whom % all.len().max(1)).map(|id| (*id).clone())
    }

    /// Interrupts a spot instance. Its agent drains the node; the controller does so if the agent does not run.
    fn notice(&mut self, whom: usize) {
        let now = self.world.now;
        let Some(id) = self.machine(whom, |it| it.capacity_type == CapacityType::Spot) else { return };
        let deadline = now + NOTICE;
        self.record.notices += 1;
        self.machines.ends(&id, deadline);
        let agent_dead = self.world.market.instances.get(&id).is_some_and(|it| it.agent_dead);
        self.world.market.instances.entry(id.clone()).and_modify(|it| it.noticed = true);
        if agent_dead {
            self.controller.warn(&id);
        } else {
            let said = interrupted(now, deadline);
            self.world.edit_node(&id, |node| {
                node.spec.unschedulable = true;
                node.status.conditions.push(said);
            });
            self.agents.insert(id, (now, Draining::for_notice(deadline, now)));
            self.controller.ask();
        }
    }
}

fn interrupted(now: Moment, deadline: Moment) -> NodeCondition {
    NodeCondition {
        type_: condition::INTERRUPTED.to_owned(),
        status: condition::TRUE.to_owned(),
        reason: "SpotInterruption".to_owned(),
        message: format!("deadline={}", timestamp(deadline)),
        last_transition_time: Some(api::status::Time(timestamp(now))),
        ..NodeCondition::default()
    }
}
