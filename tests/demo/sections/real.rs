//! Real node from PID 1 up: the user data of the controller configures systemd, containerd, runc and kubelet.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, ensure};
use api::objects::Node;
use api::{EC2NodeClass, NodePool, annotation, condition, taint};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::eventually;
use testbed::machines::real::{POOL, Parts, Slot, install_cni};
use testbed::machines::{Machine, Phase};
use testbed::process::Process;

use super::{Demo, PATIENCE};

/// Deployment of this chapter.
const APP: &str = "served";
/// EC2NodeClass and NodePool of real machines.
const CLASS_AND_POOL: &str = include_str!("../../node/class.yaml");
/// Only container image of a real machine.
const IMAGE: &str = "localhost/kubernetes/pause:latest";

/// Components of a real machine. Their first build takes minutes, so it runs while the demo runs.
pub struct Building {
    parts: Arc<OnceLock<Parts>>,
    /// Build process, while it runs; it ends with the demo in any case.
    process: Option<Process>,
    obstacle: Option<String>,
}

impl Building {
    /// Checks whether this computer can boot a real machine.
    pub fn new() -> Self {
        Self { parts: Arc::default(), process: None, obstacle: Parts::obstacle() }
    }

    /// Starts the build, with its log in `folder`.
    pub fn start(&mut self, folder: &Path) -> Result<()> {
        if self.obstacle.is_none() {
            self.process =
                Some(Process::spawn("the build of containerd and kubelet", Parts::build(), &folder.join("build.log"))?);
        }
        Ok(())
    }

    /// Returns the components, empty until [`Building::finish`].
    pub fn parts(&self) -> Arc<OnceLock<Parts>> {
        Arc::clone(&self.parts)
    }

    async fn finish(&mut self) -> Result<()> {
        let mut process = self.process.take().context("the build was not started")?;
        ensure!(process.wait().await?.success(), "{}", process.exit_report());
        let parts = tokio::task::spawn_blocking(Parts::find).await??;
        ensure!(self.parts.set(parts).is_ok(), "the parts were built twice");
        Ok(())
    }
}

pub async fn run(demo: &mut Demo) -> Result<()> {
    demo.reporter.section("8. A real node");
    if let Some(reason) = &demo.real.obstacle {
        demo.reporter.left_out(&format!("section 8, one real machine: {reason}"));
        return Ok(());
    }
    demo.reporter.line("its containerd and kubelet are built", demo.real.finish()).await?;
    let _slot = slot(demo).await?;
    let machine = started(demo).await?;
    let name = machine.node_name().to_owned();
    waits_for_a_network(demo, &name).await?;
    install_cni(machine.system().context("the machine is down")?.as_ref());
    takes_pods(demo, &name).await?;
    goes(demo, &machine).await
}

/// Acquires the slot for a real machine. The ports of this computer permit one at a time, and another demo may hold the slot.
async fn slot(demo: &mut Demo) -> Result<Slot> {
    if let Some(holder) = Slot::holder()? {
        demo.reporter.note(&format!(
            "waiting for the real machine of process {holder}: this computer's ports bear one at a time"
        ));
    }
    eventually("the real machine of the other process to end", PATIENCE, async || Slot::take()).await
}

async fn started(demo: &mut Demo) -> Result<Arc<Machine>> {
    let Demo { reporter, environment, .. } = demo;
    let applied = async {
        cni_of_its_image(environment.client.clone()).await?;
        for document in CLASS_AND_POOL.split("\n---\n") {
            environment.apply_value(serde_saphyr::from_str(document)?).await?;
        }
        environment.apply_value(deployment()).await
    };
    reporter
        .line("created a NodePool of nodes with systemd, containerd 2.4, runc and kubelet 1.36, and two pods", applied)
        .await?;
    let simulator = &environment.simulator;
    let booted = eventually("systemd", PATIENCE, async || {
        Ok(simulator.machines().into_iter().find(|machine| machine.system().is_some()))
    });
    let machine = reporter.line("EC2 launches one, and systemd boots Kerf's units", booted).await?;
    // The ports of this computer permit one real machine.
    let closed = Patch::Merge(json!({"spec": {"limits": {"cpu": "0"}}}));
    Api::<NodePool>::all(environment.client.clone()).patch(POOL, &PatchParams::default(), &closed).await?;
    Ok(machine)
}

/// Sets the DaemonSet of the example to the image that real machines have.
async fn cni_of_its_image(client: kube::Client) -> Result<()> {
    let container = json!([{"name": "aws-node", "image": IMAGE, "imagePullPolicy": "Never", "resources": {"requests": {"cpu": "50m"}}}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": container}}}});
    Api::<DaemonSet>::namespaced(client, "kube-system")
        .patch("aws-node", &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

fn deployment() -> Value {
    let labels = json!({"app": APP});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": APP, "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {
                "nodeSelector": {api::label::NODEPOOL: POOL},
                "hostNetwork": true,
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 2,
                "containers": [{
                    "name": "pod", "image": IMAGE, "imagePullPolicy": "Never",
                    "resources": {"requests": {"cpu": "200m", "memory": "64Mi"}},
                }],
            },
        }},
    })
}

async fn waits_for_a_network(demo: &mut Demo, name: &str) -> Result<()> {
    let Demo { reporter, cluster, .. } = demo;
    let waits = eventually("the closed gate", PATIENCE, async || {
        let node = cluster.node(name).await?.context("no Node yet")?;
        let kubelet = condition_message(&node, condition::READY, condition::FALSE)?;
        let agent = condition_message(&node, condition::AGENT_READY, condition::FALSE)?;
        ensure!(kubelet.contains("cni plugin not initialized") && agent.contains("CNI"), "{kubelet}; {agent}");
        ensure!(is_held(&node), "the startup taint is gone");
        Ok(Some(agent))
    });
    let agent = reporter.line("kubelet has no network yet, so the startup taint stays", waits).await?;
    reporter.note(&agent);
    Ok(())
}

async fn takes_pods(demo: &mut Demo, name: &str) -> Result<()> {
    let Demo { reporter, environment, cluster, .. } = demo;
    let open = eventually("the open gate", PATIENCE, async || {
        let node = cluster.node(name).await?.context("the Node is gone")?;
        condition_message(&node, condition::READY, condition::TRUE)?;
        Ok((!is_held(&node) && node.annotation(annotation::TIMELINE).is_some()).then_some(()))
    });
    reporter.line("the CNI configuration appears: the gate opens and the taint is removed", open).await?;
    let run = eventually("containers", PATIENCE, async || {
        let pods = Api::<Pod>::namespaced(environment.client.clone(), "default");
        let pods = pods.list(&ListParams::default().labels(&format!("app={APP}"))).await?.items;
        let run = pods.iter().filter(|pod| is_in_containerd(pod)).count();
        ensure!(run == 2, "{run} run");
        Ok(Some(()))
    });
    reporter.line("both pods run in containerd", run).await
}

fn is_in_containerd(pod: &Pod) -> bool {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let mut statuses = statuses.into_iter().flatten();
    statuses.any(|it| it.ready && it.container_id.as_ref().is_some_and(|id| id.starts_with("containerd://")))
}

async fn goes(demo: &mut Demo, machine: &Machine) -> Result<()> {
    let Demo { reporter, environment, cluster, .. } = demo;
    let client = environment.client.clone();
    let gone = async {
        let now = DeleteParams::default();
        Api::<Deployment>::namespaced(client.clone(), "default").delete(APP, &now).await?;
        Api::<NodePool>::all(client.clone()).delete(POOL, &now).await?;
        eventually("the real machine's end", PATIENCE, async || {
            let (phase, node) = (machine.phase(), cluster.node(machine.node_name()).await?);
            ensure!(phase == Phase::Ended && node.is_none(), "it is {phase:?}, its Node is there: {}", node.is_some());
            Ok(Some(()))
        })
        .await?;
        Ok(Api::<EC2NodeClass>::all(client).delete(POOL, &now).await.map(drop)?)
    };
    reporter
        .line("the NodePool is deleted: the agent drains the node, systemd powers off, the Node is removed", gone)
        .await
}

fn condition_message(node: &Node, kind: &str, status: &str) -> Result<String> {
    let found = node.condition(kind).with_context(|| format!("no {kind} yet"))?;
    ensure!(found.status == status, "{kind} is {}", found.status);
    Ok(found.message.clone())
}

fn is_held(node: &Node) -> bool {
    node.spec.taints.iter().any(|found| found.key == taint::AGENT_NOT_READY)
}
