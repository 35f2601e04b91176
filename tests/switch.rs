//! Migration of a cluster from the real Karpenter 1.14 to Kerf and back, on the emulated EC2: many types, spot and on-demand,
//! consolidation on, pods of several sizes. No instance, Node or pod may change by the switch, for `KERF_SWITCH_SECONDS` seconds.
//! The default is long enough for the loops of drift and gc, which run at least once in a minute and a half.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::objects::{Node, Pod};
use api::status::Conditioned;
use api::{NodeClaim, NodePool, annotation, condition, hash, label};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::environment::{CLUSTER, Environment};
use testbed::{eventually, karpenter};

const LIMIT: Duration = Duration::from_secs(90);
const QUEUE: &str = "kerf-demo";
/// Time without a change after which Karpenter's own consolidation is over.
const SETTLED: Duration = Duration::from_secs(45);
/// Pods of the cluster: name and CPU.
const PODS: [(&str, &str); 4] = [("large", "3"), ("medium", "1500m"), ("small", "500m"), ("other", "1")];

/// State of all objects that a migration could affect.
#[derive(Debug, PartialEq)]
struct Picture {
    /// NodeClaims by name: UID, instance, and whether it is being deleted or drifted.
    claims: BTreeMap<String, (String, String, bool)>,
    /// Nodes by name: UID, taints, cordon.
    nodes: BTreeMap<String, (String, BTreeSet<String>, bool)>,
    /// Pods by name: UID and Node.
    pods: BTreeMap<String, (String, String)>,
    /// Running instances.
    instances: BTreeSet<String>,
    /// Instance profiles of the EC2NodeClass.
    profiles: BTreeSet<String>,
}

impl Picture {
    /// Returns the state once all Nodes are schedulable and nothing has changed for a while.
    async fn of_settled(environment: &Environment) -> Result<Self> {
        let mut last = (Self::of(environment).await?, Instant::now());
        eventually("the cluster to settle", LIMIT * 3, async || {
            let picture = Self::of(environment).await?;
            if picture != last.0 {
                last = (picture, Instant::now());
            }
            let closed = last.0.nodes.iter().find(|(_, (_, taints, cordoned))| *cordoned || !taints.is_empty());
            ensure!(closed.is_none(), "{closed:?}");
            Ok((last.1.elapsed() >= SETTLED).then_some(()))
        })
        .await?;
        Self::of(environment).await
    }

    async fn of(environment: &Environment) -> Result<Self> {
        let claims = list::<NodeClaim>(environment).await?.into_iter().map(|claim| {
            let leaves = claim.metadata.deletion_timestamp.is_some() || claim.is_true(condition::DRIFTED);
            let instance = claim.status.as_ref().map(|status| status.provider_id.clone()).unwrap_or_default();
            (claim.name_any(), (claim.uid().unwrap_or_default(), instance, leaves))
        });
        let nodes = list::<Node>(environment).await?.into_iter().map(|node| {
            let taints = node.spec.taints.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect();
            (node.name_any(), (node.uid().unwrap_or_default(), taints, node.spec.unschedulable))
        });
        let pods = list::<Pod>(environment).await?.into_iter().filter(|pod| !pod.is_daemon());
        let pods = pods.map(|pod| (pod.name_any(), (pod.uid().unwrap_or_default(), pod.spec.node_name.clone())));
        let profiles = environment.ec2.profiles().into_iter().filter(|profile| profile.path.starts_with("/karpenter/"));
        Ok(Self {
            claims: claims.collect(),
            nodes: nodes.collect(),
            pods: pods.collect(),
            instances: environment.running_instances().into_iter().map(|machine| machine.instance.id).collect(),
            profiles: profiles.map(|profile| profile.name).collect(),
        })
    }

    /// Asserts repeatedly that nothing has changed.
    async fn stays(&self, environment: &mut Environment, lasts: Duration) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < lasts {
            environment.ensure_controller_runs()?;
            let now = Self::of(environment).await?;
            ensure!(now == *self, "after {:.0?}: was {self:#?}, is {now:#?}", begin.elapsed());
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    }
}

async fn list<K>(environment: &Environment) -> Result<Vec<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    Ok(Api::<K>::all(environment.client.clone()).list(&ListParams::default()).await?.items)
}

/// Returns a NodePool as users have it.
fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": label::CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]},
                    {"key": label::INSTANCE_CATEGORY, "operator": "In", "values": ["c", "m", "r"]},
                    {"key": label::INSTANCE_GENERATION, "operator": "Gt", "values": ["4"]},
                ],
            }},
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "15s",
                "budgets": [{"nodes": "100%"}],
            },
        },
    })
}

async fn pod(environment: &Environment, name: &str, cpu: &str) -> Result<()> {
    environment.pod(name, cpu, json!({})).await
}

async fn runs(environment: &Environment, name: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(environment.client.clone(), "default");
    eventually(&format!("pod {name} to run"), LIMIT, async || {
        let found = pods.list(&ListParams::default().labels(&format!("app={name}"))).await?;
        Ok(found.items.iter().any(|pod| pod.status.phase == "Running").then_some(()))
    })
    .await
}

/// Returns the versions of the hashes that the NodeClaims have of their EC2NodeClass.
async fn hash_versions(environment: &Environment) -> Result<BTreeSet<String>> {
    let claims = list::<NodeClaim>(environment).await?;
    let version = |claim: &NodeClaim| claim.annotations().get(annotation::EC2_NODE_CLASS_HASH_VERSION).cloned();
    Ok(claims.iter().map(|claim| version(claim).unwrap_or_default()).collect())
}

/// Waits until every NodeClaim has the hash of its EC2NodeClass in this version.
async fn taken_over(environment: &Environment, version: &str) -> Result<()> {
    eventually(&format!("every claim to carry a hash of version {version}"), LIMIT, async || {
        let found = hash_versions(environment).await?;
        ensure!(found == [version.to_owned()].into(), "{found:?}");
        Ok(Some(()))
    })
    .await
}

/// Waits until every NodeClaim is initialized.
async fn initialized(environment: &Environment) -> Result<()> {
    eventually("every machine to be initialized", LIMIT, async || {
        let claims = list::<NodeClaim>(environment).await?;
        Ok(claims.iter().all(|claim| claim.is_true(condition::INITIALIZED)).then_some(()))
    })
    .await
}

/// Sets `consolidateAfter` of the NodePool, which is no part of its hash.
async fn consolidates_after(environment: &Environment, after: &str) -> Result<()> {
    let pools: Api<NodePool> = Api::all(environment.client.clone());
    let change = json!({"spec": {"disruption": {"consolidateAfter": after}}});
    pools.patch("default", &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

fn lasts() -> Duration {
    let seconds = std::env::var("KERF_SWITCH_SECONDS").map_or(75, |text| text.parse().unwrap());
    Duration::from_secs(seconds)
}

async fn there_and_back(environment: &mut Environment) -> Result<()> {
    let program = karpenter::program().await?;
    environment.apply("getting-started/aws-node.yaml").await?;
    environment.apply_value(karpenter::node_class(CLUSTER)).await?;
    environment.apply_value(pool()).await?;
    environment.ec2.create_queue(QUEUE);
    environment.set_queue(QUEUE);

    environment.set_karpenter(Some(program.clone()));
    environment.start_controller()?;
    for (name, cpu) in PODS {
        pod(environment, name, cpu).await?;
        runs(environment, name).await.context("Karpenter launches")?;
    }
    initialized(environment).await?;
    let before = Picture::of_settled(environment).await?;
    let theirs = hash_versions(environment).await?.into_iter().next().context("Karpenter launched nothing")?;
    ensure!(before.profiles.len() == 1, "before: {:?}", before.profiles);
    // Karpenter's exit code does not matter here.
    environment.stop_controller().await?;

    environment.set_karpenter(None);
    environment.start_controller()?;
    taken_over(environment, hash::EC2_NODE_CLASS_VERSION).await?;
    before.stays(environment, lasts()).await.context("Kerf has taken over")?;
    pod(environment, "newcomer", "3").await?;
    runs(environment, "newcomer").await.context("Kerf launches")?;
    initialized(environment).await?;
    // What Karpenter consolidates after its return has other reasons than the switch.
    consolidates_after(environment, "1h").await?;
    let both = Picture::of_settled(environment).await?;
    ensure!(environment.stop_controller().await?, "Kerf did not end well");

    environment.set_karpenter(Some(program));
    environment.start_controller()?;
    taken_over(environment, &theirs).await?;
    both.stays(environment, lasts() / 3).await.context("Karpenter is back")?;
    pod(environment, "latecomer", "3").await?;
    runs(environment, "latecomer").await.context("Karpenter launches again")
}

#[test]
fn kerf_takes_over_from_karpenter_and_back_without_changes() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcome = runtime.block_on(async {
        let mut environment = Environment::start().await?;
        let outcome = there_and_back(&mut environment).await;
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
