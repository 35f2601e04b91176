//! Simulation of all kubelets, the same for both sides. Each Node becomes Ready, each bound pod runs, and each terminating pod
//! is deleted after its time. The simulation renews no leases, so the control plane has a long node monitor grace period.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::condition;
use api::objects::{Node, Pod};
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// Duration of the end of a pod.
pub const STOP: Duration = Duration::from_secs(5);
/// Highest number of concurrent requests.
const AT_ONCE: usize = 16;
/// Pause after a failed request.
const PAUSE: Duration = Duration::from_secs(1);

/// Action of a kubelet.
enum Step {
    /// Sets the condition Ready of a Node.
    Up { node: String },
    /// Sets the phase Running of a pod.
    Run { namespace: String, pod: String },
    /// Deletes a terminated pod.
    End { namespace: String, pod: String },
}

/// Simulated kubelets; clones share their state.
#[derive(Clone)]
pub struct Kubelets {
    client: Client,
    workers: Arc<Semaphore>,
    begun: Arc<Mutex<BTreeSet<String>>>,
}

impl Kubelets {
    pub fn new(client: Client) -> Self {
        Self { client, workers: Arc::new(Semaphore::new(AT_ONCE)), begun: Arc::default() }
    }

    /// Handles an event of a Node.
    pub fn see_node(&self, node: &Node) {
        if !node.is_ready() {
            let name = node.name().to_owned();
            self.begin(format!("up {name}"), Duration::ZERO, Step::Up { node: name });
        }
    }

    /// Handles an event of a pod.
    pub fn see_pod(&self, pod: &Pod) {
        if !pod.is_bound() {
            return;
        }
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let (namespace, name) = (pod.namespace().to_owned(), pod.name().to_owned());
        if pod.is_terminating() {
            self.begin(format!("end {uid}"), STOP, Step::End { namespace, pod: name });
        } else if !is_running(pod) {
            self.begin(format!("run {uid}"), Duration::ZERO, Step::Run { namespace, pod: name });
        }
    }

    /// Performs the action once, after `wait`. A failed action is repeated until it succeeds or its object is gone.
    fn begin(&self, what: String, wait: Duration, step: Step) {
        if !self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(what.clone()) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            while let Err(error) = this.act(&step).await {
                if matches!(&error, kube::Error::Api(status) if status.code == 404) {
                    return;
                }
                log::debug!("{what}: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        });
    }

    async fn act(&self, step: &Step) -> kube::Result<()> {
        // The semaphore is never closed, so acquire never fails.
        let _permit = self.workers.acquire().await;
        let (pods, patch) =
            (|namespace: &str| Api::<Pod>::namespaced(self.client.clone(), namespace), PatchParams::default());
        match step {
            Step::Up { node } => {
                let nodes: Api<Node> = Api::all(self.client.clone());
                nodes.patch_status(node, &patch, &Patch::Strategic(up())).await.map(drop)
            }
            Step::Run { namespace, pod } => {
                pods(namespace).patch_status(pod, &patch, &Patch::Strategic(runs())).await.map(drop)
            }
            Step::End { namespace, pod } => {
                pods(namespace).delete(pod, &DeleteParams::default().grace_period(0)).await.map(drop)
            }
        }
    }
}

fn up() -> Value {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({"status": {"conditions": [{
        "type": condition::READY, "status": condition::TRUE, "reason": "KubeletReady",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    }]}})
}

fn runs() -> Value {
    json!({"status": {"phase": "Running", "conditions": [{"type": condition::READY, "status": condition::TRUE}]}})
}

/// Reports whether the pod is running.
pub fn is_running(pod: &Pod) -> bool {
    pod.status.phase == "Running"
}
