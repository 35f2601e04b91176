//! Sequence of the demo: a pending pod gets a node, and an agent boots, monitors and drains the node.

mod consolidation;
mod crash;
mod drift;
mod end;
mod interruption;
mod pods;
mod provisioning;
mod questions;
mod real;
mod second_wave;
mod shortage;
mod starts;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cluster::Cluster;
use crate::reporter::Reporter;
use testbed::environment::{Environment, Setup};
use testbed::observer::Observer;
use testbed::observing_controller::ObservingController;

/// Longest wait for one check. The limit is far above any normal duration, because a busy machine is no failure.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// State that all sections share.
pub struct Demo {
    /// Output and counters.
    pub reporter: Reporter,
    /// Test cluster.
    pub environment: Environment,
    /// Reads of the cluster.
    pub cluster: Cluster,
    /// History of observed objects.
    pub observer: Observer,
    /// Components of a real machine, which are built while the demo runs.
    pub real: real::Building,
    /// Controller that only observes, once it is started.
    pub observing: Option<ObservingController>,
}

/// Runs the demo once, or keeps the cluster running with `keep`.
pub async fn run(keep: bool) -> ExitCode {
    println!("Starting (10 to 20 s): Kubernetes 1.36, emulated EC2, node simulator");
    let mut real = real::Building::new();
    let environment = match Environment::start_with(Setup { real: real.parts(), ..Setup::default() }).await {
        Ok(environment) => environment,
        Err(error) => return Reporter::new().end(&Err(error), &PathBuf::from("the message above")),
    };
    let folder = environment.folder().to_owned();
    println!("Logs of this run: {}", folder.display());
    if let Err(error) = real.start(&folder) {
        return Reporter::new().end(&Err(error), &folder);
    }
    let cluster = Cluster(environment.client.clone());
    let observer = Observer::start(&environment.client);
    let mut demo = Demo { reporter: Reporter::new(), environment, cluster, observer, real, observing: None };
    let mut result = tokio::select! {
        result = run_sections(&mut demo, keep) => result,
        signal = stopped() => Err(anyhow::anyhow!("stopped by {signal}")),
    };
    if keep && result.is_ok() {
        result = keep_running(&demo).await;
    }
    let Demo { reporter, environment, cluster, observer, observing, .. } = demo;
    drop((cluster, observer, observing));
    if result.is_err() {
        environment.keep_logs();
    }
    if let Err(error) = environment.stop().await {
        println!("cleanup failed: {error:#}");
    }
    reporter.end(&result, &folder)
}

async fn run_sections(demo: &mut Demo, keep: bool) -> Result<()> {
    provisioning::run(demo).await?;
    second_wave::run(demo).await?;
    observe(demo).await?;
    if keep {
        return starts::run(demo).await;
    }
    interruption::run(demo).await?;
    crash::run(demo).await?;
    shortage::run(demo).await?;
    consolidation::run(demo).await?;
    drift::run(demo).await?;
    questions::run(demo).await?;
    stop_observing(demo).await?;
    real::run(demo).await?;
    pods::run(demo).await?;
    starts::run(demo).await?;
    end::run(demo).await
}

/// Starts a second controller, which only observes.
async fn observe(demo: &mut Demo) -> Result<()> {
    let started = ObservingController::start(&demo.environment);
    demo.observing = Some(demo.reporter.line("a second controller starts, which only observes", started).await?);
    Ok(())
}

/// Stops the second controller, and checks that it changed nothing.
async fn stop_observing(demo: &mut Demo) -> Result<()> {
    let Demo { reporter, environment, observing, .. } = demo;
    let stopped = async {
        let mut observing = observing.take().context("it was not started")?;
        observing.stop().await?;
        observing.changed_nothing(environment)
    };
    reporter.line("the observing controller stops, and has changed nothing but its own records", stopped).await
}

/// Keeps everything running until SIGINT or SIGTERM.
async fn keep_running(demo: &Demo) -> Result<()> {
    println!("\nEverything is running. In another terminal:");
    println!("  export KUBECONFIG={}", demo.environment.control_plane.admin_kubeconfig().display());
    println!("  kubectl get nodepools,nodeclaims,nodes,pods -o wide");
    println!("  kubectl scale deployment inflate --replicas 12");
    println!("  kerf top --live        (docs/getting-started.md has more questions)");
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
