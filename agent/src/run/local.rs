//! Local interfaces of the running agent: status on a socket, metrics on the loopback address, and the timeline of the start in
//! a file. This module observes the lifecycle and makes no decisions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::condition;
use daemon::metric::{Metrics, NoLabels};
use drain::Millis;
use jiff::Timestamp;
use machine::agent::mode::Listen;
use tokio::net::UnixStream;
use tokio::sync::mpsc::{self, Receiver};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use super::lifecycle::Lifecycle;
use crate::bootstrap::timeline::{self, Timeline};
use crate::cluster::{Cluster, ConditionUpdate, Pod, WatchEvent, Watched, follow};
use crate::gates::Gate;
use crate::host::clock::WallOffset;
use crate::run::metrics;
use crate::run::status::AgentStatus;
use crate::run::status::socket::{self, StatusSocket};

/// Maximum wait for the first running pod.
const POD_PATIENCE: Duration = Duration::from_secs(600);

/// Local interfaces of the agent.
pub(super) struct Local {
    root: PathBuf,
    socket: StatusSocket,
    metrics: Arc<Metrics>,
    served: Option<AbortHandle>,
    timeline: Timeline,
    /// Open state of each gate, in the order of the gates.
    open: Vec<bool>,
    /// Conditions that the metrics show.
    shown: Vec<ConditionUpdate>,
    cordoned: bool,
    drained: bool,
    /// Number of requests to metadata without an answer that the metrics count.
    unanswered: u64,
    bootstrapped: bool,
    /// True if the annotation equals the timeline.
    annotated: bool,
    first_pod: FirstPod,
}

/// Wait for the first running pod.
#[derive(Debug, Default)]
enum FirstPod {
    #[default]
    NotWatched,
    Awaited(oneshot::Receiver<Timestamp>),
    Seen,
}

impl Local {
    /// Opens the interfaces. An interface that cannot be opened is skipped.
    pub(super) async fn open(root: &Path, listen: Listen) -> Self {
        let metrics = Arc::new(Metrics::new(metrics::TABLE));
        let served = serve(listen, &metrics).await;
        let timeline = Timeline::read(root);
        let socket = StatusSocket::open(root);
        Self {
            root: root.to_owned(),
            socket,
            metrics,
            served,
            first_pod: if timeline.stages.contains_key(timeline::POD) { FirstPod::Seen } else { FirstPod::NotWatched },
            timeline,
            open: Vec::new(),
            shown: Vec::new(),
            cordoned: false,
            drained: false,
            unanswered: 0,
            bootstrapped: false,
            annotated: false,
        }
    }

    /// Returns the next client that requests the status.
    pub(super) async fn accept(&self) -> UnixStream {
        self.socket.accept().await
    }

    /// Answers with the contents of files, and with newer values from the lifecycle.
    pub(super) fn respond(&self, stream: UnixStream, life: &Lifecycle, phase: String, now: Millis) {
        let files = AgentStatus::from_files(&self.root, Some(life.journal()));
        let mut status = AgentStatus { running: true, phase, timeline: self.timeline.clone(), ..files };
        status.identity.node = Some(life.name().to_owned());
        status.conditions = life.published_conditions().iter().map(Into::into).collect();
        status.health = Some(life.health_report(now));
        socket::respond(stream, &status);
    }

    /// Records the end of bootstrap. Its part of the timeline is complete, so the agent may write to the same file.
    pub(super) fn bootstrapped(&mut self) {
        self.bootstrapped = true;
        self.annotated = false;
        self.keep();
    }

    /// Reports whether bootstrap is done.
    pub(super) fn is_bootstrapped(&self) -> bool {
        self.bootstrapped
    }

    /// Updates the metrics about answers of the API server.
    pub(super) fn api_answers(&self, answers: bool) {
        if !answers {
            self.metrics.add(&metrics::EVENTS_ERROR, metrics::ByEventErrorWhere { event_error_where: "api" }, 1.0);
        }
        self.metrics.set(&metrics::API_ANSWERS, NoLabels, f64::from(u8::from(answers)));
    }

    /// Records changes at `now`, by the wall clock, once per iteration of the main loop. Returns the timeline's annotation if
    /// it has changed.
    pub(super) fn observe(&mut self, life: &Lifecycle, now: Timestamp) -> Option<String> {
        let published = life.published_conditions();
        let mut news = life.node().is_some() && self.timeline.reach(timeline::NODE, now);
        news |= self.gates(life, now);
        news |= is_ready(published) && self.timeline.reach(timeline::READY, now);
        news |= self.pod();
        if self.shown != published {
            metrics::show_conditions(&self.metrics, published);
            self.shown = published.to_vec();
        }
        if news {
            self.annotated = false;
            self.keep();
        }
        self.count(life);
        let annotated = std::mem::replace(&mut self.annotated, true);
        if annotated { None } else { self.timeline.annotation() }
    }

    /// Watches the pods of the node with this client, until one runs.
    pub(super) fn use_cluster(&mut self, cluster: &Arc<Cluster>, node: &str) {
        if matches!(self.first_pod, FirstPod::Seen) {
            return;
        }
        let (mut sender, receiver) = oneshot::channel();
        let (cluster, node) = (Arc::clone(cluster), node.to_owned());
        tokio::spawn(async move {
            if let Some(at) = first_pod(cluster, &node, &mut sender).await {
                // The receiver is gone if another kubeconfig has been read in the meantime.
                let _ = sender.send(at);
            }
        });
        self.first_pod = FirstPod::Awaited(receiver);
    }

    /// Records the times at which gates opened. Gates are closed at each start of the agent, so each open gate has opened
    /// since. The timeline keeps the time of an earlier start.
    fn gates(&mut self, life: &Lifecycle, now: Timestamp) -> bool {
        let open: Vec<bool> = life.gates().iter().map(Gate::is_open).collect();
        if open == self.open {
            return false;
        }
        self.open = open;
        let mut news = false;
        for gate in life.gates().iter().filter(|gate| gate.is_open()) {
            // The agent's clock may be ahead of the wall clock by a difference that is too small for the offset.
            let at = timestamp(life.wall(), gate.since()).unwrap_or(now).min(now);
            news |= self.timeline.reach(&format!("{}{}", timeline::GATE, gate.name()), at);
        }
        news
    }

    fn pod(&mut self) -> bool {
        let FirstPod::Awaited(receiver) = &mut self.first_pod else {
            return false;
        };
        let Ok(at) = receiver.try_recv() else {
            return false;
        };
        self.first_pod = FirstPod::Seen;
        self.timeline.reach(timeline::POD, at)
    }

    /// Counts actions with the metrics of the Node Termination Handler.
    fn count(&mut self, life: &Lifecycle) {
        for _ in std::mem::replace(&mut self.unanswered, life.unanswered())..life.unanswered() {
            self.metrics.add(&metrics::EVENTS_ERROR, metrics::ByEventErrorWhere { event_error_where: "imds" }, 1.0);
        }
        let journal = life.journal();
        let cordoned = journal.drain.is_some() && life.node().is_some_and(|node| node.spec.unschedulable);
        if cordoned && !std::mem::replace(&mut self.cordoned, cordoned) {
            self.metrics.add(
                &metrics::ACTIONS,
                metrics::ByNodeActionNodeStatus { node_action: "cordon", node_status: "success" },
                1.0,
            );
        }
        let Some(outcome) = &journal.outcome else {
            self.drained = false;
            self.cordoned &= cordoned;
            return;
        };
        if !std::mem::replace(&mut self.drained, true) {
            let status = if outcome.complete { "success" } else { "error" };
            self.metrics.add(
                &metrics::ACTIONS,
                metrics::ByNodeActionNodeStatus { node_action: "cordon-and-drain", node_status: status },
                1.0,
            );
        }
    }

    /// Writes the timeline. Before bootstrap is done, only bootstrap writes the file.
    fn keep(&mut self) {
        if !self.bootstrapped {
            return;
        }
        if let Err(error) = self.timeline.keep(&self.root) {
            log::warn!(error:% = error; "failed to write the timeline of this start");
        }
        metrics::show_timeline(&self.metrics, &self.timeline);
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(served) = &self.served {
            served.abort();
        }
    }
}

/// Reports whether all gates are open, according to the Node's condition.
fn is_ready(published: &[ConditionUpdate]) -> bool {
    published.iter().any(|it| it.kind == condition::AGENT_READY && it.status == condition::TRUE)
}

fn timestamp(wall: WallOffset, moment: Millis) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(wall.wall_time(moment).0).ok()?).ok()
}

/// Watches the pods until one runs, the receiver is dropped, or the maximum wait is over.
async fn first_pod(cluster: Arc<Cluster>, node: &str, sender: &mut oneshot::Sender<Timestamp>) -> Option<Timestamp> {
    let (events, mut receiver) = mpsc::channel(1);
    // The watch ends with this set, even while no event arrives.
    let mut following = JoinSet::new();
    following.spawn(follow(cluster, Watched::pods_of(node), events));
    tokio::select! {
        running = timeout(POD_PATIENCE, running(&mut receiver)) => running.ok().flatten(),
        () = sender.closed() => None,
    }
}

async fn running(receiver: &mut Receiver<WatchEvent<Pod>>) -> Option<Timestamp> {
    loop {
        if let WatchEvent::All(pods) = receiver.recv().await?
            && pods.iter().any(|pod| pod.status.phase == "Running")
        {
            return Some(Timestamp::now());
        }
    }
}

/// Server of metrics.
struct Scraped(Arc<Metrics>);

impl daemon::admin::Admin for Scraped {
    fn healthy(&self) -> Result<(), String> {
        Ok(())
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    fn metrics(&self) -> String {
        self.0.render()
    }
}

async fn serve(listen: Listen, metrics: &Arc<Metrics>) -> Option<AbortHandle> {
    let address = listen.0?;
    match daemon::admin::bind(address).await {
        Ok(listener) => {
            let admin = Arc::new(Scraped(Arc::clone(metrics)));
            Some(tokio::spawn(daemon::admin::serve(listener, admin)).abort_handle())
        }
        Err(error) => {
            log::warn!(address:% = address, error:% = error; "cannot serve metrics, set `metrics:` to another address or off");
            None
        }
    }
}
