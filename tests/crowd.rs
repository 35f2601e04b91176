//! Memory of the controller while pods of thousands of shapes fit nowhere: many passes over a crowd that never gets smaller.
//!
//! `make crowd` runs 100,000 pods of 5,000 shapes against the release build of the controller. The daily test has fewer pods.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::NodePool;
use api::condition;
use api::status::Conditioned as _;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::controller::get;
use testbed::environment::Environment;
use testbed::eventually;

/// Concurrent requests that create the crowd.
const WRITERS: usize = 48;
/// Time for all pods to be part of a plan, and for the passes after that.
const LIMIT: Duration = Duration::from_secs(1_800);
/// Memory that the controller may use, in bytes.
const MEMORY: u64 = 512 << 20;
/// Passes over the same pods.
const PASSES: usize = 10;

/// Size of the crowd.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    pods: usize,
    shapes: usize,
}

impl Crowd {
    fn from_environment() -> Self {
        let read = |name: &str, usual: usize| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
        Self { pods: read("KERF_CROWD_PODS", 1_000), shapes: read("KERF_CROWD_SHAPES", 100) }
    }

    /// Returns the pod with this number. Each shape needs a label that no NodePool defines.
    fn pod(self, number: usize) -> Value {
        let shape = number % self.shapes;
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("crowd-{number}"), "namespace": "default"},
            "spec": {
                // No scheduler has this name, so the test itself reports the pods as unschedulable.
                "schedulerName": "crowd",
                "nodeSelector": {"example.com/shape": shape.to_string()},
                "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": format!("{}m", 100 + shape)}}}],
            },
        })
    }

    async fn create(self, pods: &Api<Pod>) -> Result<()> {
        futures::stream::iter(0..self.pods)
            .map(Ok)
            .try_for_each_concurrent(WRITERS, async |number| self.create_pod(pods, number).await)
            .await
    }

    async fn create_pod(self, pods: &Api<Pod>, number: usize) -> Result<()> {
        let refused = json!({"status": {"conditions": [
            {"type": condition::POD_SCHEDULED, "status": "False", "reason": "Unschedulable", "message": "0 nodes are available"},
        ]}});
        pods.create(&PostParams::default(), &serde_json::from_value(self.pod(number))?).await?;
        pods.patch_status(&format!("crowd-{number}"), &PatchParams::default(), &Patch::Strategic(&refused)).await?;
        Ok(())
    }
}

/// Returns the sum of all series with this name.
fn total(metrics: &str, name: &str) -> f64 {
    let values = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let is_series = rest.starts_with([' ', '{']);
        is_series.then(|| rest.rsplit(' ').next()?.parse::<f64>().ok()).flatten()
    });
    values.sum()
}

/// Returns a value of `/proc/PID/status` in bytes, such as `VmRSS`.
fn memory(pid: u32, key: &str) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).context("no such line")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

/// Waits until a plan contains this number of pods.
async fn wait_for_plan(environment: &Environment, pods: usize) -> Result<()> {
    eventually("a plan with the whole crowd", LIMIT, async || {
        let metrics = get(&environment.probes(), "/metrics").await?;
        let planned = total(&metrics, "kerf_pods_unschedulable_count");
        ensure!(planned.to_string() == pods.to_string(), "{planned} of {pods} pods are planned");
        Ok(Some(()))
    })
    .await
}

/// Adds pods one after the other. Each causes a plan for the whole crowd.
async fn plan_again(environment: &Environment, pods: &Api<Pod>, crowd: Crowd, added: Range<usize>) -> Result<()> {
    for number in added {
        crowd.create_pod(pods, crowd.pods + number).await?;
        wait_for_plan(environment, crowd.pods + number + 1).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controller_memory_is_bounded_when_a_crowd_fits_nowhere() -> Result<()> {
    let crowd = Crowd::from_environment();
    let mut environment = Environment::start().await?;
    for file in ["ec2nodeclass.yaml", "nodepool.yaml"] {
        environment.apply(&format!("getting-started/{file}")).await?;
    }
    environment.start_controller()?;
    let pools: Api<NodePool> = Api::all(environment.client.clone());
    eventually("the NodePool to be ready", LIMIT, async || {
        Ok(pools.get("default").await?.is_true(condition::READY).then_some(()))
    })
    .await?;
    let pods: Api<Pod> = Api::namespaced(environment.client.clone(), "default");
    crowd.create(&pods).await?;
    wait_for_plan(&environment, crowd.pods).await?;
    plan_again(&environment, &pods, crowd, 0..PASSES / 2).await?;
    let pid = environment.controller_pid()?;
    let early = memory(pid, "VmRSS")?;
    plan_again(&environment, &pods, crowd, PASSES / 2..PASSES).await?;
    let (late, highest) = (memory(pid, "VmRSS")?, memory(pid, "VmHWM")?);
    println!(
        "{crowd:?}: {} MiB after {} plans, {} MiB after {PASSES}, {} MiB at most",
        early >> 20,
        PASSES / 2,
        late >> 20,
        highest >> 20
    );
    ensure!(highest <= MEMORY, "the controller used {} MiB, more than {}", highest >> 20, MEMORY >> 20);
    ensure!(late <= early + early / 4, "memory grows with each plan: {} MiB, then {} MiB", early >> 20, late >> 20);
    let launched = environment.running_instances().len();
    ensure!(launched == 0, "{launched} instances for pods that fit nowhere");
    environment.ensure_controller_runs()?;
    environment.stop().await
}
