//! Spot interruption while the controller is killed and the other nodes have free capacity. The agent drains its node, and the
//! restarted controller launches nothing twice.

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use testbed::eventually;

use super::interruption::{find, gone};
use super::{Demo, PATIENCE};

/// Notice shorter than EC2's two minutes, to keep the demo short. The agent reads the deadline from the notice.
const NOTICE: SignedDuration = SignedDuration::from_secs(60);

pub async fn run(demo: &mut Demo) -> Result<()> {
    demo.reporter.section("4. Spot interruption without the controller");
    let node = free_capacity(demo).await?;
    let victim = find(demo, &node).await?;
    let fleets = demo.environment.ec2.fleets().len();
    let Demo { reporter, environment, cluster, .. } = demo;
    let killed = async { environment.kill_controller() };
    reporter.line("the controller is killed (kill -9)", killed).await?;
    let given = async {
        let deadline = Timestamp::now().checked_add(NOTICE)?;
        ensure!(environment.ec2.interrupt(&victim.instance, deadline), "EC2 does not know {}", victim.instance);
        Ok(())
    };
    reporter.line("a spot interruption notice appears for another instance", given).await?;
    let wanted = cluster.pods().await?.len();
    let empty = eventually("the node to drain itself", PATIENCE, async || {
        let running = cluster.running().await?;
        let left = running.iter().filter(|pod| pod.spec.node_name == victim.node).count();
        ensure!(left == 0 && running.len() == wanted, "{left} pods left, {} of {wanted} run", running.len());
        Ok(Some(()))
    });
    reporter.line("the agent drains the node, and all pods run on other nodes", empty).await?;
    let quiet = async {
        let calls = environment.ec2.fleets().len();
        ensure!(calls == fleets, "{} CreateFleet calls without a controller", calls - fleets);
        Ok(())
    };
    reporter.line("no node was launched meanwhile", quiet).await?;
    let back = async { environment.start_controller() };
    reporter.line("the controller is started again", back).await?;
    gone(demo, &victim).await?;
    let Demo { reporter, environment, cluster, .. } = demo;
    let steady = async {
        let claims = cluster.claims().await?.len();
        let alive = environment.ec2.machines().iter().filter(|machine| !machine.instance.is_ending()).count();
        let calls = environment.ec2.fleets().len();
        ensure!(claims == alive, "{alive} instances for {claims} NodeClaims");
        ensure!(calls == fleets, "{} CreateFleet calls after the restart", calls - fleets);
        Ok(())
    };
    reporter.line("it continues without launching anything twice", steady).await
}

/// Scales down until the pods of one node fit on the other nodes. No node is removed meanwhile.
async fn free_capacity(demo: &mut Demo) -> Result<String> {
    let Demo { reporter, cluster, .. } = demo;
    let never = cluster.consolidate_after("Never");
    reporter.line("consolidateAfter is set to Never, so that free capacity stays", never).await?;
    let mut replicas = cluster.pods().await?.len();
    let chosen = eventually("one node's pods to fit elsewhere", PATIENCE, async || {
        let running = cluster.running().await?;
        if cluster.pods().await?.len() != replicas || running.len() != replicas {
            anyhow::bail!("{} of {replicas} pods run", running.len());
        }
        let free = cluster.free_cpus().await?;
        let total: usize = free.iter().map(|(_, free)| free).sum();
        let pods = |node: &str| running.iter().filter(|pod| pod.spec.node_name == node).count();
        let fits = free.iter().find(|(node, own)| pods(node) > 0 && pods(node) <= total - own);
        if let Some((node, _)) = fits {
            return Ok(Some(node.clone()));
        }
        replicas = replicas.checked_sub(1).context("no pods are left to take away")?;
        cluster.scale(replicas).await?;
        Ok(None)
    });
    reporter.line("inflate is scaled down until the pods of one node fit on the others", chosen).await
}
