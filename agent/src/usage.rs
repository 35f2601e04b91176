//! Real resource usage of the machine and its pods, from cgroups and `/proc`. Usage is sampled every ten seconds, kept in
//! bounded space and reported in a NodeUsage. The task is independent of the lifecycle: usage is for planning, and no
//! protection of the node waits for it.

mod cgroups;
pub mod checkpoint;
mod files;
mod history;
mod parse;
mod report;
mod sampler;
mod timing;
mod windows;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use api::nodeusage::{NodeUsageSpec, Pressure};
use jiff::Timestamp;
use machine::agent::usage::UsageSettings;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::cluster::ConnectionState;
use crate::host::Host;
use crate::host::files::replace;
use report::ReportSummary;
use timing::SampleTiming;

pub use history::History;
pub use report::report;
pub use sampler::{NodeSample, PodSample, Sampler, UsageSample};
pub use windows::Part;

/// Interval between writes of the history to disk.
const CHECKPOINT: Duration = Duration::from_secs(300);
/// Last report, below the machine's root, which `kerf-agent status` prints.
pub(crate) const LAST: &str = "run/kerf/usage.json";
/// Time from the first to the second sample. CPU usage needs two samples, so the second follows soon.
const SECOND_SAMPLE: Duration = Duration::from_secs(1);
/// Longest wait for the last checkpoint at the end.
const END: Duration = Duration::from_secs(2);

/// Last report, for users.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastReport {
    /// Time of the sample.
    pub measured_at: Timestamp,
    /// Start of the history.
    pub since: Timestamp,
    /// CPU usage that is not exceeded 95 % of the time, such as `850m`.
    pub cpu_p95: String,
    /// Working set that is not exceeded 95 % of the time, such as `5120Mi`.
    pub memory_p95: String,
    /// Thousandths of the time in which processes were stalled; `None` where the kernel does not report pressure.
    pub pressure: Option<Pressure>,
    /// Processes killed for lack of memory within 24 hours.
    pub oom_kills: u32,
    /// Number of pods in the history.
    pub pods: usize,
    /// Time at which the API server last accepted a report.
    pub reported_at: Option<Timestamp>,
    /// Error of the last report, if it failed.
    pub trouble: Option<String>,
}

/// Handle of the running task for the rest of the agent.
#[derive(Debug)]
pub struct Usage {
    destination: watch::Sender<Option<ConnectionState>>,
    last: watch::Receiver<Option<LastReport>>,
    task: JoinHandle<()>,
}

impl Usage {
    /// Starts to sample the machine below `root`.
    #[must_use]
    pub fn start(root: &Path, instance: &str, settings: &UsageSettings) -> Self {
        let (destination, destinations) = watch::channel(None);
        let (sender, last) = watch::channel(None);
        let enabled = settings.enabled;
        let work = UsageTask::new(root, instance, settings, sender);
        let task = tokio::spawn(async move {
            if enabled {
                work.run(destinations).await;
            }
        });
        Self { destination, last, task }
    }

    /// Sets the destination of further reports: none until the Node is known to be this machine's.
    pub fn report_to(&self, destination: Option<ConnectionState>) {
        self.destination.send_if_modified(|current| {
            let changed = *current != destination;
            if changed {
                *current = destination;
            }
            changed
        });
    }

    /// Returns the last report; `None` before the first complete sample, and while usage is disabled.
    #[must_use]
    pub fn last(&self) -> Option<LastReport> {
        self.last.borrow().clone()
    }

    /// Ends the task once it has written its history.
    pub async fn finish(self) {
        drop(self.destination);
        if timeout(END, self.task).await.is_err() {
            log::warn!("failed to keep the usage of the last minutes");
        }
    }
}

struct UsageTask {
    root: PathBuf,
    instance: String,
    period: Duration,
    cpus: u32,
    sampler: Sampler,
    history: History,
    pace: SampleTiming,
    started: Instant,
    sampled: Duration,
    kept: Duration,
    reported_at: Option<Timestamp>,
    /// Last logged error.
    trouble: Option<String>,
    last: watch::Sender<Option<LastReport>>,
}

impl UsageTask {
    fn new(root: &Path, instance: &str, settings: &UsageSettings, last: watch::Sender<Option<LastReport>>) -> Self {
        let now = Timestamp::now();
        let history = checkpoint::read(root, instance, now).unwrap_or_else(|error| {
            log::warn!("{}", daemon::error::chain(&error));
            None
        });
        Self {
            root: root.to_owned(),
            instance: instance.to_owned(),
            period: settings.every(),
            cpus: Host::new(root, "").cpus(),
            sampler: Sampler::new(root, &settings.cgroup_root),
            history: history.unwrap_or_else(|| History::new(now)),
            pace: SampleTiming::new(api::hash::fnv1a(instance.bytes()), settings.every()),
            started: Instant::now(),
            sampled: Duration::ZERO,
            kept: Duration::ZERO,
            reported_at: None,
            trouble: None,
            last,
        }
    }

    async fn run(mut self, mut destinations: watch::Receiver<Option<ConnectionState>>) {
        let mut next = Instant::now();
        let mut samples: u32 = 0;
        loop {
            tokio::select! {
                () = sleep(next.saturating_duration_since(Instant::now())) => {
                    let destination = destinations.borrow_and_update().clone();
                    self.sample_and_report(destination).await;
                    samples = samples.saturating_add(1);
                    next = Instant::now() + if samples == 1 { SECOND_SAMPLE.min(self.period) } else { self.period };
                }
                changed = destinations.changed() => {
                    if changed.is_err() {
                        self.keep();
                        return;
                    }
                }
            }
        }
    }

    async fn sample_and_report(&mut self, destination: Option<ConnectionState>) {
        self.sample();
        self.report(destination).await;
        if self.started.elapsed().saturating_sub(self.kept) >= CHECKPOINT {
            self.keep();
        }
    }

    fn sample(&mut self) {
        let elapsed = self.started.elapsed();
        let sample = self.sampler.sample(elapsed);
        let period = elapsed.saturating_sub(self.sampled).as_secs();
        self.sampled = elapsed;
        self.history.take(&sample, self.cpus, period, Timestamp::now());
    }

    async fn report(&mut self, destination: Option<ConnectionState>) {
        let now = Timestamp::now();
        let Some(mut spec) = report::overview(&mut self.history, &self.instance, now) else { return };
        let gist = ReportSummary::from_history(&mut self.history, now);
        let elapsed = self.started.elapsed();
        if let Some(destination) = destination.filter(|_| self.pace.is_due(&gist, elapsed)) {
            spec = report::whole(spec, &mut self.history, now);
            let taken = self.write(&destination, &spec).await;
            if taken {
                self.reported_at = Some(now);
            }
            self.pace.ended(taken, gist, self.started.elapsed());
        }
        let last = self.summary(&spec);
        let text = serde_json::to_vec(&last).unwrap_or_default();
        if let Err(error) = replace(&self.root.join(LAST), &text) {
            log::debug!(path = LAST, error:% = error; "failed to write the last usage");
        }
        self.last.send_replace(Some(last));
    }

    /// Writes a report, and logs each new error once.
    async fn write(&mut self, destination: &ConnectionState, spec: &NodeUsageSpec) -> bool {
        let trouble = match destination.cluster.apply_node_usage(&destination.node, spec).await {
            Ok(()) => None,
            Err(error) => Some(match error.status() {
                Some(404) => {
                    "the cluster has no NodeUsage kind; install the CRDs of Kerf's chart to use reports".to_owned()
                }
                _ => daemon::error::chain(&error),
            }),
        };
        if let Some(trouble) = trouble.as_deref().filter(|trouble| self.trouble.as_deref() != Some(trouble)) {
            log::warn!(error:% = trouble; "failed to report usage");
        }
        self.trouble = trouble;
        self.trouble.is_none()
    }

    fn summary(&self, spec: &NodeUsageSpec) -> LastReport {
        LastReport {
            measured_at: spec.measured_at.0,
            since: spec.since.0,
            cpu_p95: spec.cpu.p95.to_string(),
            memory_p95: spec.memory.p95.to_string(),
            pressure: spec.pressure,
            oom_kills: spec.oom_kills,
            pods: self.history.pods.len(),
            reported_at: self.reported_at,
            trouble: self.trouble.clone(),
        }
    }

    fn keep(&mut self) {
        self.kept = self.started.elapsed();
        if let Err(error) = checkpoint::write(&self.root, &self.instance, &self.history) {
            log::warn!("{}", daemon::error::chain(&error));
        }
    }
}
