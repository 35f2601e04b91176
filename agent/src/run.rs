//! `kerf-agent run`: supervision of the node during the whole life of the instance. The main loop passes facts to the lifecycle
//! and carries out its actions. The loop never gives up: without metadata, kubeconfig, API server or Node it waits, and logs
//! the reason once.

mod actor;
mod eviction;
pub mod journal;
pub mod lifecycle;
mod local;
pub mod metrics;
mod ordered_writer;
pub mod report;
mod startup_obstacle;
pub mod status;
mod systemd;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use daemon::backoff::RetryDelays;
use jiff::Timestamp;
use log::Level;
use machine::agent::mode::Listen;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::{sleep, timeout};

use crate::aws::identity::Role;
use crate::aws::imds::{Imds, ImdsError};
use crate::bootstrap::BootstrapState;
use crate::bootstrap::policies::{self, Policies};
use crate::bootstrap::{node_name, observe};
use crate::cluster::{Access, Cluster, ConnectionState, Node, Pod, WatchEvent, Watched, follow};
use crate::gates::{ProbeResult, Probers};
use crate::health::{self, CheckRun, HealthSample, Sampler};
use crate::host::Host;
use crate::host::clock::{Clock, WallOffset};
use crate::host::files::FileReplacement;
use crate::notices::logind::{self, Delay};
use crate::notices::{self, WatchUpdate};
use crate::usage::Usage;

use actor::Actor;
use eviction::pods_on_node;
use journal::{Journal, boot_id};
use lifecycle::{AgentAction, Input, Lifecycle};
use local::Local;
use systemd::Systemd;

/// Interval of checks of local files, until bootstrap is done and the Node is known.
const TICK: Duration = Duration::from_secs(1);
/// Interval of these checks afterwards, and longest interval of notifications to systemd's watchdog.
const SETTLED_TICK: Duration = Duration::from_secs(5);
/// Timeout of each call to the API server. The controller relies on it for requests of a drain.
const CALL: Duration = drain::ARRIVES;
/// Time for writes in progress to complete at the end.
const FINISH: Duration = Duration::from_secs(5);
/// Search path of systemctl, the same on every image.
const PROGRAMS: &str = "/usr/bin:/bin";
/// Maximum wait between requests to metadata at the start.
const METADATA_WAIT: Duration = Duration::from_secs(10);

/// Runs until SIGTERM or SIGINT. `root` is the prefix of every path that is read or written. `role` is the identity of this
/// instance towards AWS. `metrics`, if given, takes precedence over the settings.
///
/// # Errors
/// Returns an error only if the signal handlers cannot be installed. For everything else the agent waits.
pub async fn run(root: &Path, imds: Arc<Imds>, role: Role, metrics: Option<Listen>) -> anyhow::Result<()> {
    let mut stop = std::pin::pin!(daemon::signal::stopped());
    tokio::select! {
        stopped = &mut stop => log::info!(signal = stopped?; "stopped during the start"),
        agent = Agent::start(root, imds, role, metrics) => {
            let signal = agent.work(stop).await?;
            log::info!(signal = signal; "stopped, continuing from the journal at the next start");
        }
    }
    Ok(())
}

/// Running agent.
struct Agent {
    root: PathBuf,
    life: Lifecycle,
    /// File with the state of bootstrap.
    bootstrap: FileReplacement,
    /// Host name of the instance from metadata, used until bootstrap has written a name.
    hostname: String,
    /// Identity of this instance towards AWS, which signs tokens.
    role: Arc<Role>,
    access: Option<Access>,
    actor: Actor,
    nodes: Receiver<WatchEvent<Node>>,
    pods: Receiver<WatchEvent<Pod>>,
    notices: Receiver<WatchUpdate>,
    /// Delay lock of logind, which makes a shutdown wait for the drain.
    delay: Delay,
    probers: Probers,
    findings: Receiver<ProbeResult>,
    samples: Receiver<HealthSample>,
    clock: Clock,
    systemd: Systemd,
    local: Local,
    usage: Usage,
    /// Last problem that was logged.
    logged: Option<String>,
}

impl Agent {
    /// Reads the identity of the instance from metadata, and continues from its journal.
    async fn start(root: &Path, imds: Arc<Imds>, role: Role, metrics: Option<Listen>) -> Self {
        let InstanceProperties { instance, hostname, policies } = instance_properties(root, &imds).await;
        if let Some(problem) = &policies.problem {
            log::error!(error:% = problem; "invalid agent settings");
        }
        let mut journal = Journal::read(root, &instance).unwrap_or_else(|error| {
            log::error!("{}", daemon::error::chain(&error));
            Journal::new(&instance, boot_id(root))
        });
        let clock = Clock::anchored(journal.anchor);
        journal.anchor = Some(clock.anchor());
        let name = observe::node_name(root).unwrap_or_else(|| hostname.clone());
        log::info!(instance_id = instance.as_str(), node = name.as_str(); "started");
        let (sender, notices) = mpsc::channel(4);
        let delay = Delay::default();
        tokio::spawn(logind::watch(root.to_owned(), delay.clone(), sender.clone()));
        tokio::spawn(notices::watch(Arc::clone(&imds), sender, api::hash::fnv1a(instance.bytes())));
        let mut life = Lifecycle::new(&name, journal, clock.now());
        life.configure(&policies.settings);
        life.guard(&policies.settings.gates, clock.now());
        let (sender, findings) = mpsc::channel(8);
        let probers = Probers::start(life.gates(), root.to_owned(), &sender);
        let samples = start_sampler(root, &policies);
        Self {
            root: root.to_owned(),
            life,
            bootstrap: FileReplacement::new(BootstrapState::file(root)),
            hostname,
            role: Arc::new(role),
            access: None,
            actor: Actor::new(root, Arc::clone(&imds)),
            nodes: mpsc::channel(1).1,
            pods: mpsc::channel(1).1,
            notices,
            delay,
            probers,
            findings,
            samples,
            clock,
            systemd: Systemd::ready(),
            local: Local::open(root, metrics.unwrap_or(policies.settings.metrics)).await,
            usage: Usage::start(root, &instance, &policies.settings.usage),
            logged: None,
        }
    }

    /// Runs the main loop. Returns the signal that ended it.
    async fn work<E>(
        mut self,
        mut stop: impl Future<Output = Result<&'static str, E>> + Unpin,
    ) -> Result<&'static str, E> {
        loop {
            self.read_local_facts();
            self.connect();
            for action in self.life.step(self.clock.now()) {
                self.perform(action);
            }
            self.usage.report_to(self.destination());
            self.report();
            tokio::select! {
                signal = &mut stop => {
                    self.finish().await;
                    self.usage.finish().await;
                    return signal;
                }
                () = self.next_input() => {}
            }
        }
    }

    /// Waits for the next input and passes it to the lifecycle.
    async fn next_input(&mut self) {
        let (now, tick) = (self.clock.now(), self.tick());
        let wait = self.life.poll_timeout(now).map_or(tick, |at| at.since(now).min(tick));
        let wait = wait.max(Duration::from_millis(1));
        tokio::select! {
            Some(event) = self.nodes.recv() => self.node_event(event),
            Some(event) = self.pods.recv() => self.pods_event(event),
            Some(update) = self.notices.recv() => self.metadata_update(update),
            stream = self.local.accept() => {
                self.local.respond(stream, &self.life, self.phase(), self.clock.now());
            }
            Some(finding) = self.findings.recv() => self.take(Input::Gate(finding)),
            Some(sample) = self.samples.recv() => self.take(Input::Health(sample)),
            Some(input) = self.actor.ended() => self.take(input),
            () = sleep(wait) => {}
        }
    }

    fn tick(&self) -> Duration {
        let settled = self.local.is_bootstrapped() && self.life.node().is_some();
        if settled { SETTLED_TICK } else { TICK }
    }

    fn take(&mut self, input: Input) {
        self.life.take(input, self.clock.now());
    }

    /// Reports the state to systemd and to clients on this instance.
    fn report(&mut self) {
        self.systemd.alive(&self.phase());
        if let Some(line) = self.local.observe(&self.life, Timestamp::now()) {
            self.take(Input::Timeline(line));
        }
    }

    /// Returns the current phase. While there is no Node, it includes the reason.
    fn phase(&self) -> String {
        let trouble = self.logged.as_deref().filter(|_| self.life.node().is_none());
        let summary = self.life.summary();
        let health = self.life.health(self.clock.now()).map(|health| format!("; {health}")).unwrap_or_default();
        trouble.map_or_else(|| format!("{summary}{health}"), |trouble| format!("{summary}: {trouble}"))
    }

    /// Reads local facts: files that other programs write, and the wall clock, which may be set.
    fn read_local_facts(&mut self) {
        let ahead = self.clock.update();
        self.take(Input::Wall(WallOffset(ahead)));
        if !self.bootstrap.is_new() {
            return;
        }
        let state = BootstrapState::read(&self.root);
        // Before bootstrap is done, kubeconfig and name may belong to an earlier boot, or be missing.
        if matches!(state, Some(BootstrapState::Done { .. })) {
            self.renew();
            self.local.bootstrapped();
        }
        self.take(Input::Bootstrap(state));
    }

    /// Reads the kubeconfig until there is one, and again after a problem, because bootstrap may have replaced it.
    fn connect(&mut self) {
        if self.actor.has_cluster() {
            return;
        }
        let path = observe::kubeconfig(&self.root);
        match Access::read(&self.root, &path) {
            Ok(access) => self.use_access(access),
            Err(_) if !path.exists() => {
                self.log_once(Level::Info, &format!("waiting for bootstrap to write {}", path.display()));
            }
            Err(error) => self.log_once(Level::Warn, &daemon::error::chain(&error)),
        }
    }

    fn use_access(&mut self, access: Access) {
        let name = observe::node_name(&self.root).unwrap_or_else(|| self.hostname.clone());
        self.life.rename(&name);
        let cluster = Arc::new(Cluster::new(access.clone(), CALL).with_role(Arc::clone(&self.role)));
        self.access = Some(access);
        self.probers.use_link(ConnectionState { cluster: Arc::clone(&cluster), node: name.clone() });
        let (sender, nodes) = mpsc::channel(8);
        self.nodes = nodes;
        tokio::spawn(follow(Arc::clone(&cluster), Watched::node(&name), sender));
        self.local.use_cluster(&cluster, &name);
        let follows = self.actor.use_cluster(cluster);
        if follows {
            self.follow_pods();
        }
    }

    fn follow_pods(&mut self) {
        let Some(cluster) = self.actor.cluster() else {
            return;
        };
        let (sender, pods) = mpsc::channel(8);
        self.pods = pods;
        tokio::spawn(follow(cluster, Watched::pods_of(self.life.name()), sender));
    }

    /// Returns the destination of utilization reports: none until the Node is known to belong to this instance.
    fn destination(&self) -> Option<ConnectionState> {
        self.life.node()?;
        Some(ConnectionState { cluster: self.actor.cluster()?, node: self.life.name().to_owned() })
    }

    fn node_event(&mut self, event: WatchEvent<Node>) {
        match event {
            WatchEvent::All(nodes) => {
                self.logged = None;
                self.local.api_answers(true);
                self.reached(None);
                self.take(Input::Node(nodes.into_iter().next()));
            }
            WatchEvent::Trouble(error) => self.trouble(&daemon::error::chain(&error)),
        }
    }

    fn metadata_update(&mut self, update: WatchUpdate) {
        let input = match update {
            WatchUpdate::Reading(reading) => Input::Reading(reading),
            WatchUpdate::Reach(reach) => Input::Reach(reach),
        };
        self.take(input);
    }

    fn pods_event(&mut self, event: WatchEvent<Pod>) {
        match event {
            WatchEvent::All(pods) => {
                let at = self.clock.now();
                self.life.take(Input::Pods(pods_on_node(&pods, self.life.wall())), at);
            }
            WatchEvent::Trouble(error) => self.trouble(&daemon::error::chain(&error)),
        }
    }

    /// Handles a failure of the API server. Bootstrap may have written another kubeconfig or name.
    fn trouble(&mut self, problem: &str) {
        self.log_once(Level::Warn, problem);
        self.local.api_answers(false);
        self.reached(Some(problem));
        self.renew();
    }

    /// Reports to the health checks whether the API server answers.
    fn reached(&mut self, trouble: Option<&str>) {
        self.take(Input::Check(CheckRun { check: health::check::NO_API, trouble: trouble.map(str::to_owned) }));
    }

    /// Reconnects if bootstrap has written another kubeconfig or name since.
    fn renew(&mut self) {
        if !self.actor.has_cluster() {
            return;
        }
        let Ok(access) = Access::read(&self.root, &observe::kubeconfig(&self.root)) else {
            return;
        };
        let renamed = observe::node_name(&self.root).is_some_and(|name| name != self.life.name());
        if renamed || self.access.as_ref() != Some(&access) {
            log::info!("kubeconfig changed, reconnecting");
            self.use_access(access);
        }
    }

    fn perform(&mut self, action: AgentAction) {
        match action {
            AgentAction::Save => self.actor.save(self.life.journal()),
            AgentAction::Yield => self.delay.release(),
            AgentAction::Complete(hook) => self.actor.complete(hook),
            AgentAction::FollowPods => {
                self.actor.want_pods();
                self.follow_pods();
            }
            action => self.actor.start(action, &self.life, &self.clock),
        }
    }

    /// Waits for tasks in progress, and handles their results.
    async fn finish(&mut self) {
        self.systemd.stopping();
        let ending = async {
            while let Some(input) = self.actor.ended().await {
                self.take(input);
            }
        };
        if timeout(FINISH, ending).await.is_err() {
            log::warn!("some requests did not complete, the next start checks their result");
        }
        self.actor.save(self.life.journal());
    }

    /// Logs a problem once, until it changes.
    fn log_once(&mut self, level: Level, problem: &str) {
        if self.logged.as_deref() != Some(problem) {
            log::log!(level, node = self.life.name(); "{problem}");
            self.logged = Some(problem.to_owned());
        }
    }
}

/// Starts the health checks of the node, if they are enabled.
fn start_sampler(root: &Path, policies: &Policies) -> Receiver<HealthSample> {
    let (sender, samples) = mpsc::channel(2);
    let settings = policies.settings.health.clone();
    if settings.enabled {
        let host = Host::new(root, PROGRAMS);
        tokio::spawn(health::watch(Sampler::new(host, settings), sender));
    }
    samples
}

/// Properties of this instance from metadata.
struct InstanceProperties {
    instance: String,
    hostname: String,
    policies: Policies,
}

/// Returns the properties of this instance from metadata. Retries until metadata answers.
async fn instance_properties(root: &Path, imds: &Imds) -> InstanceProperties {
    let mut delays = RetryDelays::new(Duration::from_millis(250), METADATA_WAIT);
    let mut logged = None;
    loop {
        match read_properties(root, imds).await {
            Ok(answer) => return answer,
            Err(error) => {
                let problem = Some(daemon::error::chain(&error));
                if problem != logged {
                    log::warn!(reason = problem.as_deref().unwrap_or_default(); "waiting for instance metadata");
                    logged = problem;
                }
            }
        }
        sleep(delays.next_delay()).await;
    }
}

async fn read_properties(root: &Path, imds: &Imds) -> Result<InstanceProperties, ImdsError> {
    let identity = imds.identity().await?;
    let names = imds.local_hostnames().await?;
    let first = || names.first().map_or("", String::as_str);
    let hostname = node_name::regional(&names, &identity.region).unwrap_or_else(first).to_owned();
    let policies = policies::read(root, imds).await?;
    Ok(InstanceProperties { instance: identity.instance_id, hostname, policies })
}
