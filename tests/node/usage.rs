//! What the agent reports of real control groups, beside a load that is known beforehand.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::NodeUsage;
use api::usage::{Level, PodId, PodUsage, decode_pods};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use world::eventually;

use super::RUN;
use super::scene::{LIMIT, Scene};

/// The load: a loop at 300 thousandths of a CPU that has touched 40 MiB. What is reported may be a tenth beside it to either side,
/// and of memory, which nobody gives back, a tenth above: the program, its stack, its sandbox. A report knows buckets only, 25m wide at
/// this load and 12 MB at this size, so it is the bucket that has to be right.
const CPU: RangeInclusive<u64> = 270_000_000..=330_000_000;
const MEMORY: RangeInclusive<u64> = (40 << 20)..=(44 << 20);
/// So long it is looked at: a handful of looks, of which half may be of a machine that was busy with something else.
const LONG: Duration = Duration::from_secs(50);

/// What is reported of the load and of the pods that rest, after an orderly restart of the agent: history survives it.
pub async fn is_what_the_load_makes(scene: &Scene) -> Result<()> {
    let busy = scene.running("busy", 1).await?.pop().context("it runs")?;
    let resting = scene.running("web", 3).await?;
    let begin = Timestamp::now();
    tokio::time::sleep(LONG).await;
    let before = Timestamp::now();
    scene.system()?.systemctl(&["restart", RUN]);
    let report = reported_since(scene, before).await?;
    let since = report.spec.since.0;
    ensure!(since <= begin, "history begins at {since}: the restart at {before} has lost what it knew at {begin}");
    let pods = decode_pods(&report.spec.pods)?;
    judge(find(&pods, &busy)?)?;
    for pod in &resting {
        let idle = find(&pods, pod)?;
        let least = Level::containing(0);
        ensure!(idle.cpu_p95 == least && idle.memory_p95 == least, "{} rests, but {idle:?}", pod.name_any());
    }
    let node = (report.spec.cpu.p50.to_string(), report.spec.memory.p50.to_string());
    println!("    the machine as a whole: {} CPU, {} of memory (p50)", node.0, node.1);
    Ok(())
}

/// The first report that was measured after `moment`.
async fn reported_since(scene: &Scene, moment: Timestamp) -> Result<NodeUsage> {
    let reports: Api<NodeUsage> = Api::all(scene.client.clone());
    eventually("a report", LIMIT + Duration::from_secs(60), async || {
        let report = reports.get(scene.machine.node_name()).await?;
        let at = report.spec.measured_at.0;
        ensure!(at > moment, "the last one is of {at}");
        Ok(Some(report))
    })
    .await
}

fn find<'a>(pods: &'a [PodUsage], pod: &Pod) -> Result<&'a PodUsage> {
    let id = PodId::from_uid(&pod.uid().unwrap_or_default());
    pods.iter().find(|it| Some(it.id) == id).with_context(|| format!("{} is not in the report", pod.name_any()))
}

fn judge(busy: &PodUsage) -> Result<()> {
    for (what, level, right) in [("CPU", busy.cpu_p50, CPU), ("memory", busy.memory_p95, MEMORY)] {
        println!("    {what} of the load: between {} and {} (nanocores, bytes)", level.start(), level.end());
        let (least, most) = (Level::containing(*right.start()), Level::containing(*right.end()));
        ensure!((least..=most).contains(&level), "{what}: {level:?} is not within {least:?} and {most:?}");
    }
    ensure!(busy.oom_kills == 0, "{busy:?}");
    Ok(())
}
