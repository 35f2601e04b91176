//! The real Karpenter with its AWS provider, as a process on the emulated EC2: the judge of the emulation, and the side from which
//! users switch.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use go_programs::go_program;
use serde_json::{Value, json};

use crate::controller::{Aws, Ports};
use crate::controlplane::ControlPlane;

/// Builds the controller from its Go module, once, into the cache.
///
/// # Errors
/// Returns an error if the build fails.
pub async fn program() -> Result<PathBuf> {
    let built = tokio::task::spawn_blocking(|| go_program("karpenter")).await;
    Ok(built.context("the build was interrupted")??.join("controller"))
}

/// Returns the command of the controller, with administrator rights and Karpenter's defaults for all settings.
#[must_use]
pub fn command(program: &Path, control_plane: &ControlPlane, aws: Aws<'_>, ports: Ports) -> Command {
    let mut command = Command::new(program);
    command
        .env("KUBECONFIG", control_plane.admin_kubeconfig())
        .env("LEADER_ELECTION_NAMESPACE", "kube-system")
        .env("SYSTEM_NAMESPACE", "kube-system")
        .env("CLUSTER_NAME", aws.cluster)
        .env("CLUSTER_ENDPOINT", control_plane.url())
        .env("AWS_REGION", aws.region)
        .env("AWS_ENDPOINT_URL", aws.endpoint)
        .env("AWS_ACCESS_KEY_ID", "demo")
        .env("AWS_SECRET_ACCESS_KEY", "demo")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("METRICS_PORT", ports.metrics.to_string())
        .env("HEALTH_PROBE_PORT", ports.probes.to_string());
    command
}

/// Returns an EC2NodeClass as users of Karpenter have it, with a role and without annotations of Kerf.
#[must_use]
pub fn node_class(cluster: &str) -> Value {
    let discovery = json!([{"tags": {"karpenter.sh/discovery": cluster}}]);
    json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": format!("KarpenterNodeRole-{cluster}"),
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": discovery,
            "securityGroupSelectorTerms": discovery,
        },
    })
}
