//! The end of the instance: a spot notice, a budget that at first permits no eviction and then one at a time, and a kill of the
//! agent in between. The API server's audit log is the evidence.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use api::condition;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use testbed::controlplane::PodRemoval;
use testbed::eventually;
use testbed::machines::Phase;

use super::RUN;
use super::fixture::{Fixture, LIMIT};

/// Time between a spot notice of EC2 and its deadline.
const NOTICE: SignedDuration = SignedDuration::from_secs(120);
/// User agent prefix of the agent; its user name is the same as that of kubelet.
const PROGRAM: &str = "kerf-agent/";
const TOO_MANY: u16 = 429;

pub async fn keeps_the_budget(fixture: &Fixture) -> Result<()> {
    let web: BTreeSet<String> = fixture.running("web", 3).await?.iter().map(ResourceExt::name_any).collect();
    let started = Timestamp::now();
    let deadline = started + NOTICE;
    let instance = fixture.machine.instance_id();
    ensure!(fixture.environment.ec2.interrupt(instance, deadline), "EC2 does not know {instance}");
    fixture.condition(condition::INTERRUPTED, condition::TRUE).await?;
    let refused = refused_since(fixture, started).await?;
    ensure!(
        refused.message.contains("disruption budget web"),
        "the refusal does not name the budget: {}",
        refused.message
    );
    println!("    {} after the notice {} was refused: {}", since(&refused, started), refused.pod, refused.message);
    let killed = fixture.kill(RUN)?;
    refused_since(fixture, killed).await.context("the drain of a killed agent was not resumed")?;
    ensure!(fixture.running("web", 3).await?.len() == 3, "a pod was evicted against the budget");
    let opened = Timestamp::now();
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(fixture.client.clone(), "default");
    let one = Patch::Merge(json!({"spec": {"maxUnavailable": 1}}));
    budgets.patch("web", &PatchParams::default(), &one).await?;
    println!("    {:.1} s after the notice the budget allows one", opened.duration_since(started).as_secs_f64());
    eventually("the machine to be empty", LIMIT, async || {
        let mut left = fixture.pods(None).await?;
        // A terminated instance leaves the objects of ended pods to the garbage collector of Kubernetes, which deletes them a
        // minute later.
        left.retain(|pod| pod.metadata.namespace.as_deref() == Some("default") && !has_ended(pod));
        ensure!(left.is_empty(), "{:?}", left.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
        Ok(Some(()))
    })
    .await?;
    ensure!(Timestamp::now() < deadline, "the last pod ended after the deadline");
    event_reports_the_outcome(fixture).await?;
    let fewest = fixture.observer.fewest_ready("web", started);
    ensure!(fewest == 2, "the budget allows one of three to be away, and {fewest} were ready");
    validate(&ours(fixture)?, &web, started, opened)
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Returns the requests of this machine's agent in the audit log of the API server.
fn ours(fixture: &Fixture) -> Result<Vec<PodRemoval>> {
    let user = format!("system:node:{}", fixture.machine.node_name());
    let mut all = fixture.environment.control_plane.removals()?;
    all.retain(|removal| removal.user == user && removal.program.starts_with(PROGRAM));
    Ok(all)
}

/// Waits for the agent's next refused eviction.
async fn refused_since(fixture: &Fixture, moment: Timestamp) -> Result<PodRemoval> {
    eventually("a refusal", LIMIT, async || {
        Ok(ours(fixture)?.into_iter().find(|removal| removal.code == TOO_MANY && removal.at > moment))
    })
    .await
}

fn since(removal: &PodRemoval, start: Timestamp) -> String {
    format!("{:.1} s", removal.at.duration_since(start).as_secs_f64())
}

/// Asserts that the API server granted the eviction of every pod of the budget, not before the budget permitted one, and that
/// no pod was deleted.
fn validate(evictions: &[PodRemoval], web: &BTreeSet<String>, started: Timestamp, opened: Timestamp) -> Result<()> {
    let refused = evictions.iter().filter(|removal| removal.code == TOO_MANY).count();
    println!("    {refused} evictions were refused; what was granted:");
    ensure!(evictions.iter().all(|removal| removal.evicts), "a pod was deleted instead of evicted");
    ensure!(
        !evictions.iter().any(|removal| removal.pod.starts_with("aws-node")),
        "the DaemonSet's pod was asked to go"
    );
    let mut left = BTreeSet::new();
    for removal in evictions.iter().filter(|removal| removal.code < 300) {
        println!("    {:>7} {}", since(removal, started), removal.pod);
        if web.contains(&removal.pod) {
            ensure!(removal.at >= opened, "{} went before the budget let it go", removal.pod);
            left.insert(removal.pod.clone());
        }
    }
    ensure!(left == *web, "by leave went {left:?} of {web:?}");
    Ok(())
}

/// Asserts that an event reports the outcome.
async fn event_reports_the_outcome(fixture: &Fixture) -> Result<()> {
    let events: Api<Event> = Api::namespaced(fixture.client.clone(), "default");
    let reason = format!("reason={}", condition::DRAINED);
    let statuses = eventually("the drain's outcome", LIMIT, async || {
        let events = events.list(&ListParams::default().fields(&reason)).await?.items;
        Ok(events.into_iter().find_map(|event| event.message))
    })
    .await?;
    println!("    {statuses}");
    ensure!(statuses.contains("0 forced") || !statuses.contains("forced"), "a pod was forced: {statuses}");
    Ok(())
}

/// Asserts that the controller terminates the instance, that systemd shuts down in order, and that nothing is left.
pub async fn ends_the_machine(fixture: &Fixture) -> Result<()> {
    eventually("the machine's end", LIMIT, async || {
        let phase = fixture.machine.phase();
        ensure!(phase == Phase::Ended, "it is {phase:?}");
        Ok(Some(()))
    })
    .await?;
    let journal = std::fs::read_to_string(fixture.machine.log())?;
    ensure!(journal.contains("kerf-agent"), "the journal was not kept");
    eventually("its Node to go", LIMIT, async || {
        let nodes: Api<Node> = Api::all(fixture.client.clone());
        Ok(nodes.get_opt(fixture.machine.node_name()).await?.is_none().then_some(()))
    })
    .await
}
