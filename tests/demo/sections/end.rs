//! Removal of all pods, nodes, NodePools and EC2NodeClasses, without leftovers.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::{EC2NodeClass, NodePool};
use jiff::Timestamp;
use kube::api::{Api, DeleteParams};
use testbed::controlplane::Account;
use testbed::eventually;

use super::{Demo, PATIENCE};

/// `consolidateAfter` of the example's NodePool.
const QUIET: Duration = Duration::from_secs(10);

pub async fn run(demo: &mut Demo) -> Result<()> {
    demo.reporter.section("10. Removal of everything");
    let emptied = empty(demo).await?;
    nodes_go(demo, emptied).await?;
    objects_go(demo).await?;
    nothing_leaks(demo).await
}

async fn empty(demo: &mut Demo) -> Result<Timestamp> {
    let Demo { reporter, cluster, .. } = demo;
    let again = cluster.consolidate_after("10s");
    reporter.line("consolidateAfter is set back to 10s", again).await?;
    let scaled = async {
        cluster.scale(0).await?;
        eventually("the pods to go", PATIENCE, async || Ok(cluster.pods().await?.is_empty().then_some(()))).await
    };
    reporter.line("inflate is scaled to 0", scaled).await?;
    Ok(Timestamp::now())
}

async fn nodes_go(demo: &mut Demo, emptied: Timestamp) -> Result<()> {
    let Demo { reporter, environment, cluster, observer, .. } = demo;
    let nodes = cluster.nodes().await?;
    let gone = eventually("empty nodes to go", PATIENCE, async || {
        let (nodes, claims) = (cluster.nodes().await?.len(), cluster.claims().await?.len());
        ensure!(nodes == 0 && claims == 0, "{nodes} Nodes and {claims} NodeClaims are left");
        Ok(Some(()))
    });
    reporter.line("empty nodes are removed", gone).await?;
    let patient = async {
        // The last pod may have left its node up to one poll interval before the demo noticed.
        let slack = Duration::from_secs(2);
        for node in &nodes {
            let history = observer.node(node.name());
            let first = history.iter().find(|seen| seen.object.metadata.deletion_timestamp.is_some() || seen.gone);
            let at = first.with_context(|| format!("{} was not observed", node.name()))?.at;
            let waited = Duration::try_from(at.duration_since(emptied)).unwrap_or_default() + slack;
            ensure!(waited >= QUIET, "{} went after {waited:?}", node.name());
        }
        Ok(())
    };
    reporter.line("none of them before consolidateAfter ended", patient).await?;
    let ended = eventually("all instances to end", PATIENCE, async || {
        let machines = environment.ec2.machines();
        let alive: Vec<_> = machines.iter().filter(|machine| machine.instance.state != "terminated").collect();
        ensure!(alive.is_empty(), "{} is {}", alive[0].instance.id, alive[0].instance.state);
        Ok(Some(()))
    });
    reporter.line("all instances are terminated", ended).await
}

async fn objects_go(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, environment, .. } = demo;
    let pools: Api<NodePool> = Api::all(environment.client.clone());
    let classes: Api<EC2NodeClass> = Api::all(environment.client.clone());
    let gone = async {
        pools.delete("default", &DeleteParams::default()).await?;
        classes.delete("default", &DeleteParams::default()).await?;
        eventually("pool and class to go", PATIENCE, async || {
            let left = (pools.get_opt("default").await?.is_some(), classes.get_opt("default").await?.is_some());
            ensure!(left == (false, false), "NodePool there: {}, EC2NodeClass there: {}", left.0, left.1);
            Ok(Some(()))
        })
        .await
    };
    reporter.line("NodePool and EC2NodeClass are deleted", gone).await
}

async fn nothing_leaks(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, environment, .. } = demo;
    let templates = async {
        let left = environment.ec2.template_names();
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    };
    reporter.line("no launch template is left in EC2", templates).await?;
    let quiet = eventually("the agents to end", PATIENCE, async || {
        let agents = environment.simulator.pids();
        ensure!(agents.is_empty(), "agents still run: {agents:?}");
        Ok(Some(()))
    });
    reporter.line("no agent process is left", quiet).await?;
    let content = async {
        let asked = environment.control_plane.requests_of(Account::Controller)?;
        let forbidden: Vec<_> = asked.iter().filter(|asked| asked.forbidden).collect();
        ensure!(!asked.is_empty() && forbidden.is_empty(), "of {} requests {forbidden:?}", asked.len());
        Ok(())
    };
    reporter
        .line("the API server refused no request of the controller: the chart's permissions are sufficient", content)
        .await?;
    let stopped = async {
        ensure!(environment.stop_controller().await?, "its exit code was not 0");
        Ok(())
    };
    reporter.line("the controller stops on SIGTERM with exit code 0", stopped).await
}
