//! A real node from CreateFleet to power off. systemd, Kerf's units, containerd, runc and kubelet are the real ones, configured
//! by Kerf's bootstrap from the user data that the controller rendered. Only EC2 and the cluster's network are stand-ins.

#[path = "node/drain.rs"]
mod drain;
#[path = "node/fixture.rs"]
mod fixture;
#[path = "node/repair.rs"]
mod repair;
#[path = "node/usage.rs"]
mod usage;

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use api::{annotation, condition, taint};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};
use systemd_container::System;
use testbed::eventually;
use testbed::machines::real::install_cni;

use fixture::{Fixture, LIMIT};

/// Unit of the agent.
const RUN: &str = "kerf-agent.service";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes minutes and two more programs: `make node` runs it"]
async fn real_node_boots_runs_pods_recovers_and_is_drained() -> Result<()> {
    if !System::is_available() {
        return Ok(());
    }
    let fixture = Fixture::start().await?;
    fixture.outcome(run_steps(&fixture).await)?;
    fixture.stop().await
}

async fn run_steps(fixture: &Fixture) -> Result<()> {
    let start = Instant::now();
    let done = |what: &str| println!("{:7.1} s {what}", start.elapsed().as_secs_f64());
    gates_stay_closed_without_a_network(fixture).await?;
    done("kubelet is up, and the gate of the network is closed");
    install_cni(&*fixture.system()?);
    gates_open_with_it(fixture).await?;
    done("the network's file is there: the gate is open, and the taint is gone");
    fixture.running("web", 3).await?;
    fixture.running("busy", 1).await?;
    done("real pods run");
    everything_recovers_from_kill(fixture).await?;
    done("kubelet, containerd and agent were killed, and are back");
    usage::is_what_the_load_makes(fixture).await?;
    done("what the pods use is reported as it is");
    drain::keeps_the_budget(fixture).await?;
    done("a spot notice has emptied the node, and the budget was kept");
    drain::ends_the_machine(fixture).await?;
    done("the machine is off");
    Ok(())
}

/// Asserts that kubelet is running and registered without a CNI: agent and kubelet report the missing CNI, and the startup
/// taint remains.
async fn gates_stay_closed_without_a_network(fixture: &Fixture) -> Result<()> {
    let closed = fixture.condition(condition::AGENT_READY, condition::FALSE).await?;
    let why = closed.message.unwrap_or_default();
    ensure!(why.contains("CNI"), "the closed gate is not named: {why}");
    let kubelet = fixture.condition(condition::READY, condition::FALSE).await?.message.unwrap_or_default();
    ensure!(kubelet.contains("cni plugin not initialized"), "this is not the real kubelet's word: {kubelet}");
    ensure!(has_startup_taint(fixture).await?, "the startup taint is gone");
    Ok(())
}

async fn gates_open_with_it(fixture: &Fixture) -> Result<()> {
    let there = Timestamp::now();
    fixture.condition(condition::READY, condition::TRUE).await?;
    fixture.condition(condition::AGENT_READY, condition::TRUE).await?;
    eventually("the startup taint to go", LIMIT, async || Ok((!has_startup_taint(fixture).await?).then_some(())))
        .await?;
    let node = fixture.node().await?;
    let timeline = node.annotations().get(annotation::TIMELINE).context("no timeline")?;
    println!("    {timeline}");
    let timeline: Value = serde_json::from_str(timeline)?;
    let begin: Timestamp = timeline["start"].as_str().context("no start")?.parse()?;
    let opened = timeline["gate-CNI"].as_i64().context("the gate of the network was never seen closed")?;
    let earliest = there.duration_since(begin).as_millis();
    ensure!(i128::from(opened) >= earliest, "the gate opened after {opened} ms, the network came after {earliest} ms");
    Ok(())
}

async fn has_startup_taint(fixture: &Fixture) -> Result<bool> {
    let taints = fixture.node().await?.spec.and_then(|spec| spec.taints).unwrap_or_default();
    Ok(taints.iter().any(|it| it.key == taint::AGENT_NOT_READY))
}

/// Asserts that each killed program restarts by itself, reports again, and that the node starts a new pod. Running pods must
/// keep running.
async fn everything_recovers_from_kill(fixture: &Fixture) -> Result<()> {
    let before = fixture.running("web", 3).await?;
    // The agent is first: it saves its usage history only every five minutes, and a later step needs the history of the load.
    for unit in [RUN, "kubelet.service", "containerd.service"] {
        let killed = fixture.kill(unit)?;
        eventually(&format!("a sign of life after {unit} was killed"), LIMIT, async || {
            let last_report = if unit == RUN { fixture.heartbeat().await? } else { fixture.lease().await? };
            ensure!(last_report > killed, "it was killed at {killed}, the last sign is of {last_report}");
            Ok(Some(()))
        })
        .await?;
        fixture.condition(condition::READY, condition::TRUE).await?;
        fixture.condition(condition::AGENT_READY, condition::TRUE).await?;
        a_new_pod_runs(fixture).await.with_context(|| format!("after {unit} was killed"))?;
        let took = Timestamp::now().duration_since(killed).as_secs_f64();
        println!("    {unit} was killed; the node started its next pod {took:.1} s later");
    }
    let after = fixture.running("web", 3).await?;
    ensure!(restarts(&after) == 0, "containers were started again: {}", restarts(&after));
    let uids = |pods: &[Pod]| pods.iter().filter_map(ResourceExt::uid).collect::<std::collections::BTreeSet<_>>();
    ensure!(uids(&before) == uids(&after), "pods were replaced");
    Ok(())
}

fn restarts(pods: &[Pod]) -> i32 {
    let statuses = pods.iter().filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref());
    statuses.flatten().map(|container| container.restart_count).sum()
}

async fn a_new_pod_runs(fixture: &Fixture) -> Result<()> {
    fixture
        .environment
        .apply_value(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "fresh", "namespace": "default", "labels": {"app": "fresh"}},
            "spec": {
                "hostNetwork": true,
                "nodeName": fixture.machine.node_name(),
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "pod",
                    "image": "localhost/kubernetes/pause:latest",
                    "imagePullPolicy": "Never",
                }],
            },
        }))
        .await?;
    fixture.running("fresh", 1).await?;
    let pods: Api<Pod> = Api::namespaced(fixture.client.clone(), "default");
    pods.delete("fresh", &DeleteParams::default()).await?;
    eventually("the new pod to go", LIMIT, async || Ok(pods.get_opt("fresh").await?.is_none().then_some(()))).await
}
