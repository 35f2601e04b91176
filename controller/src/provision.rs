//! Pods that wait meet a plan: gather triggers, take a snapshot, plan, check, act.
//!
//! The same pass finds empty nodes, so it also runs when a node's quiet time is over.

mod consequences;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::NodeClaim;
use daemon::metric::Metrics;
use jiff::Timestamp;
use planner::{NodeVerdict, Plan};
use snapshot::{Built, Input, Memory};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use crate::act::{Act, Step};
use crate::batch::{Batch, Window};
use crate::cluster::Cluster;
use crate::index::Index;
use crate::lifecycle;
use crate::market::Market;
use crate::metrics;
use crate::nominations::Nominations;
use crate::verdicts::{Findings, Generations, Verdicts};
use crate::work::Work;
use consequences::Removed;

/// Waiting pods are looked at again after this long even if nothing changes (core 2.1).
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Time between looks while the watches have not listed everything, or EC2 has not told what there is.
const UNSYNCED: Duration = Duration::from_millis(100);

/// When to plan, and how.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// When.
    pub window: Window,
    /// How.
    pub planning: snapshot::Settings,
}

/// What the provisioner shares with others: the cluster, the market, metrics, and where verdicts are left.
pub type Shared = (Arc<Cluster>, Arc<Market>, Arc<Metrics>, Arc<Verdicts>);

/// Plans and acts, one pass at a time.
pub struct Provisioner {
    cluster: Arc<Cluster>,
    market: Arc<Market>,
    act: Act,
    metrics: Arc<Metrics>,
    verdicts: Arc<Verdicts>,
    rules: Rules,
    nominations: Mutex<Nominations>,
    /// What was translated for the last plan and has not changed since.
    memory: Mutex<Memory>,
}

impl Provisioner {
    /// A provisioner that has promised nothing yet.
    #[must_use]
    pub fn new(shared: Shared, act: Act, rules: Rules) -> Self {
        let (cluster, market, metrics, verdicts) = shared;
        let (nominations, memory) = (Mutex::default(), Mutex::default());
        Self { cluster, market, act, metrics, verdicts, rules, nominations, memory }
    }

    /// Runs passes until every sender of triggers is gone.
    pub async fn run(self, mut triggers: UnboundedReceiver<String>) {
        let mut batch = Batch::new(self.rules.window);
        let mut due = Instant::now();
        loop {
            let wake = batch.closes().map_or(due, |closes| closes.min(due));
            tokio::select! {
                id = triggers.recv() => match id {
                    Some(id) => batch.trigger(&id, Instant::now()),
                    None => return,
                },
                () = tokio::time::sleep_until(wake) => {
                    batch.close();
                    due = Instant::now() + self.pass().await;
                }
            }
        }
    }

    /// One pass. Returns after how long to look again at the latest.
    async fn pass(&self) -> Duration {
        let prepared = |index: &Index| index.is_synced() && self.market.knows(index.classes.keys());
        if !self.cluster.read(prepared) {
            return UNSYNCED;
        }
        let started = Instant::now();
        let now = Timestamp::now();
        let (built, generations) = self.cluster.read(|index| (self.snapshot(index, now), Generations::of(index)));
        self.market.learn_pools(own_catalogues(&built));
        let snapshot_took = started.elapsed();
        let planned = tokio::task::spawn_blocking(move || checked_plan(built)).await;
        let took = started.elapsed();
        self.metrics.observe(&metrics::SCHEDULING_DURATION, &[], took.as_secs_f64());
        log::debug!(snapshot_ms = snapshot_took.as_millis() as i64, total_ms = took.as_millis() as i64; "planned");
        let Ok((built, plan, findings)) = planned else { return LOOK_AGAIN };
        if !findings.is_empty() {
            self.metrics.add(&metrics::PLAN_FINDINGS, &[], 1.0);
            log::error!(findings = findings.join("; ").as_str(); "a plan broke its own rules and is not carried out: please report this");
            return LOOK_AGAIN;
        }
        self.carry_out(&built, &plan, now).await;
        for work in self.verdicts.replace(Findings::of(&generations, &built, &plan)) {
            self.cluster.queue.add(work);
        }
        next_look(&plan)
    }

    fn snapshot(&self, index: &Index, now: Timestamp) -> Built {
        let mut nominations = self.nominations.lock().unwrap_or_else(PoisonError::into_inner);
        nominations.expire(now);
        self.metrics.set(&metrics::NODE_COUNT, &[], index.nodes.len() as f64);
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.build(&Input {
            seed: plan_id(now),
            pods: index.pods.values().collect(),
            nodes: index.nodes.values().collect(),
            claims: index.claims.values().collect(),
            pools: index.pools.values().collect(),
            daemon_sets: index.daemonsets.values().collect(),
            budgets: index.budgets.values().collect(),
            volume_claims: index.volume_claims.values().collect(),
            volumes: index.volumes.values().collect(),
            storage_classes: index.storage_classes.values().collect(),
            csi_nodes: index.csi_nodes.values().collect(),
            namespaces: index.namespaces.values().collect(),
            overlays: index.overlays.values().collect(),
            buffers: index.buffers.values().collect(),
            pod_templates: index.pod_templates.values().collect(),
            deployments: index.deployments.values().collect(),
            replica_sets: index.replica_sets.values().collect(),
            stateful_sets: index.stateful_sets.values().collect(),
            catalogues: self.catalogues(index, now),
            type_labels: BTreeSet::new(),
            nominations: nominations.in_order(),
            nominated_until: nominations.by_node(),
            settings: self.rules.planning,
            now,
        })
    }

    fn catalogues(&self, index: &Index, now: Timestamp) -> BTreeMap<String, Arc<planner::Catalogue>> {
        let catalogue = |class: &String| Some((class.clone(), self.market.catalogue(class, now)?));
        index.classes.keys().filter_map(catalogue).collect()
    }

    /// Everything but the claims is of no consequence if it fails: the next pass says it again.
    async fn carry_out(&self, built: &Built, plan: &Plan, now: Timestamp) {
        let outcome = self.cluster.read(|index| consequences::of(index, built, plan));
        self.metrics.set(&metrics::UNSCHEDULABLE_PODS, &[], outcome.unschedulable as f64);
        self.metrics.set(&metrics::IGNORED_PODS, &[], built.ignored.len() as f64);
        let creations = outcome.launches.into_iter().map(|(claim, pods)| self.create(claim, pods, now));
        if !futures::future::join_all(creations).await.is_empty() {
            self.cluster.queue.add(Work::Gather);
        }
        for (node, pods) in &outcome.nominations {
            self.promise(pods, node, now);
        }
        self.arrange_promises(built, plan);
        for (removed, steps) in outcome.removals {
            self.remove(&removed, steps).await;
        }
        self.run_each(outcome.repairs, "cannot open a node again, the next plan looks again").await;
        self.run_each(outcome.approvals, "cannot approve a replacement, the next plan looks again").await;
        for note in outcome.notes {
            self.cluster.notes.publish(note);
        }
    }

    /// Steps that have nothing to do with each other; `complaint` is what one that fails comes to.
    async fn run_each(&self, steps: Vec<Step>, complaint: &str) {
        for step in steps {
            if let Err(error) = self.act.run(step).await {
                log::warn!(error = daemon::error::chain(&error).as_str(); "{complaint}");
            }
        }
    }

    async fn create(&self, claim: NodeClaim, pods: Vec<String>, now: Timestamp) {
        let name = claim.metadata.name.clone().unwrap_or_default();
        let pool = lifecycle::pool(&claim).to_owned();
        match self.act.run(Step::CreateClaim(Box::new(claim))).await {
            Ok(()) => {
                self.metrics.add(&metrics::CLAIMS_CREATED, &["provisioned", &pool], 1.0);
                log::info!(nodeclaim = name.as_str(), nodepool = pool.as_str(), pods = pods.len() as i64; "created NodeClaim");
                self.promise(&pods, &name, now);
            }
            Err(error) => {
                let error = daemon::error::chain(&error);
                log::warn!(nodeclaim = name.as_str(), error = error.as_str(); "cannot create the NodeClaim, the next plan tries again");
            }
        }
    }

    async fn remove(&self, removed: &Removed, steps: Vec<Step>) {
        match self.act.run_all(steps).await {
            Ok(()) => {
                self.metrics.add(&metrics::CLAIMS_DISRUPTED, &["empty", &removed.pool, ""], 1.0);
                log::info!(node = removed.node.as_str(), nodepool = removed.pool.as_str(); "removing an empty node");
            }
            Err(error) => {
                let error = daemon::error::chain(&error);
                log::warn!(node = removed.node.as_str(), error = error.as_str(); "cannot remove the node, the next plan looks again");
            }
        }
    }

    fn arrange_promises(&self, built: &Built, plan: &Plan) {
        let pods = plan.report.order.iter().map(|pod| built.snapshot.pods[*pod].uid.as_str());
        self.nominations.lock().unwrap_or_else(PoisonError::into_inner).arrange(pods);
    }

    fn promise(&self, pods: &[String], node: &str, now: Timestamp) {
        let until = crate::nominations::after(now, crate::nominations::lifetime(self.rules.window.max));
        let mut nominations = self.nominations.lock().unwrap_or_else(PoisonError::into_inner);
        for pod in pods {
            nominations.promise(pod, node, until);
        }
    }
}

/// Names a plan: no two passes of a cluster's life fall into the same nanosecond.
fn plan_id(now: Timestamp) -> u64 {
    now.as_nanosecond().unsigned_abs() as u64
}

fn checked_plan(built: Built) -> (Built, Plan, Vec<String>) {
    let plan = planner::plan(&built.snapshot);
    let findings = planner::check::check(&built.snapshot, &plan).iter().map(ToString::to_string).collect();
    (built, plan, findings)
}

/// What pools can buy where overlays or factors speak of it.
fn own_catalogues(built: &Built) -> BTreeMap<String, Arc<planner::Catalogue>> {
    let pools = built.snapshot.pools.iter().filter(|pool| built.overlaid.contains_key(&pool.name));
    let own =
        pools.filter_map(|pool| Some((pool.name.clone(), Arc::clone(built.snapshot.catalogues.get(pool.catalogue)?))));
    own.collect()
}

/// The next quiet node's time, if that is sooner than the regular look.
fn next_look(plan: &Plan) -> Duration {
    let quiet = plan.report.nodes.iter().filter_map(|(_, verdict)| match verdict {
        NodeVerdict::Quiet { remaining } => u64::try_from(*remaining).ok().map(Duration::from_millis),
        _ => None,
    });
    quiet.min().map_or(LOOK_AGAIN, |soonest| soonest.clamp(UNSYNCED, LOOK_AGAIN))
}
