//! The controller as its users run it: two replicas of the chart, as pods on two real nodes.

use anyhow::Result;
use testbed::installation::{CURRENT, Installation, node_of};

use super::Demo;
use crate::reporter::Reporter;

pub async fn run(demo: &mut Demo) -> Result<()> {
    let reporter = &mut demo.reporter;
    reporter.section("9. The controller as pods on real nodes");
    if let Some(reason) = Installation::obstacle() {
        reporter.left_out(&format!("section 9, the controller as pods: {reason}"));
        return Ok(());
    }
    let starts = Installation::start();
    let installation =
        reporter.line("a managed node group starts two real nodes in a cluster of their own", starts).await?;
    let outcome = run_installed(reporter, &installation).await;
    if outcome.is_err() {
        installation.print_logs();
    }
    outcome?;
    reporter.line("the cluster ends", installation.stop()).await
}

async fn run_installed(reporter: &mut Reporter, installation: &Installation) -> Result<()> {
    let installed = async {
        installation.install()?;
        installation.two_ready(CURRENT).await
    };
    reporter.line("`helm install`: two replicas are Ready, one on each node", installed).await?;
    let launched = async {
        installation.apply_pool().await?;
        installation.launches_for("first").await?;
        installation.surroundings_are_discovered().await
    };
    reporter.line("a pod gets a node: region, API server and credentials are discovered", launched).await?;
    let leader = installation.leader().await?;
    let taken_over = async {
        installation.kill(&leader)?;
        installation.launches_for("second").await?;
        installation.two_ready(CURRENT).await
    };
    reporter.line("the leader is killed: the other replica launches a node for the next pod, once", taken_over).await?;
    reporter.note(&format!("the leader was on {}; kubelet restarted it there", node_of(&leader).unwrap_or_default()));
    Ok(())
}
