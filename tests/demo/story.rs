//! Sequence of the demo: a pending pod gets a node, and an agent boots, monitors and drains the node.

mod consolidation;
mod crash;
mod drift;
mod end;
mod interruption;
mod provisioning;
mod real;
mod second_wave;
mod shortage;
mod starts;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::look::Look;
use crate::teller::Teller;
use world::observer::Observer;
use world::stage::Stage;

/// Longest wait for one check. The limit is far above any normal duration, because a busy machine is no failure.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// State that all chapters share.
pub struct Told {
    /// Output and counters.
    pub teller: Teller,
    /// Test cluster.
    pub stage: Stage,
    /// Reads of the cluster.
    pub look: Look,
    /// History of observed objects.
    pub observer: Observer,
    /// Components of a real machine, which are built while the demo runs.
    pub real: real::Building,
}

/// Runs the demo once, or keeps the cluster running with `keep`.
pub async fn tell(keep: bool) -> ExitCode {
    println!("Starting (10 to 20 s): Kubernetes 1.36, emulated EC2, node simulator");
    let mut real = real::Building::new();
    let stage = match Stage::set_with(real.parts()).await {
        Ok(stage) => stage,
        Err(error) => return Teller::new().end(&Err(error), &PathBuf::from("the message above")),
    };
    let folder = stage.folder().to_owned();
    println!("Logs of this run: {}", folder.display());
    if let Err(error) = real.start(&folder) {
        return Teller::new().end(&Err(error), &folder);
    }
    let look = Look(stage.client.clone());
    let observer = Observer::start(&stage.client);
    let mut told = Told { teller: Teller::new(), stage, look, observer, real };
    let mut result = tokio::select! {
        result = chapters(&mut told, keep) => result,
        signal = stopped() => Err(anyhow::anyhow!("stopped by {signal}")),
    };
    if keep && result.is_ok() {
        result = play(&told).await;
    }
    let Told { teller, stage, look, observer, .. } = told;
    drop((look, observer));
    if result.is_err() {
        stage.keep_logs();
    }
    if let Err(error) = stage.strike().await {
        println!("cleanup failed: {error:#}");
    }
    teller.end(&result, &folder)
}

async fn chapters(told: &mut Told, keep: bool) -> Result<()> {
    provisioning::tell(told).await?;
    second_wave::tell(told).await?;
    if keep {
        return starts::tell(told).await;
    }
    interruption::tell(told).await?;
    crash::tell(told).await?;
    shortage::tell(told).await?;
    consolidation::tell(told).await?;
    drift::tell(told).await?;
    real::tell(told).await?;
    starts::tell(told).await?;
    end::tell(told).await
}

/// Keeps everything running until SIGINT or SIGTERM.
async fn play(told: &Told) -> Result<()> {
    println!("\nEverything is running. In another terminal:");
    println!("  export KUBECONFIG={}", told.stage.control_plane.admin_kubeconfig().display());
    println!("  kubectl get nodepools,nodeclaims,nodes,pods -o wide");
    println!("  kubectl scale deployment inflate --replicas 12");
    println!("Press Ctrl-C here to stop it all.");
    stopped().await;
    Ok(())
}

async fn stopped() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => "Ctrl-C",
        _ = terminate.recv() => "SIGTERM",
    }
}
