//! Removal of all pods, nodes, NodePools and EC2NodeClasses, without leftovers.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::{EC2NodeClass, NodePool};
use jiff::Timestamp;
use kube::api::{Api, DeleteParams};
use world::eventually;

use super::{PATIENCE, Told};

/// `consolidateAfter` of the example's NodePool.
const QUIET: Duration = Duration::from_secs(10);

pub async fn tell(told: &mut Told) -> Result<()> {
    told.teller.chapter("9. Removal of everything");
    let emptied = empty(told).await?;
    nodes_go(told, emptied).await?;
    objects_go(told).await?;
    nothing_leaks(told).await
}

async fn empty(told: &mut Told) -> Result<Timestamp> {
    let Told { teller, look, .. } = told;
    let again = look.consolidate_after("10s");
    teller.line("consolidateAfter is set back to 10s", again).await?;
    let scaled = async {
        look.scale(0).await?;
        eventually("the pods to go", PATIENCE, async || Ok(look.pods().await?.is_empty().then_some(()))).await
    };
    teller.line("inflate is scaled to 0", scaled).await?;
    Ok(Timestamp::now())
}

async fn nodes_go(told: &mut Told, emptied: Timestamp) -> Result<()> {
    let Told { teller, stage, look, observer, .. } = told;
    let nodes = look.nodes().await?;
    let gone = eventually("empty nodes to go", PATIENCE, async || {
        let (nodes, claims) = (look.nodes().await?.len(), look.claims().await?.len());
        ensure!(nodes == 0 && claims == 0, "{nodes} Nodes and {claims} NodeClaims are left");
        Ok(Some(()))
    });
    teller.line("empty nodes are removed", gone).await?;
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
    teller.line("none of them before consolidateAfter ended", patient).await?;
    let ended = eventually("all instances to end", PATIENCE, async || {
        let machines = stage.ec2.machines();
        let alive: Vec<_> = machines.iter().filter(|machine| machine.instance.state != "terminated").collect();
        ensure!(alive.is_empty(), "{} is {}", alive[0].instance.id, alive[0].instance.state);
        Ok(Some(()))
    });
    teller.line("all instances are terminated", ended).await
}

async fn objects_go(told: &mut Told) -> Result<()> {
    let Told { teller, stage, .. } = told;
    let pools: Api<NodePool> = Api::all(stage.client.clone());
    let classes: Api<EC2NodeClass> = Api::all(stage.client.clone());
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
    teller.line("NodePool and EC2NodeClass are deleted", gone).await
}

async fn nothing_leaks(told: &mut Told) -> Result<()> {
    let Told { teller, stage, .. } = told;
    let templates = async {
        let left = stage.ec2.template_names();
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    };
    teller.line("no launch template is left in EC2", templates).await?;
    let quiet = eventually("the agents to end", PATIENCE, async || {
        let agents = stage.room.pids();
        ensure!(agents.is_empty(), "agents still run: {agents:?}");
        Ok(Some(()))
    });
    teller.line("no agent process is left", quiet).await?;
    let content = async {
        let asked = stage.control_plane.asked_by_controller()?;
        let forbidden: Vec<_> = asked.iter().filter(|asked| asked.forbidden).collect();
        ensure!(!asked.is_empty() && forbidden.is_empty(), "of {} requests {forbidden:?}", asked.len());
        Ok(())
    };
    teller
        .line("the API server refused no request of the controller: the chart's permissions are sufficient", content)
        .await?;
    let stopped = async {
        ensure!(stage.stop_controller().await?, "its exit code was not 0");
        Ok(())
    };
    teller.line("the controller stops on SIGTERM with exit code 0", stopped).await
}
