//! Pods on the node of a program under test, and simulated kubelets. Bound pods run at once, and terminating pods are deleted
//! at once, so that the measurement covers the drain and not the pods.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use api::objects::Pod;
use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use testbed::eventually;
use testbed::load::{self, Used};
use testbed::observer::is_ready;
use tokio::task::JoinHandle;

const NAMESPACE: &str = "default";
const LIMIT: Duration = Duration::from_secs(60);
/// Highest number of concurrent requests for pods.
const AT_ONCE: usize = 10;
/// Memory of the machine with the pods, in bytes.
const MEMORY: u64 = 8 << 30;
/// Interval of the simulated kubelets.
const POLL: Duration = Duration::from_millis(100);

/// Pods of one measurement, all on one node.
pub struct PodSet {
    client: Client,
    label: String,
    kubelets: JoinHandle<()>,
}

impl Drop for PodSet {
    fn drop(&mut self) {
        self.kubelets.abort();
    }
}

impl PodSet {
    /// Binds `count` pods without an owner to the node.
    pub async fn bound(client: &Client, node: &str, count: usize) -> Result<Self> {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        accounts.patch("default", &PatchParams::apply("numbers").force(), &Patch::Apply(account)).await?;
        let pod_set = Self::gather(client, node);
        let pods = pod_set.pods();
        let bind = |number: usize| {
            let (pods, name, pod) = (pods.clone(), pod_set.name(number), pod_set.bare(node, number));
            async move { pods.patch(&name, &PatchParams::apply("numbers"), &Patch::Apply(pod)).await }
        };
        let bound: Vec<kube::Result<Pod>> = stream::iter(0..count).map(bind).buffer_unordered(AT_ONCE).collect().await;
        bound.into_iter().collect::<kube::Result<Vec<Pod>>>().context("cannot make a pod")?;
        pod_set.run(count).await?;
        Ok(pod_set)
    }

    /// Creates a ReplicaSet of `count` pods, all on the node, and a budget that permits one of them to be unavailable.
    pub async fn budgeted(client: &Client, node: &str, count: usize) -> Result<Self> {
        let pod_set = Self::gather(client, node);
        let labels = json!({"crowd": pod_set.label});
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": pod_set.label},
            "spec": {"replicas": count, "selector": {"matchLabels": labels},
                     "template": {"metadata": {"labels": labels}, "spec": pod_set.spec()}},
        });
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": pod_set.label},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
        });
        let apply = PatchParams::apply("numbers").force();
        let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), NAMESPACE);
        sets.patch(&pod_set.label, &apply, &Patch::Apply(set)).await.context("cannot make the ReplicaSet")?;
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), NAMESPACE);
        budgets.patch(&pod_set.label, &apply, &Patch::Apply(budget)).await.context("cannot make the budget")?;
        pod_set.run(count).await?;
        eventually("the budget to know its pods", LIMIT, async || {
            let status = budgets.get(&pod_set.label).await?.status.context("no status")?;
            Ok((status.disruptions_allowed == Some(1)).then_some(()))
        })
        .await?;
        Ok(pod_set)
    }

    fn gather(client: &Client, node: &str) -> Self {
        let label = format!("crowd-of-{node}");
        let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let nodes: Api<Node> = Api::all(client.clone());
        Self { client: client.clone(), label, kubelets: tokio::spawn(stand_in(nodes, pods)) }
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.label)
    }

    fn bare(&self, node: &str, number: usize) -> Value {
        let mut spec = self.spec();
        spec["nodeName"] = json!(node);
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": self.name(number), "labels": {"crowd": self.label}},
            "spec": spec,
        })
    }

    fn spec(&self) -> Value {
        json!({"terminationGracePeriodSeconds": 1, "containers": [{"name": "app", "image": "app"}]})
    }

    /// Returns the number of pods that are Ready and not terminating, on any node.
    pub async fn serving(&self) -> Result<usize> {
        self.count(|pod| is_ready(pod) && !pod.is_terminating()).await
    }

    /// Returns the number of pods on the node, including terminating ones.
    pub async fn left(&self, node: &str) -> Result<usize> {
        self.count(|pod| pod.spec.node_name == node).await
    }

    async fn count(&self, counts: impl Fn(&Pod) -> bool) -> Result<usize> {
        let all = self.pods().list(&ListParams::default().labels(&format!("crowd={}", self.label))).await?;
        Ok(all.items.iter().filter(|pod| counts(pod)).count())
    }

    async fn run(&self, count: usize) -> Result<()> {
        eventually("the pods to run", LIMIT, async || {
            let running = self.serving().await?;
            anyhow::ensure!(running == count, "{running} of {count} run");
            Ok(Some(()))
        })
        .await
    }
}

/// Creates a further node for pods.
pub async fn open(client: &Client, name: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    nodes.create(&PostParams::default(), &node).await.map(drop).context("cannot make a further node")
}

/// Simulates the kubelets of all nodes until the task is aborted. Failed requests are repeated in the next round.
async fn stand_in(nodes: Api<Node>, pods: Api<Pod>) {
    loop {
        for node in nodes.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            let status = json!({"status": {
                "capacity": {"cpu": "64", "memory": "64Gi", "pods": "250"},
                "allocatable": {"cpu": "64", "memory": "64Gi", "pods": "250"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
                                "lastHeartbeatTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()}],
            }});
            let patched =
                nodes.patch_status(&node.name_any(), &PatchParams::default(), &Patch::Strategic(status)).await;
            patched.map(drop).unwrap_or_else(|error| log::debug!("{error}"));
        }
        let beat = tokio::time::Instant::now() + Duration::from_secs(5);
        while tokio::time::Instant::now() < beat {
            let all = pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
            stream::iter(all).for_each_concurrent(AT_ONCE, |pod| serve(&pods, pod)).await;
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Performs the next action of a kubelet for this pod.
async fn serve(pods: &Api<Pod>, pod: Pod) {
    let name = pod.name_any();
    let done = if pod.is_terminating() {
        pods.delete(&name, &DeleteParams::default().grace_period(0)).await.map(drop)
    } else if pod.is_bound() && !is_ready(&pod) {
        let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(running)).await.map(drop)
    } else {
        Ok(())
    };
    done.unwrap_or_else(|error| log::debug!("{error}"));
}

/// Creates the cgroups of `count` pods with two containers each below a machine's root. The counters do not change, because the
/// measurement is about reading them.
pub fn cgroups(root: &Path, count: usize) -> Result<()> {
    let pod = |number| Used {
        uid: format!("{number:08x}-ceea-467a-9575-{number:012x}"),
        containers: 2,
        cpu: 0,
        memory: 1 << 20,
    };
    let pods: Vec<Used> = (0..count).map(pod).collect();
    load::count(root, MEMORY, &pods, Duration::ZERO)
}
