//! A real node from CreateFleet to power off: systemd, Kerf's units, containerd, runc and kubelet are the real ones, configured by our
//! bootstrap from the user data that our controller rendered. Only EC2 and the cluster's network are stand-ins.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::{condition, taint};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use systemd_room::System;
use world::eventually;
use world::imds::Interruption;
use world::machines::Machine;
use world::machines::real::{Parts, install_cni};
use world::stage::Stage;

/// How long one step may take. Generous: the machine may be building something else.
const LIMIT: Duration = Duration::from_secs(120);
const RUN: &str = "kerf-agent.service";

/// The stage with one real machine, and what is asked of it.
struct Scene {
    stage: Stage,
    client: Client,
    machine: Arc<Machine>,
}

impl Scene {
    /// Applies class and pool, lets two pods wait, and returns when EC2 has started the machine for them.
    async fn set() -> Result<Self> {
        let parts = tokio::task::spawn_blocking(Parts::find).await??;
        let mut stage = Stage::set_with(Some(parts)).await?;
        let client = stage.client.clone();
        stage.start_controller()?;
        for document in include_str!("node/class.yaml").split("\n---\n") {
            stage.apply_value(serde_saphyr::from_str(document)?).await?;
        }
        stage.apply_value(pod("idle", &["pause"])).await?;
        stage.apply_value(pod("busy", &["burn", "300", "40"])).await?;
        let room = &stage.room;
        let machine = eventually("a machine", LIMIT, async || Ok(room.machines().first().cloned())).await?;
        eventually("systemd on it", LIMIT, async || Ok(machine.system())).await?;
        Ok(Self { stage, client, machine })
    }

    fn system(&self) -> Arc<System> {
        self.machine.system().unwrap()
    }

    async fn node(&self) -> Result<Node> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        Ok(nodes.get(self.machine.node_name()).await?)
    }

    /// Waits until a condition of the Node has this status, and gives its message.
    async fn condition(&self, kind: &str, status: &str) -> Result<String> {
        eventually(&format!("{kind}={status}"), LIMIT, async || {
            let node = self.node().await?;
            let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
            let found = conditions.into_iter().find(|it| it.type_ == kind).context("it is not there yet")?;
            let message = found.message.unwrap_or_default();
            ensure!(found.status == status, "{} ({message})", found.status);
            Ok(Some(message))
        })
        .await
    }

    async fn pods(&self) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        Ok(pods.list(&ListParams::default()).await?.items)
    }

    async fn running(&self, wanted: usize) -> Result<()> {
        eventually("pods that run", LIMIT, async || {
            let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
            let phases: Vec<String> = self.pods().await?.iter().map(phase).collect();
            ensure!(phases.iter().filter(|phase| *phase == "Running").count() == wanted, "{phases:?}");
            Ok(Some(()))
        })
        .await
    }

    /// `kill -9` of a unit's main process, until systemd has started it again.
    fn kill(&self, unit: &str) {
        let system = self.system();
        let before: u32 = system.property(unit, "NRestarts").parse().unwrap();
        system.systemctl(&["kill", "--kill-whom=main", "--signal=KILL", unit]);
        system.until(unit, "NRestarts", |count| count.parse::<u32>().is_ok_and(|count| count > before));
        system.until(unit, "ActiveState", |state| state == "active");
    }
}

fn pod(name: &str, arguments: &[&str]) -> serde_json::Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "real"}},
        "spec": {
            "hostNetwork": true,
            "terminationGracePeriodSeconds": 2,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "pod", "image": "localhost/kubernetes/pause:latest", "imagePullPolicy": "Never", "args": arguments,
                "resources": {"requests": {"cpu": "500m", "memory": "100Mi"}},
            }],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes a minute and two more programs: `make node` runs it"]
async fn a_real_node_boots_serves_recovers_and_is_emptied() -> Result<()> {
    if !System::wanted() {
        return Ok(());
    }
    let scene = Scene::set().await?;
    let outcome = tell(&scene).await;
    if outcome.is_err() {
        scene.stage.keep_logs();
        let journal = scene.machine.system().map(|system| system.run(&["journalctl", "--no-pager", "--lines", "150"]));
        eprintln!("{}", journal.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default());
    }
    outcome.with_context(|| format!("logs are in {}", scene.stage.folder().display()))?;
    scene.stage.strike().await
}

async fn tell(scene: &Scene) -> Result<()> {
    gates_stay_closed_without_a_network(scene).await?;
    install_cni(&scene.system());
    scene.condition(condition::READY, condition::TRUE).await?;
    scene.condition(condition::AGENT_READY, condition::TRUE).await?;
    scene.running(2).await?;
    everything_recovers_from_kill(scene).await?;
    a_spot_notice_empties_it(scene).await
}

/// kubelet is up and has registered, but its network is not there: the agent says which gate is closed, and the taint stays.
async fn gates_stay_closed_without_a_network(scene: &Scene) -> Result<()> {
    let why = scene.condition(condition::AGENT_READY, condition::FALSE).await?;
    ensure!(why.contains("CNI"), "the closed gate is not named: {why}");
    let node = scene.node().await?;
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    ensure!(taints.iter().any(|it| it.key == taint::AGENT_NOT_READY), "the startup taint is gone: {taints:?}");
    Ok(())
}

async fn everything_recovers_from_kill(scene: &Scene) -> Result<()> {
    for unit in ["kubelet.service", "containerd.service", RUN] {
        scene.kill(unit);
        scene.condition(condition::READY, condition::TRUE).await.with_context(|| format!("after {unit} was killed"))?;
        scene.condition(condition::AGENT_READY, condition::TRUE).await?;
        scene.running(2).await?;
    }
    Ok(())
}

async fn a_spot_notice_empties_it(scene: &Scene) -> Result<()> {
    let imds = scene.machine.imds().context("there is no metadata service")?;
    let time = Timestamp::now() + SignedDuration::from_secs(40);
    imds.update(|facts| facts.interruption = Some(Interruption { action: "terminate".to_owned(), time }));
    scene.condition(condition::INTERRUPTED, condition::TRUE).await?;
    eventually("no pod left", LIMIT, async || {
        let left = scene.pods().await?;
        ensure!(left.is_empty(), "{:?}", left.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
        Ok(Some(()))
    })
    .await?;
    ensure!(Timestamp::now() < time, "the last pod ended after the deadline");
    let events: Api<Event> = Api::namespaced(scene.client.clone(), "default");
    eventually("the drain's outcome", LIMIT, async || {
        let events = events.list(&ListParams::default()).await?.items;
        let reasons: Vec<_> = events.iter().filter_map(|event| event.reason.as_deref()).collect();
        ensure!(reasons.contains(&"Drained"), "{reasons:?}");
        Ok(Some(()))
    })
    .await?;
    let pods: Api<Pod> = Api::namespaced(scene.client.clone(), "default");
    pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await.map(drop).context("cannot tidy up")
}
