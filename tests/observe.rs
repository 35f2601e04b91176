//! Observe mode beside the real Karpenter 1.14, with the chart's permissions for an observer: Kerf records what it would do, compares
//! the cost of the nodes with its own fleet, and writes nothing to nodes, NodeClaims, pods or EC2.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use api::decisions::{Decision, DecisionKind, Summary};
use api::objects::{Node, Pod};
use api::status::Conditioned;
use api::{NodeClaim, NodePool, condition, label};
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use testbed::controlplane::Account;
use testbed::environment::{CLUSTER, Environment, Setup};
use testbed::machines::find_program;
use testbed::observing_controller::ObservingController;
use testbed::{eventually, karpenter};
use tokio::process::Command;

const LIMIT: Duration = Duration::from_secs(120);

/// The observing controller, with reads of what it records.
struct Observer {
    controller: ObservingController,
    admin: PathBuf,
}

impl Observer {
    async fn start(environment: &Environment) -> Result<Self> {
        let controller = ObservingController::start(environment).await?;
        Ok(Self { controller, admin: environment.control_plane.admin_kubeconfig() })
    }

    /// Returns the output of `kerf` for the namespace of the observer.
    async fn kerf(&self, words: &[&str]) -> Result<String> {
        let program = find_program("kerf", "KERF_CLI", "cargo build --workspace")?;
        let mut command = Command::new(program);
        command.args(words).args(["-n", Account::Observer.namespace()]).env("KUBECONFIG", &self.admin);
        let output = command.output().await?;
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout)?),
            false => bail!("{}", String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// Waits for a record of this kind that `is` accepts.
    async fn records(&self, kind: DecisionKind, is: impl Fn(&Decision) -> bool) -> Result<Decision> {
        eventually(&format!("a record `{}`", kind.as_str()), LIMIT, async || {
            let text = self.kerf(&["log", "-o", "json"]).await?;
            let decisions: Vec<Decision> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
            ensure!(decisions.iter().all(|decision| decision.kind != DecisionKind::Created), "{text}");
            Ok(decisions.into_iter().find(|decision| decision.kind == kind && is(decision)))
        })
        .await
    }

    /// Waits until the computed fleet has nodes.
    async fn computes_a_fleet(&self) -> Result<()> {
        eventually("the cost of a new fleet", LIMIT, async || {
            let metrics = self.controller.metrics().await?;
            let line = metrics.lines().find(|line| line.starts_with("kerf_observed_new_fleet_dollars_per_hour"));
            let cost: f64 = line.and_then(|line| line.rsplit_once(' ')).context("no metric")?.1.parse()?;
            Ok((cost > 0.0).then_some(()))
        })
        .await
    }
}

/// Returns a NodePool from which Karpenter and Kerf launch spot and on-demand nodes.
fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {
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

async fn list<K>(environment: &Environment) -> Result<Vec<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    Ok(Api::<K>::all(environment.client.clone()).list(&ListParams::default()).await?.items)
}

/// Runs Karpenter without pods until its NodePool is ready.
async fn prepare(environment: &mut Environment) -> Result<()> {
    environment.apply("getting-started/aws-node.yaml").await?;
    environment.apply_value(karpenter::node_class(CLUSTER)).await?;
    environment.apply_value(pool()).await?;
    environment.start_controller()?;
    eventually("Karpenter's NodePool to be ready", LIMIT, async || {
        let pools = list::<NodePool>(environment).await?;
        Ok(pools.iter().any(|pool| pool.is_true(condition::READY)).then_some(()))
    })
    .await?;
    environment.stop_controller().await.map(drop)
}

/// Waits until Karpenter has launched nodes for both pods, and all are initialized.
async fn launched(environment: &Environment) -> Result<()> {
    eventually("Karpenter's nodes", LIMIT, async || {
        let pods = list::<Pod>(environment).await?;
        let running = pods.iter().filter(|pod| !pod.is_daemon() && pod.status.phase == "Running").count();
        let claims = list::<NodeClaim>(environment).await?;
        let up = claims.iter().filter(|claim| claim.is_true(condition::INITIALIZED)).count();
        Ok((running == 2 && up == 2 && claims.len() == 2).then_some(()))
    })
    .await
}

/// Returns UID, deletion and taints of NodeClaims and Nodes by name.
async fn fleet(environment: &Environment) -> Result<BTreeMap<String, String>> {
    let claims = list::<NodeClaim>(environment)
        .await?
        .into_iter()
        .map(|claim| (claim.name_any(), format!("{:?} {:?}", claim.metadata.uid, claim.metadata.deletion_timestamp)));
    let nodes = list::<Node>(environment).await?.into_iter().map(|node| {
        (
            node.name_any(),
            format!("{:?} {:?} {:?}", node.metadata.uid, node.spec.taints, node.metadata.deletion_timestamp),
        )
    });
    Ok(claims.chain(nodes).collect())
}

async fn observe(environment: &mut Environment) -> Result<()> {
    environment.set_karpenter(Some(karpenter::program().await?));
    prepare(environment).await?;
    let mut observer = Observer::start(environment).await?;

    // Karpenter does not run yet, so only the observer plans for the pods.
    environment.pod("web", "3", json!({label::CAPACITY_TYPE: "on-demand"})).await?;
    environment.pod("batch", "1500m", json!({label::CAPACITY_TYPE: "spot"})).await?;
    for app in ["web", "batch"] {
        let is_for =
            |decision: &Decision| decision.pods.names.iter().any(|pod| pod.starts_with(&format!("default/{app}-")));
        let created = observer.records(DecisionKind::WouldCreate, is_for).await?;
        ensure!(created.nodeclaims.is_empty() && created.price_per_hour.is_some_and(|price| price > 0), "{created:?}");
    }
    ensure!(list::<NodeClaim>(environment).await?.is_empty(), "the observer created a NodeClaim");

    environment.start_controller()?;
    launched(environment).await?;
    observer.computes_a_fleet().await?;
    environment.stop_controller().await?;

    let before = fleet(environment).await?;
    let sets: Api<ReplicaSet> = Api::namespaced(environment.client.clone(), "default");
    sets.delete("batch", &DeleteParams::background()).await?;
    let disrupted = observer.records(DecisionKind::WouldDisrupt, |decision| decision.reason == "Empty").await?;
    ensure!(disrupted.nodes.count == 1 && disrupted.saving_per_hour.is_some_and(|saving| saving > 0), "{disrupted:?}");
    ensure!(fleet(environment).await? == before, "a node or NodeClaim has changed");

    observer.controller.stop().await?;
    let compared: Summary = serde_json::from_str(&observer.kerf(&["compare", "-o", "json", "--every", "1d"]).await?)?;
    let figures = compared.new_fleet.context("no comparison")?;
    ensure!(figures.cost > 0 && figures.actual_cost > 0 && figures.node_seconds > 0, "{figures:?}");
    ensure!(
        compared.would_disrupt.contains_key("Empty") && compared.commands.is_empty(),
        "{:?}",
        compared.would_disrupt
    );
    let text = observer.kerf(&["compare"]).await?;
    ensure!(text.contains("NEW FLEET") && text.contains("Empty: 1 command for 1 node"), "{text}");
    observer.controller.changed_nothing(environment)
}

#[test]
fn observer_records_what_it_would_do_and_changes_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcome = runtime.block_on(async {
        let setup = Setup { without_rights: true, ..Setup::default() };
        let mut environment = Environment::start_with(setup).await?;
        let outcome = observe(&mut environment).await;
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
