//! Execution of disruption commands: starts those of a plan, and reconciles those in progress.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::decisions::{Decision, DecisionKind};
use api::{NodeClaim, reason};
use daemon::metric::Metrics;
use futures::future::try_join_all;
use parking_lot::Mutex;

use super::{
    CommandDecision, CommandEnd, CommandKind, DisruptionCommand, LivePods, begin, decide, finish, said_of, view,
};
use crate::metrics::counters;
use crate::reconcile::queue::QueueAction;
use crate::reconcile::work::WorkItem;
use crate::state::cluster::Cluster;
use crate::write::writer::{WriteError, Writer};

/// Executor of disruption commands.
pub struct Disruptor {
    cluster: Arc<Cluster>,
    writer: Writer,
    metrics: Arc<Metrics>,
    /// Ids of commands that are just being started. A reconcile would mistake them for incomplete commands.
    beginning: Mutex<BTreeSet<String>>,
}

impl Disruptor {
    /// Creates an executor without commands.
    #[must_use]
    pub fn new(cluster: Arc<Cluster>, writer: Writer, metrics: Arc<Metrics>) -> Self {
        Self { cluster, writer, metrics, beginning: Mutex::default() }
    }

    /// Starts a command. After a failure, the next reconcile or the next plan rolls it back.
    pub async fn begin(&self, order: &DisruptionCommand) {
        let id = order.id();
        self.beginning().extend(id.clone());
        let outcome = self.begin_now(order).await;
        if let Some(id) = id {
            self.beginning().remove(&id);
            self.cluster.queue.add(WorkItem::Move(id));
        }
        if let Err(error) = outcome {
            self.record_rejected(order, &error);
            let error = daemon::error::chain(&error);
            for claim in &order.claims {
                tracing::warn!(
                    nodeclaim = claim.as_str(),
                    error = error.as_str(),
                    "failed to disrupt nodeclaim, retrying with the next plan"
                );
            }
        }
    }

    async fn begin_now(&self, order: &DisruptionCommand) -> Result<(), WriteError> {
        let (steps, claims) = self.cluster.read(|index| {
            let claims = order.claims.iter().filter_map(|name| index.claims.get(name));
            (begin(index, order, self.cluster.now()), claims.cloned().collect::<Vec<_>>())
        });
        let Some(steps) = steps else { return Ok(()) };
        self.writer.run_all(steps).await?;
        let kind = order.kind();
        for claim in &order.claims {
            tracing::info!(
                nodeclaim = claim.as_str(),
                reason = kind.reason.as_str(),
                replacements = order.id(),
                "disrupting nodeclaim"
            );
        }
        order.records.iter().cloned().for_each(|record| self.cluster.log.record(record));
        counters::move_begun(&self.metrics, &kind, &claims, &order.replacements);
        if !kind.replaces && !self.finish(order, &kind, &claims).await? {
            return Ok(());
        }
        for (condition, claim) in
            order.unhealthy.iter().flat_map(|condition| claims.iter().map(move |it| (condition, it)))
        {
            counters::unhealthy(&self.metrics, condition, claim);
        }
        Ok(())
    }

    /// Ends a command without replacements, unless a pod of a live list blocks it. Reports whether the command ended.
    async fn finish(
        &self,
        order: &DisruptionCommand,
        kind: &CommandKind,
        claims: &[Arc<NodeClaim>],
    ) -> Result<bool, WriteError> {
        let live = self.live_pods(kind, claims).await?;
        match self.cluster.read(|index| finish(index, order, &live, self.cluster.now())) {
            Ok(steps) => {
                self.writer.run_all(steps).await?;
                self.completed(kind, claims);
                Ok(true)
            }
            Err(why) => {
                self.report_newcomer(claims, &why);
                self.rolled_back(&order.claims.join(","), kind, claims, &why);
                Ok(false)
            }
        }
    }

    /// Publishes why a command without replacements ended before the deletion of its NodeClaims.
    fn report_newcomer(&self, claims: &[Arc<NodeClaim>], why: &str) {
        let message = format!("Disruption rolled back: {why}");
        self.cluster.read(|index| {
            for claim in claims {
                let node = index.node_of_claim(claim).map(AsRef::as_ref);
                let notes = said_of(claim, node, reason::DISRUPTION_BLOCKED, &message);
                notes.into_iter().for_each(|note| self.cluster.notes.publish(note));
            }
        });
    }

    /// Returns the pods on the nodes of these NodeClaims from the API server. A command that waits for nothing needs none.
    async fn live_pods(&self, kind: &CommandKind, claims: &[Arc<NodeClaim>]) -> Result<LivePods, WriteError> {
        if !kind.waits() {
            return Ok(LivePods::new());
        }
        let nodes: Vec<String> = self.cluster.read(|index| {
            let node = |claim: &Arc<NodeClaim>| index.node_of_claim(claim).map(|node| node.name().to_owned());
            claims.iter().filter_map(node).collect()
        });
        // The writer limits concurrent requests.
        let lists = nodes.into_iter().map(async |node| self.writer.pods_on(&node).await.map(|pods| (node, pods)));
        Ok(try_join_all(lists).await?.into_iter().collect())
    }

    /// Reconciles a command in progress.
    ///
    /// # Errors
    /// Returns an error if an operation failed.
    pub async fn reconcile(&self, id: &str) -> Result<QueueAction, WriteError> {
        if self.beginning().contains(id) {
            return Ok(QueueAction::Wait);
        }
        let mut decision = self.decide(id, &LivePods::new());
        if let Some(CommandEnd::Done { kind, claims }) = &decision.end {
            let live = self.live_pods(kind, claims).await?;
            decision = self.decide(id, &live);
        }
        self.writer.run_all(decision.steps).await?;
        match &decision.end {
            Some(CommandEnd::Done { kind, claims }) => self.completed(kind, claims),
            Some(CommandEnd::RolledBack { kind, why, claims, unready, late }) => {
                self.record_late(late, why);
                counters::move_rolled_back(&self.metrics, kind, *unready);
                self.rolled_back(id, kind, claims, why);
            }
            None => {}
        }
        Ok(decision.after.map_or(QueueAction::Wait, QueueAction::After))
    }

    fn decide(&self, id: &str, live: &LivePods) -> CommandDecision {
        let found = self.cluster.read(|index| view(index, id, live, self.cluster.now()));
        found.map(|view| decide(&view)).unwrap_or_default()
    }

    /// Records replacements that the API server rejects for a reason that lasts. The next plan may repeat a start that only
    /// conflicted with another change.
    fn record_rejected(&self, order: &DisruptionCommand, error: &WriteError) {
        if !matches!(error.status(), Some(400 | 403 | 422)) {
            return;
        }
        let (cause, now) = (daemon::error::chain(error), self.cluster.now());
        for claim in &order.replacements {
            self.cluster.read(|index| self.cluster.attempts.replacements.fail(index, claim, &cause, now));
            self.cluster.queue.add(WorkItem::Pool(claim.nodepool().to_owned()));
        }
    }

    /// Records replacements that were not initialized in time, which delays further commands in their NodePools.
    fn record_late(&self, late: &[Arc<NodeClaim>], why: &str) {
        for claim in late {
            let (history, now) = (&self.cluster.attempts.replacements, self.cluster.now());
            self.cluster.read(|index| history.fail(index, claim, why, now));
            self.cluster.queue.add(WorkItem::Pool(claim.nodepool().to_owned()));
        }
    }

    fn completed(&self, kind: &CommandKind, claims: &[Arc<NodeClaim>]) {
        counters::move_done(&self.metrics, kind, claims);
        self.record(DecisionKind::Disrupted, kind, claims, "");
    }

    fn rolled_back(&self, id: &str, kind: &CommandKind, claims: &[Arc<NodeClaim>], why: &str) {
        tracing::warn!(replacements = id, reason = kind.reason.as_str(), cause = why, "disruption rolled back");
        self.record(DecisionKind::RolledBack, kind, claims, why);
        self.cluster.ask_for_plan(format!("move/{id}"));
    }

    /// Records the end of a command.
    fn record(&self, end: DecisionKind, kind: &CommandKind, claims: &[Arc<NodeClaim>], why: &str) {
        let pools: BTreeSet<&str> = claims.iter().map(|claim| claim.nodepool()).collect();
        let node = |claim: &Arc<NodeClaim>| {
            self.cluster.read(|index| index.node_of_claim(claim).map(|node| node.name().to_owned()))
        };
        self.cluster.log.record(Decision {
            message: why.to_owned(),
            nodepools: pools.into_iter().collect(),
            nodeclaims: claims.iter().filter_map(|claim| claim.metadata.name.clone()).collect(),
            nodes: claims.iter().filter_map(node).collect(),
            ..Decision::new(self.cluster.now(), end, kind.reason.as_str())
        });
    }

    fn beginning(&self) -> parking_lot::MutexGuard<'_, BTreeSet<String>> {
        self.beginning.lock()
    }
}
