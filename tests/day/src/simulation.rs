//! Complete simulation: the shipped controller in the cluster of `lives`, on one paused clock, with the events of a day and the
//! checks after every change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use anyhow::Context;
use api::objects::{Node, NodeReport, Pod};
use api::{NodeClaim, annotation, condition};
use jiff::SignedDuration;
use planner::{CapacityType, Snapshot};
use serde_json::json;
use simulator::api_server::Event as Seen;
use simulator::api_server::{BUDGETS, CLAIMS, Change, NODES, PODS, USAGES};
use simulator::clock as stage_clock;
use simulator::surroundings::Boot;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::app::NAMESPACE;
use crate::audit::Audit;
use crate::clock::{MINUTE, Moment, SECOND, START, timestamp};
use crate::cluster_state::ClusterState;
use crate::commands::Commands;
use crate::faults::{self, Fault};
use crate::market::{Instance, Market};
use crate::peer::Peer;
use crate::record::Record;
use crate::reports::Reports;
use crate::setup::Setup;
use crate::source::Witness;
use crate::stage::Stage;
use crate::trace::Event;

/// Time from a spot interruption notice to the end of the instance.
const NOTICE: i64 = 2 * MINUTE;
/// Longest time between two checks.
const LOOK_AGAIN: i64 = 10 * SECOND;
/// Lifetime of an unavailable offering in the controller.
const SHORT: i64 = 3 * MINUTE;
/// Time from the launch to the Node, in seconds.
const REGISTERS: (i64, i64) = (18, 32);
/// Time from the Node to kubelet's Ready, in seconds.
const READY: i64 = 8;

/// Complete simulation of a cluster.
pub struct Simulation {
    /// State of the simulated cluster.
    pub cluster_state: ClusterState,
    /// Checker of the invariants.
    pub audit: Audit,
    /// Data for the report.
    pub record: Record,
    stage: Stage,
    source: Arc<Witness>,
    peer: Option<Peer>,
    commands: Commands,
    boot: Boot,
    script: BTreeMap<(Moment, usize), Event>,
    /// Restarts of agents, by moment.
    back: BTreeSet<(Moment, String)>,
    /// Start of the controller after a crash.
    down_until: Option<Moment>,
    scripted: usize,
    reports: Reports,
    grain: i64,
    begin: Instant,
    // The last field: everything above may belong to its tasks.
    runtime: Arc<Runtime>,
}

impl Simulation {
    /// Creates a simulation at its first moment.
    ///
    /// # Errors
    /// Returns an error if a data file of Kerf is damaged or the runtime cannot be created.
    pub fn new(setup: &Setup) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().context("a runtime")?;
        let seconds = SignedDuration::from_secs;
        let boot = Boot {
            registers: (seconds(REGISTERS.0), seconds(REGISTERS.1)),
            ready: seconds(READY),
            duds: setup.duds as usize,
            seed: setup.seed,
        };
        let source = Witness::new(None);
        let (begin, market, stage) = runtime.block_on(async {
            let begin = Instant::now();
            stage_clock::set(begin, timestamp(START));
            let (market, ec2) = Market::new(&mut crate::dice::Dice::new(setup.seed), &setup.sizes)?;
            let mut stage = Stage::new(ec2, setup.pools(), setup.grain.max(1));
            stage.cluster.surroundings.boot(boot);
            stage.start(&source);
            anyhow::Ok((begin, market, stage))
        })?;
        Ok(Self {
            cluster_state: ClusterState::new(START, market),
            audit: Audit::new(setup.budgets(), setup.grain.max(1)),
            record: Record::default(),
            stage,
            source,
            peer: None,
            commands: Commands::default(),
            boot,
            script: BTreeMap::new(),
            back: BTreeSet::new(),
            down_until: None,
            scripted: 0,
            reports: Reports::new(START),
            grain: setup.grain.max(1),
            begin,
            runtime: Arc::new(runtime),
        })
    }

    /// Restarts the controller with the rules of a peer for disruption, or with Kerf's.
    pub fn ruled_by(&mut self, peer: Option<Peer>) {
        self.peer.clone_from(&peer);
        self.source = Witness::new(peer);
        self.within(async |it| {
            it.stage.kill();
            it.stage.start(&it.source);
        });
    }

    /// Schedules an event.
    pub fn at(&mut self, at: Moment, event: Event) {
        self.scripted += 1;
        self.script.insert((at, self.scripted), event);
    }

    /// Runs until a moment.
    pub fn run(&mut self, until: Moment) {
        self.within(async |it| it.play(until).await);
    }

    /// Lets all instances that are launched from now on register.
    pub fn only_good_machines(&mut self) {
        self.boot.duds = 0;
        self.stage.cluster.surroundings.boot(self.boot);
    }

    /// Returns the pods that have been pending for longer than `span`.
    pub fn waits_longer_than(&self, span: Moment) -> impl Iterator<Item = &String> {
        let since = self.cluster_state.now - span;
        self.cluster_state
            .pods
            .iter()
            .filter(move |(_, pod)| pod.node.is_none() && pod.created < since)
            .map(|(name, _)| name)
    }

    /// Returns the snapshot of the last plan.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.source.plans().snapshot.clone()
    }

    /// Sets the requests of a pod, as a client of the API server.
    pub fn resize(&mut self, pod: &str, asks: planner::Size) {
        let requests = json!({"cpu": format!("{}m", asks.cpu), "memory": asks.memory.to_string()});
        let containers = json!([{"name": crate::app::CONTAINER, "resources": {"requests": requests}}]);
        self.stage.cluster.server.change(PODS, &key(pod), &json!({"spec": {"containers": containers}}));
    }

    /// Runs a part of the simulation on its clock.
    fn within(&mut self, part: impl AsyncFnOnce(&mut Self)) {
        stage_clock::set(self.begin, timestamp(START));
        let runtime = Arc::clone(&self.runtime);
        runtime.block_on(part(self));
    }

    async fn play(&mut self, until: Moment) {
        loop {
            let next = self.next().clamp(self.cluster_state.now + 1, until.max(self.cluster_state.now + 1));
            self.stage.change(next - moment()).await;
            self.stage.settle(self.grain, next.max(moment()).min(until) - moment()).await;
            self.step();
            if self.cluster_state.now >= until {
                return;
            }
        }
    }

    fn next(&self) -> Moment {
        let script = self.script.keys().next().map(|(at, _)| *at);
        let back = self.back.first().map(|(at, _)| *at);
        let all = [script, back, self.down_until, Some(self.reports.next()), Some(self.cluster_state.now + LOOK_AGAIN)];
        all.into_iter().flatten().min().unwrap_or(Moment::MAX)
    }

    fn step(&mut self) {
        self.stage.check_tasks();
        let now = moment();
        self.record.tick(&self.cluster_state, now);
        self.cluster_state.now = now;
        self.see();
        while self.script.first_key_value().is_some_and(|((at, _), _)| *at <= now) {
            let Some((_, event)) = self.script.pop_first() else { break };
            self.happen(event);
        }
        self.restart();
        self.agents();
        self.expire();
        self.audit.step(&self.cluster_state);
    }

    /// Takes over what has happened since the last step.
    fn see(&mut self) {
        if let Some(machines) = self.stage.changed_machines() {
            self.record.launches += self.cluster_state.market.see(&machines);
        }
        while let Ok(event) = self.stage.events.try_recv() {
            self.see_object(&event);
        }
        self.record.refusals = self.cluster_state.refusals;
        let early = std::mem::take(&mut *self.stage.early.lock().unwrap_or_else(PoisonError::into_inner));
        early.into_iter().for_each(|(node, left)| self.audit.ended(self.cluster_state.now, &node, left));
        let mut plans = self.source.plans();
        self.record.plans += std::mem::take(&mut plans.count);
        self.record.refused += std::mem::take(&mut plans.refused);
        if self.audit.evidence.is_none() {
            self.audit.evidence = plans.evidence.take();
        }
        for problem in plans.problems.drain(..) {
            self.audit.expect(false, self.cluster_state.now, || format!("the translator complains: {problem}"));
        }
    }

    fn see_object(&mut self, event: &Seen) {
        let gone = event.change == Change::Removed;
        match (event.plural.as_str(), event.change) {
            (PODS, Change::Leaving { forced }) => self.leaves(&event.object.typed::<Pod>(), forced),
            (PODS, _) => self.see_pod(&event.object.typed::<Pod>(), gone),
            (NODES, _) => self.cluster_state.see_node(&event.object.typed::<Node>(), gone),
            (CLAIMS, _) => {
                let claim = event.object.typed::<NodeClaim>();
                self.cluster_state.see_claim(&claim, gone);
                let (cluster_state, audit, record) = (&self.cluster_state, &mut self.audit, &mut self.record);
                self.commands.see(&claim, gone, cluster_state, audit, record);
            }
            (USAGES, Change::Stored) => {
                let report = event.object.typed::<NodeReport>();
                self.cluster_state.reports.insert(report.metadata.name.clone().unwrap_or_default(), report);
            }
            _ => {}
        }
    }

    fn leaves(&mut self, pod: &Pod, forced: bool) {
        self.cluster_state.evicted += usize::from(!forced);
        self.audit.leaves(&self.cluster_state, pod.name(), forced);
    }

    fn see_pod(&mut self, pod: &Arc<Pod>, gone: bool) {
        let before = self.cluster_state.pods.get(pod.name()).map(|known| known.asks);
        self.cluster_state.see_pod(pod, gone);
        let after = self.cluster_state.pods.get(pod.name()).map(|known| known.asks);
        if let Some((before, after)) = before.zip(after) {
            self.record.lowered += usize::from(after != before && after.is_within(before));
            self.record.raised += usize::from(after != before && before.is_within(after));
        }
    }

    /// Restarts the controller some seconds after its crash.
    fn restart(&mut self) {
        let now = self.cluster_state.now;
        if self.stage.has_crashed() {
            self.stage.kill();
            self.record.crashes += 1;
            let pause = 5 * SECOND + i64::try_from(self.record.crashes * 17 % 40).unwrap_or(0) * SECOND;
            self.down_until = Some(now + pause);
        } else if self.down_until.take_if(|until| *until <= now).is_some() {
            if self.peer.is_some() {
                self.source = Witness::new(self.peer.clone());
            }
            self.stage.start(&self.source);
        }
    }

    fn agents(&mut self) {
        let now = self.cluster_state.now;
        while self.back.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, id)) = self.back.pop_first() else { break };
            if let Some(instance) = self.cluster_state.market.instances.get_mut(&id) {
                instance.agent_dead = false;
                if instance.noticed && !instance.ending {
                    self.report_notice(&id);
                }
            }
        }
        for pool in self.cluster_state.market.dry.extract_if(.., |_, until| *until <= now) {
            self.stage.cluster.ec2.set_stock(pool.0, None);
        }
        if !self.cluster_state.market.dry.is_empty() {
            self.cluster_state.changed = self.cluster_state.changed.max(now + SHORT);
        }
        for report in self.reports.due(&self.cluster_state) {
            self.stage.cluster.server.create(USAGES, report);
        }
    }

    /// Deletes the NodeClaims that Karpenter would expire; expiration ignores budgets.
    fn expire(&self) {
        if self.peer.is_none() {
            return;
        }
        for (name, claim) in &self.cluster_state.claims {
            if is_expired(claim, self.cluster_state.now) {
                self.stage.cluster.server.delete(CLAIMS, name);
            }
        }
    }

    fn happen(&mut self, event: Event) {
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
            Fault::Silence(target, lasts) => {
                if let Some(instance) = self.machine(target, |_| true) {
                    self.cluster_state
                        .market
                        .instances
                        .entry(instance.id.clone())
                        .and_modify(|it| it.agent_dead = true);
                    self.back.insert((now + lasts, instance.id));
                }
            }
            Fault::Crash(target) => {
                let pods: Vec<&String> = self
                    .cluster_state
                    .pods
                    .iter()
                    .filter(|(_, pod)| pod.ready.is_some())
                    .map(|(name, _)| name)
                    .collect();
                if let Some(pod) = pods.get(target % pods.len().max(1)) {
                    self.stage.cluster.server.remove(PODS, &key(pod));
                }
            }
        }
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
    fn report_notice(&self, node: &str) {
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

/// Returns the moment of the simulated clock.
fn moment() -> Moment {
    stage_clock::of_tokio().as_millisecond()
}

fn key(pod: &str) -> String {
    format!("{NAMESPACE}/{pod}")
}

fn is_expired(claim: &NodeClaim, now: Moment) -> bool {
    let created = claim.metadata.creation_timestamp.as_ref().map(|at| at.0.as_millisecond());
    let limit = claim.spec.expire_after.nanos().ok().flatten().map(|nanos| nanos / 1_000_000);
    let over = created.zip(limit).is_some_and(|(created, limit)| created + limit <= now);
    over && claim.metadata.deletion_timestamp.is_none()
}
