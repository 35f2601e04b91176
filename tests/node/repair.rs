//! Repair of a real node: parts of it are broken for good, the agent and kubelet report it, and the controller replaces the node.

use anyhow::{Context, Result, ensure};
use api::status::Conditioned as _;
use api::{NodeClaim, condition, status};
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use systemd_container::System;
use testbed::eventually;
use testbed::machines::real::install_cni;

use super::fixture::{Fixture, LIMIT};

/// Moves kubelet's files to a file system of their own, and makes it read-only as the kernel does after an error of its disk.
const READ_ONLY: &str = "mkdir /run/disk && mount -t tmpfs disk /run/disk && cp -a /var/lib/kubelet/. /run/disk \
     && mount --bind /run/disk /var/lib/kubelet && mount -o remount,ro /run/disk";

/// Moves kubelet's files to a small file system of their own, and fills it. The last write fails, because no space is left.
const FULL: &str = "mkdir /run/disk && mount -t tmpfs -o size=64m disk /run/disk && cp -a /var/lib/kubelet/. /run/disk \
     && mount --bind /run/disk /var/lib/kubelet && { dd if=/dev/zero of=/run/disk/fills bs=1M; true; }";

/// Failures that no node recovers from by itself, each with the command that causes it, and the condition that the agent sets.
const FAILURES: [(&str, &[&str], &str); 4] = [
    ("kubelet is dead", &["systemctl", "stop", "kubelet.service"], condition::CONTAINER_RUNTIME_READY),
    ("containerd is dead", &["systemctl", "stop", "containerd.service"], condition::CONTAINER_RUNTIME_READY),
    ("kubelet's disk is full", &["sh", "-c", FULL], condition::STORAGE_READY),
    ("kubelet's disk is read-only", &["sh", "-c", READ_ONLY], condition::STORAGE_READY),
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes minutes and two more programs: `make node` runs it"]
async fn real_node_that_fails_is_replaced() -> Result<()> {
    if !System::is_available() {
        return Ok(());
    }
    for (failure, command, kind) in FAILURES {
        let fixture = Fixture::start().await?;
        let outcome = fixture.outcome(is_replaced(&fixture, command, kind).await);
        let took = outcome.with_context(|| failure.to_owned())?;
        println!("    {failure}: {took}");
        fixture.stop().await?;
    }
    Ok(())
}

/// Breaks the node once its pods run. Returns how long condition, removal and replacement took.
async fn is_replaced(fixture: &Fixture, command: &[&str], kind: &str) -> Result<String> {
    install_cni(&*fixture.system()?);
    fixture.condition(condition::AGENT_READY, condition::TRUE).await?;
    fixture.running("web", 3).await?;
    let machines = fixture.environment.ec2.machines().len();
    let broken = Timestamp::now();
    let ran = fixture.system()?.run(command);
    ensure!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    let after = || Timestamp::now().duration_since(broken).as_secs_f64();
    let reported = fixture.condition(kind, condition::FALSE).await?;
    let (reason, reported) = (reported.reason.unwrap_or_default(), after());
    let claims: Api<NodeClaim> = Api::all(fixture.client.clone());
    eventually("the NodeClaim to be deleted", LIMIT, async || {
        let all = claims.list(&ListParams::default()).await?.items;
        let own = all.into_iter().find(|claim| is_of(claim, fixture.machine.node_name()));
        let Some(own) = own else { return Ok(Some(())) };
        let why = status::find(own.conditions(), condition::DISRUPTION_REASON).map(|found| found.reason.clone());
        ensure!(own.metadata.deletion_timestamp.is_some(), "{} is kept, its disruption is {why:?}", own.name_any());
        Ok(Some(()))
    })
    .await?;
    let removed = after();
    eventually(
        "a replacement",
        LIMIT,
        async || Ok((fixture.environment.ec2.machines().len() > machines).then_some(())),
    )
    .await?;
    Ok(format!(
        "{reason} after {reported:.0} s, removal after {removed:.0} s, replacement launched after {:.0} s",
        after()
    ))
}

fn is_of(claim: &NodeClaim, node: &str) -> bool {
    claim.status.as_ref().is_some_and(|status| status.node_name == node)
}
