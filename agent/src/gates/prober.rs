//! Runs the probes of gates, each in a task of its own, because a hanging probe must not delay the others. Probes evaluate
//! nothing: they send their results to a receiver, and end when the receiver is closed.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::sync::watch::{self, Receiver};
use tokio::time::{Instant, sleep, timeout};

use super::{GateAnswer, GateId, Gates, Question, ask, cni};
use crate::cluster::{ClusterError, ConnectionState, Pod};

/// Result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeResult {
    /// The gate.
    pub gate: GateId,
    /// The result.
    pub answer: GateAnswer,
}

/// Intervals of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbeTiming {
    pub(super) delay: Duration,
    /// Interval after a failure.
    pub(super) closed: Duration,
    /// Interval after a success.
    pub(super) open: Duration,
    pub(super) timeout: Duration,
}

/// Divisor for the interval of a gate that remains closed. The interval grows to 1/60 of the time since the gate's first
/// failure, up to the interval of an open gate. The added delay is at most 1/60 of the time already waited.
const WEARINESS: u32 = 60;
/// Intervals for files: short, because a check costs microseconds and a node waits for the files.
const FILES: ProbeTiming = ProbeTiming::new(1, 10);
/// Intervals for requests to the API server: long once the gate is open.
const CALLS: ProbeTiming = ProbeTiming::new(2, 60);

impl ProbeTiming {
    const fn new(closed: u64, open: u64) -> Self {
        Self {
            delay: Duration::ZERO,
            closed: Duration::from_secs(closed),
            open: Duration::from_secs(open),
            timeout: Duration::from_secs(10),
        }
    }

    /// Returns the interval to the next probe, after failures for the duration `closed`.
    fn wait(&self, closed: Duration) -> Duration {
        self.closed.max(closed / WEARINESS).min(self.open.max(self.closed))
    }
}

/// Handle of the probe tasks.
#[derive(Debug)]
pub struct Probers {
    link: watch::Sender<Option<ConnectionState>>,
}

impl Probers {
    /// Starts the probes of `gates` for the machine below `root`.
    #[must_use]
    pub fn start(gates: &Gates, root: PathBuf, results: &Sender<ProbeResult>) -> Self {
        let (link, linked) = watch::channel(None);
        for (gate, question, pace) in gates.questions() {
            let asker = ProbeContext {
                gate,
                question,
                pace,
                root: root.clone(),
                linked: linked.clone(),
                results: results.clone(),
            };
            tokio::spawn(asker.run());
        }
        Self { link }
    }

    /// Sets the client of the API server for all further probes.
    pub fn use_link(&self, link: ConnectionState) {
        self.link.send_replace(Some(link));
    }
}

struct ProbeContext {
    gate: GateId,
    question: Question,
    pace: ProbeTiming,
    root: PathBuf,
    linked: Receiver<Option<ConnectionState>>,
    results: Sender<ProbeResult>,
}

impl ProbeContext {
    async fn run(self) {
        sleep(self.pace.delay).await;
        let mut closed = None;
        loop {
            let answer = timeout(self.pace.timeout, self.ask()).await.unwrap_or_else(|_| self.late());
            closed = if answer == GateAnswer::Holds { None } else { closed.or_else(|| Some(Instant::now())) };
            let wait = closed.map_or(self.pace.open, |since| self.pace.wait(since.elapsed()));
            if self.results.send(ProbeResult { gate: self.gate, answer }).await.is_err() {
                return;
            }
            tokio::select! {
                () = sleep(wait) => {}
                () = self.results.closed() => return,
            }
        }
    }

    fn late(&self) -> GateAnswer {
        let why = format!("no response within {} ms", self.pace.timeout.as_millis());
        match self.question {
            Question::Target(_) | Question::Cni(_) => GateAnswer::Fails(why),
            Question::CsiDriver(_) | Question::DaemonSet(_) => GateAnswer::Unknown(why),
        }
    }

    async fn ask(&self) -> GateAnswer {
        match &self.question {
            Question::Cni(gate) => cni::trouble(&self.root, gate).map_or(GateAnswer::Holds, GateAnswer::Fails),
            Question::Target(target) => ask::ask(&self.root, target).await,
            Question::CsiDriver(name) => {
                let Some(link) = self.link() else { return unlinked() };
                let drivers = link.cluster.csi_drivers(&link.node).await;
                gate_answer(drivers, |drivers| {
                    let there = drivers.iter().any(|driver| driver == name);
                    there.then_some(()).ok_or_else(|| format!("CSI driver {name} is not registered on this node"))
                })
            }
            Question::DaemonSet(set) => {
                let Some(link) = self.link() else { return unlinked() };
                let pods = link.cluster.selected_pods(&link.node, &set.namespace, &set.selector).await;
                gate_answer(pods, |pods| ready(&set.name, &pods))
            }
        }
    }

    fn link(&self) -> Option<ConnectionState> {
        self.linked.borrow().clone()
    }
}

fn unlinked() -> GateAnswer {
    GateAnswer::Unknown("no kubeconfig yet".to_owned())
}

fn gate_answer<T>(answer: Result<T, ClusterError>, check: impl FnOnce(T) -> Result<(), String>) -> GateAnswer {
    match answer.map(check) {
        Ok(Ok(())) => GateAnswer::Holds,
        Ok(Err(why)) => GateAnswer::Fails(why),
        Err(error) => GateAnswer::Unknown(daemon::error::chain(&error)),
    }
}

/// Requires one Ready pod: during a rollout the node may have two pods.
fn ready(name: &str, pods: &[Pod]) -> Result<(), String> {
    if pods.iter().any(Pod::is_ready) {
        return Ok(());
    }
    Err(match pods.first() {
        Some(pod) => format!("pod {} of DaemonSet {name} is not Ready", pod.metadata.name),
        None => format!("DaemonSet {name} has no pod on this node; does it tolerate the node's taints?"),
    })
}

impl Gates {
    /// Returns the facts that require a read or a request, with their intervals.
    pub(super) fn questions(&self) -> Vec<(GateId, Question, ProbeTiming)> {
        let settings = self.settings();
        let mut all: Vec<(String, Question, ProbeTiming)> = Vec::new();
        if settings.cni.enabled {
            all.push(("CNI".to_owned(), Question::Cni(settings.cni.clone()), FILES));
        }
        let drivers = settings.csi_drivers.iter();
        all.extend(drivers.map(|name| (format!("CSIDriver {name}"), Question::CsiDriver(name.clone()), CALLS)));
        let sets = settings.daemon_sets.iter();
        all.extend(sets.map(|set| (format!("DaemonSet {}", set.name), Question::DaemonSet(set.clone()), CALLS)));
        all.extend(settings.probes.iter().map(|probe| {
            let pace = ProbeTiming {
                delay: probe.initial_delay.0,
                closed: probe.period.0,
                open: probe.period.0,
                timeout: probe.timeout.0,
            };
            (format!("Probe {}", probe.name), Question::Target(probe.target.clone()), pace)
        }));
        all.into_iter().filter_map(|(name, question, pace)| Some((self.id(&name)?, question, pace))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_grows_to_the_open_interval_while_a_gate_is_closed() {
        let seconds = Duration::from_secs;
        let rows = [(0, 1), (60, 1), (300, 5), (600, 10), (86_400, 10)];
        for (closed, wait) in rows {
            assert_eq!(FILES.wait(seconds(closed)), seconds(wait), "{closed}");
        }
        let probe = ProbeTiming { closed: seconds(30), open: seconds(30), ..FILES };
        assert_eq!(probe.wait(seconds(86_400)), seconds(30), "the user's period stays");
    }
}
