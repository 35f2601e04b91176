//! Requests above actual use keep an additional node. The controller lowers them in place, so that the pod of another node fits
//! and that node is removed. The API server validates the resize, and kube-scheduler binds by the new requests. Only the usage
//! history is artificial.

use anyhow::{Context, Result, ensure};
use api::nodeusage::{Figures, Histograms, NodeUsage, NodeUsageSpec, Time};
use api::objects::Node;
use api::usage::{Histogram, Joint, Level, PodId, PodUsage, encode_pods};
use api::{NodePool, Quantity, annotation, label};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use testbed::eventually;

use super::fixture::{Fixture, LIMIT, run};

const POOL: &str = "lowering";
/// Request of the resized pod in millicores; below it, its actual use in millicores.
const REQUESTED: i64 = 2500;
const USED: u64 = 900;
/// Usage history in hours: more than a day.
const HISTORY: u8 = 30;

#[test]
fn resize_lowers_requests_when_a_node_can_be_removed() {
    run(async |fixture| lowers_requests(fixture).await);
}

/// Runs the whole test in a NodePool of its own.
pub async fn lowers_requests(fixture: &Fixture) -> Result<()> {
    open_pool(fixture).await?;
    let ours = json!({label::NODEPOOL: POOL});
    fixture.pod("generous", &format!("{REQUESTED}m"), ours.clone()).await?;
    let stays = fixture.runs("generous").await?;
    fixture.pod("late", "1900m", ours).await?;
    let goes = fixture.runs("late").await?;
    ensure!(stays != goes, "both run on {stays}: nothing is to be gained");
    signal_agent(fixture, &stays, Signal::SIGSTOP).await?;
    report(fixture, &stays).await?;
    eventually("requests to be lowered and granted", LIMIT, async || {
        let pod = only_pod(fixture, "generous").await?;
        let asks = pod.spec.containers[0].resources.requests["cpu"].millis()?;
        ensure!(asks < REQUESTED, "it requests {asks}");
        ensure!(pod.annotation(annotation::REQUESTED).is_some(), "its requests were not recorded");
        let has = pod.taken()?.into_iter().find(|(name, _)| name == "cpu").context("it takes no CPU")?.1;
        ensure!(has == asks, "it requests {asks} and has {has}");
        Ok(Some(()))
    })
    .await?;
    eventually("the other machine to go", LIMIT, async || {
        Ok(fixture.api::<Node>().get_opt(&goes).await?.is_none().then_some(()))
    })
    .await?;
    let refuge = fixture.runs("late").await?;
    ensure!(refuge == stays, "late runs on {refuge}, and should have found room on {stays}");
    signal_agent(fixture, &stays, Signal::SIGCONT).await?;
    fixture.api::<NodePool>().delete(POOL, &DeleteParams::default()).await?;
    Ok(())
}

async fn open_pool(fixture: &Fixture) -> Result<()> {
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": POOL, "annotations": {annotation::UTILIZATION: "pack", annotation::PACK_MIN_HISTORY: "24h"}},
        "spec": {
            "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": label::ARCH, "operator": "In", "values": ["amd64"]},
                    {"key": label::INSTANCE_TYPE, "operator": "In", "values": ["m5.xlarge"]},
                    {"key": label::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
                ],
            }},
        },
    });
    fixture.environment.apply_value(pool).await
}

async fn only_pod(fixture: &Fixture, app: &str) -> Result<api::objects::Pod> {
    let mut pods = fixture.pods().list(&ListParams::default().labels(&format!("app={app}"))).await?.items;
    pods.retain(|pod| !pod.is_terminating());
    pods.pop().with_context(|| format!("no pod of {app}"))
}

/// Signals the node's own agent. Its history is about a minute long and must not be reported during the test.
async fn signal_agent(fixture: &Fixture, node: &str, signal: Signal) -> Result<()> {
    let instance = instance_of(fixture, node).await?;
    let machine = fixture.environment.simulator.machine(&instance).context("no machine")?;
    for pid in machine.pids() {
        kill(Pid::from_raw(i32::try_from(pid)?), signal)?;
    }
    Ok(())
}

async fn instance_of(fixture: &Fixture, node: &str) -> Result<String> {
    let node = fixture.api::<Node>().get(node).await?;
    Ok(cloud::launch::claim::instance_id(&node.spec.provider_id).context("a node without an instance")?.to_owned())
}

/// Writes the NodeUsage that the agent would write after a day in which the pod used [`USED`].
async fn report(fixture: &Fixture, node: &str) -> Result<()> {
    let now = Timestamp::now();
    let (cpu, memory) = (USED * 1_000_000, 64 << 20);
    let (mut of_cpu, mut of_memory) = (Histogram::default(), Histogram::default());
    of_cpu.add(cpu, now);
    of_memory.add(memory, now);
    let pod = only_pod(fixture, "generous").await?;
    let id = PodId::from_uid(&pod.uid().context("a pod without UID")?).context("a UID that is none")?;
    let (cpu, memory) = (Level::containing(cpu), Level::containing(memory));
    let used = PodUsage {
        id,
        cpu_p50: cpu,
        cpu_p95: cpu,
        cpu_peak: cpu,
        memory_p95: memory,
        memory_peak: memory,
        throttled: 0,
        pressure: 0,
        oom_kills: 0,
        hours: HISTORY,
    };
    let spec = NodeUsageSpec {
        instance: instance_of(fixture, node).await?,
        measured_at: Time(now),
        since: Time(now - SignedDuration::from_hours(i64::from(HISTORY))),
        cpu: figures(&Quantity(format!("{}m", cpu.millicores()))),
        memory: figures(&Quantity(memory.bytes().to_string())),
        pressure: None,
        throttled: 0,
        oom_kills: 0,
        histograms: Histograms {
            cpu: of_cpu.abridged(),
            memory: of_memory.abridged(),
            joint: Joint::default().abridged(),
        },
        pods: encode_pods(&[used]),
    };
    fixture.environment.apply_value(serde_json::to_value(NodeUsage::new(node, spec))?).await
}

fn figures(level: &Quantity) -> Figures {
    let same = || level.clone();
    Figures { p50: same(), p95: same(), p99: same(), peak5m: same(), peak1h: same(), peak24h: same() }
}
