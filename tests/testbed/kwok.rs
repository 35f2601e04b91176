//! The real KWOK as a process. It keeps Nodes with its annotation Ready, and runs their pods.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use go_programs::go_program;

use crate::controlplane::ControlPlane;
use crate::process::Process;

/// Starts KWOK with administrator rights. It runs until it is dropped.
///
/// # Errors
/// Returns an error if the build fails.
pub async fn start(control_plane: &ControlPlane, folder: &Path) -> Result<Process> {
    let programs = tokio::task::spawn_blocking(|| go_program("kwok")).await.context("the build was interrupted")??;
    let mut command = Command::new(programs.join("kwok"));
    command
        .arg(format!("--kubeconfig={}", control_plane.admin_kubeconfig().display()))
        .arg("--manage-all-nodes=false")
        .arg("--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake")
        // Its own configuration would be that of the user who runs the test.
        .env("HOME", folder);
    Process::spawn("kwok", command, &folder.join("kwok.log"))
}
