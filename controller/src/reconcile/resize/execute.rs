//! Execution of resizes, or one report that the cluster does not support them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use daemon::metric::Metrics;
use jiff::Timestamp;
use kube::Client;
use parking_lot::{Mutex, MutexGuard};
use planner::{Resize, ResizeReason};

use super::steps;
use crate::metrics;
use crate::state::cluster::Cluster;
use crate::write::writer::{WriteError, Writer};

/// Name of the sub-resource that changes the requests of a running pod.
const SUBRESOURCE: &str = "pods/resize";
/// Maximum number of resizes after one plan; the next plan continues.
const MOST_AT_ONCE: usize = 50;
/// Delay before the retry of a failed resize.
const PAUSE: Duration = Duration::from_secs(60);
/// Delay before the next attempt in a cluster without support or permission.
const CLOSED: Duration = Duration::from_secs(60 * 60);

/// Executor of resizes.
pub struct Resizer {
    client: Client,
    cluster: Arc<Cluster>,
    writer: Writer,
    metrics: Arc<Metrics>,
    /// False if the controller may not resize pods.
    permitted: bool,
    state: Mutex<ResizeState>,
}

#[derive(Default)]
struct ResizeState {
    /// True if the API server has the sub-resource.
    served: bool,
    /// Time at which resizes were found to be unsupported.
    closed: Option<Timestamp>,
    /// UIDs of pods whose resize failed, with the time of the failure.
    failed: BTreeMap<String, Timestamp>,
}

impl Resizer {
    /// Creates an executor without earlier attempts.
    #[must_use]
    pub fn new(client: Client, cluster: Arc<Cluster>, writer: Writer, metrics: Arc<Metrics>) -> Self {
        let permitted = cluster.read(|index| index.permissions.packing);
        Self { client, cluster, writer, metrics, permitted, state: Mutex::default() }
    }

    /// Reports whether pods cannot be resized, so that NodePools with utilization `pack` only observe.
    #[must_use]
    pub fn is_closed(&self, now: Timestamp) -> bool {
        !self.permitted || self.state().closed.is_some_and(|at| is_within(CLOSED, at, now))
    }

    /// Carries out the resizes of a plan, one pod after another. A later plan repeats a failed resize.
    pub async fn carry_out(&self, resizes: &[Resize], now: Timestamp) {
        if resizes.is_empty() || self.is_closed(now) || !self.is_served(now).await {
            return;
        }
        for resize in self.due(resizes, now) {
            let steps = self.cluster.read(|index| {
                let pod = index.pods.get(&resize.pod)?;
                let claim = index.claim_of(index.nodes.get(&pod.spec.node_name)?)?;
                Some(steps(pod, claim, resize, now))
            });
            let steps = steps.unwrap_or_default();
            if !steps.is_empty() && !self.is_closed(now) {
                let outcome = self.writer.run_all(steps).await;
                self.record(resize, outcome, now);
            }
        }
    }

    /// Returns the resizes without a recent failure.
    fn due<'a>(&self, resizes: &'a [Resize], now: Timestamp) -> Vec<&'a Resize> {
        let mut state = self.state();
        state.failed.retain(|_, at| is_within(PAUSE, *at, now));
        resizes.iter().filter(|resize| !state.failed.contains_key(&resize.uid)).take(MOST_AT_ONCE).collect()
    }

    fn record(&self, resize: &Resize, outcome: Result<(), WriteError>, now: Timestamp) {
        let (pod, why) = (resize.pod.as_str(), resize.why.to_string());
        let label = if outcome.is_ok() { "success" } else { "error" };
        self.metrics.add(
            &metrics::RESIZES,
            metrics::ByReasonOutcome { reason: reason_label(resize.why), outcome: label },
            1.0,
        );
        let Err(error) = outcome else {
            tracing::info!(pod = pod, node = resize.node.as_str(), reason = why.as_str(), "resized pod");
            return;
        };
        let text = daemon::error::chain(&error);
        self.state().failed.insert(resize.uid.clone(), now);
        if is_denied(&error, &text) {
            self.close("pods are not resized: set kerf.packing.enabled=true, or allow the controller to patch pods and pods/resize", &text, now);
        } else {
            tracing::warn!(
                pod = pod,
                node = resize.node.as_str(),
                error = text.as_str(),
                "failed to resize pod, retrying in a minute"
            );
        }
    }

    /// Reports whether the API server has the sub-resource. Queries the API server until it confirms; a failed query decides
    /// nothing.
    async fn is_served(&self, now: Timestamp) -> bool {
        if self.state().served {
            return true;
        }
        let Ok(list) = self.client.list_core_api_resources("v1").await else { return false };
        let served = list.resources.iter().any(|resource| resource.name == SUBRESOURCE);
        self.state().served = served;
        if !served {
            let what = "pods are not resized: the API server has no pods/resize, which requires Kubernetes 1.33";
            self.close(what, "", now);
        }
        served
    }

    /// Disables resizes for an hour and logs the reason, but only the first time.
    fn close(&self, what: &str, error: &str, now: Timestamp) {
        if self.state().closed.replace(now).is_none() {
            tracing::warn!(error = error, "{what}; recommendations are in events and metrics");
        }
    }

    fn state(&self) -> MutexGuard<'_, ResizeState> {
        self.state.lock()
    }
}

/// Reports whether the controller lacks the permission to resize pods, so that every other resize would be refused too. A
/// resize without capacity on the node is refused with the same status.
fn is_denied(error: &WriteError, text: &str) -> bool {
    match error.status() {
        Some(403) => text.contains("cannot patch resource"),
        status => status == Some(405),
    }
}

fn is_within(span: Duration, since: Timestamp, now: Timestamp) -> bool {
    now.duration_since(since).unsigned_abs() < span
}

/// Returns the label value of the reason.
fn reason_label(why: ResizeReason) -> &'static str {
    match why {
        ResizeReason::MakesRoom => "makes_room",
        ResizeReason::Pressure => "pressure",
        ResizeReason::Grown => "grown",
        ResizeReason::Unpacked => "unpacked",
        ResizeReason::NoRoom => "no_room",
    }
}
