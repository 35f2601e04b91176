//! Shipped controller in the simulated cluster of `lives`, with one or two replicas and their faults: crashes between any two
//! writes, panics, pauses, lost connections, stopped watches, and outages of the API server.

mod acts;
pub mod panics;
mod process;
mod weather;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::objects::Pod;
use cloud::fake::{FakeCloud, FakeInstance};
use controller::lease::{Candidate, Leading};
use controller::settings::{Gates, LeaseName};
use daemon::changes::Changes;
use simulator::api_server::{ApiServer, Event, PODS};
use simulator::clock::{of_replica, of_tokio};
use simulator::cluster::ModelCluster;
use simulator::controller_run::ControllerRun;
use simulator::middleware::client;
use simulator::watches::WATCHED;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::clock::{Moment, SECOND, span};
use crate::idle::Idle;
use crate::setup::{Replicas, Setup};
use crate::source::Witness;
use acts::Acts;
use panics::{INJECTED, Target};
pub use process::End;
use process::{Process, Report, Start};
use weather::{LeaseConnection, Planner, Weather};

/// Cluster with the replicas of the controller.
pub struct Stage {
    /// The cluster.
    pub cluster: ModelCluster,
    /// Changes of objects, in order.
    pub events: UnboundedReceiver<Event>,
    /// Panics by the task that counted them, and by `process` and `lease` for those that ended one.
    pub panics: BTreeMap<String, usize>,
    replicas: Vec<Option<Process>>,
    kind: Replicas,
    /// True if stopped watches confirm their view, which must be found.
    false_bookmarks: bool,
    /// Number of processes so far.
    started: usize,
    report: UnboundedSender<(usize, Report)>,
    reports: UnboundedReceiver<(usize, Report)>,
    received: Vec<(usize, Report)>,
    objects: Changes,
    machines: Changes,
    shared: Arc<Shared>,
}

/// State that all processes of the controller share.
pub(crate) struct Shared {
    server: Arc<ApiServer>,
    ec2: FakeCloud,
    /// End of an API server outage.
    stalled_until: AtomicI64,
    /// Instances whose end is known.
    ended: Mutex<BTreeSet<String>>,
    /// Terminations by Kerf of nodes with pods: Node and number of pods.
    early: Mutex<Vec<(String, usize)>>,
    acts: Mutex<Acts>,
    idle: Arc<Idle>,
}

/// Change of the processes since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shift {
    /// Another process leads.
    Takeover,
    /// The process of a replica has ended.
    Ended(usize, End),
}

impl Stage {
    /// Creates a cluster without a controller, in a runtime with a paused clock that reports to `idle`.
    #[must_use]
    pub fn new(ec2: FakeCloud, setup: &Setup, idle: Arc<Idle>) -> Self {
        let (machines, kind) = (ec2.changes(), setup.replicas);
        let gates = Gates { spot_to_spot: setup.spot_to_spot, ..Gates::default() };
        let mut cluster = ModelCluster::on(ec2, setup.pools(), gates, span(setup.grain.max(1)));
        cluster.cost_limit = setup.cost_limit;
        let (_, events) = cluster.server.watch();
        let (report, reports) = unbounded_channel();
        let shared = Arc::new(Shared {
            server: Arc::clone(&cluster.server),
            ec2: cluster.ec2.clone(),
            stalled_until: AtomicI64::new(0),
            ended: Mutex::default(),
            early: Mutex::default(),
            acts: Mutex::default(),
            idle,
        });
        Self {
            objects: cluster.server.changes(),
            cluster,
            events,
            panics: BTreeMap::new(),
            replicas: (0..kind.count()).map(|_| None).collect(),
            kind,
            false_bookmarks: false,
            started: 0,
            report,
            reports,
            received: Vec::new(),
            machines,
            shared,
        }
    }

    /// Lets stopped watches of later processes confirm their view, which no API server does.
    pub fn confirm_stopped_watches(&mut self) {
        self.false_bookmarks = true;
    }

    /// Starts all replicas.
    pub fn start_all(&mut self, source: &Arc<Witness>) {
        (0..self.replicas.len()).for_each(|replica| self.start(replica, source));
    }

    /// Starts a process of a replica.
    pub fn start(&mut self, replica: usize, source: &Arc<Witness>) {
        self.started += 1;
        let number = self.started;
        let elects = self.kind == Replicas::Elected;
        let leading = if elects { Leading::not_yet() } else { Leading::without_election() };
        let weather = Arc::new(Weather::new(number, leading.clone(), Arc::clone(&self.shared)));
        let (guard, middleware) = (Arc::clone(&weather), Arc::clone(&weather));
        let place = self.cluster.place(weather.crash.alive(), guard, middleware, of_replica(replica));
        let mut controller_run = ControllerRun::standby(place, leading);
        controller_run.confirms_watches(self.false_bookmarks);
        let start = Start {
            number,
            weather: Arc::clone(&weather),
            candidate: elects.then(|| self.candidate(replica, &weather)),
            rules: self.cluster.rules(),
            planner: Arc::new(Planner { witness: Arc::clone(source), weather: Arc::clone(&weather) }),
            reports: self.report.clone(),
        };
        let (watches, metrics) = (Arc::clone(&controller_run.watches), Box::new(controller_run.metrics_reader()));
        tokio::spawn(process::run(controller_run, start));
        self.replicas[replica] = Some(Process { number, weather, watches, metrics });
    }

    fn candidate(&self, replica: usize, weather: &Arc<Weather>) -> Candidate {
        let connection = Arc::new(LeaseConnection(Arc::clone(weather)));
        let server = Arc::clone(&self.cluster.server);
        let connect = move || Ok(client(&server, Arc::clone(&connection)));
        let name = LeaseName { namespace: "kube-system".to_owned(), name: "karpenter-leader-election".to_owned() };
        let identity = format!("replica-{replica}_{}", self.started);
        Candidate::new(Box::new(connect), name, identity).with_clock(of_replica(replica))
    }

    /// Kills all processes immediately. Their ends are not reported.
    pub fn kill_all(&mut self) {
        for process in self.replicas.iter_mut().filter_map(Option::take) {
            self.shared.acts().end(process.number);
            process.weather.crash.strike();
        }
    }

    /// Takes the changes of the processes. Returns a sentence for each panic that was not injected, and for each injected one
    /// that was not reported in time.
    pub fn shifts(&mut self) -> (Vec<Shift>, Vec<String>) {
        let (mut shifts, mut problems) = (Vec::new(), std::mem::take(&mut self.shared.acts().problems));
        while let Ok(report) = self.reports.try_recv() {
            self.received.push(report);
        }
        for (number, report) in std::mem::take(&mut self.received) {
            let own = |process: &Option<Process>| process.as_ref().is_some_and(|it| it.number == number);
            let Some(replica) = self.replicas.iter().position(own) else { continue };
            match report {
                Report::Leads => shifts.push(Shift::Takeover),
                Report::Ended { end, ended_tasks, ended_lease, caught, since_panic } => {
                    let Some(process) = self.replicas[replica].take() else { continue };
                    shifts.push(Shift::Ended(replica, end));
                    let ended = ended_tasks.iter().chain(&ended_lease);
                    let real = ended.filter(|message| !message.contains(INJECTED));
                    problems.extend(real.map(|message| format!("a task of the controller ended: {message}")));
                    let late = since_panic.filter(|since| end == End::Panicked && *since > SECOND);
                    problems.extend(late.map(|since| format!("the process ended {since} ms after a panic")));
                    let known = ended_tasks.len() + usize::from(ended_lease.is_some());
                    problems.extend(wrong_count(&process, known, &caught, Some(end)));
                    *self.panics.entry("process".to_owned()).or_default() += ended_tasks.len();
                    *self.panics.entry("lease".to_owned()).or_default() += usize::from(ended_lease.is_some());
                    caught.into_iter().for_each(|(task, count)| *self.panics.entry(task).or_default() += count);
                }
            }
        }
        (shifts, problems)
    }

    /// Returns a sentence for each process that has caught a panic that was not injected.
    #[must_use]
    pub fn check_panics(&self) -> Vec<String> {
        let processes = self.replicas.iter().flatten();
        processes.filter_map(|it| wrong_count(it, 0, &process::caught(&(it.metrics)()), None)).collect()
    }

    /// Schedules a crash of the leader at a later write.
    pub fn crash_after(&self, writes: usize) {
        if let Some(process) = self.leader() {
            process.weather.crash.after(writes);
        }
    }

    /// Schedules a panic in the leader. `is_bug` makes it look like a real one.
    pub fn panic_at(&self, target: Target, is_bug: bool) {
        if let Some(process) = self.leader() {
            process.weather.panics.arm(target, is_bug);
        }
    }

    /// Pauses the leader's process with its connections. Returns its number.
    pub fn pause(&self, until: Moment) -> Option<usize> {
        let process = self.leader()?;
        process.weather.pause(until);
        WATCHED.iter().for_each(|plural| process.watches.stop(plural));
        Some(process.number)
    }

    /// Cuts the leader off from the API server. Returns the number of its process.
    pub fn cut_off(&self, until: Moment) -> Option<usize> {
        let process = self.leader()?;
        process.weather.cut_off(until);
        WATCHED.iter().for_each(|plural| process.watches.stop(plural));
        Some(process.number)
    }

    /// Stops the watch of a kind in all processes, and returns their numbers.
    pub fn stop_watch(&self, plural: &str) -> Vec<usize> {
        let processes = self.replicas.iter().flatten();
        processes.map(|process| (process.watches.stop(plural), process.number).1).collect()
    }

    /// Continues the watch of a kind in a process, or begins it again with a list.
    pub fn resume_watch(&self, number: usize, plural: &str, lists: bool) {
        for process in self.replicas.iter().flatten().filter(|process| process.number == number) {
            if lists { process.watches.relist(plural, &self.cluster.server) } else { process.watches.resume(plural) }
        }
    }

    /// Returns the moment since which a watch of the leader delivers nothing.
    #[must_use]
    pub fn blind_since(&self) -> Option<Moment> {
        let stopped = self.leader()?.watches.stopped();
        stopped.into_iter().map(|(_, since)| since.as_millisecond()).min()
    }

    /// Returns the process that leads.
    fn leader(&self) -> Option<&Process> {
        self.replicas.iter().flatten().find(|process| process.weather.leading.is_held())
    }

    /// Makes the API server unavailable for clients.
    pub fn stall(&self, until: Moment) {
        self.shared.stalled_until.fetch_max(until, Ordering::AcqRel);
    }

    /// Notes that EC2 ends an instance, or has ended it.
    pub fn expect_end(&self, id: &str) {
        self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
    }

    /// Takes the terminations by Kerf of nodes with pods: Node and number of pods.
    pub fn take_early(&self) -> Vec<(String, usize)> {
        std::mem::take(&mut *self.shared.early.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for a change of the cluster, at most for `most` milliseconds.
    pub async fn change(&mut self, most: Moment) {
        tokio::select! {
            biased;
            () = self.objects.changed() => {}
            // `changed_machines` must still see the change.
            () = self.machines.changed() => self.machines.mark_changed(),
            report = self.reports.recv() => self.received.extend(report),
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
        let changed = self.machines.has_changed();
        self.machines.mark_unchanged();
        changed.then(|| self.cluster.ec2.machines())
    }
}

/// Returns a sentence if the reported panics of a process are not those that were injected. A process that runs may still report
/// some. A plan is made on a thread of its own, so a process that ends for another reason may end before it sees a panic there.
fn wrong_count(process: &Process, ended: usize, caught: &BTreeMap<String, usize>, end: Option<End>) -> Option<String> {
    let (fired, reported) = (process.weather.panics.fired(), ended + caught.values().sum::<usize>());
    let unseen = usize::from(end != Some(End::Panicked) && fired.last() == Some(&Target::Plan));
    let holds = reported <= fired.len() && (end.is_none() || reported + unseen >= fired.len());
    let number = process.number;
    (!holds).then(|| {
        format!("process {number}: panics in {fired:?}, and {reported} reported: {ended} ended tasks, {caught:?}")
    })
}

impl Shared {
    fn acts(&self) -> MutexGuard<'_, Acts> {
        self.acts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the pods that remain on nodes whose instances the controller has just terminated.
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
