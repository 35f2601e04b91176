//! Scale-out: more pods use free capacity before a node is launched.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use kube::ResourceExt;
use testbed::eventually;

use super::provisioning::FIRST_WAVE;
use super::{Demo, PATIENCE};

pub async fn run(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, environment, cluster, .. } = demo;
    let free: usize = cluster.free_cpus().await?.iter().map(|(_, free)| free).sum();
    let wanted = FIRST_WAVE + free + 1;
    reporter.section(&format!("2. Scale-out: {free} more pods fit on the nodes, {} are created", free + 1));
    let old: BTreeSet<String> = cluster.nodes().await?.iter().map(ResourceExt::name_any).collect();
    let (claims, fleets) = (cluster.claims().await?.len(), environment.ec2.fleets().len());
    reporter.line(&format!("inflate is scaled to {wanted}"), cluster.scale(wanted)).await?;
    let running = eventually("all pods to run", PATIENCE, async || {
        let running = cluster.running().await?;
        ensure!(running.len() == wanted, "{} of {wanted} pods run", running.len());
        Ok(Some(running))
    });
    let running = reporter.line("all of them run", running).await?;
    let reused = async {
        let on_old = running.iter().filter(|pod| old.contains(&pod.spec.node_name)).count();
        ensure!(on_old == FIRST_WAVE + free, "{on_old} pods run on the old nodes");
        Ok(())
    };
    reporter.line("free capacity was used first", reused).await?;
    let one_more = async {
        let more = (cluster.claims().await?.len() - claims, environment.ec2.fleets().len() - fleets);
        ensure!(more == (1, 1), "{} NodeClaims and {} CreateFleet calls more", more.0, more.1);
        Ok(())
    };
    reporter.line("only the pod that did not fit got a new NodeClaim", one_more).await
}
