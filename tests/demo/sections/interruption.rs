//! Spot interruption of one instance. Its agent drains the node, and the controller replaces it without an SQS queue.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::{annotation, condition, reason};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use testbed::eventually;

use super::{Demo, PATIENCE};
use crate::cluster::APP;

/// Notice period of EC2.
const NOTICE: SignedDuration = SignedDuration::from_secs(120);

pub async fn run(demo: &mut Demo) -> Result<()> {
    demo.reporter.section("3. Spot interruption");
    let victim = victim(demo).await?;
    let started = notice(demo, &victim).await?;
    replacement(demo, &victim, started).await?;
    emptied(demo, &victim, started).await?;
    gone(demo, &victim).await
}

/// Interrupted node, with its NodeClaim and its instance.
pub struct Victim {
    pub node: String,
    pub claim: String,
    pub instance: String,
}

/// Returns the node with the most pods of the demo.
async fn victim(demo: &Demo) -> Result<Victim> {
    let running = demo.cluster.running().await?;
    let nodes = demo.cluster.nodes().await?;
    let busiest = nodes
        .iter()
        .max_by_key(|node| running.iter().filter(|pod| pod.spec.node_name == node.name()).count())
        .context("no nodes")?;
    find(demo, busiest.name()).await
}

/// Finds the NodeClaim and the instance of a node by the node's name.
pub async fn find(demo: &Demo, node: &str) -> Result<Victim> {
    let claims = demo.cluster.claims().await?;
    let claim = claims
        .iter()
        .find(|claim| claim.status.as_ref().is_some_and(|status| status.node_name == node))
        .with_context(|| format!("{node} has no NodeClaim"))?;
    let provider_id = claim.status.as_ref().map(|status| status.provider_id.as_str()).unwrap_or_default();
    let instance =
        cloud::launch::claim::instance_id(provider_id).with_context(|| format!("{node} has no instance"))?.to_owned();
    Ok(Victim { node: node.to_owned(), claim: claim.name_any(), instance })
}

async fn notice(demo: &mut Demo, victim: &Victim) -> Result<Timestamp> {
    let Demo { reporter, environment, cluster, observer, .. } = demo;
    let started = Timestamp::now();
    let given = async {
        let deadline = started.checked_add(NOTICE)?;
        ensure!(environment.ec2.interrupt(&victim.instance, deadline), "EC2 does not know {}", victim.instance);
        Ok(())
    };
    reporter.line("a spot interruption notice appears in the metadata of one instance", given).await?;
    let cordoned = eventually("the node to be cordoned", PATIENCE, async || {
        Ok(cluster.node(&victim.node).await?.filter(|node| node.spec.unschedulable))
    });
    reporter.line("its agent cordons the node", cordoned).await?;
    let history = observer.node(&victim.node);
    if let Some(seen) = history.iter().find(|seen| seen.at >= started && seen.object.spec.unschedulable) {
        let took = Duration::try_from(seen.at.duration_since(started)).unwrap_or_default();
        reporter.figure("spot notice -> node cordoned", took);
    }
    let published = eventually("the condition", PATIENCE, async || {
        let node = cluster.node(&victim.node).await?.context("the Node is gone")?;
        let found = node.condition(condition::INTERRUPTED).context("no condition yet")?;
        ensure!(found.status == condition::TRUE && found.reason == reason::SPOT_INTERRUPTION, "it says {found:?}");
        let deadline = node.annotation(annotation::INTERRUPTION_DEADLINE).context("no deadline")?;
        let deadline: Timestamp = deadline.parse().context("the deadline is no RFC 3339 time")?;
        let late = deadline.duration_since(started.checked_add(NOTICE)?).abs();
        ensure!(late <= SignedDuration::from_secs(1), "the deadline is {late:?} off");
        Ok(Some(()))
    });
    reporter.line("it sets kerf.sh/Interrupted with reason and deadline", published).await?;
    Ok(started)
}

async fn replacement(demo: &mut Demo, victim: &Victim, started: Timestamp) -> Result<()> {
    let Demo { reporter, cluster, .. } = demo;
    let fresh = eventually("a replacement", PATIENCE, async || {
        let claims = cluster.claims().await?;
        let born = |claim: &api::NodeClaim| claim.creation_timestamp().map(|time| time.0);
        // The API server stores whole seconds.
        let since = started.checked_sub(SignedDuration::from_secs(1))?;
        Ok(claims.into_iter().find(|claim| born(claim).is_some_and(|born| born >= since)))
    });
    let fresh = reporter.line("the controller launches a replacement", fresh).await?;
    let before = async {
        let left = cluster.running().await?.iter().filter(|pod| pod.spec.node_name == victim.node).count();
        ensure!(left > 0, "{} was empty before {} was written", victim.node, fresh.name_any());
        Ok(())
    };
    reporter.line("this happens before the drain ends, without a queue", before).await
}

async fn emptied(demo: &mut Demo, victim: &Victim, started: Timestamp) -> Result<()> {
    let Demo { reporter, cluster, observer, .. } = demo;
    let wanted = cluster.pods().await?.len();
    let empty = eventually("the node to be empty and its pods to run elsewhere", PATIENCE, async || {
        let running = cluster.running().await?;
        let left = running.iter().filter(|pod| pod.spec.node_name == victim.node).count();
        ensure!(left == 0 && running.len() == wanted, "{left} pods left, {} of {wanted} run", running.len());
        Ok(Some(()))
    });
    reporter.line("the node is drained, and all its pods run on other nodes", empty).await?;
    let evicted = async {
        let pods = observer.pods_since(started);
        let ended: Vec<_> = pods
            .iter()
            .filter(|seen| seen.object.spec.node_name == victim.node && seen.object.is_terminating())
            .filter(|seen| seen.object.labels().get("app").is_some_and(|app| app == APP))
            .collect();
        ensure!(!ended.is_empty(), "no pod of {} was seen to end", victim.node);
        for seen in ended {
            let target = seen.object.condition(condition::DISRUPTION_TARGET).context("a pod ended without eviction")?;
            ensure!(target.reason == "EvictionByEvictionAPI", "{} ended by {}", seen.object.name(), target.reason);
        }
        Ok(())
    };
    reporter.line("each pod was evicted by the Eviction API", evicted).await?;
    let kept = async {
        let fewest = observer.fewest_ready(APP, started);
        ensure!(fewest + 1 >= wanted, "at one moment only {fewest} of {wanted} were ready");
        Ok(())
    };
    reporter.line("the PodDisruptionBudget (maxUnavailable 1) was never violated", kept).await
}

/// Checks that Node, NodeClaim and instance are removed.
pub async fn gone(demo: &mut Demo, victim: &Victim) -> Result<()> {
    let Demo { reporter, environment, cluster, .. } = demo;
    let ended = eventually("the instance to end", PATIENCE * 2, async || {
        let machine = environment.ec2.machine(&victim.instance).context("EC2 forgot it")?;
        ensure!(machine.instance.state == "terminated", "it is {}", machine.instance.state);
        Ok(Some(()))
    });
    reporter.line("the old instance is terminated", ended).await?;
    let gone = eventually("Node and NodeClaim to go", PATIENCE, async || {
        let node = cluster.node(&victim.node).await?.is_some();
        let claim = cluster.claims().await?.iter().any(|claim| claim.name_any() == victim.claim);
        ensure!(!node && !claim, "Node there: {node}, NodeClaim there: {claim}");
        Ok(Some(()))
    });
    reporter.line("its Node and NodeClaim are removed too", gone).await
}
