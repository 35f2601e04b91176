//! The controller as its users run it: `helm install` of the chart with its two replicas, as pods of the image from `make images`
//! on real nodes of a managed node group. One replica is killed, then its node is drained, then the release is upgraded; nodes are
//! launched all the time, each once.

#[path = "installation/fixture.rs"]
mod fixture;
#[path = "installation/image.rs"]
mod image;

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use api::{NodePool, label};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use systemd_container::System;
use testbed::eventually;

use fixture::{CURRENT, Fixture, LIMIT, PREVIOUS, node_of};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes minutes and the controller's image: `make e2e` runs it"]
async fn installed_chart_launches_through_kill_drain_and_upgrade() -> Result<()> {
    if !System::is_available() {
        return Ok(());
    }
    let fixture = Fixture::start().await?;
    let outcome = run_steps(&fixture).await;
    if outcome.is_err() {
        fixture.environment.keep_logs();
        fixture.print_logs();
    }
    outcome.with_context(|| format!("logs are in {}", fixture.environment.folder().display()))?;
    let Fixture { environment, client, .. } = fixture;
    drop(client);
    environment.stop().await
}

async fn run_steps(fixture: &Fixture) -> Result<()> {
    let start = Instant::now();
    let done = |what: &str| println!("{:7.1} s {what}", start.elapsed().as_secs_f64());
    fixture.install_previous()?;
    fixture.two_ready(PREVIOUS).await?;
    done("helm install: two replicas are ready on two nodes");
    apply_pool(fixture).await?;
    fixture.launches_for("first").await?;
    surroundings_are_discovered(fixture).await?;
    done("a node was launched: region, API server and credentials are discovered");
    launches_after_kill(fixture).await?;
    done("the leader was killed: a node was launched, once");
    launches_during_drain(fixture).await?;
    done("the leader's node was drained within the budget: a node was launched, once");
    launches_during_upgrade(fixture).await?;
    done("the release was upgraded: a node was launched, once");
    Ok(())
}

/// Applies EC2NodeClass and NodePool of the getting-started example, and its CNI for the nodes of the NodePool, whose kubelets are
/// stand-ins. Nothing is consolidated, so that each launch is for a pod.
async fn apply_pool(fixture: &Fixture) -> Result<()> {
    fixture.environment.apply("getting-started/aws-node.yaml").await?;
    let launched =
        Patch::Merge(json!({"spec": {"template": {"spec": {"nodeSelector": {label::NODEPOOL: "default"}}}}}));
    let daemons = Api::<DaemonSet>::namespaced(fixture.client.clone(), "kube-system");
    daemons.patch("aws-node", &PatchParams::default(), &launched).await?;
    fixture.environment.apply("getting-started/ec2nodeclass.yaml").await?;
    fixture.environment.apply("getting-started/nodepool.yaml").await?;
    let never = Patch::Merge(json!({"spec": {"disruption": {"consolidateAfter": "Never"}}}));
    let pools = Api::<NodePool>::all(fixture.client.clone());
    pools.patch("default", &PatchParams::default(), &never).await?;
    Ok(())
}

/// Asserts that the leader found the region by instance metadata, the API server by EKS, and its credentials by its token.
async fn surroundings_are_discovered(fixture: &Fixture) -> Result<()> {
    let leader = fixture.leader().await?;
    let node = node_of(&leader).context("the leader is on no node")?;
    let imds = fixture.machine(node)?.imds().context("the machine is down")?;
    ensure!(imds.requests("meta-data/placement/region") > 0, "the region was not requested");
    let called = |action: &str| fixture.environment.wire.exchanges(action).iter().filter(|call| call.good).count();
    ensure!(called("DescribeCluster") > 0, "DescribeCluster was not called");
    ensure!(called("AssumeRoleWithWebIdentity") > 0, "the token of the ServiceAccount was not used");
    Ok(())
}

async fn launches_after_kill(fixture: &Fixture) -> Result<()> {
    let leader = fixture.leader().await?;
    fixture.kill(&leader)?;
    fixture.launches_for("second").await?;
    let replicas = fixture.two_ready(PREVIOUS).await?;
    let killed = replicas.iter().find(|pod| pod.uid() == leader.uid()).context("the killed pod was replaced")?;
    ensure!(restarts(killed) == 1, "its container was restarted {} times", restarts(killed));
    Ok(())
}

fn restarts(pod: &Pod) -> i32 {
    let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    containers.map(|container| container.restart_count).sum()
}

/// Drains the leader's node. The other replica leads, and may not be evicted until the first one has its place again.
async fn launches_during_drain(fixture: &Fixture) -> Result<()> {
    let leader = fixture.leader().await?;
    let node = node_of(&leader).context("the leader is on no node")?;
    fixture.cordon(node, true).await?;
    ensure!(fixture.evict(&leader).await?, "the budget forbids the first eviction");
    let successor = eventually("another leader", LIMIT, async || {
        let now = fixture.leader().await?;
        ensure!(now.uid() != leader.uid(), "the evicted replica leads");
        Ok(Some(now))
    })
    .await?;
    ensure!(!fixture.evict(&successor).await?, "the budget permits to evict the only replica");
    fixture.launches_for("third").await?;
    fixture.cordon(node, false).await?;
    fixture.two_ready(PREVIOUS).await.map(drop)
}

/// Upgrades from the previous version of the chart while a pod waits. No webhook can be in the way, because there is none.
async fn launches_during_upgrade(fixture: &Fixture) -> Result<()> {
    fixture.upgrade()?;
    let node = fixture.launches_for("fourth").await?;
    ensure!(node.labels().contains_key(label::NODEPOOL), "the node is of no NodePool");
    fixture.two_ready(CURRENT).await?;
    let validating = Api::<ValidatingWebhookConfiguration>::all(fixture.client.clone());
    let mutating = Api::<MutatingWebhookConfiguration>::all(fixture.client.clone());
    let all = ListParams::default();
    let count = validating.list(&all).await?.items.len() + mutating.list(&all).await?.items.len();
    ensure!(count == 0, "{count} webhooks");
    Ok(())
}
