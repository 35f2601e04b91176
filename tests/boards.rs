//! Grafana boards on a real Prometheus that scrapes a live controller: after launches, an interruption, a shortage and a
//! consolidation, each panel has data.

#[path = "boards/prometheus.rs"]
mod prometheus;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use api::objects::Pod;
use api::status::Conditioned;
use api::{NodeClaim, NodePool, condition, label};
use cloud::fake::CapacityOutage;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use testbed::environment::{Environment, Setup};
use testbed::eventually;

use prometheus::Prometheus;

const LIMIT: Duration = Duration::from_secs(120);
/// Notice period of EC2.
const NOTICE: SignedDuration = SignedDuration::from_secs(120);

/// Panels that show something only when something is wrong, or only with a setting that this cluster does not have. That their
/// metrics exist is checked in `tests/monitoring.rs`.
const QUIET: [&str; 6] = [
    "Interruption queue",
    "Throttled and failed calls",
    "Failed writes",
    "Wait for rate limits",
    "Oldest pending pods",
    "Nodes by health",
];

/// Panel with the expressions that it shows.
struct Panel {
    name: String,
    expressions: Vec<String>,
}

/// Returns the panels of a board, for all NodePools.
fn panels(path: &Path) -> Result<Vec<Panel>> {
    let board: Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let all = board["panels"].as_array().context("a board without panels")?;
    let text = |value: &Value| value.as_str().map(|text| text.replace("$nodepool", ".*")).context("not a text");
    let panel = |panel: &Value| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        let expressions = targets.map(|target| text(&target["expr"])).collect::<Result<_>>()?;
        Ok(Panel { name: text(&panel["title"])?, expressions })
    };
    all.iter().filter(|panel| panel["type"] != "row").map(panel).collect()
}

/// Returns a NodePool whose empty nodes are removed at once.
fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {
            "limits": {"cpu": "100"},
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": label::CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]},
                    {"key": label::INSTANCE_CATEGORY, "operator": "In", "values": ["c", "m", "r"]},
                ],
            }},
            "disruption": {
                "consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}],
            },
        },
    })
}

/// Returns the only running pod of a ReplicaSet, which is not on this node.
async fn runs_elsewhere(environment: &Environment, app: &str, node: &str) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(environment.client.clone(), "default");
    eventually(&format!("pod {app} to run"), LIMIT, async || {
        let pods = pods.list(&ListParams::default().labels(&format!("app={app}"))).await?.items;
        let is_running = |pod: &&Pod| pod.is_ready() && !pod.is_terminating() && pod.spec.node_name != node;
        Ok(pods.iter().find(is_running).map(|pod| pod.spec.node_name.clone()))
    })
    .await
}

async fn claims(environment: &Environment) -> Result<Vec<NodeClaim>> {
    Ok(Api::<NodeClaim>::all(environment.client.clone()).list(&ListParams::default()).await?.items)
}

/// EC2 interrupts the instance of a node, and its pod runs on another one.
async fn interruption(environment: &Environment, app: &str) -> Result<()> {
    let node = runs_elsewhere(environment, app, "").await?;
    let claims = claims(environment).await?;
    let claim = claims.iter().find(|claim| claim.status.as_ref().is_some_and(|status| status.node_name == node));
    let id = claim.and_then(NodeClaim::provider_id).and_then(cloud::launch::claim::instance_id);
    let deadline = Timestamp::now().checked_add(NOTICE)?;
    ensure!(environment.ec2.interrupt(id.context("the node has no instance")?, deadline), "EC2 does not know {id:?}");
    runs_elsewhere(environment, app, &node).await.map(drop)
}

/// No zone has spot capacity, so a pod gets an on-demand node.
async fn shortage(environment: &Environment) -> Result<()> {
    let spot = CapacityOutage { capacity_type: Some(label::CAPACITY_SPOT.to_owned()), ..CapacityOutage::default() };
    environment.ec2.start_outage(spot);
    environment.pod("late", "6", json!({})).await?;
    runs_elsewhere(environment, "late", "").await?;
    environment.ec2.end_outages();
    Ok(())
}

/// The last pod of a node is deleted, and the node goes.
async fn consolidation(environment: &Environment) -> Result<()> {
    let before = claims(environment).await?.len();
    let sets: Api<ReplicaSet> = Api::namespaced(environment.client.clone(), "default");
    sets.delete("late", &DeleteParams::background()).await?;
    eventually("the empty node to go", LIMIT, async || Ok((claims(environment).await?.len() < before).then_some(())))
        .await
}

async fn events(environment: &mut Environment) -> Result<()> {
    for file in ["ec2nodeclass.yaml", "aws-node.yaml"] {
        environment.apply(&format!("getting-started/{file}")).await?;
    }
    environment.apply_value(pool()).await?;
    environment.set_cost_label("app");
    environment.start_controller()?;
    eventually("the NodePool to be ready", LIMIT, async || {
        let pool = Api::<NodePool>::all(environment.client.clone()).get("default").await?;
        Ok(pool.is_true(condition::READY).then_some(()))
    })
    .await?;
    environment.pod("batch", "1", json!({label::CAPACITY_TYPE: label::CAPACITY_SPOT})).await?;
    interruption(environment, "batch").await?;
    shortage(environment).await?;
    consolidation(environment).await
}

/// Checks that each panel has data, apart from the quiet ones.
async fn have_data(prometheus: &Prometheus) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../controller/monitoring/boards");
    let mut seen = BTreeSet::new();
    for entry in std::fs::read_dir(&folder)? {
        for Panel { name, expressions } in panels(&entry?.path())? {
            seen.insert(name.clone());
            for expression in expressions.iter().filter(|_| !QUIET.contains(&name.as_str())) {
                eventually(&format!("data for {name}: {expression}"), LIMIT, async || {
                    let samples = prometheus.query(expression).await?;
                    Ok((samples > 0).then_some(()))
                })
                .await?;
            }
        }
    }
    let unknown = QUIET.iter().find(|name| !seen.contains(**name));
    ensure!(unknown.is_none() && seen.len() > 40, "{unknown:?} among {} panels", seen.len());
    Ok(())
}

async fn boards(environment: &mut Environment) -> Result<()> {
    let prometheus = Prometheus::start(environment.folder(), &environment.probes()).await?;
    events(environment).await?;
    if let Err(error) = have_data(&prometheus).await {
        bail!("{error:#}\nlog of Prometheus:\n{}", prometheus.log());
    }
    Ok(())
}

#[test]
fn each_panel_has_data_on_a_real_prometheus() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcome = runtime.block_on(async {
        let mut environment = Environment::start_with(Setup::default()).await?;
        let outcome = boards(&mut environment).await;
        if outcome.is_err() {
            environment.keep_logs();
        }
        let outcome = outcome.with_context(|| format!("logs are in {}", environment.folder().display()));
        environment.stop().await?;
        outcome
    });
    if let Err(error) = outcome {
        panic!("{error:?}");
    }
}
