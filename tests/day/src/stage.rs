//! Shipped controller in the simulated cluster of `lives`, with its faults: crashes between any two writes, and outages of the
//! API server.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::objects::Pod;
use cloud::CloudError;
use cloud::fake::{FakeCloud, FakeInstance};
use cloud::guard::Guard;
use http::{Request, Response, StatusCode};
use kube::client::Body;
use serde_json::Value;
use simulator::api_server::{ApiServer, Event, PODS, refused};
use simulator::clock::of_tokio;
use simulator::cluster::ModelCluster;
use simulator::controller_run::ControllerRun;
use simulator::crash::Crash;
use simulator::middleware::Middleware;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::{Moment, span};
use crate::market::QUEUE;
use crate::source::Witness;

/// Cluster with at most one run of the controller.
pub struct Stage {
    /// The cluster.
    pub cluster: ModelCluster,
    /// Changes of objects, in order.
    pub events: UnboundedReceiver<Event>,
    /// Terminations by Kerf of nodes with pods: Node and number of pods.
    pub early: Arc<Mutex<Vec<(String, usize)>>>,
    run: Option<(ControllerRun, Arc<Weather>)>,
    objects: watch::Receiver<u64>,
    machines: watch::Receiver<u64>,
    /// End of an API server outage.
    stalled_until: Arc<AtomicI64>,
    /// Instances whose end is known.
    ended: Arc<Mutex<BTreeSet<String>>>,
}

impl Stage {
    /// Creates a cluster without a controller, in a runtime with a paused clock. Its models react after `grain` milliseconds.
    #[must_use]
    pub fn new(ec2: FakeCloud, pools: Vec<Value>, grain: Moment) -> Self {
        let (objects, machines) = (watch::channel(0).1, ec2.changes());
        let cluster = ModelCluster::on(ec2, pools, Default::default(), span(grain));
        let (_, events) = cluster.server.watch();
        let mut stage = Self {
            cluster,
            events,
            early: Arc::default(),
            run: None,
            objects,
            machines,
            stalled_until: Arc::default(),
            ended: Arc::default(),
        };
        stage.objects = stage.cluster.server.changes();
        stage
    }

    /// Starts the controller.
    pub fn start(&mut self, source: &Arc<Witness>) {
        let weather = Arc::new(Weather {
            crash: Crash::never(),
            stalled_until: Arc::clone(&self.stalled_until),
            server: Arc::clone(&self.cluster.server),
            ec2: self.cluster.ec2.clone(),
            ended: Arc::clone(&self.ended),
            early: Arc::clone(&self.early),
        });
        let mut controller_run = self.cluster.awake(weather.crash.alive(), Arc::clone(&weather), Arc::clone(&weather));
        controller_run.listens(QUEUE);
        controller_run.plans_by(self.cluster.rules(), Arc::clone(source) as _);
        self.run = Some((controller_run, weather));
    }

    /// Kills the controller at once.
    pub fn kill(&mut self) {
        if let Some((controller_run, _)) = self.run.take() {
            controller_run.kill();
        }
    }

    /// Checks that no task of the controller has panicked.
    pub fn check_tasks(&mut self) {
        if let Some((controller_run, _)) = &mut self.run {
            controller_run.check_tasks();
        }
    }

    /// Schedules a crash at a later write.
    pub fn crash_after(&self, writes: usize) {
        if let Some((_, weather)) = &self.run {
            weather.crash.after(writes);
        }
    }

    /// Reports whether a scheduled crash has happened, and the controller is not restarted yet.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        self.run.as_ref().is_some_and(|(_, weather)| !weather.crash.alive().load(Ordering::Acquire))
    }

    /// Makes the API server unavailable for clients.
    pub fn stall(&self, until: Moment) {
        self.stalled_until.fetch_max(until, Ordering::AcqRel);
    }

    /// Notes that EC2 ends an instance, or has ended it.
    pub fn expect_end(&self, id: &str) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
    }

    /// Waits for a change of the cluster, at most for `most` milliseconds.
    pub async fn change(&mut self, most: Moment) {
        let crash = self.run.as_ref().map(|(_, weather)| Arc::clone(weather));
        let crash = async {
            match crash.filter(|it| it.crash.alive().load(Ordering::Acquire)) {
                Some(weather) => weather.crash.comes().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = self.objects.changed() => {}
            // `changed_machines` must still see the change.
            _ = self.machines.changed() => self.machines.mark_changed(),
            () = crash => {}
            () = tokio::time::sleep_until(Instant::now() + span(most)) => {}
        }
    }

    /// Waits until the next whole multiple of `grain` milliseconds, but not longer than `most`.
    pub async fn settle(&mut self, grain: Moment, most: Moment) {
        let now = of_tokio().as_millisecond();
        let rest = (grain - now.rem_euclid(grain)).min(most.max(0));
        tokio::time::sleep(span(rest)).await;
        self.objects.mark_unchanged();
    }

    /// Returns the instances if EC2 has changed any since the last call.
    pub fn changed_machines(&mut self) -> Option<Vec<FakeInstance>> {
        self.cluster.ec2.tick();
        let changed = self.machines.has_changed().unwrap_or(true);
        self.machines.mark_unchanged();
        changed.then(|| self.cluster.ec2.machines())
    }
}

/// Connections of one run to the API server and to EC2.
struct Weather {
    crash: Crash,
    stalled_until: Arc<AtomicI64>,
    server: Arc<ApiServer>,
    ec2: FakeCloud,
    ended: Arc<Mutex<BTreeSet<String>>>,
    early: Arc<Mutex<Vec<(String, usize)>>>,
}

impl Weather {
    /// Notes the pods that remain on nodes whose instances this run has just terminated.
    fn check_terminations(&self) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<String> = self
            .ec2
            .machines()
            .into_iter()
            .filter(|it| it.ended.is_some() && it.interruption.is_none() && ended.insert(it.instance.id.clone()))
            .map(|it| it.instance.private_dns_name)
            .collect();
        if new.is_empty() {
            return;
        }
        let pods = self.server.shared::<Pod>(PODS);
        let left =
            |node: &String| pods.iter().filter(|pod| pod.spec.node_name == *node && !pod.is_terminating()).count();
        let early = new.into_iter().map(|node| (left(&node), node)).filter(|(left, _)| *left > 0);
        self.early.lock().unwrap_or_else(PoisonError::into_inner).extend(early.map(|(left, node)| (node, left)));
    }
}

impl Middleware for Weather {
    async fn pass(&self, server: Arc<ApiServer>, request: Request<Body>) -> Response<Body> {
        if self.stalled_until.load(Ordering::Acquire) > of_tokio().as_millisecond() {
            return refused(StatusCode::SERVICE_UNAVAILABLE);
        }
        self.crash.pass(server, request).await
    }
}

impl Guard for Weather {
    fn before<'a>(&'a self, call: &'static str) -> Pin<Box<dyn Future<Output = Result<(), CloudError>> + Send + 'a>> {
        self.crash.before(call)
    }

    fn after(&self, call: &'static str, took: Duration, error: Option<&CloudError>) -> Option<CloudError> {
        if call == "TerminateInstances" {
            self.check_terminations();
        }
        Guard::after(&self.crash, call, took, error)
    }
}
