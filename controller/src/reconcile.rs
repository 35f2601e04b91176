//! Reconciler: takes keys from the queue, builds the view for each decision, and runs the operations of the decision.
//!
//! Only this module connects decisions with operations, and it contains no policy.

pub mod disruption;
pub mod hashes;
pub mod node;
pub mod nodeclaim;
pub mod nodeclass;
pub mod nodepool;
pub mod plan_status;
pub mod queue;
pub mod resize;
pub mod usage;
pub mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::objects::Pod;
use api::reason;
use cloud::batcher::DescribeBatcher;
use daemon::metric::Metrics;
use drain::{ARRIVES, Drain, Millis, Reply};
use futures::future::join_all;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::Instrument as _;

use crate::capacity::launch::Launcher;
use crate::capacity::offerings::Offerings;
use crate::informer::interruption::{Notices, notice_limit};
use crate::metrics::{self, counters};
use crate::reconcile::disruption::Disruptor;
use crate::reconcile::nodeclaim::{InstanceState, ReplacementResult};
use crate::reconcile::nodepool::PoolMemory;
use crate::reconcile::queue::QueueAction;
use crate::reconcile::work::WorkItem;
use crate::state::attempts::PoolVersion;
use crate::state::cluster::Cluster;
use crate::state::index::Index;
use crate::state::nominations::SharedNominations;
use crate::state::panics::{self, Panicked};
use crate::state::plans::results::PlanResultStore;
use crate::state::registration_health::{Registration, Registrations};
use crate::state::shared::Shared;
use crate::write::events::{Event, ObjectReference};
use crate::write::writer::{WriteError, Writer};

/// Maximum number of concurrent reconciles.
const WORKERS: usize = 64;

/// Dependencies of all reconciles.
pub struct Reconciler {
    cluster: Arc<Cluster>,
    offerings: Arc<Offerings>,
    writer: Writer,
    launcher: Launcher,
    disruptor: Arc<Disruptor>,
    metrics: Arc<Metrics>,
    lookups: DescribeBatcher,
    drains: Mutex<BTreeMap<String, Drain>>,
    registrations: Registrations,
    plan_results: Arc<PlanResultStore>,
    notices: Arc<Notices>,
    nominations: SharedNominations,
}

/// Next action for a command while the view of the cluster is stale.
const HOLD: QueueAction = QueueAction::After(std::time::Duration::from_secs(10));

impl Reconciler {
    /// Creates a reconciler without drains.
    #[must_use]
    pub fn new(shared: Shared, writer: Writer, launcher: Launcher, disruptor: Arc<Disruptor>) -> Self {
        let Shared { cluster, offerings, metrics, plan_results, notices, nominations } = shared;
        let lookups = DescribeBatcher::new(offerings.calls());
        Self {
            cluster,
            offerings,
            writer,
            launcher,
            disruptor,
            metrics,
            lookups,
            drains: Mutex::default(),
            registrations: Registrations::default(),
            plan_results,
            notices,
            nominations,
        }
    }

    /// Reconciles forever, each key at most once at a time.
    pub async fn run(self: Arc<Self>) {
        let workers = Arc::new(Semaphore::new(WORKERS));
        loop {
            let work = self.cluster.queue.next().await;
            let Ok(permit) = Arc::clone(&workers).acquire_owned().await else { return };
            let this = Arc::clone(&self);
            let span = work.span();
            let reconcile = async move {
                let next = match panics::caught(this.reconcile(&work)).await {
                    Ok(next) => next,
                    Err(panic) => this.report_panic(&work, &panic),
                };
                this.cluster.queue.done(work, next);
                drop(permit);
            };
            tokio::spawn(reconcile.instrument(span));
        }
    }

    /// Reports the panic of a reconcile, which is retried. A panic that always returns concerns only this object.
    fn report_panic(&self, work: &WorkItem, panic: &Panicked) -> QueueAction {
        panics::count(&self.metrics, "reconcile");
        if let Some(object) = self.cluster.read(|index| object_of(work, index)) {
            let message = format!("the reconcile failed with an internal error and is retried: {panic}");
            self.cluster.notes.publish(Event::warning(object, reason::INTERNAL_ERROR, message));
        }
        QueueAction::Retry
    }

    async fn reconcile(&self, work: &WorkItem) -> QueueAction {
        if !self.cluster.read(Index::is_synced) {
            return QueueAction::After(std::time::Duration::from_millis(100));
        }
        let result = match work {
            WorkItem::Class(name) => self.class(name).await,
            WorkItem::Pool(name) => self.pool(name).await,
            WorkItem::Claim(name) => self.claim(name).await,
            WorkItem::Gather => self.launcher.gather().await,
            WorkItem::Launch(token) => self.launcher.launch(token).await,
            WorkItem::Node(name) => self.node(name).await,
            WorkItem::Overlay(_)
            | WorkItem::Buffer(_)
            | WorkItem::Request(_)
            | WorkItem::SpendPolicy(_)
            | WorkItem::Commitment(_) => self.plan_status(work).await,
            WorkItem::Usage(name) => self.usage(name).await,
            WorkItem::Move(_) if !self.cluster.view_ages.are_current(self.cluster.now()) => Ok(HOLD),
            WorkItem::Move(id) => self.disruptor.reconcile(id).await,
        };
        result.unwrap_or_else(|error| requeue(&error))
    }

    async fn class(&self, name: &str) -> Result<QueueAction, WriteError> {
        let Some(view) = self.cluster.read(|index| nodeclass::view(index, name, self.cluster.now())) else {
            self.offerings.forget(name);
            self.metrics.forget(&metrics::USER_DATA_BYTES.series(&metrics::ByNodeClass { nodeclass: name }));
            return Ok(QueueAction::Wait);
        };
        let decision = nodeclass::decide(&view, &self.offerings, &self.writer).await;
        self.offerings.mark_reconciled(name);
        let decision = decision?;
        if let Some(bytes) = decision.user_data {
            self.metrics.set(&metrics::USER_DATA_BYTES, metrics::ByNodeClass { nodeclass: name }, f64::from(bytes));
        }
        self.writer.run_all(decision.steps).await?;
        Ok(QueueAction::After(decision.after))
    }

    async fn pool(&self, name: &str) -> Result<QueueAction, WriteError> {
        let Some(mut view) = self.cluster.read(|index| nodepool::view(index, name, self.cluster.now())) else {
            return Ok(QueueAction::Wait);
        };
        let uid = view.pool.metadata.uid.clone().unwrap_or_default();
        if nodepool::is_renewed(&view) {
            self.registrations.reset(&uid);
        }
        view.registrations = self.registrations.verdict(&uid);
        view.replacements = self.cluster.read(|index| self.cluster.attempts.replacements.health(index, name));
        view.launches = self.cluster.attempts.launches.lock().blocked(name);
        view.stale = self.cluster.view_ages.stale(view.now);
        view.memory = self.remember(&view.pool, name, view.now);
        view.held_notices = self.notices.limit.held(name, view.now);
        self.writer.run_all(nodepool::decide(&view)).await?;
        let has_removals = view.held_notices.is_some() || view.memory.notice_removals.is_some();
        Ok(if has_removals { QueueAction::After(notice_limit::RECHECK) } else { QueueAction::Wait })
    }

    /// Returns what a restart must not forget about a NodePool.
    fn remember(&self, pool: &api::NodePool, name: &str, now: Timestamp) -> PoolMemory {
        self.restore(name, now);
        let failures = self.cluster.read(|index| self.cluster.attempts.text(index, name));
        PoolMemory {
            notice_removals: self.notices.limit.stored(name, now),
            failed_attempts: match failures {
                Some(text) => Some(text).filter(|text| !text.is_empty()),
                None => PoolMemory::from_pool(pool).failed_attempts,
            },
        }
    }

    /// Restores what an earlier process stored on a NodePool. Later calls change nothing.
    fn restore(&self, name: &str, now: Timestamp) {
        let removals = self.cluster.read(|index| {
            let pool = index.pools.get(name)?;
            self.cluster.attempts.restore(index, pool, now);
            PoolMemory::from_pool(pool).notice_removals
        });
        if let Some(removals) = removals {
            self.notices.limit.restore(name, &removals, now);
        }
    }

    async fn claim(&self, name: &str) -> Result<QueueAction, WriteError> {
        let Some(mut view) = self.cluster.read(|index| nodeclaim::view(index, name, self.cluster.now())) else {
            self.notices.settle(name);
            return Ok(QueueAction::Wait);
        };
        view.notice = self.notices.latest(name);
        view.is_notice_held = self.holds_notice(&view);
        view.expected = self.expected(&view);
        view.awaits_adoption = self.launcher.awaits_adoption(&view.claim);
        if nodeclaim::asks(&view) {
            view.instance = self.instance(view.claim.provider_id()).await?;
        }
        if nodeclaim::awaits_partition(&view) {
            view.partition = self.partition(view.claim.provider_id()).await?;
        }
        let decision = nodeclaim::decide(&view);
        let next = decision.next();
        let pool = view.claim.nodepool().to_owned();
        let replacement = decision.replacement_result(&view.claim);
        let startup_failure = nodeclaim::startup_failure(&decision).map(str::to_owned);
        let (owner, registration) = (pool_uid(&view.claim), decision.registration);
        let is_settled = view.claim.metadata.deletion_timestamp.is_some() || nodeclaim::has_explained_notice(&view);
        let (disrupted, initialized, released) = (decision.disrupted, decision.initialized, decision.released);
        let started = decision.started;
        if let Some(scope) = decision.short {
            self.offerings.interrupted(scope, self.cluster.now());
        }
        self.writer.run_all(decision.steps).await?;
        if disrupted.is_some() || is_settled {
            self.notices.settle(name);
        }
        decision.work.into_iter().for_each(|work| self.cluster.queue.add(work));
        if registration == Some(Registration::Good) {
            tracing::info!(node = view.nodes.first().map(|node| node.name()), "registered nodeclaim");
            counters::registered(&self.metrics, &view.claim);
        }
        self.record_startup(&view.claim, startup_failure.as_deref(), initialized);
        if let Some((owner, registration)) = owner.zip(registration) {
            self.registrations.record(&owner, registration);
            self.cluster.queue.add(WorkItem::Pool(pool.clone()));
        }
        if let Some(result) = replacement {
            self.record_replacement(&view.claim, &result);
        }
        if initialized {
            self.cluster.log.record(nodeclaim::initialized_record(&view));
        }
        counters::node_started(&self.metrics, &started);
        if let Some(reason) = disrupted {
            tracing::info!(reason, "deleting nodeclaim");
            counters::disrupted(&self.metrics, &view.claim, reason);
        }
        if released {
            tracing::info!("deleted nodeclaim");
            counters::claim_gone(&self.metrics, &view.claim, self.cluster.now());
        }
        Ok(next)
    }

    /// Reports whether the limit for unconfirmed notices keeps the NodeClaim.
    fn holds_notice(&self, view: &nodeclaim::NodeClaimView) -> bool {
        if !nodeclaim::has_unconfirmed_notice(view) {
            return false;
        }
        let (pool, claim) = (view.claim.nodepool(), view.claim.metadata.name.as_deref().unwrap_or_default());
        let has_notice = |index: &Index, claim: &api::NodeClaim| {
            let nodes = index.nodes_of_claim(claim);
            let is_reported = nodes.iter().any(|node| node.interruption().or_else(|| node.reboot()).is_some());
            is_reported || self.notices.latest(claim.metadata.name.as_deref().unwrap_or_default()).is_some()
        };
        let size = || {
            self.cluster.read(|index| {
                notice_limit::size(index.claims_of_pool(pool).map(|claim| (claim.as_ref(), has_notice(index, claim))))
            })
        };
        self.restore(pool, view.now);
        let permitted = self.notices.limit.permits(pool, claim, size, view.now);
        self.cluster.queue.add(WorkItem::Pool(pool.to_owned()));
        !permitted
    }

    /// Records whether pods can use a node that came up, which decides about further launches in its NodePool.
    fn record_startup(&self, claim: &api::NodeClaim, failure: Option<&str>, initialized: bool) {
        let (pool, now) = (claim.nodepool(), self.cluster.now());
        if failure.is_none() && !initialized {
            return;
        }
        self.restore(pool, now);
        let version = self.cluster.read(|index| PoolVersion::from_index(index, pool));
        let mut launches = self.cluster.attempts.launches.lock();
        match failure {
            Some(cause) => launches.fail_startup(pool, version, cause, now),
            None => launches.succeed_startup(pool, version, now),
        }
        drop(launches);
        self.cluster.queue.add(WorkItem::Pool(pool.to_owned()));
    }

    /// Records the result of a replacement, which decides about further commands.
    fn record_replacement(&self, claim: &api::NodeClaim, result: &ReplacementResult) {
        let (history, now) = (&self.cluster.attempts.replacements, self.cluster.now());
        self.cluster.read(|index| match result {
            ReplacementResult::Initialized => history.succeed(index, claim, now),
            ReplacementResult::Failed { cause } => history.fail(index, claim, cause, now),
        });
        self.cluster.queue.add(WorkItem::Pool(claim.nodepool().to_owned()));
    }

    /// Returns the pending pods that are nominated to the NodeClaim's node.
    fn expected(&self, view: &nodeclaim::NodeClaimView) -> Vec<Arc<Pod>> {
        let claim = view.claim.metadata.name.as_deref().unwrap_or_default();
        let Some(node) = view.nodes.first() else { return Vec::new() };
        let promised = self.nominations.lock().pods_on([claim, node.name()]);
        self.cluster.read(|index| promised.iter().filter_map(|uid| index.waiting_pod(uid)).cloned().collect())
    }

    async fn node(&self, name: &str) -> Result<QueueAction, WriteError> {
        let view = self.cluster.read(|index| node::view(index, name, self.cluster.now()));
        let Some(mut view) = view.filter(|view| node::concerns(&view.node, view.claim.as_deref())) else {
            self.drains().remove(name);
            return Ok(QueueAction::Wait);
        };
        let drain = self.drains().remove(name);
        let mut drain = drain.unwrap_or_else(|| node::start_drain(&view));
        if let Err(error) = self.ask_live(&mut view, &mut drain).await {
            self.drains().insert(name.to_owned(), drain);
            return Err(error);
        }
        let mut decision = node::decide(&view, &mut drain);
        let steps = self.writer.run_all(decision.steps).await;
        let asked = decision.requests.into_iter().map(|request| self.ask(request));
        for (uid, reply) in join_all(asked).await {
            drain.reply(self.millis(), &uid, &reply);
            // The replies determine the time of the next request.
            view.now = self.cluster.now();
            decision.after = Some(node::next_moment(&view, &drain));
        }
        let (drained, report) = (drain.is_done(), drain.report(self.millis()));
        if !decision.released {
            self.drains().insert(name.to_owned(), drain);
        }
        steps?;
        if decision.released {
            counters::node_gone(&self.metrics, &view.node, view.claim.as_deref(), drained, self.cluster.now());
            let said = node::drain_condition(&view.node);
            counters::pods_drained(&self.metrics, node::why(&view), &report, said.as_ref());
            counters::drain_ended(&self.metrics, node::pool_of(&view), drained, &report, said.as_ref());
        }
        Ok(decision.after.map_or(QueueAction::Wait, QueueAction::After))
    }

    /// Completes the view by live data: the state of the instance, and the pods of the node. Before the termination of an instance
    /// only a live list proves that the node has no pods, and a stale watch does not report that pods have left.
    async fn ask_live(&self, view: &mut node::NodeView, drain: &mut Drain) -> Result<(), WriteError> {
        let is_stale = !self.cluster.view_ages.are_current(view.now);
        if is_stale {
            view.pods = self.writer.pods_on(view.node.name()).await?;
        }
        if node::asks(view, drain) {
            view.instance = self.instance(Some(view.node.spec.provider_id.as_str())).await?;
        }
        if !is_stale && node::ends_instance(view, drain) {
            view.pods = self.writer.pods_on(view.node.name()).await?;
        }
        Ok(())
    }

    async fn plan_status(&self, work: &WorkItem) -> Result<QueueAction, WriteError> {
        let now = self.cluster.now();
        let decision = self.cluster.read(|index| plan_status::decide(work, index, &self.plan_results, now));
        self.writer.run_all(decision.steps).await?;
        Ok(decision.next)
    }

    async fn usage(&self, name: &str) -> Result<QueueAction, WriteError> {
        let view = self.cluster.read(|index| usage::view(index, name, self.cluster.now()));
        let Some(decision) = view.map(|view| usage::decide(&view)) else { return Ok(QueueAction::Wait) };
        self.writer.run_all(decision.steps).await?;
        Ok(decision.after.map_or(QueueAction::Wait, QueueAction::After))
    }

    /// Sends one request of a drain, and waits no longer than its delivery may take. After earlier requests, it may be too late
    /// to send.
    async fn ask(&self, request: node::PodRequest) -> (String, Reply) {
        let node::PodRequest { uid, step, by } = request;
        if self.millis() >= by {
            return (uid, Reply::Unreachable);
        }
        let sent = timeout(ARRIVES, self.writer.run(step)).await;
        (uid, sent.map_or(Reply::Unreachable, |result| reply(&result)))
    }

    fn millis(&self) -> Millis {
        Millis(self.cluster.now().as_millisecond().unsigned_abs())
    }

    fn drains(&self) -> parking_lot::MutexGuard<'_, BTreeMap<String, Drain>> {
        self.drains.lock()
    }

    async fn instance(&self, provider_id: Option<&str>) -> Result<InstanceState, WriteError> {
        let Some(id) = instance_id(provider_id) else { return Ok(InstanceState::Unknown) };
        if self.is_shifted(provider_id) {
            return Ok(InstanceState::Shifted);
        }
        Ok(match self.lookups.instance(id).await? {
            None => InstanceState::Gone,
            Some(found) if found.state == "terminated" => InstanceState::Gone,
            Some(found) if found.is_ending() => InstanceState::Ending,
            Some(_) => InstanceState::Alive,
        })
    }

    /// Returns the partition of an instance in its placement group, if EC2 reports it.
    async fn partition(&self, provider_id: Option<&str>) -> Result<Option<u32>, WriteError> {
        let Some(id) = instance_id(provider_id).filter(|_| !self.is_shifted(provider_id)) else { return Ok(None) };
        Ok(self.lookups.instance(id).await?.and_then(|found| found.placement_partition))
    }

    fn is_shifted(&self, provider_id: Option<&str>) -> bool {
        cloud::is_in_zones(provider_id, &self.offerings.shifted_zones(self.cluster.now()))
    }
}

fn instance_id(provider_id: Option<&str>) -> Option<&str> {
    provider_id.and_then(cloud::launch::claim::instance_id)
}

/// Returns the object of a work item for an event, if it is one object that still exists.
fn object_of(work: &WorkItem, index: &Index) -> Option<ObjectReference> {
    match work {
        WorkItem::Class(name) => index.classes.get(name).map(|object| ObjectReference::to(object.as_ref())),
        WorkItem::Pool(name) => index.pools.get(name).map(|object| ObjectReference::to(object.as_ref())),
        WorkItem::Claim(name) => index.claims.get(name).map(|object| ObjectReference::to(object.as_ref())),
        WorkItem::Node(name) => index.nodes.get(name).map(|object| ObjectReference::to(object.as_ref())),
        WorkItem::Overlay(name) => index.overlays.get(name).map(|object| ObjectReference::to(object.as_ref())),
        WorkItem::Buffer(key) => index.buffers.get(key).map(|object| ObjectReference::to(object.as_ref())),
        WorkItem::Usage(name) => index.usages.get(name).map(|object| ObjectReference::to(object.as_ref())),
        WorkItem::Request(key) => index.requests.get(key).map(|it| ObjectReference::to(it.as_ref())),
        WorkItem::Commitment(name) => index.commitments.get(name).map(|it| ObjectReference::to(it.as_ref())),
        WorkItem::SpendPolicy(name) => index.spend_policies.get(name).map(|it| ObjectReference::to(it.as_ref())),
        WorkItem::Gather | WorkItem::Launch(_) | WorkItem::Move(_) => None,
    }
}

/// Requeues a failed reconcile. A conflict only means that another writer was faster: the watch delivers the newer version.
fn requeue(error: &WriteError) -> QueueAction {
    let text = daemon::error::chain(error);
    match error.status() {
        Some(404 | 409) => tracing::debug!(error = text.as_str(), "conflict, requeued"),
        _ => tracing::warn!(error = text.as_str(), "reconcile failed, requeued"),
    }
    QueueAction::Retry
}

/// Converts the result of a write into a reply for the drain.
fn reply(result: &Result<(), WriteError>) -> Reply {
    match result {
        Ok(()) => Reply::Accepted,
        Err(error) => match error {
            WriteError::Kube(kube) => match kube.as_ref() {
                kube::Error::Api(status) => Reply::from_status(status.code, &text(status), retry_after(status)),
                _ => Reply::Unreachable,
            },
            _ => Reply::Unreachable,
        },
    }
}

/// Returns the message of the API server with its causes: only the causes name the PodDisruptionBudget that blocks a pod.
fn text(status: &kube::core::Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes).map(|cause| cause.message.as_str());
    std::iter::once(status.message.as_str()).chain(causes).collect::<Vec<_>>().join(" ")
}

/// Returns `Retry-After`, which the API server repeats in the body.
fn retry_after(status: &kube::core::Status) -> Option<std::time::Duration> {
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| std::time::Duration::from_secs(seconds.into()))
}

/// Returns the UID of the NodePool that owns the NodeClaim.
fn pool_uid(claim: &api::NodeClaim) -> Option<String> {
    let owners = claim.metadata.owner_references.iter().flatten();
    owners.into_iter().find(|owner| owner.kind == "NodePool").map(|owner| owner.uid.clone())
}
