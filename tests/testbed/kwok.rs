//! The real KWOK as a process. It keeps Nodes with its annotation Ready, and runs their pods.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use go_programs::{go_program, module_folder};

use crate::controlplane::{ControlPlane, ports};
use crate::process::Process;

/// Behaviour of nodes and pods, as in KWOK's own installation.
const STAGES: [&str; 5] = [
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
];

/// Starts KWOK with administrator rights. It runs until it is dropped.
///
/// # Errors
/// Returns an error if the build fails.
pub async fn start(control_plane: &ControlPlane, folder: &Path) -> Result<Process> {
    let built = || anyhow::Ok((go_program("kwok")?, module_folder("kwok", "sigs.k8s.io/kwok")?));
    let (programs, sources) = tokio::task::spawn_blocking(built).await.context("the build was interrupted")??;
    let (port, _) = ports::bind()?;
    let mut command = Command::new(programs.join("kwok"));
    command
        .arg(format!("--server-address=127.0.0.1:{port}"))
        .arg(format!("--kubeconfig={}", control_plane.admin_kubeconfig().display()))
        .arg("--manage-all-nodes=false")
        .arg("--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake")
        .args(STAGES.map(|stage| format!("--config={}", sources.join("kustomize/stage").join(stage).display())))
        // Its own configuration would be that of the user who runs the test.
        .env("HOME", folder);
    Process::spawn("kwok", command, &folder.join("kwok.log"))
}
