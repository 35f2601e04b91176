//! One run of the controller: all of it except the connections to the API server and to EC2. A run can be killed between any
//! two steps.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use api::objects::{
    CSINode, DaemonSet, Deployment, LimitRange, Namespace, Node, NodeReport, PersistentVolume, PersistentVolumeClaim,
    Pod, PodDisruptionBudget, PodTemplate, PriorityClass, ReplicaSet, RuntimeClass, StatefulSet, StorageClass,
    VolumeAttachment,
};
use api::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool};
use cloud::Cloud;
use cloud::fake::settings;
use controller::capacity::launch::Launcher;
use controller::capacity::offerings::Offerings;
use controller::gc::drift::DriftDetection;
use controller::gc::instances::GarbageCollection;
use controller::gc::periodic::{TaskContext, run_for_ever};
use controller::informer::interruption::queue::Listener;
use controller::informer::interruption::{Notices, status_checks};
use controller::lease::Leading;
use controller::metrics;
use controller::provision::batcher::PlanTrigger;
use controller::provision::plan_source::{KerfPlanner, PlanSource};
use controller::provision::{Provisioner, Rules};
use controller::reconcile::Reconciler;
use controller::reconcile::disruption::Disruptor;
use controller::reconcile::resize::Resizer;
use controller::reconcile::work::{Triggers, WorkItem};
use controller::settings::Gates;
use controller::state::cluster::{Clock, Cluster};
use controller::state::index::{Index, Indexed};
use controller::state::nominations::SharedNominations;
use controller::state::plans::results::PlanResultStore;
use controller::state::shared::Shared;
use controller::write::events::{EventRecorder, ObjectReference};
use controller::write::writer::{Clients, Writer};
use daemon::metric::Metrics;
use planner::CapacityType;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use crate::api_server::{ApiServer, Change, Event};

/// Environment of a run.
pub struct Place<'a> {
    /// Connection to EC2.
    pub cloud: Arc<dyn Cloud>,
    /// The API server.
    pub server: &'a ApiServer,
    /// Client of the API server.
    pub client: kube::Client,
    /// Clock of the run.
    pub clock: Clock,
    /// Flag that is true while the run is alive.
    pub alive: Arc<AtomicBool>,
    /// Enabled feature gates.
    pub gates: Gates,
}

/// One run of the controller.
pub struct ControllerRun {
    alive: Arc<AtomicBool>,
    leading: Leading,
    /// View of the cluster.
    pub cluster: Arc<Cluster>,
    /// Offerings of EC2.
    pub offerings: Arc<Offerings>,
    /// Writer of the run.
    pub writer: Writer,
    metrics: Arc<Metrics>,
    events: Arc<Mutex<Vec<String>>>,
    /// Requests for plans, until a planner takes them.
    asked: Option<UnboundedReceiver<PlanTrigger>>,
    plan_results: Arc<PlanResultStore>,
    notices: Arc<Notices>,
    nominations: SharedNominations,
    disruptor: Arc<Disruptor>,
    client: kube::Client,
    /// Kinds, by plural, whose watch has failed.
    silent: Arc<Mutex<BTreeSet<String>>>,
    tasks: JoinSet<()>,
}

impl ControllerRun {
    /// Creates a run that lists all objects, and so far only updates its index.
    pub fn awake(place: Place<'_>) -> Self {
        let Place { cloud, server, client, clock, alive, gates } = place;
        let leading = Leading::without_election();
        let (notes, mut outgoing) = EventRecorder::new();
        let (plan, asked) = unbounded_channel();
        let cluster = Cluster::with_clock(plan, notes, clock);
        let (there, mut changes) = server.watch();
        there.into_iter().for_each(|event| apply(&cluster, &event, false));
        cluster.change(complete);
        assert!(cluster.read(Index::is_synced));
        let offerings = Arc::new(Offerings::new(Arc::clone(&cloud), settings(), gates));
        let metrics = Arc::new(Metrics::new(&metrics::table()));
        let clients = Clients { general: client.clone(), eviction: client.clone() };
        let writer = Writer::new(clients, cloud, Arc::clone(&cluster), Arc::clone(&metrics), leading.clone());
        let disruptor = Arc::new(Disruptor::new(Arc::clone(&cluster), writer.clone(), Arc::clone(&metrics)));
        let (mut tasks, events) = (JoinSet::new(), Arc::<Mutex<Vec<String>>>::default());
        let (recorded, watched) = (Arc::clone(&events), Arc::clone(&cluster));
        tasks.spawn(async move {
            while let Some(note) = outgoing.recv().await {
                recorded.lock().unwrap().push(format!("{}: {}", note.reason(), note.message()));
            }
        });
        let silent = Arc::<Mutex<BTreeSet<String>>>::default();
        let failed = Arc::clone(&silent);
        tasks.spawn(async move {
            while let Some(event) = changes.recv().await {
                if !failed.lock().unwrap().contains(&event.plural) {
                    apply(&watched, &event, true);
                }
            }
        });
        let (plan_results, notices, nominations) = (Arc::default(), Arc::default(), Arc::default());
        let asked = Some(asked);
        Self {
            alive,
            leading,
            cluster,
            offerings,
            writer,
            metrics,
            events,
            asked,
            plan_results,
            notices,
            nominations,
            disruptor,
            client,
            silent,
            tasks,
        }
    }

    /// Ends the watch of a kind, given by its plural: no further event arrives.
    pub fn fail_watch(&self, plural: &str) {
        self.silent.lock().unwrap().insert(plural.to_owned());
    }

    /// Checks that no task of the controller has ended by a panic, as `run` of the program does.
    pub fn check_tasks(&mut self) {
        while let Some(ended) = self.tasks.try_join_next() {
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }

    /// Returns the metrics as Prometheus reads them.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.metrics.render()
    }

    /// Returns the metrics of the run, for gauges that a scrape computes.
    #[must_use]
    pub fn metrics_table(&self) -> &Metrics {
        &self.metrics
    }

    fn shared(&self) -> Shared {
        Shared {
            cluster: Arc::clone(&self.cluster),
            offerings: Arc::clone(&self.offerings),
            metrics: Arc::clone(&self.metrics),
            plan_results: Arc::clone(&self.plan_results),
            notices: Arc::clone(&self.notices),
            nominations: Arc::clone(&self.nominations),
        }
    }

    /// Starts reconcilers and launches of NodeClaims, without planning.
    pub fn works(&mut self) {
        let (cluster, offerings) = (Arc::clone(&self.cluster), Arc::clone(&self.offerings));
        let launcher =
            Launcher::new(Arc::clone(&cluster), Arc::clone(&offerings), self.writer.clone(), Arc::clone(&self.metrics));
        self.tasks.spawn(Arc::clone(&offerings).refresh_for_ever(Arc::clone(&cluster)));
        let reconciler = Reconciler::new(self.shared(), self.writer.clone(), launcher, Arc::clone(&self.disruptor));
        self.tasks.spawn(Arc::new(reconciler).run());
        self.gather();
    }

    /// Starts everything that the controller does.
    pub fn plans(&mut self, rules: Rules) {
        self.plans_by(rules, Arc::new(KerfPlanner));
    }

    /// Receives the notices of EC2 from this queue.
    pub fn listens(&mut self, queue: &str) {
        let listener = Listener {
            queue: queue.to_owned(),
            controller: ObjectReference::to(&Pod::default()),
            cluster: Arc::clone(&self.cluster),
            offerings: Arc::clone(&self.offerings),
            notices: Arc::clone(&self.notices),
            metrics: Arc::clone(&self.metrics),
        };
        self.tasks.spawn(Arc::new(listener).run());
    }

    /// Starts everything that the controller does, with another source of plans.
    pub fn plans_by(&mut self, rules: Rules, source: Arc<dyn PlanSource>) {
        let (cluster, offerings) = (Arc::clone(&self.cluster), Arc::clone(&self.offerings));
        let (metrics, notices) = (Arc::clone(&self.metrics), Arc::clone(&self.notices));
        let resizer =
            Resizer::new(self.client.clone(), Arc::clone(&cluster), self.writer.clone(), Arc::clone(&metrics));
        let provisioner =
            Provisioner::new(self.shared(), self.writer.clone(), Arc::clone(&self.disruptor), resizer, rules);
        self.tasks.spawn(provisioner.with_source(source).run(self.asked.take().unwrap()));
        for capacity_type in [CapacityType::OnDemand, CapacityType::Spot] {
            let (offerings, metrics) = (Arc::clone(&offerings), Arc::clone(&metrics));
            self.tasks.spawn(offerings.follow_prices(capacity_type, false, Arc::clone(&cluster), metrics));
        }
        self.tasks.spawn(run_for_ever(GarbageCollection::default(), self.task_context()));
        self.tasks.spawn(run_for_ever(DriftDetection, self.task_context()));
        self.tasks.spawn(status_checks::watch_for_ever(cluster, offerings, notices, metrics));
        self.works();
    }

    /// Returns what the periodic tasks of this run read and write.
    #[must_use]
    pub fn task_context(&self) -> TaskContext {
        TaskContext {
            cluster: Arc::clone(&self.cluster),
            offerings: Arc::clone(&self.offerings),
            writer: self.writer.clone(),
            metrics: Arc::clone(&self.metrics),
        }
    }

    /// Adds another task to this run.
    pub fn does(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Enqueues the work that follows a plan's new NodeClaims.
    pub fn gather(&self) {
        self.cluster.queue.add(WorkItem::Gather);
    }

    /// Returns the events so far, each with reason and message.
    pub fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }

    /// Kills the run at once: no request in progress gets a response.
    pub fn kill(mut self) {
        self.alive.store(false, Ordering::Release);
        self.leading.end();
        self.tasks.abort_all();
    }
}

/// Marks every kind as synced. The kinds that the server does not have are empty.
fn complete(index: &mut Index) -> Triggers {
    index.do_without::<NodeClaim>();
    index.do_without::<Pod>();
    index.do_without::<Node>();
    index.do_without::<NodePool>();
    index.do_without::<EC2NodeClass>();
    index.do_without::<DaemonSet>();
    index.do_without::<PodDisruptionBudget>();
    index.do_without::<VolumeAttachment>();
    index.do_without::<PersistentVolumeClaim>();
    index.do_without::<PersistentVolume>();
    index.do_without::<StorageClass>();
    index.do_without::<CSINode>();
    index.do_without::<Namespace>();
    index.do_without::<LimitRange>();
    index.do_without::<RuntimeClass>();
    index.do_without::<PriorityClass>();
    index.do_without::<NodeReport>();
    index.do_without::<NodeOverlay>();
    index.do_without::<CapacityBuffer>();
    index.do_without::<PodTemplate>();
    index.do_without::<Deployment>();
    index.do_without::<ReplicaSet>();
    index.do_without::<StatefulSet>();
    Triggers::default()
}

fn apply(cluster: &Cluster, event: &Event, live: bool) {
    match event.plural.as_str() {
        "nodeclaims" => take::<NodeClaim>(cluster, event, live),
        "nodes" => take::<Node>(cluster, event, live),
        "pods" => take::<Pod>(cluster, event, live),
        "nodepools" => take::<NodePool>(cluster, event, live),
        "ec2nodeclasses" => take::<EC2NodeClass>(cluster, event, live),
        "poddisruptionbudgets" => take::<PodDisruptionBudget>(cluster, event, live),
        "volumeattachments" => take::<VolumeAttachment>(cluster, event, live),
        "nodeusages" => take::<NodeReport>(cluster, event, live),
        other => panic!("no watch for {other}"),
    }
}

fn take<K: Indexed + DeserializeOwned + Clone + Sync>(cluster: &Cluster, event: &Event, live: bool) {
    let object = event.object.typed::<K>();
    let now = cluster.now();
    cluster.change(|index| match event.change {
        Change::Removed => index.delete::<K>(&controller::state::index::key_of(object.as_ref()), now),
        Change::Stored => index.apply(K::clone(&object), now, live),
        Change::Leaving { .. } => Triggers::default(),
    });
}
