//! The controller as pods of a Deployment. kube-controller-manager creates the pods, and each one runs here as a process with its
//! environment, so that a change of the Deployment rolls out as in a real cluster. The node of the pods has no kubelet: no logs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::controller::Ports;
use crate::kubelet::seconds;
use crate::pod_network::PodAddresses;
use crate::process::Process;

/// Node of the pods.
const NODE: &str = "system";
const NAMESPACE: &str = "kube-system";
/// Role of the controller.
pub const ROLE: &str = "kerf-controller";
const ROLE_ARN: &str = "arn:aws:iam::123456789012:role/kerf-controller";
/// Labels of the chart's pods.
const LABELS: [(&str, &str); 2] =
    [("app.kubernetes.io/name", "karpenter"), ("app.kubernetes.io/instance", "karpenter")];
/// Port of the metrics, as in the chart.
const METRICS_PORT: u16 = 8080;
/// Interval between two looks at the pods.
const POLL: Duration = Duration::from_millis(300);
/// Interval between two heartbeats of the node.
const BEAT: Duration = Duration::from_secs(10);
/// Time for a controller to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(20);

/// Function that returns the controller's command for two ports.
pub type MakeCommand = Box<dyn Fn(Ports) -> Result<Command> + Send + Sync>;

/// Place of the pods.
pub struct PodPlace {
    /// Folder of their logs.
    pub folder: PathBuf,
    /// Addresses at which the API server reaches their metrics; without them, the pods have none.
    pub addresses: Option<PodAddresses>,
}

/// Running pods; dropping them kills their processes.
pub struct ControllerPods {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl ControllerPods {
    /// Creates the node and the Deployment, whose container has these variables, and runs its pods from then on.
    ///
    /// # Errors
    /// Returns an error if the API server refuses an object.
    pub async fn start(
        client: Client,
        place: PodPlace,
        variables: &[(&str, &str)],
        make_command: MakeCommand,
    ) -> Result<Self> {
        let node = serde_json::from_value(node()).context("the node of the controller is no Node")?;
        Api::<Node>::all(client.clone()).create(&PostParams::default(), &node).await?;
        let account = Patch::Merge(json!({"metadata": {"annotations": {"eks.amazonaws.com/role-arn": ROLE_ARN}}}));
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), NAMESPACE);
        accounts.patch("karpenter", &PatchParams::default(), &account).await.context("no ServiceAccount karpenter")?;
        crate::apply(&client, deployment(variables)).await?;
        let (stop, stopped) = oneshot::channel();
        let worker = Worker { client, place, make_command, last_beat: None, running: BTreeMap::new() };
        Ok(Self { stop: Some(stop), task: tokio::spawn(worker.run(stopped)) })
    }

    /// Ends all processes.
    ///
    /// # Errors
    /// Returns an error if the task that runs the pods failed.
    pub async fn stop(mut self) -> Result<()> {
        drop(self.stop.take());
        (&mut self.task).await.context("the task of the controller's pods failed")
    }
}

impl Drop for ControllerPods {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a node that only the controller tolerates.
fn node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": NODE, "labels": {"kubernetes.io/os": "linux", "kubernetes.io/hostname": NODE}},
        "spec": {"taints": [{"key": "CriticalAddonsOnly", "value": "true", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "30"},
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "30"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now(), "lastTransitionTime": now()}],
        },
    })
}

fn deployment(variables: &[(&str, &str)]) -> Value {
    let labels = BTreeMap::from(LABELS);
    let variables: Vec<Value> = variables.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "karpenter", "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "nodeName": NODE,
                "serviceAccountName": "karpenter",
                "priorityClassName": "system-cluster-critical",
                "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
                "containers": [{"name": "controller", "image": "kerf-controller", "env": variables}],
            }},
        },
    })
}

fn now() -> String {
    seconds(Timestamp::now())
}

struct Worker {
    client: Client,
    place: PodPlace,
    make_command: MakeCommand,
    last_beat: Option<Instant>,
    /// Processes by the UIDs of their pods.
    running: BTreeMap<String, Controller>,
}

/// Process of one pod.
struct Controller {
    process: Process,
    endpoint: Endpoint,
    restarts: i32,
    is_ready: bool,
}

/// Ports and address of a pod, which a restart of its process keeps.
#[derive(Clone, Copy)]
struct Endpoint {
    ports: Ports,
    address: Option<Ipv4Addr>,
}

impl Endpoint {
    fn choose(addresses: Option<&PodAddresses>) -> Result<Self> {
        let ports = Ports::choose()?;
        let address = addresses.map(|addresses| addresses.take(METRICS_PORT, ports.metrics)).transpose()?;
        Ok(Self { ports, address })
    }
}

impl Controller {
    /// Reports whether the server of the probes runs.
    async fn listens(&self) -> bool {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.endpoint.ports.probes)).await.is_ok()
    }
}

impl Worker {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            if let Err(error) = self.reconcile().await {
                log::warn!("the controller's pods: {error:#}");
            }
            tokio::select! {
                // A message and a dropped sender both end the pods.
                _ = &mut stopped => break,
                () = tokio::time::sleep(POLL) => {}
            }
        }
        for (_, mut controller) in std::mem::take(&mut self.running) {
            if let Err(error) = controller.process.stop(GRACE).await {
                log::warn!("the controller's pods: {error:#}");
            }
        }
    }

    async fn reconcile(&mut self) -> Result<()> {
        self.renew_node().await?;
        let selector = LABELS.map(|(key, value)| format!("{key}={value}")).join(",");
        let pods = self.pods().list(&ListParams::default().labels(&selector)).await?.items;
        let listed: BTreeSet<String> = pods.iter().filter_map(ResourceExt::uid).collect();
        self.running.retain(|uid, _| listed.contains(uid));
        for pod in pods {
            if pod.metadata.deletion_timestamp.is_some() {
                self.end(&pod).await?;
            } else {
                self.keep(&pod).await?;
            }
        }
        Ok(())
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Reports the node as alive; kube-controller-manager would evict its pods otherwise.
    async fn renew_node(&mut self) -> Result<()> {
        if self.last_beat.is_some_and(|last| last.elapsed() < BEAT) {
            return Ok(());
        }
        let beat = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": now()}]}});
        let nodes = Api::<Node>::all(self.client.clone());
        nodes.patch_status(NODE, &PatchParams::default(), &Patch::Strategic(beat)).await?;
        self.last_beat = Some(Instant::now());
        Ok(())
    }

    /// Starts the process of a pod, restarts it after its end, and reports it once it is ready.
    async fn keep(&mut self, pod: &Pod) -> Result<()> {
        let uid = pod.uid().context("a pod without a UID")?;
        let Some(controller) = self.running.get_mut(&uid) else {
            let controller = self.spawn(pod, Endpoint::choose(self.place.addresses.as_ref())?, 0)?;
            self.running.insert(uid, controller);
            return Ok(());
        };
        if controller.process.ended()?.is_some() {
            let (endpoint, restarts) = (controller.endpoint, controller.restarts + 1);
            let controller = self.spawn(pod, endpoint, restarts)?;
            self.report(pod, &controller).await?;
            self.running.insert(uid, controller);
        } else if !controller.is_ready && controller.listens().await {
            controller.is_ready = true;
            self.report(pod, &self.running[&uid]).await?;
        }
        Ok(())
    }

    fn spawn(&self, pod: &Pod, endpoint: Endpoint, restarts: i32) -> Result<Controller> {
        let mut command = (self.make_command)(endpoint.ports)?;
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        for variable in containers.flat_map(|container| container.env.iter().flatten()) {
            command.env(&variable.name, variable.value.as_deref().unwrap_or_default());
        }
        command.env("HOSTNAME", pod.name_any());
        let log = self.place.folder.join(format!("{}.log", pod.name_any()));
        let process = Process::spawn("controller", command, &log)?;
        Ok(Controller { process, endpoint, restarts, is_ready: false })
    }

    async fn report(&self, pod: &Pod, controller: &Controller) -> Result<()> {
        let status = if controller.is_ready { "True" } else { "False" };
        let kinds = ["Initialized", "ContainersReady", "Ready"];
        let conditions = kinds.map(|kind| json!({"type": kind, "status": status, "lastTransitionTime": now()}));
        let container = json!({
            "name": "controller", "image": "kerf-controller", "imageID": "kerf-controller", "ready": controller.is_ready,
            "started": true, "restartCount": controller.restarts, "state": {"running": {"startedAt": now()}},
        });
        let mut status =
            json!({"status": {"phase": "Running", "conditions": conditions, "containerStatuses": [container]}});
        if let Some(address) = controller.endpoint.address {
            status["status"]["podIP"] = json!(address);
            status["status"]["podIPs"] = json!([{"ip": address}]);
        }
        self.pods().patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(status)).await?;
        Ok(())
    }

    /// Ends the process of a deleted pod, and the pod.
    async fn end(&mut self, pod: &Pod) -> Result<()> {
        if let Some(mut controller) = pod.uid().and_then(|uid| self.running.remove(&uid)) {
            controller.process.stop(GRACE).await?;
        }
        let deleted = self.pods().delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
        match deleted {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(drop).context("a pod of the controller cannot end"),
        }
    }
}
