//! Machines with invalid user data: the agent reports the reason in every place, does nothing else, retries forever, and
//! continues by itself once the user data is valid.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use api::{condition, reason};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;
use testbed::eventually;
use testbed::machines::{Machine, Phase};

use super::{Fixture, LIMIT};

/// Files that only bootstrap writes, and kubelet reads.
const KUBELETS: [&str; 4] = [
    "etc/kubernetes/kubelet/config.json",
    "etc/kubernetes/pki/ca.crt",
    "etc/eks/kubelet/environment",
    "var/lib/kubelet/kubeconfig",
];

/// User data, and the expected part of its error.
struct Row {
    name: &'static str,
    user_data: Vec<u8>,
    part: &'static str,
}

fn rows() -> [Row; 5] {
    let row = |name, user_data: &str, part| Row { name, user_data: user_data.into(), part };
    let cut = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\napiVersion: v1\n";
    let script = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n\
                  --//\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n--//--\n";
    [
        row("no-mime", cut, "is invalid MIME multipart"),
        row("no-yaml", "spec: [\n", "cannot use user data: line 1"),
        row("no-node-config", script, "no application/node.eks.aws part, only text/x-shellscript"),
        row("another-kind", "apiVersion: v1\nkind: Pod\n", "this is v1 Pod"),
        Row { name: "noise", user_data: noise(), part: "neither text nor gzip nor base64" },
    ]
}

/// Returns 16 KiB, the limit of EC2, of pseudo-random bytes, always the same (xorshift).
fn noise() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0]
    });
    next.take(16 << 10).collect()
}

/// Returns the state file of bootstrap, for `kerf-agent run` and other programs on the machine.
fn state(machine: &Machine) -> Result<Value> {
    let path = machine.folder().join("root/run/kerf/bootstrap.json");
    let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

/// Waits until bootstrap has failed for this reason.
async fn fails(fixture: &Fixture, machine: &Machine, part: &str) -> Result<()> {
    eventually(&format!("{part:?} in bootstrap's state"), LIMIT, async || {
        let state = state(machine)?;
        let reason = state["reason"].as_str().unwrap_or_default();
        ensure!(state["state"] == "failed" && reason.contains(part), "it is {state}");
        Ok(Some(()))
    })
    .await
    .with_context(|| fixture.evidence(machine))
}

/// Returns the number of reads of user data.
fn attempts(machine: &Machine) -> Result<usize> {
    Ok(machine.imds().context("there is no metadata service")?.requests("user-data"))
}

/// Waits until user data has been read three times since `before` attempts.
async fn tries_again(machine: &Machine, before: usize) -> Result<()> {
    eventually("three attempts", LIMIT, async || {
        let attempts = attempts(machine)? - before;
        ensure!(attempts >= 3, "there were {attempts}");
        Ok(Some(()))
    })
    .await
}

/// Replaces user data, as EC2 permits for a stopped instance.
fn set_user_data(machine: &Machine, user_data: &[u8]) -> Result<()> {
    let imds = machine.imds().context("there is no metadata service")?;
    imds.update(|facts| facts.user_data = Some(user_data.to_vec()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_reports_error_and_waits_when_user_data_is_bad() -> Result<()> {
    let fixture = Fixture::start("bad-user-data").await?;
    let mut machines = Vec::new();
    for row in rows() {
        let id = fixture.launch(row.name, &row.user_data).await?;
        machines.push((fixture.machine(&id).await?, row));
    }
    let explain = machines.iter().map(async |(machine, row)| {
        let explained = does_nothing_but_explain(&fixture, machine, row.part).await;
        explained.with_context(|| format!("{}: {}", row.name, fixture.evidence(machine)))
    });
    futures::future::try_join_all(explain).await?;
    fixture.install_cni().await?;
    for (machine, _) in &machines {
        set_user_data(machine, fixture.user_data()?.as_bytes())?;
    }
    for (machine, _) in &machines {
        fixture.condition(machine, condition::AGENT_READY, condition::TRUE).await?;
        ensure!(
            state(machine)?["state"] == "done" && machine.phase() == Phase::Running,
            "{}",
            fixture.evidence(machine)
        );
    }
    fixture.stop().await
}

async fn does_nothing_but_explain(fixture: &Fixture, machine: &Arc<Machine>, part: &str) -> Result<()> {
    fails(fixture, machine, part).await?;
    tries_again(machine, 0).await?;
    let log = std::fs::read_to_string(machine.log())?;
    ensure!(log.contains(part), "the journal does not say it");
    ensure!(machine.phase() == Phase::Bootstrapping, "it is {:?}", machine.phase());
    ensure!(machine.pids().len() == 2, "bootstrap and run should run side by side, not {:?}", machine.pids());
    ensure!(machine.agent_starts() == 2, "neither may give up");
    ensure!(machine.systemctl_calls().is_empty(), "systemctl was called");
    let written = KUBELETS.iter().find(|file| machine.folder().join("root").join(file).exists());
    ensure!(written.is_none(), "{written:?} was written");
    ensure!(fixture.node(machine.node_name()).await.is_err(), "a Node appeared");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_reports_event_when_user_data_is_bad_after_reboot() -> Result<()> {
    let fixture = Fixture::start("reboot-into-noise").await?;
    fixture.install_cni().await?;
    let good = fixture.user_data()?;
    let id = fixture.launch("reboots", &good).await?;
    let machine = fixture.machine(&id).await?;
    fixture.condition(&machine, condition::AGENT_READY, condition::TRUE).await?;
    let part = "neither text nor gzip nor base64";
    let (log_length, calls) = (std::fs::read_to_string(machine.log())?.len(), machine.systemctl_calls().len());
    let before = attempts(&machine)?;
    set_user_data(&machine, &noise())?;
    machine.reboot().await?;
    fails(&fixture, &machine, part).await?;
    let log = std::fs::read_to_string(machine.log())?;
    ensure!(log.get(log_length..).is_some_and(|log| log.contains(part)), "{}", fixture.evidence(&machine));
    is_reported_to_the_cluster(&fixture, &machine, part).await?;
    tries_again(&machine, before).await?;
    ensure!(machine.systemctl_calls().len() == calls, "kubelet was touched: {:?}", machine.systemctl_calls());
    set_user_data(&machine, good.as_bytes())?;
    fixture.condition(&machine, condition::AGENT_READY, condition::TRUE).await?;
    fixture.condition(&machine, condition::READY, condition::TRUE).await?;
    ensure!(machine.systemctl_calls().len() > calls, "kubelet was not started");
    fixture.stop().await
}

/// Waits for an event on the Node, and for the condition of the Node.
async fn is_reported_to_the_cluster(fixture: &Fixture, machine: &Machine, part: &str) -> Result<()> {
    let events = Api::<Event>::namespaced(fixture.client.clone(), "default");
    let about = format!("involvedObject.name={},reason={}", machine.node_name(), reason::BOOTSTRAP_FAILED);
    eventually("the event", LIMIT, async || {
        let found = events.list(&ListParams::default().fields(&about)).await?;
        let messages: Vec<String> = found.items.into_iter().filter_map(|event| event.message).collect();
        ensure!(messages.iter().any(|message| message.contains(part)), "the events say {messages:?}");
        Ok(Some(()))
    })
    .await
    .with_context(|| fixture.evidence(machine))?;
    // The condition changes with a delay: before bootstrap has written a state, the Node reports that.
    eventually("the Node's condition", LIMIT, async || {
        let node = fixture.node(machine.node_name()).await?;
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        let ready = conditions.into_iter().find(|it| it.type_ == condition::AGENT_READY).context("no condition")?;
        let (gates, message) = (ready.reason.unwrap_or_default(), ready.message.unwrap_or_default());
        let closed = ready.status == condition::FALSE && gates.split(',').any(|gate| gate == "Bootstrap");
        ensure!(closed && message.contains(part), "it is {}, {gates}: {message}", ready.status);
        Ok(Some(()))
    })
    .await
    .with_context(|| fixture.evidence(machine))
}
