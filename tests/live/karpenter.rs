//! The side of the peer: Karpenter's controller with its kwok provider, which creates Nodes instead of instances. Karpenter's
//! defaults apply to all settings, and the controller has administrator rights.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use go_programs::go_program;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use testbed::controller::Ports;
use testbed::controlplane::ControlPlane;

use crate::catalogue::Catalogue;
use crate::ec2::BOOT;
use crate::subject::Subject;

/// Folder of the Go module that names Karpenter's version.
const MODULE: &str = "peers/live";
/// Folders of CRDs in Karpenter's module.
const CRDS: [&str; 2] = ["pkg/apis/crds", "kwok/apis/crds"];

pub async fn furnish(control_plane: &ControlPlane, catalogue: &Catalogue) -> Result<Subject> {
    let program = tokio::task::spawn_blocking(|| go_program(MODULE)).await??.join("kwok");
    control_plane.apply_crds_of(&definitions(&sources()?)?).await?;
    let types = control_plane.folder().join("instance_types.json");
    std::fs::write(&types, catalogue.for_kwok()?.to_string()).context("cannot write the types")?;
    let ports = Ports::choose()?;
    let mut command = Command::new(program);
    command
        .env("KUBECONFIG", control_plane.admin_kubeconfig())
        .env("CLUSTER_NAME", "live")
        .env("SYSTEM_NAMESPACE", "kube-system")
        .env("DISABLE_LEADER_ELECTION", "true")
        .env("INSTANCE_TYPES_FILE_PATH", types)
        .env("METRICS_PORT", ports.metrics.to_string())
        .env("HEALTH_PROBE_PORT", ports.probes.to_string());
    Ok(Subject { command, class: class(), ec2: None })
}

fn class() -> Value {
    json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
        "spec": {"nodeRegistrationDelay": format!("{BOOT}s")},
    })
}

/// Returns the folder of the module's sources, which Go downloads if they are missing.
fn sources() -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(MODULE);
    let mut command = Command::new("go");
    command.args(["mod", "download", "-json", "sigs.k8s.io/karpenter"]).current_dir(folder);
    let output = command.output().context("cannot run go")?;
    ensure!(output.status.success(), "go does not know the module: {}", String::from_utf8_lossy(&output.stderr));
    let module: Value = serde_json::from_slice(&output.stdout).context("go says something that is no JSON")?;
    module["Dir"].as_str().map(PathBuf::from).context("go does not say where the module is")
}

fn definitions(sources: &Path) -> Result<Vec<CustomResourceDefinition>> {
    let mut found = Vec::new();
    for folder in CRDS.map(|folder| sources.join(folder)) {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let file = entry?.path();
            let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            found.push(serde_saphyr::from_str(&text).with_context(|| format!("{} is no CRD", file.display()))?);
        }
    }
    Ok(found)
}
