//! The real Kueue as a process: its controllers for Jobs and ProvisioningRequests, without webhooks.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use go_programs::{go_program, module_folder};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::controlplane::ControlPlane;
use crate::process::Process;

/// Kueue that runs until it is dropped.
pub struct Kueue {
    /// Its process.
    pub process: Process,
}

/// Installs its definitions and starts Kueue's controllers with administrator rights.
///
/// # Errors
/// Returns an error if the build or the download of its definitions fails.
pub async fn start(control_plane: &ControlPlane, folder: &Path) -> Result<Kueue> {
    let program = tokio::task::spawn_blocking(|| go_program("kueue")).await.context("the build was interrupted")??;
    install(control_plane).await?;
    let mut command = Command::new(program);
    command.env("KUBECONFIG", control_plane.admin_kubeconfig());
    let process = Process::spawn("kueue", command, &folder.join("kueue.log"))?;
    Ok(Kueue { process })
}

/// Installs Kueue's definitions.
///
/// # Errors
/// Returns an error if their download fails.
pub async fn install(control_plane: &ControlPlane) -> Result<()> {
    let definitions = tokio::task::spawn_blocking(definitions).await.context("the download was interrupted")??;
    control_plane.apply_crds_of(&definitions).await
}

/// Reads the definitions of Kueue's kinds from its Go module, in the version of the program.
fn definitions() -> Result<Vec<CustomResourceDefinition>> {
    let folder = module_folder("kueue", "sigs.k8s.io/kueue")?.join("config/components/crd/bases");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path)?;
        found.push(serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?);
    }
    Ok(found)
}
