//! One run of the controller: all of it except the connections to the API server and to EC2. A run can be killed between any
//! two steps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use api::objects::Pod;
use cloud::Cloud;
use cloud::fake::settings;
use controller::capacity::launch::Launcher;
use controller::capacity::offerings::Offerings;
use controller::gc::drift::DriftDetection;
use controller::gc::instances::GarbageCollection;
use controller::gc::periodic::{TaskContext, run_for_ever};
use controller::informer::interruption::queue::Listener;
use controller::informer::interruption::{Notices, status_checks};
use controller::lease::{self, Leading};
use controller::metrics;
use controller::provision::batcher::PlanTrigger;
use controller::provision::plan_source::{KerfPlanner, PlanSource};
use controller::provision::{Provisioner, Rules};
use controller::reconcile::Reconciler;
use controller::reconcile::disruption::Disruptor;
use controller::reconcile::resize::Resizer;
use controller::reconcile::work::WorkItem;
use controller::settings::Gates;
use controller::state::cluster::{Clock, Cluster};
use controller::state::index::Index;
use controller::state::nominations::SharedNominations;
use controller::state::panics;
use controller::state::plans::results::PlanResultStore;
use controller::state::shared::Shared;
use controller::write::events::{EventRecorder, ObjectReference};
use controller::write::writer::{Clients, Writer};
use daemon::metric::Metrics;
use planner::CapacityType;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{JoinError, JoinSet};

use crate::api_server::ApiServer;
use crate::watches::{Watches, apply, complete};

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
    /// Watches of the run.
    pub watches: Arc<Watches>,
    tasks: JoinSet<()>,
}

impl ControllerRun {
    /// Creates a run without leader election that lists all objects, and so far only updates its index.
    pub fn awake(place: Place<'_>) -> Self {
        Self::standby(place, Leading::without_election())
    }

    /// Creates a run that lists all objects, updates its index, and writes only while it leads.
    pub fn standby(place: Place<'_>, leading: Leading) -> Self {
        let Place { cloud, server, client, clock, alive, gates } = place;
        let cloud = lease::led(cloud, leading.clone());
        let (notes, mut outgoing) = EventRecorder::new();
        let (plan, asked) = unbounded_channel();
        let cluster = Cluster::with_clock(plan, notes, clock);
        let (there, mut changes) = server.watch();
        there.iter().for_each(|event| apply(&cluster, event, false));
        cluster.change(complete);
        assert!(cluster.read(Index::is_synced));
        let settings = cloud::Settings { reserved_capacity: gates.reserved_capacity, ..settings() };
        let offerings = Arc::new(Offerings::new(Arc::clone(&cloud), settings, gates));
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
        let watches = Arc::new(Watches::new(watched));
        let taker = Arc::clone(&watches);
        tasks.spawn(async move {
            while let Some(event) = changes.recv().await {
                taker.take(event);
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
            watches,
            tasks,
        }
    }

    /// Lets events and bookmarks confirm the view of their kinds. With `false_bookmarks`, stopped watches confirm too.
    pub fn confirms_watches(&mut self, false_bookmarks: bool) {
        self.tasks.spawn(Arc::clone(&self.watches).confirm_for_ever(false_bookmarks));
    }

    /// Checks that no task of the controller has ended by a panic, as `run` of the program does.
    pub fn check_tasks(&mut self) {
        let panics = self.take_panics();
        assert!(panics.is_empty(), "a task of the controller ended: {}", panics.join(", "));
    }

    /// Waits until a task ends by a panic, as `run` of the program does, and returns its message.
    pub async fn panicked(&mut self) -> String {
        panics::of_any(&mut self.tasks).await.0
    }

    /// Returns the messages of the panics that have ended tasks since the last call.
    pub fn take_panics(&mut self) -> Vec<String> {
        let ended = std::iter::from_fn(|| self.tasks.try_join_next());
        let panics = ended.filter_map(|ended| ended.err().filter(JoinError::is_panic));
        panics.map(|error| panics::message(error.into_panic().as_ref())).collect()
    }

    /// Returns the leadership of the run.
    #[must_use]
    pub fn leading(&self) -> Leading {
        self.leading.clone()
    }

    /// Returns the metrics as Prometheus reads them.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.metrics.render()
    }

    /// Returns a reader of the metrics that does not end with the run.
    pub fn metrics_reader(&self) -> impl Fn() -> String + use<> {
        let metrics = Arc::clone(&self.metrics);
        move || metrics.render()
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
