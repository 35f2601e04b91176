//! Stand-ins for all kubelets at once, the same for both sides: a Node that is there is Ready, a pod that is bound runs, a pod that is to
//! go is gone when it has had its time. Nothing renews leases: the control plane is told to have patience.

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

/// How long a pod takes to end.
pub const STOP: Duration = Duration::from_secs(5);
/// Requests under way at once.
const AT_ONCE: usize = 16;
/// The pause after a request that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Something that a kubelet does.
enum Step {
    /// Says that its Node is Ready.
    Up { node: String },
    /// Says that a pod runs.
    Run { namespace: String, pod: String },
    /// Removes a pod that has ended.
    End { namespace: String, pod: String },
}

/// The stand-ins; clones share their memory.
#[derive(Clone)]
pub struct Kubelets {
    client: Client,
    hands: Arc<Semaphore>,
    begun: Arc<Mutex<BTreeSet<String>>>,
}

impl Kubelets {
    pub fn new(client: Client) -> Self {
        Self { client, hands: Arc::new(Semaphore::new(AT_ONCE)), begun: Arc::default() }
    }

    /// What a Node's kubelet does when it sees its Node.
    pub fn see_node(&self, node: &Node) {
        if !node.is_ready() {
            let name = node.name().to_owned();
            self.begin(format!("up {name}"), Duration::ZERO, Step::Up { node: name });
        }
    }

    /// What its kubelet does when it sees a pod.
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

    /// Does it once, after `wait`, and again until it is done or its object is gone.
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
        // Nobody closes it: a hand that is not given is given later.
        let _hand = self.hands.acquire().await;
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

/// Whether its containers were started.
pub fn is_running(pod: &Pod) -> bool {
    pod.status.phase == "Running"
}
