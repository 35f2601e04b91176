//! The controller as a process: what it is told of the cluster and of AWS, so that everybody who runs it tells it the same.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::controlplane::ControlPlane;
use crate::machines::find_program;

/// Ports of one controller, which stay its own when it starts again.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// Of its metrics.
    pub metrics: u16,
    /// Of its probes.
    pub probes: u16,
}

impl Ports {
    /// Two that nobody listens on at this moment.
    ///
    /// # Errors
    /// When there are none.
    pub fn choose() -> Result<Self> {
        // Both are held until both are known, or they could be one.
        let held = [TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?];
        Ok(Self { metrics: held[0].local_addr()?.port(), probes: held[1].local_addr()?.port() })
    }
}

/// The AWS that the controller is to know.
#[derive(Clone, Copy, Debug)]
pub struct Aws<'a> {
    /// Where it answers.
    pub endpoint: &'a str,
    /// The region.
    pub region: &'a str,
    /// The cluster's name in it.
    pub cluster: &'a str,
}

/// Calls `kerf-controller` with the settings that it needs; whoever starts it may add others.
///
/// # Errors
/// When the program is not built; says how to build it.
pub fn command(control_plane: &ControlPlane, aws: Aws<'_>, ports: Ports) -> Result<Command> {
    let program = find_program("kerf-controller", "KERF_CONTROLLER", "cargo build --workspace")?;
    let mut command = Command::new(program);
    command
        .env("KUBECONFIG", control_plane.controller_kubeconfig())
        .env("CLUSTER_NAME", aws.cluster)
        .env("CLUSTER_ENDPOINT", control_plane.url())
        .env("CLUSTER_CIDR", "10.100.0.0/16")
        .env("CLUSTER_CA_BUNDLE", STANDARD.encode(control_plane.authority().certificate()))
        .env("AWS_REGION", aws.region)
        .env("AWS_ENDPOINT_URL", aws.endpoint)
        .env("AWS_ACCESS_KEY_ID", "demo")
        .env("AWS_SECRET_ACCESS_KEY", "demo")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("LISTEN_ADDRESS", Ipv4Addr::LOCALHOST.to_string())
        .env("METRICS_PORT", ports.metrics.to_string())
        .env("HEALTH_PROBE_PORT", ports.probes.to_string());
    Ok(command)
}
