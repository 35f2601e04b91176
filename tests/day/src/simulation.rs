//! Complete simulation: the shipped controller in the cluster of `lives`, on one paused clock, with the events of a day and the
//! checks after every change.

mod events;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api::NodeClaim;
use api::objects::{Node, NodeReport, Pod};
use jiff::SignedDuration;
use planner::{Catalogue, Snapshot};
use serde_json::json;
use simulator::api_server::Event as Seen;
use simulator::api_server::{CLAIMS, Change, NODES, PODS, USAGES};
use simulator::clock::{self as stage_clock, REPLICAS};
use simulator::surroundings::Boot;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::app::NAMESPACE;
use crate::audit::Audit;
use crate::clock::{MINUTE, Moment, SECOND, START, moment, timestamp};
use crate::cluster_state::ClusterState;
use crate::commands::Commands;
use crate::false_nodes::FalseNodes;
use crate::idle::Idle;
use crate::market::Market;
use crate::record::Record;
use crate::recorder::Recorder;
use crate::reports::Reports;
use crate::setup::Setup;
use crate::source::Witness;
use crate::stage::{End, Shift, Stage};
use crate::trace::Event;
use replay::{History, KarpenterRules};

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
    /// CPU time of all plans. The only figure that differs between runs of one seed.
    pub planning: Duration,
    stage: Stage,
    source: Arc<Witness>,
    peer: Option<KarpenterRules>,
    /// Recorder of the cluster's history, if it is wanted.
    recorder: Option<Recorder>,
    commands: Commands,
    boot: Boot,
    script: BTreeMap<(Moment, usize), Event>,
    /// Restarts of agents, by moment.
    back: BTreeSet<(Moment, String)>,
    /// Start of each replica of the controller after its end.
    down_until: BTreeMap<usize, Moment>,
    false_nodes: FalseNodes,
    skews: [SignedDuration; REPLICAS],
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
        let idle = Arc::new(Idle::default());
        let runtime = runtime(&idle).context("a runtime")?;
        let seconds = SignedDuration::from_secs;
        let boot = Boot {
            registers: (seconds(REGISTERS.0), seconds(REGISTERS.1)),
            ready: seconds(READY),
            duds: setup.duds as usize,
            seed: setup.seed,
        };
        let source = Witness::new(None);
        let skews = setup.skews().map(SignedDuration::from_millis);
        let (begin, market, stage) = runtime.block_on(async {
            let begin = Instant::now();
            stage_clock::set(begin, timestamp(START));
            stage_clock::skew(skews);
            let mut dice = crate::dice::Dice::new(setup.seed);
            let (market, ec2) = Market::new(&mut dice, &setup.families, &setup.sizes)?;
            let mut stage = Stage::new(ec2, setup, idle);
            stage.cluster.surroundings.boot(boot);
            if setup.false_bookmarks {
                stage.confirm_stopped_watches();
            }
            stage.start_all(&source);
            anyhow::Ok((begin, market, stage))
        })?;
        Ok(Self {
            cluster_state: ClusterState::new(START, market),
            audit: Audit::new(setup.budgets(), setup.grain.max(1), setup.most_skew())
                .limited(setup.cost_limit.is_some()),
            record: Record::default(),
            planning: Duration::ZERO,
            stage,
            source,
            peer: None,
            recorder: None,
            commands: Commands::default(),
            boot,
            script: BTreeMap::new(),
            back: BTreeSet::new(),
            down_until: BTreeMap::new(),
            false_nodes: FalseNodes::default(),
            skews,
            scripted: 0,
            reports: Reports::new(START),
            grain: setup.grain.max(1),
            begin,
            runtime: Arc::new(runtime),
        })
    }

    /// Restarts the controller with the rules of a peer for disruption, or with Kerf's.
    pub fn ruled_by(&mut self, peer: Option<KarpenterRules>) {
        self.peer.clone_from(&peer);
        self.source = Witness::new(peer);
        self.within(async |it| {
            it.stage.kill_all();
            it.stage.start_all(&it.source);
        });
    }

    /// Records the history of the cluster from now on.
    pub fn record_history(&mut self) {
        let now = timestamp(self.cluster_state.now);
        self.recorder = Some(Recorder::begin(&self.stage.cluster.server, now));
    }

    /// Ends the recording, and returns the history with the catalogues of the last plan.
    pub fn recorded_history(&mut self) -> Option<(History, BTreeMap<String, Arc<Catalogue>>)> {
        let history = self.recorder.take()?.finish(timestamp(self.cluster_state.now));
        let catalogues = self.snapshot()?.catalogues;
        Some((history, catalogues.into_iter().map(|catalogue| (catalogue.name.clone(), catalogue)).collect()))
    }

    /// Schedules an event.
    pub fn at(&mut self, at: Moment, event: Event) {
        self.scripted += 1;
        self.script.insert((at, self.scripted), event);
    }

    /// Runs until a moment.
    pub fn run(&mut self, until: Moment) {
        self.within(async |it| it.play(until).await);
        let now = self.cluster_state.now;
        for problem in self.stage.check_panics() {
            self.audit.expect(false, now, || problem);
        }
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

    /// Returns the injected panics by the task that counted them; `process` and `lease` are those that ended a process or the
    /// thread of its lease.
    #[must_use]
    pub fn panics(&self) -> &BTreeMap<String, usize> {
        &self.stage.panics
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
        stage_clock::skew(self.skews);
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
        let (down, now) = (self.down_until.values().min().copied(), self.cluster_state.now);
        let writes = self.false_nodes.next(now);
        let all = [script, back, down, writes, Some(self.reports.next()), Some(now + LOOK_AGAIN)];
        all.into_iter().flatten().min().unwrap_or(Moment::MAX)
    }

    fn step(&mut self) {
        let now = moment();
        self.record.tick(&self.cluster_state, now);
        self.cluster_state.now = now;
        self.audit.blind_since = self.stage.blind_since();
        self.record.stale_checks += usize::from(self.audit.is_blind(now));
        self.see();
        while self.script.first_key_value().is_some_and(|((at, _), _)| *at <= now) {
            let Some((_, event)) = self.script.pop_first() else { break };
            self.happen(event);
        }
        self.restart();
        self.agents();
        let written = self.false_nodes.act(&self.stage.cluster.server, now);
        self.record.false_writes += usize::try_from(written).unwrap_or(usize::MAX);
        self.expire();
        self.audit.step(&self.cluster_state);
    }

    /// Takes over what has happened since the last step.
    fn see(&mut self) {
        if let Some(machines) = self.stage.changed_machines() {
            self.record.launches += self.cluster_state.market.see(&machines);
        }
        while let Ok(event) = self.stage.events.try_recv() {
            let now = timestamp(self.cluster_state.now);
            self.recorder.iter_mut().for_each(|recorder| recorder.see(&event, now));
            self.see_object(&event);
        }
        self.record.refusals = self.cluster_state.refusals;
        for (node, left) in self.stage.take_early() {
            if !self.cluster_state.is_false(&node) {
                self.audit.ended(self.cluster_state.now, &node, left);
            }
        }
        let mut plans = self.source.plans();
        self.record.plans += std::mem::take(&mut plans.count);
        self.planning += std::mem::take(&mut plans.processor);
        self.record.refused += std::mem::take(&mut plans.refused);
        if self.audit.evidence.is_none() {
            self.audit.evidence = plans.evidence.take();
        }
        let catalogues = plans.snapshot.iter().flat_map(|snapshot| &snapshot.catalogues);
        if let Some(catalogue) = catalogues.last() {
            self.cluster_state.node_extras = catalogue.node_extras.0;
        }
        let own = |problem: &String| !self.cluster_state.false_nodes.iter().any(|node| problem.contains(node.as_str()));
        for problem in plans.problems.drain(..).filter(own) {
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
        let waited = self.cluster_state.pods.get(pod.name()).is_none_or(|known| known.node.is_none());
        self.cluster_state.see_pod(pod, gone);
        let known = self.cluster_state.pods.get(pod.name());
        let bound = known.filter(|known| waited && known.node.is_some());
        if let Some(known) = bound {
            let priority = self.cluster_state.apps.get(&known.app).map_or(0, |app| app.priority);
            let wait = self.cluster_state.now - known.created;
            self.record.waits.push(wait);
            self.record.waits_by_priority.entry(priority).or_default().push(wait);
        }
        let after = known.map(|known| known.asks);
        if let Some((before, after)) = before.zip(after) {
            self.record.lowered += usize::from(after != before && after.is_within(before));
            self.record.raised += usize::from(after != before && before.is_within(after));
        }
    }

    /// Restarts each replica of the controller some seconds after its end.
    fn restart(&mut self) {
        let now = self.cluster_state.now;
        let (shifts, problems) = self.stage.shifts();
        for problem in problems {
            self.audit.expect(false, now, || problem);
        }
        for shift in shifts {
            let Shift::Ended(replica, end) = shift else {
                self.record.takeovers += 1;
                continue;
            };
            let record = &mut self.record;
            match end {
                End::Killed => record.crashes += 1,
                End::Panicked => record.panicked += 1,
                End::LostLease => record.lost_leases += 1,
            }
            let ends = record.crashes + record.panicked + record.lost_leases;
            let pause = 5 * SECOND + i64::try_from(ends * 17 % 40).unwrap_or(0) * SECOND;
            self.down_until.insert(replica, now + pause);
        }
        for (replica, _) in self.down_until.extract_if(.., |_, until| *until <= now).collect::<Vec<_>>() {
            if self.peer.is_some() {
                self.source = Witness::new(self.peer.clone());
            }
            self.stage.start(replica, &self.source);
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
}

/// Creates the runtime with a paused clock, which reports when all its tasks wait.
fn runtime(idle: &Arc<Idle>) -> std::io::Result<Runtime> {
    let (parks, unparks) = (Arc::clone(idle), Arc::clone(idle));
    let mut builder = Builder::new_current_thread();
    builder.on_thread_park(move || parks.set(true)).on_thread_unpark(move || unparks.set(false));
    builder.enable_all().start_paused(true).build()
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
