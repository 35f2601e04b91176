//! Consolidation of two half-used nodes into one cheaper node, after both NodeUsage reports have arrived and a cheaper instance
//! type is allowed.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use api::nodeusage::NodeUsage;
use api::status::Conditioned;
use api::{NodeClaim, NodePool, condition, label};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use testbed::eventually;
use testbed::load::{Load, Used};

use super::interruption::find;
use super::{Demo, PATIENCE};

/// Deployment of this chapter and the next.
pub const HALF: &str = "half";
/// NodePool of this chapter and the next.
pub const POOL: &str = "batch";
/// Millicores that each of its pods uses, of a request of 2,500.
const USED: i64 = 300;
/// Least usage that an agent must report. A sample takes a second, and the node simulator updates its counters every tenth of a
/// second, or later on a busy machine. The first report may be that much lower, and the next report with about the same value
/// is due only minutes later.
const SEEN: i64 = USED * 3 / 4;
/// Second instance type of the NodePool.
const CHEAPER: &str = "c5.2xlarge";

pub async fn run(demo: &mut Demo) -> Result<()> {
    demo.reporter.section("6. Consolidation: two half-empty nodes become one cheaper node");
    let old = half_used(demo).await?;
    let loads = at_work(demo).await?;
    reports(demo, &old).await?;
    let started = Timestamp::now();
    let new = replacement(demo, &old).await?;
    drop(loads);
    only_is_left(demo, &new, started).await?;
    let now = demo.cluster.claims_of(POOL).await?;
    let (paid, pays) = (cost(&old)?, cost(&now)?);
    let cheaper = async {
        ensure!(pays < paid, "{} an hour became {}", dollars(paid), dollars(pays));
        Ok(())
    };
    demo.reporter.line(&format!("{} an hour became {}", dollars(paid), dollars(pays)), cheaper).await
}

/// Returns the on-demand price of these nodes per hour, in micro-dollars.
fn cost(claims: &[NodeClaim]) -> Result<i64> {
    let prices = &cloud::data::facts()?.on_demand;
    let price = |claim: &NodeClaim| {
        let kind = claim.labels().get(label::INSTANCE_TYPE).context("a claim without an instance type")?;
        prices.get(kind).copied().with_context(|| format!("{kind} has no price"))
    };
    claims.iter().map(price).sum()
}

fn dollars(millionths: i64) -> String {
    format!("${}.{:03}", millionths / 1_000_000, millionths / 1000 % 1000)
}

async fn half_used(demo: &mut Demo) -> Result<Vec<NodeClaim>> {
    let Demo { reporter, environment, cluster, .. } = demo;
    let applied = async {
        environment.apply("consolidation/nodepool.yaml").await?;
        environment.apply("consolidation/half.yaml").await
    };
    reporter.line("created a NodePool of m5.xlarge and two pods of 2.5 CPUs", applied).await?;
    let settled = eventually("two nodes with a pod each", PATIENCE, async || {
        let claims = cluster.claims_of(POOL).await?;
        let up = claims.iter().filter(|claim| claim.is_true(condition::INITIALIZED)).count();
        let running = cluster.running_of(HALF).await?.len();
        ensure!((up, running) == (2, 2), "{up} machines are up, {running} pods run");
        Ok(Some(claims))
    });
    reporter.line("each pod has its own node, half used", settled).await
}

/// Starts the simulated usage of the pods on both nodes.
async fn at_work(demo: &mut Demo) -> Result<Vec<Load>> {
    let mut loads = Vec::new();
    for pod in demo.cluster.running_of(HALF).await? {
        let victim = find(demo, &pod.spec.node_name).await?;
        let machine = demo.environment.simulator.machine(&victim.instance).context("a Node without a machine")?;
        let uid = pod.uid().context("a pod without UID")?;
        let used = Used { uid, containers: 1, cpu: USED.unsigned_abs(), memory: 200 << 20 };
        loads.push(Load::start(&machine.folder().join("root"), vec![used])?);
    }
    Ok(loads)
}

async fn reports(demo: &mut Demo, claims: &[NodeClaim]) -> Result<()> {
    let Demo { reporter, environment, .. } = demo;
    let usages: Api<NodeUsage> = Api::all(environment.client.clone());
    let arrived = eventually("NodeUsage reports", PATIENCE, async || {
        let mut found = Vec::new();
        for claim in claims {
            let status = claim.status.as_ref().context("a claim without status")?;
            let usage = usages.get_opt(&status.node_name).await?;
            let usage = usage.with_context(|| format!("{} has not reported yet", status.node_name))?;
            let instance =
                cloud::launch::claim::instance_id(&status.provider_id).context("a claim without an instance")?;
            ensure!(usage.spec.instance == instance, "{} reports for {}", status.node_name, usage.spec.instance);
            let used = usage.spec.cpu.p95.amount("cpu")?;
            ensure!(used >= SEEN, "{} has seen {used} thousandths of a CPU in use", status.node_name);
            found.push(usage);
        }
        Ok(Some(found))
    });
    let found = reporter.line("each agent reports the utilization of its node", arrived).await?;
    for usage in &found {
        let (cpu, memory) = (&usage.spec.cpu.p95, &usage.spec.memory.p95);
        reporter.note(&format!("{}: CPU p95 {cpu}, working set p95 {memory}", usage.name_any()));
    }
    Ok(())
}

/// Allows the cheaper instance type, and waits for the NodeClaim that replaces both.
async fn replacement(demo: &mut Demo, old: &[NodeClaim]) -> Result<String> {
    let Demo { reporter, environment, .. } = demo;
    let pools: Api<NodePool> = Api::all(environment.client.clone());
    let mut requirements = pools.get(POOL).await?.spec.template.spec.requirements;
    let kinds = requirements.iter_mut().find(|one| one.key == label::INSTANCE_TYPE).context("any type is allowed")?;
    kinds.values.push(CHEAPER.to_owned());
    let wider = json!({"spec": {"template": {"spec": {"requirements": requirements}}}});
    let allowed = async { Ok(pools.patch(POOL, &PatchParams::default(), &Patch::Merge(wider)).await?) };
    reporter.line("the NodePool allows c5.2xlarge and the disruption of two nodes at a time", allowed).await?;
    successor(demo, old, "one NodeClaim is created to replace both").await
}

/// Returns the NodeClaim that replaces exactly these, once it is initialized. No pod may be evicted before.
pub async fn successor(demo: &mut Demo, old: &[NodeClaim], line: &str) -> Result<String> {
    let Demo { reporter, cluster, .. } = demo;
    let names: BTreeSet<String> = old.iter().map(ResourceExt::name_any).collect();
    let before: BTreeSet<_> = cluster.running_of(HALF).await?.iter().filter_map(ResourceExt::uid).collect();
    let ordered = eventually("a replacement", PATIENCE, async || {
        let claims = cluster.claims_of(POOL).await?;
        let new = claims.iter().find(|claim| claim.replaces().next().is_some()).context("nothing replaces anything")?;
        let replaced: BTreeSet<String> = new.replaces().map(str::to_owned).collect();
        ensure!(replaced == names, "it replaces {replaced:?}, to go are {names:?}");
        Ok(Some(new.name_any()))
    });
    let new = reporter.line(line, ordered).await?;
    let patient = eventually("the replacement to be initialized", PATIENCE, async || {
        // Pods are read first, so that an early eviction is visible.
        let now: BTreeSet<_> = cluster.running_of(HALF).await?.iter().filter_map(ResourceExt::uid).collect();
        let claims = cluster.claims_of(POOL).await?;
        let up = claims.iter().any(|claim| claim.name_any() == new && claim.is_true(condition::INITIALIZED));
        ensure!(up || now == before, "pods left before {new} was up");
        Ok(up.then_some(()))
    });
    reporter.line("no pod is evicted before it is ready", patient).await?;
    Ok(new)
}

/// Checks that the replaced nodes are removed, that all pods run on the new node, and that their PodDisruptionBudget was never
/// violated.
pub async fn only_is_left(demo: &mut Demo, new: &str, started: Timestamp) -> Result<()> {
    let Demo { reporter, cluster, observer, .. } = demo;
    let gone = eventually("removal of the replaced nodes", PATIENCE, async || {
        let claims = cluster.claims_of(POOL).await?;
        let names: Vec<String> = claims.iter().map(ResourceExt::name_any).collect();
        ensure!(names == [new], "{names:?} are left");
        let node = claims[0].status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
        let pods = cluster.running_of(HALF).await?;
        let there = pods.iter().filter(|pod| pod.spec.node_name == node).count();
        ensure!(there == 2, "{there} of two pods run on {node}");
        Ok(Some(()))
    });
    reporter.line("the pods run on it, and the replaced nodes are removed", gone).await?;
    let held = async {
        let fewest = observer.fewest_ready(HALF, started);
        ensure!(fewest >= 1, "no pod of {HALF} was ready for a while");
        Ok(())
    };
    reporter.line("one of the two pods was always ready", held).await
}
