//! The story: a pod that cannot run gets a node, which an agent boots, guards and empties.

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

/// How long a line may take to come true: far longer than it ever takes, for a busy machine is no failure.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// What every chapter works with.
pub struct Told {
    /// Prints and counts.
    pub teller: Teller,
    /// The stage.
    pub stage: Stage,
    /// Reads of the cluster.
    pub look: Look,
    /// What happened so far.
    pub observer: Observer,
    /// The parts of a real machine, built while the story runs.
    pub real: real::Building,
}

/// Tells the story once, or leaves the stage standing with `keep`.
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

/// Leaves everything running until somebody stops it.
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
