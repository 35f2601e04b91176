//! Migration of a cluster from Karpenter 1.14 to Kerf and back: instances, hashes, finalizers, instance profile, launch
//! template and queue. No instance, Node or pod may change on the real API server, for `KERF_SWITCH_SECONDS` seconds. The
//! default is long enough for the loops of drift and gc, which run at least once in a minute and a half.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "switch/karpenter.rs"]
mod karpenter;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::objects::{Node, Pod};
use api::status::Conditioned;
use api::{NodeClaim, annotation, condition, hash};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::json;
use testbed::environment::Environment;
use testbed::eventually;

use karpenter::{Karpenter, PROFILE};

const LIMIT: Duration = Duration::from_secs(90);
const QUEUE: &str = "kerf-demo";

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
    /// Returns the state once all Nodes are schedulable.
    async fn of_settled(environment: &Environment) -> Result<Self> {
        eventually("the Nodes to be open", LIMIT, async || {
            let picture = Self::of(environment).await?;
            let closed = picture.nodes.iter().find(|(_, (_, taints, cordoned))| *cordoned || !taints.is_empty());
            ensure!(closed.is_none(), "{closed:?}");
            Ok(Some(picture))
        })
        .await
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

/// Creates a pod that fills most of an instance.
async fn pod(environment: &Environment, name: &str) -> Result<()> {
    environment.pod(name, "3", json!({})).await
}

async fn runs(environment: &Environment, name: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(environment.client.clone(), "default");
    eventually(&format!("pod {name} to run"), LIMIT, async || {
        let found = pods.list(&ListParams::default().labels(&format!("app={name}"))).await?;
        Ok(found.items.iter().any(|pod| pod.status.phase == "Running").then_some(()))
    })
    .await
}

/// Waits until every NodeClaim has the hash of its EC2NodeClass in Kerf's version.
async fn taken_over(environment: &Environment) -> Result<()> {
    eventually("every claim to carry our hash", LIMIT, async || {
        for claim in list::<NodeClaim>(environment).await? {
            let version = claim.annotations().get(annotation::EC2_NODE_CLASS_HASH_VERSION).cloned();
            let ours = version.as_deref() == Some(hash::EC2_NODE_CLASS_VERSION);
            ensure!(ours, "NodeClaim {} has {version:?}", claim.name_any());
        }
        Ok(Some(()))
    })
    .await
}

fn lasts() -> Duration {
    let seconds = std::env::var("KERF_SWITCH_SECONDS").map_or(75, |text| text.parse().unwrap());
    Duration::from_secs(seconds)
}

async fn there_and_back(environment: &mut Environment) -> Result<()> {
    Karpenter::on(environment).ran(&["default-4x7kq", "default-p9w2d"]).await.context("as Karpenter leaves it")?;
    for name in ["one", "other"] {
        pod(environment, name).await?;
        runs(environment, name).await?;
    }
    let before = Picture::of_settled(environment).await?;
    ensure!(before.profiles == [PROFILE.to_owned()].into(), "before: {:?}", before.profiles);

    environment.ec2.create_queue(QUEUE);
    environment.set_queue(QUEUE);
    environment.start_controller()?;
    taken_over(environment).await?;
    before.stays(environment, lasts()).await.context("Kerf has taken over")?;

    pod(environment, "newcomer").await?;
    runs(environment, "newcomer").await?;
    let claims = eventually("the newcomer's machine to be initialized", LIMIT, async || {
        let claims = list::<NodeClaim>(environment).await?;
        Ok(claims.iter().all(|claim| claim.is_true(condition::INITIALIZED)).then_some(claims.len()))
    })
    .await?;
    ensure!(claims == 3, "{claims} claims for three pods that fill a machine each");
    // Kerf adds the tags and other data that Karpenter needs once it has reconciled each NodeClaim.
    eventually("Karpenter to find what it needs", LIMIT, async || {
        Karpenter::on(environment).could_go_on().await.map(Some)
    })
    .await?;
    let both = Picture::of_settled(environment).await?;
    ensure!(environment.stop_controller().await?, "the controller did not end well");
    Karpenter::on(environment).could_go_on().await.context("Kerf has gone")?;

    Karpenter::on(environment).came_back().await?;
    environment.start_controller()?;
    taken_over(environment).await?;
    both.stays(environment, lasts() / 6).await.context("Kerf has taken over again")
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
