//! Report of the agent about real cgroups, compared with a predetermined load.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::NodeUsage;
use api::usage::{Level, PodId, PodUsage, decode_pods};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use testbed::eventually;

use super::RUN;
use super::fixture::{Fixture, LIMIT};

/// Permitted CPU use of the load in nanocores; below it, its permitted memory in bytes. The load is a loop at 300m that has
/// touched 40 MiB. CPU may differ by a tenth to either side. The load returns no memory, so memory may be a tenth higher:
/// program, stack and sandbox. A report contains only buckets, 25m wide at this load and 12 MB at this size, so the test
/// compares buckets.
const CPU: RangeInclusive<u64> = 270_000_000..=330_000_000;
const MEMORY: RangeInclusive<u64> = (40 << 20)..=(44 << 20);
/// Duration of the measurement: a few samples, half of which may be disturbed by other work of the machine.
const LONG: Duration = Duration::from_secs(50);

/// Asserts the report of the load and of the idle pods, after an orderly restart of the agent: the history must survive it.
pub async fn is_what_the_load_makes(fixture: &Fixture) -> Result<()> {
    let busy = fixture.running("busy", 1).await?.pop().context("it runs")?;
    let resting = fixture.running("web", 3).await?;
    let begin = Timestamp::now();
    tokio::time::sleep(LONG).await;
    let before = Timestamp::now();
    fixture.system()?.systemctl(&["restart", RUN]);
    let report = reported_since(fixture, before).await?;
    let since = report.spec.since.0;
    ensure!(since <= begin, "history begins at {since}: the restart at {before} has lost what it knew at {begin}");
    let pods = decode_pods(&report.spec.pods)?;
    validate(find(&pods, &busy)?)?;
    for pod in &resting {
        let idle = find(&pods, pod)?;
        let least = Level::containing(0);
        ensure!(idle.cpu_p95 == least && idle.memory_p95 == least, "{} rests, but {idle:?}", pod.name_any());
    }
    let node = (report.spec.cpu.p50.to_string(), report.spec.memory.p50.to_string());
    println!("    the machine as a whole: {} CPU, {} of memory (p50)", node.0, node.1);
    Ok(())
}

/// Waits for the first report with a measurement after `moment`.
async fn reported_since(fixture: &Fixture, moment: Timestamp) -> Result<NodeUsage> {
    let reports: Api<NodeUsage> = Api::all(fixture.client.clone());
    eventually("a report", LIMIT + Duration::from_secs(60), async || {
        let report = reports.get(fixture.machine.node_name()).await?;
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

fn validate(busy: &PodUsage) -> Result<()> {
    for (what, level, right) in [("CPU", busy.cpu_p50, CPU), ("memory", busy.memory_p95, MEMORY)] {
        println!("    {what} of the load: between {} and {} (nanocores, bytes)", level.start(), level.end());
        let (least, most) = (Level::containing(*right.start()), Level::containing(*right.end()));
        ensure!((least..=most).contains(&level), "{what}: {level:?} is not within {least:?} and {most:?}");
    }
    ensure!(busy.oom_kills == 0, "{busy:?}");
    Ok(())
}
