//! Provisioning: batch triggers, build a snapshot, plan, validate, act.
//!
//! The same pass finds empty nodes, so it also runs when `consolidateAfter` of a node ends.

mod actions;
pub mod batcher;
mod decision_records;
mod delays;
mod failed_plans;
mod node_events;
pub mod nodeclaims;
pub mod plan_source;
mod problems;
mod replan;
mod scores;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use daemon::metric::{Metrics, NoLabels};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use planner::{Plan, PlanCache, ValidatedCommands, Validation};
use snapshot::{Input, SnapshotCache, SnapshotResult};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::capacity::offerings::Offerings;
use crate::informer::interruption::Notices;
use crate::metrics::gauge_set::{GaugeSet, Sample};
use crate::metrics::{self, counters};
use crate::provision::batcher::{BatchWindow, Batcher, PlanTrigger};
use crate::reconcile::disruption::{CommandKind, DisruptionCommand, Disruptor};
use crate::reconcile::resize::{Recommender, Resizer};
use crate::reconcile::work::WorkItem;
use crate::state::attempts::PoolVersion;
use crate::state::class_readiness::ClassReadiness;
use crate::state::cluster::Cluster;
use crate::state::index::Index;
use crate::state::nominations::{self, SharedNominations};
use crate::state::panics;
use crate::state::plans::evidence::EvidenceCause;
use crate::state::plans::progress::PROVISIONER;
use crate::state::plans::results::{Generations, PlanResultStore, PlanResults};
use crate::state::shared::Shared;
use crate::state::span;
use crate::write::writer::{Operation, Writer};
use actions::observation::Observation;
use actions::{PlanActions, PlannedClaim};
use decision_records::RecordedVerdicts;
use delays::PlannedNodes;
use failed_plans::keep_evidence;
use node_events::NodeGauges;
use plan_source::{KerfPlanner, PlanSource};
use replan::{NextPass, ReplanTimer};
use scores::ConsolidationScores;

/// Rules for the time and the content of plans.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Window that batches triggers.
    pub window: BatchWindow,
    /// Settings of snapshots and plans.
    pub planning: snapshot::Settings,
}

/// Plan without actions, with its input.
struct CachedPlan {
    cache: PlanCache,
    built: Arc<SnapshotResult>,
    plan: Arc<Plan>,
}

/// Provisioner that plans and acts, one pass at a time.
pub struct Provisioner {
    cluster: Arc<Cluster>,
    offerings: Arc<Offerings>,
    writer: Writer,
    metrics: Arc<Metrics>,
    plan_results: Arc<PlanResultStore>,
    notices: Arc<Notices>,
    rules: Rules,
    source: Arc<dyn PlanSource>,
    disruptor: Arc<Disruptor>,
    resizer: Resizer,
    adviser: Recommender,
    nominations: SharedNominations,
    /// Commands of recent plans that are still in consolidation validation.
    noted: Mutex<Validation>,
    /// Last plan, while it had nothing to do and nothing has changed.
    rest: Mutex<Option<CachedPlan>>,
    /// Nodes on which the last plan places pods.
    planned: Mutex<PlannedNodes>,
    /// Stale kinds of the last pass.
    stale: Mutex<BTreeSet<String>>,
    gauges: NodeGauges,
    unschedulable: GaugeSet,
    scores: ConsolidationScores,
    /// Verdicts that the decision log has.
    recorded: Mutex<RecordedVerdicts>,
    /// Present if the controller only observes the cluster.
    observation: Option<Observation>,
    /// Translated parts of the last snapshot that have not changed.
    memory: Mutex<SnapshotCache>,
}

impl Provisioner {
    /// Creates a provisioner without nominations.
    #[must_use]
    pub fn new(shared: Shared, writer: Writer, disruptor: Arc<Disruptor>, resizer: Resizer, rules: Rules) -> Self {
        let Shared { cluster, offerings, metrics, plan_results, notices, nominations } = shared;
        let (noted, rest, memory, planned) = (Mutex::default(), Mutex::default(), Mutex::default(), Mutex::default());
        let (gauges, scores, adviser) = (NodeGauges::default(), ConsolidationScores::default(), Recommender::default());
        Self {
            cluster,
            offerings,
            writer,
            metrics,
            plan_results,
            notices,
            rules,
            source: Arc::new(KerfPlanner),
            disruptor,
            resizer,
            adviser,
            nominations,
            noted,
            rest,
            planned,
            stale: Mutex::default(),
            gauges,
            unschedulable: GaugeSet::default(),
            scores,
            recorded: Mutex::default(),
            observation: None,
            memory,
        }
    }

    /// Replaces the source of plans, for simulations.
    #[must_use]
    pub fn with_source(mut self, source: Arc<dyn PlanSource>) -> Self {
        self.source = source;
        self
    }

    /// Records what plans would do, and changes nothing.
    #[must_use]
    pub fn only_observing(mut self) -> Self {
        self.observation = Some(Observation::default());
        self
    }

    /// Runs passes until every sender of triggers is dropped.
    pub async fn run(self, mut triggers: UnboundedReceiver<PlanTrigger>) {
        let mut batch = Batcher::new(self.rules.window);
        let mut looks = ReplanTimer::starting(Instant::now());
        loop {
            tokio::select! {
                biased;
                trigger = triggers.recv() => match trigger {
                    Some(PlanTrigger::New(id)) => batch.trigger(&id, Instant::now()),
                    Some(PlanTrigger::Refused { pod, owner }) if !self.has_promised(&pod) => batch.trigger(&owner, Instant::now()),
                    Some(PlanTrigger::Another { pod, owner }) => batch.arrive(&pod, &owner, Instant::now()),
                    Some(PlanTrigger::Refused { .. } | PlanTrigger::Again) => looks.ask_again(),
                    Some(PlanTrigger::Freed) => looks.ask_together(Instant::now() + self.rules.window.idle),
                    None => return,
                },
                () = tokio::time::sleep_until(batch.wakes(looks.due())) => {
                    self.cluster.read(|index| batch.hold(|pod| index.is_awaiting_scheduler(pod)));
                    if batch.wakes(looks.due()) > Instant::now() {
                        continue;
                    }
                    batch.close();
                    let next = self.pass().await;
                    looks = ReplanTimer::after(next, Instant::now());
                }
            }
        }
    }

    /// Runs one pass and returns the time of the next one.
    async fn pass(&self) -> NextPass {
        let next = self.pass_if_prepared().await;
        self.cluster.progress.pass_ended(self.cluster.now());
        next
    }

    async fn pass_if_prepared(&self) -> NextPass {
        let prepared = |index: &Index| index.is_synced() && self.offerings.knows(index.classes.keys());
        if !self.cluster.read(prepared) {
            return NextPass::UNSYNCED;
        }
        let now = self.cluster.now();
        self.pass_at(now).instrument(span::plan(plan_id(now))).await
    }

    async fn pass_at(&self, now: Timestamp) -> NextPass {
        let started = Instant::now();
        let (built, generations) =
            self.cluster.read(|index| (self.snapshot(index, now), Generations::from_index(index)));
        self.offerings.learn_pools(own_catalogues(&built));
        let Some((built, plan)) = self.plan(built, started).await else {
            return NextPass::REGULAR;
        };
        let took = started.elapsed();
        let mut ripe = self.source.commands(&mut self.noted.lock(), &built.snapshot, &plan);
        if self.has_stale_view(now) {
            ripe.begin.clear();
        }
        self.carry_out(&built, &plan, &ripe, now).await;
        self.report_delays(&built, &plan);
        for work in self.plan_results.replace(PlanResults::new(&generations, &built, &plan)) {
            self.cluster.queue.add(work);
        }
        let rests_until = self.rest().as_ref().map(|rest| rest.cache.until());
        let pause = replan::pause_after(took);
        let look = replan::next_look(&built, &plan, &ripe, pause, rests_until);
        NextPass { look, pause: pause.max(self.rules.window.idle) }
    }

    /// Stores what the plan says about delayed launches, and enqueues the NodePools whose status changes.
    fn report_delays(&self, built: &SnapshotResult, plan: &Plan) {
        *self.planned.lock() = delays::planned_nodes(built, plan);
        let mut attempts = self.cluster.attempts.launches.lock();
        let blocked = delays::blocked(built, plan, |pool| attempts.static_failures(pool));
        for pool in attempts.block(blocked) {
            self.cluster.queue.add(WorkItem::Pool(pool));
        }
    }

    /// Returns the plan for a snapshot: the cached plan if the cluster has not changed since, else a new one or its valid part.
    async fn plan(&self, built: SnapshotResult, started: Instant) -> Option<(Arc<SnapshotResult>, Arc<Plan>)> {
        let built = Arc::new(built);
        if let Some(CachedPlan { cache, built: seen, plan }) = &*self.rest()
            && cache.is_valid(&seen.snapshot, &built.snapshot)
        {
            return Some((built, Arc::clone(plan)));
        }
        // The former snapshot and plan would take memory beside the new ones.
        *self.rest() = None;
        let snapshot_took = started.elapsed();
        let running = self.cluster.progress.begin(&built.snapshot, self.cluster.now());
        let source = Arc::clone(&self.source);
        let shared = Arc::clone(&built);
        let checked = tokio::task::spawn_blocking(move || source.plan(&shared)).await;
        drop(running);
        let checked = match checked {
            Ok(checked) => checked,
            Err(_) => {
                panics::count(&self.metrics, "plan");
                tracing::error!("the plan panicked, retrying with the next one");
                keep_evidence(&self.cluster, built.snapshot.seed, EvidenceCause::Panic).await;
                return None;
            }
        };
        let took = started.elapsed();
        self.metrics.observe(&metrics::SCHEDULING_DURATION, PROVISIONER, took.as_secs_f64());
        self.metrics.observe(
            &metrics::EVALUATION_DURATION,
            metrics::ByReasonConsolidationType { reason: "", consolidation_type: "" },
            took.as_secs_f64(),
        );
        tracing::debug!(snapshot_ms = snapshot_took.as_millis() as i64, total_ms = took.as_millis() as i64, "planned");
        if !checked.findings.is_empty() {
            self.metrics.add(&metrics::PLAN_FINDINGS, NoLabels, 1.0);
            let kept = checked.sound.as_ref().map_or(0, |plan| plan.moves.len());
            let carried_out = if checked.sound.is_some() { "pods and earlier commands" } else { "nothing" };
            tracing::error!(
                findings = failed_plans::text(&checked.findings).as_str(),
                carried_out,
                kept,
                "plan validation failed"
            );
            keep_evidence(&self.cluster, built.snapshot.seed, EvidenceCause::ValidationFailed).await;
        } else if checked.sound.as_ref().is_some_and(Plan::is_incomplete) {
            keep_evidence(&self.cluster, built.snapshot.seed, EvidenceCause::StepBudgetExhausted).await;
        }
        let plan = checked.sound.map(Arc::new);
        let cacheable = plan.as_ref().filter(|_| self.source.is_cacheable());
        *self.rest() = cacheable.and_then(|plan| {
            let cache = PlanCache::new(&built.snapshot, plan)?;
            Some(CachedPlan { cache, built: Arc::clone(&built), plan: Arc::clone(plan) })
        });
        Some((built, plan?))
    }

    /// Reports whether the view of a kind is too old for voluntary disruption. A change is enqueued for the NodePools, whose
    /// status names the kinds.
    fn has_stale_view(&self, now: Timestamp) -> bool {
        let stale: BTreeSet<String> = self.cluster.view_ages.stale(now).into_iter().map(|it| it.kind).collect();
        let is_stale = !stale.is_empty();
        if std::mem::replace(&mut *self.stale.lock(), stale.clone()) != stale {
            let pools: Vec<String> = self.cluster.read(|index| index.pools.keys().cloned().collect());
            pools.into_iter().for_each(|pool| self.cluster.queue.add(WorkItem::Pool(pool)));
        }
        is_stale
    }

    /// Reports whether the pod has a nomination. A plan may nominate a pod before kube-scheduler has tried it.
    fn has_promised(&self, pod: &str) -> bool {
        self.nominations.lock().holds(pod)
    }

    fn rest(&self) -> MutexGuard<'_, Option<CachedPlan>> {
        self.rest.lock()
    }

    fn snapshot(&self, index: &Index, now: Timestamp) -> SnapshotResult {
        let mut nominations = self.nominations.lock();
        nominations.expire(now, nominations::lifetime(self.rules.window.max));
        nominations.forget_arrived(|pod| index.waits(pod));
        self.metrics.set(&metrics::NODE_COUNT, NoLabels, index.nodes.len() as f64);
        let delays = delays::delays(index, &self.cluster.attempts, &self.planned.lock(), now);
        let mut memory = self.memory.lock();
        memory.build(&Input {
            seed: plan_id(now),
            pods: index.pods.values().collect(),
            nodes: index.nodes.values().collect(),
            claims: index.claims.values().collect(),
            pools: index.pools.values().collect(),
            daemon_sets: index.daemonsets.values().collect(),
            budgets: index.budgets.values().collect(),
            usages: index.usages.values().collect(),
            volume_claims: index.volume_claims.values().collect(),
            volumes: index.volumes.values().collect(),
            storage_classes: index.storage_classes.values().collect(),
            csi_nodes: index.csi_nodes.values().collect(),
            namespaces: index.namespaces.values().collect(),
            overlays: index.overlays.values().collect(),
            spend_policies: index.spend_policies.values().collect(),
            commitments: index.commitments.values().collect(),
            buffers: index.buffers.values().collect(),
            requests: index.requests.values().collect(),
            pod_templates: index.pod_templates.values().collect(),
            deployments: index.deployments.values().collect(),
            replica_sets: index.replica_sets.values().collect(),
            stateful_sets: index.stateful_sets.values().collect(),
            limit_ranges: index.limit_ranges.values().collect(),
            runtime_classes: index.runtime_classes.values().collect(),
            priority_classes: index.priority_classes.values().collect(),
            catalogues: self.catalogues(index, now),
            nominations: nominations.in_order(),
            nominated_until: nominations.by_node(),
            impaired: self.notices.impaired(now),
            delays,
            settings: snapshot::Settings {
                resize: !self.resizer.is_closed(now),
                surge: index.permissions.surge,
                ..self.rules.planning
            },
            ..Input::at(now)
        })
    }

    /// Returns the catalogues of EC2NodeClasses that can launch. The status of a NodePool may be older than its EC2NodeClass.
    fn catalogues(&self, index: &Index, now: Timestamp) -> BTreeMap<String, Arc<planner::Catalogue>> {
        let catalogue = |class: &String| Some((class.clone(), self.offerings.catalogue(class, now)?));
        let usable = |class: &&String| ClassReadiness::from_index(index, class).refusal().is_none();
        index.classes.keys().filter(usable).filter_map(catalogue).collect()
    }

    /// Carries out a plan. Apart from NodeClaims, failures have no consequence: the next pass repeats the operation.
    async fn carry_out(&self, built: &SnapshotResult, plan: &Plan, ripe: &ValidatedCommands, now: Timestamp) {
        let mut outcome = self.cluster.read(|index| actions::from_plan(index, built, plan, &ripe.begin));
        self.count_unschedulable(&outcome.unschedulable);
        self.metrics.set(&metrics::IGNORED_PODS, NoLabels, built.ignored.len() as f64);
        match &self.observation {
            Some(observation) => observation.observe(&outcome, built, &self.cluster, &self.metrics).await,
            None => self.change_cluster(&mut outcome, plan, now).await,
        }
        self.metrics.set(&metrics::SAVED_BY_USAGE, NoLabels, plan.saved_by_usage.0 as f64 / 1e6);
        self.arrange_promises(built, plan);
        self.cluster.decisions.note(&built.snapshot, plan, &self.metrics, now);
        let news = self.cluster.read(|index| self.recorded.lock().news(index, built, plan));
        news.into_iter().for_each(|decision| self.cluster.log.record(decision));
        self.gauges.set(&self.metrics, built, plan, &self.cluster);
        self.scores.count(&self.metrics, built, plan, &ripe.begin);
        self.cluster.read(|index| {
            outcome.pod_events.iter(index, built, plan).for_each(|note| self.cluster.notes.publish(note));
        });
        let stays = self.cluster.read(|index| node_events::notes(index, plan, ripe));
        for dropped in &ripe.dropped {
            self.metrics.add(
                &metrics::FAILED_VALIDATIONS,
                metrics::ByConsolidationType {
                    consolidation_type: CommandKind::from_rejected(dropped).consolidation(),
                },
                1.0,
            );
        }
        let closed = self.resizer.is_closed(now);
        let advice = self.cluster.read(|index| self.adviser.look(index, closed, &self.metrics, now));
        for note in outcome.notes.into_iter().chain(stays).chain(advice) {
            self.cluster.notes.publish(note);
        }
    }

    /// Creates NodeClaims, begins commands, and writes to nodes and pods.
    async fn change_cluster(&self, outcome: &mut PlanActions, plan: &Plan, now: Timestamp) {
        for (node, pods) in &outcome.nominations {
            self.promise(pods, node, now);
        }
        let launches = std::mem::take(&mut outcome.launches);
        let buys = !launches.is_empty() || outcome.orders.iter().any(|order| !order.replacements.is_empty());
        let creations = launches.into_iter().map(|planned| self.create(planned, now));
        let begins = outcome.orders.iter().map(|order| self.begin(order, now));
        futures::future::join(futures::future::join_all(creations), futures::future::join_all(begins)).await;
        if buys {
            self.cluster.queue.add(WorkItem::Gather);
        }
        if self.cluster.view_ages.are_current(now) {
            self.resizer.carry_out(&plan.resizes, now).await;
        }
        let (repairs, approvals) = (std::mem::take(&mut outcome.repairs), std::mem::take(&mut outcome.approvals));
        self.run_each(repairs, "failed to remove the taint of a kept node, retrying with the next plan").await;
        self.run_each(approvals, "failed to approve a replacement, retrying with the next plan").await;
    }

    /// Sets the numbers of unschedulable pods, by reason.
    fn count_unschedulable(&self, reasons: &BTreeMap<&'static str, u32>) {
        let total: u32 = reasons.values().sum();
        self.metrics.set(&metrics::UNSCHEDULABLE_PODS, PROVISIONER, f64::from(total));
        let samples = reasons.iter().map(|(reason, pods)| {
            Sample::new(&metrics::UNSCHEDULABLE_BY_REASON, metrics::ByReason { reason }, f64::from(*pods))
        });
        self.unschedulable.replace(&self.metrics, samples.collect());
    }

    /// Begins a command. The pods of its nodes are nominated as planned.
    async fn begin(&self, order: &DisruptionCommand, now: Timestamp) {
        for (pod, place) in &order.places {
            self.promise(std::slice::from_ref(pod), place, now);
        }
        self.disruptor.begin(order).await;
    }

    /// Runs independent operations and logs `complaint` for each failure.
    async fn run_each(&self, steps: Vec<Operation>, complaint: &str) {
        for step in steps {
            let span = step.span();
            if let Err(error) = self.writer.run(step).await {
                let error = daemon::error::chain(&error);
                span.in_scope(|| tracing::warn!(error = error.as_str(), "{complaint}"));
            }
        }
    }

    async fn create(&self, planned: PlannedClaim, now: Timestamp) {
        let PlannedClaim { claim, pods, groups, record } = planned;
        let name = claim.metadata.name.clone().unwrap_or_default();
        let pool = claim.nodepool().to_owned();
        match self.writer.run(Operation::CreateClaim(Box::new(claim.clone()))).await {
            Ok(()) => {
                counters::created(&self.metrics, &claim, "provisioned");
                self.cluster.log.record(record);
                let version = self.cluster.read(|index| PoolVersion::from_index(index, &pool));
                self.cluster.attempts.launches.lock().begin(&name, &pool, groups, version, now);
                self.promise(&pods, &name, now);
            }
            Err(error) => {
                let error = daemon::error::chain(&error);
                tracing::warn!(
                    nodeclaim = name.as_str(),
                    error = error.as_str(),
                    "failed to create nodeclaim, retrying with the next plan"
                );
            }
        }
    }

    fn arrange_promises(&self, built: &SnapshotResult, plan: &Plan) {
        let pods = plan.report.order.iter().map(|pod| built.snapshot.pods[*pod].uid.as_str());
        self.nominations.lock().arrange(pods);
    }

    fn promise(&self, pods: &[String], node: &str, now: Timestamp) {
        let until = nominations::after(now, nominations::lifetime(self.rules.window.max));
        let waits = self.cluster.read(|index| pods.iter().map(|pod| index.waits(pod)).collect::<Vec<_>>());
        let mut nominations = self.nominations.lock();
        for (pod, waits) in pods.iter().zip(waits) {
            nominations.promise(pod, waits, node, until);
        }
    }
}

/// Returns the id of a plan: no two passes of a cluster start in the same nanosecond.
fn plan_id(now: Timestamp) -> u64 {
    now.as_nanosecond().unsigned_abs() as u64
}

/// Returns the catalogues of NodePools that NodeOverlays or price factors change.
fn own_catalogues(built: &SnapshotResult) -> BTreeMap<String, Arc<planner::Catalogue>> {
    let pools = built.snapshot.pools.iter().filter(|pool| built.overlaid.contains_key(&pool.name));
    let own =
        pools.filter_map(|pool| Some((pool.name.clone(), Arc::clone(built.snapshot.catalogues.get(pool.catalogue)?))));
    own.collect()
}

#[cfg(test)]
mod memory;
