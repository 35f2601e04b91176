//! The controller as its users run it: `helm install` of the chart with its two replicas, as pods of the image from `make images`
//! on real nodes of a managed node group. One replica is killed, then its node is drained, then the release is upgraded; nodes are
//! launched all the time, each once.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use api::label;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use systemd_container::System;
use testbed::eventually;
use testbed::installation::{CURRENT, Installation, LIMIT, PREVIOUS, node_of};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes minutes and the controller's image: `make e2e` runs it"]
async fn installed_chart_launches_through_kill_drain_and_upgrade() -> Result<()> {
    if !System::is_available() {
        return Ok(());
    }
    let installation = Installation::start().await?;
    let outcome = run_steps(&installation).await;
    if outcome.is_err() {
        installation.environment.keep_logs();
        installation.print_logs();
    }
    outcome.with_context(|| format!("logs are in {}", installation.environment.folder().display()))?;
    installation.stop().await
}

async fn run_steps(installation: &Installation) -> Result<()> {
    let start = Instant::now();
    let done = |what: &str| println!("{:7.1} s {what}", start.elapsed().as_secs_f64());
    installation.install_previous()?;
    installation.two_ready(PREVIOUS).await?;
    done("helm install: two replicas are ready on two nodes");
    installation.apply_pool().await?;
    installation.launches_for("first").await?;
    installation.surroundings_are_discovered().await?;
    done("a node was launched: region, API server and credentials are discovered");
    launches_after_kill(installation).await?;
    done("the leader was killed: a node was launched, once");
    launches_during_drain(installation).await?;
    done("the leader's node was drained within the budget: a node was launched, once");
    launches_during_upgrade(installation).await?;
    done("the release was upgraded: a node was launched, once");
    Ok(())
}

async fn launches_after_kill(installation: &Installation) -> Result<()> {
    let leader = installation.leader().await?;
    installation.kill(&leader)?;
    installation.launches_for("second").await?;
    let replicas = installation.two_ready(PREVIOUS).await?;
    let killed = replicas.iter().find(|pod| pod.uid() == leader.uid()).context("the killed pod was replaced")?;
    ensure!(restarts(killed) == 1, "its container was restarted {} times", restarts(killed));
    Ok(())
}

fn restarts(pod: &Pod) -> i32 {
    let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    containers.map(|container| container.restart_count).sum()
}

/// Drains the leader's node. The other replica leads, and may not be evicted until the first one has its place again.
async fn launches_during_drain(installation: &Installation) -> Result<()> {
    let leader = installation.leader().await?;
    let node = node_of(&leader).context("the leader is on no node")?;
    installation.cordon(node, true).await?;
    ensure!(installation.evict(&leader).await?, "the budget forbids the first eviction");
    let successor = eventually("another leader", LIMIT, async || {
        let now = installation.leader().await?;
        ensure!(now.uid() != leader.uid(), "the evicted replica leads");
        Ok(Some(now))
    })
    .await?;
    ensure!(!installation.evict(&successor).await?, "the budget permits to evict the only replica");
    installation.launches_for("third").await?;
    installation.cordon(node, false).await?;
    installation.two_ready(PREVIOUS).await.map(drop)
}

/// Upgrades from the previous version of the chart while a pod waits. No webhook can be in the way, because there is none.
async fn launches_during_upgrade(installation: &Installation) -> Result<()> {
    installation.upgrade()?;
    let node = installation.launches_for("fourth").await?;
    ensure!(node.labels().contains_key(label::NODEPOOL), "the node is of no NodePool");
    installation.two_ready(CURRENT).await?;
    let validating = Api::<ValidatingWebhookConfiguration>::all(installation.client.clone());
    let mutating = Api::<MutatingWebhookConfiguration>::all(installation.client.clone());
    let all = ListParams::default();
    let count = validating.list(&all).await?.items.len() + mutating.list(&all).await?.items.len();
    ensure!(count == 0, "{count} webhooks");
    Ok(())
}
