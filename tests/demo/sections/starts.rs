//! Startup of each node by stage, as its agent published it on the Node, and as its NodeClaim keeps it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::objects::Pod;
use api::timeline::AwaitedPod;
use api::{NodeClaim, annotation, timeline};
use kube::ResourceExt as _;
use serde_json::{Map, Value};
use testbed::eventually;

use super::{Demo, PATIENCE};

/// Stages of every startup, in this order. The container runtime may start before or after the credentials of the role are
/// read.
const STAGES: [&str; 5] = ["imds", "config-written", "kubelet-up", "node-seen", "ready"];
const BESIDE: [&str; 3] = ["credentials", "containerd-up", "first-pod-running"];
/// Prefix of the stage of a gate that was closed at first and opened later.
const GATE: &str = "gate-";

/// Startup of one node: milliseconds since the start of its agent, by stage.
struct Start {
    node: String,
    stages: Vec<(String, u64)>,
}

impl Start {
    fn read(node: &str, line: &str) -> Result<Self> {
        let line: Map<String, Value> = serde_json::from_str(line).with_context(|| format!("{node}: {line}"))?;
        let stages = line.iter().filter_map(|(stage, at)| Some((stage.clone(), at.as_u64()?))).collect();
        Ok(Self { node: node.to_owned(), stages })
    }

    fn at(&self, stage: &str) -> Option<u64> {
        self.stages.iter().find(|(name, _)| name == stage).map(|(_, at)| *at)
    }

    fn is_whole(&self) -> Result<()> {
        for stage in STAGES.iter().chain(&BESIDE) {
            ensure!(self.at(stage).is_some(), "{} does not say when it reached {stage}", self.node);
        }
        Ok(())
    }

    fn in_order(&self) -> Result<()> {
        let moments: Vec<_> = STAGES.iter().map(|stage| self.at(stage)).collect();
        ensure!(moments.is_sorted(), "{}: {STAGES:?} were reached after {moments:?} ms", self.node);
        let ready = self.at("ready");
        let late = self.stages.iter().find(|(stage, at)| stage.starts_with(GATE) && Some(*at) > ready);
        ensure!(late.is_none(), "{} was ready after {ready:?} ms, but {late:?}", self.node);
        Ok(())
    }
}

/// Checks that each NodeClaim keeps the timeline of its start, from the creation of a pod to its readiness. kube-scheduler may
/// have bound that pod to the node of another NodeClaim: then the timeline ends with the initialization.
pub async fn kept(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, cluster, .. } = demo;
    let kept = eventually("timelines of NodeClaims", PATIENCE, async || {
        let (claims, pods) = (cluster.claims().await?, cluster.pods().await?);
        claims.iter().try_for_each(|claim| is_kept(claim, &pods))?;
        Ok(Some(claims))
    });
    let what = "each NodeClaim keeps the timeline of its start, until the pod that needed it is ready there";
    for claim in reporter.line(what, kept).await? {
        reporter.note(&format!("{} {}", claim.name_any(), timeline::line(&timeline::stages(&claim, None, None))));
    }
    Ok(())
}

fn is_kept(claim: &NodeClaim, pods: &[Pod]) -> Result<()> {
    let name = claim.name_any();
    let awaited = AwaitedPod::from_claim(claim).with_context(|| format!("{name} names no pod"))?;
    let pod = pods.iter().find(|pod| awaited.is(pod)).with_context(|| format!("{} does not exist", awaited.name))?;
    let node = claim.status.as_ref().map_or("", |status| &status.node_name);
    let last = if pod.spec.node_name == node { timeline::POD_READY } else { timeline::INITIALIZED };
    let stages = timeline::stages(claim, None, None);
    let ends = [stages.first(), stages.last()].map(|stage| stage.map_or("nothing", |stage| stage.stage.as_str()));
    let bound = format!("{} is on {}", awaited.name, pod.spec.node_name);
    ensure!(ends == [timeline::POD_CREATED, last], "{name} of {node} has {}; {bound}", timeline::line(&stages));
    Ok(())
}

/// Checks the startup of all observed nodes, including removed ones.
pub async fn run(demo: &mut Demo) -> Result<()> {
    demo.reporter.section("Start of each node");
    let Demo { reporter, observer, .. } = demo;
    let published = eventually("timelines", PATIENCE, async || {
        let mut starts = Vec::new();
        for name in observer.node_names() {
            let history = observer.node(&name);
            let line = history.iter().rev().find_map(|seen| seen.object.annotation(annotation::TIMELINE));
            let start = Start::read(&name, line.with_context(|| format!("{name} has no timeline"))?)?;
            start.is_whole()?;
            starts.push(start);
        }
        Ok(Some(starts))
    });
    let starts =
        reporter.line("each Node has the timeline of its agent, up to its first running pod", published).await?;
    let ordered = async { starts.iter().try_for_each(Start::in_order) };
    reporter.line("stages are in order, and closed gates opened before kerf.sh/Ready", ordered).await?;
    for line in table(&starts) {
        reporter.note(&line);
    }
    for (name, stage) in [
        ("agent start -> kubelet running, slowest node", "kubelet-up"),
        ("agent start -> ready, slowest node", "ready"),
    ] {
        let slowest = starts.iter().filter_map(|start| start.at(stage)).max().context("no machine started")?;
        reporter.figure(name, Duration::from_millis(slowest));
    }
    Ok(())
}

/// Returns one row per stage, with the first, median and last moment.
fn table(starts: &[Start]) -> Vec<String> {
    let mut moments: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (stage, at) in starts.iter().flat_map(|start| &start.stages) {
        moments.entry(stage).or_default().push(*at);
    }
    moments.values_mut().for_each(|all| all.sort_unstable());
    let mut rows: Vec<(&str, Vec<u64>)> = moments.into_iter().collect();
    rows.sort_by_key(|(_, all)| all.last().copied());
    let row = |(stage, all): &(&str, Vec<u64>)| {
        let at = |position: usize| all.get(position).copied().unwrap_or_default();
        format!("{stage:<20}{:>9}{:>9}{:>9}{:>10}", at(0), at(all.len() / 2), at(all.len() - 1), all.len())
    };
    let head = format!("{:<20}{:>9}{:>9}{:>9}{:>10}", "ms", "first", "median", "last", "machines");
    std::iter::once(head).chain(rows.iter().map(row)).collect()
}
