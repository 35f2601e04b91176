//! The agent on nodes that the real Karpenter launches, without Kerf's controller: it boots from Karpenter's user data, reports
//! its gates, leaves Karpenter's startup taints alone, and drains its node before a spot interruption, of which this Karpenter
//! without a queue does not know.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::objects::{Node, Pod};
use api::{NodePool, annotation, condition};
use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use testbed::environment::{CLUSTER, Environment};
use testbed::{eventually, karpenter};

const LIMIT: Duration = Duration::from_secs(120);
/// Startup taint of the NodePool; another component removes it by the condition of the agent.
const STARTUP_TAINT: &str = "readiness.k8s.io/kerf";
const APP: &str = "web";

#[tokio::test(flavor = "multi_thread")]
async fn agent_boots_reports_and_drains_under_the_real_karpenter() -> Result<()> {
    let mut environment = Environment::start().await?;
    let outcome = run_steps(&mut environment).await;
    if outcome.is_err() {
        environment.keep_logs();
    }
    outcome.with_context(|| format!("logs are in {}", environment.folder().display()))?;
    environment.stop().await
}

async fn run_steps(environment: &mut Environment) -> Result<()> {
    environment.apply("getting-started/aws-node.yaml").await?;
    environment.apply_value(karpenter::node_class(CLUSTER)).await?;
    environment.apply("getting-started/nodepool.yaml").await?;
    let client = environment.client.clone();
    let spot = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]);
    let template = json!({"spec": {"requirements": spot, "startupTaints": [startup_taint()]}});
    let change = Patch::Merge(json!({"spec": {"template": template, "disruption": {"consolidateAfter": "Never"}}}));
    Api::<NodePool>::all(client.clone()).patch("default", &PatchParams::default(), &change).await?;
    environment.set_karpenter(Some(karpenter::program().await?));
    environment.start_controller()?;
    environment.pod(APP, "3", json!({})).await?;
    let first = opens(&client).await?;
    let pod = runs_on(&client, &first.name_any()).await?;
    interrupt(environment, &first)?;
    let second = opens(&client).await?;
    runs_on(&client, &second.name_any()).await?;
    was_evicted_by_the_agent(environment, &pod, &first.name_any())
}

fn startup_taint() -> Value {
    json!({"key": STARTUP_TAINT, "effect": "NoSchedule"})
}

/// Waits for a node with a closed startup taint whose agent reports open gates, and removes the taint, as the node readiness
/// controller does. Returns the node.
async fn opens(client: &Client) -> Result<Node> {
    let nodes = Api::<Node>::all(client.clone());
    let node = eventually("a node whose agent is ready", LIMIT, async || {
        let all = nodes.list(&ListParams::default()).await?.items;
        let held = |node: &Node| node.spec.taints.iter().any(|taint| taint.key == STARTUP_TAINT);
        let node = all.into_iter().find(held).context("no node has the startup taint")?;
        ensure!(node.annotations().contains_key(annotation::AGENT_HEARTBEAT), "its agent does not report");
        let ready = node.condition(condition::AGENT_READY);
        ensure!(ready.is_some_and(|ready| ready.status == condition::TRUE), "{ready:?}");
        Ok(Some(node))
    })
    .await?;
    let name = node.name_any();
    let kept: Vec<Value> = node
        .spec
        .taints
        .iter()
        .filter(|taint| taint.key != STARTUP_TAINT)
        .map(|taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect}))
        .collect();
    nodes.patch(&name, &PatchParams::default(), &Patch::Merge(json!({"spec": {"taints": kept}}))).await?;
    Ok(node)
}

/// Waits until the pod runs on this node; returns its name.
async fn runs_on(client: &Client, node: &str) -> Result<String> {
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    eventually(&format!("the pod to run on {node}"), LIMIT, async || {
        let found = pods.list(&ListParams::default().labels(&format!("app={APP}"))).await?.items;
        let there = found.iter().find(|pod| pod.spec.node_name == node && pod.status.phase == "Running");
        Ok(there.map(ResourceExt::name_any))
    })
    .await
}

fn interrupt(environment: &Environment, node: &Node) -> Result<()> {
    let provider_id = node.spec.provider_id.as_str();
    let instance = provider_id.rsplit('/').next().context("the node has no provider id")?;
    let deadline = Timestamp::now() + SignedDuration::from_mins(2);
    ensure!(environment.ec2.interrupt(instance, deadline), "EC2 does not interrupt {instance}");
    Ok(())
}

/// Asserts that the node's own agent sent the eviction.
fn was_evicted_by_the_agent(environment: &Environment, pod: &str, node: &str) -> Result<()> {
    let removals = environment.control_plane.removals()?;
    let evicted = removals.iter().find(|removal| removal.pod == pod && removal.evicts && removal.code == 201);
    let evicted = evicted.with_context(|| format!("no eviction of {pod}: {removals:?}"))?;
    ensure!(evicted.user == format!("system:node:{node}"), "{} evicted {pod}", evicted.user);
    ensure!(evicted.program.starts_with("kerf-agent/"), "{} evicted {pod}", evicted.program);
    Ok(())
}
