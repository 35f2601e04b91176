//! Command line of the controller as a process, with the same settings of cluster and AWS for every user.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::controlplane::{Account, ControlPlane, ports};
use crate::machines::find_program;

/// Ports of one controller, which remain the same after a restart.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// Port of the metrics.
    pub metrics: u16,
    /// Port of the probes.
    pub probes: u16,
}

impl Ports {
    /// Chooses two ports that are free at this moment.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub fn choose() -> Result<Self> {
        // Both are held until both are chosen, because they must differ.
        let held = [ports::bind()?, ports::bind()?];
        let [metrics, probes] = held.each_ref().map(|(port, _)| *port);
        Ok(Self { metrics, probes })
    }
}

/// AWS settings of the controller.
#[derive(Clone, Copy, Debug)]
pub struct Aws<'a> {
    /// URL of all AWS services.
    pub endpoint: &'a str,
    /// AWS region.
    pub region: &'a str,
    /// Name of the cluster in AWS.
    pub cluster: &'a str,
    /// Service CIDR of the cluster.
    pub service_cidr: &'a str,
}

/// Returns the body of a response of the controller, such as to `/readyz` or `/metrics`.
///
/// # Errors
/// Returns an error if the controller does not listen, or refuses the request; the error contains the response.
pub async fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await.context("no process listens yet")?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: testbed\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("a response without a body")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "{body}");
    Ok(body.to_owned())
}

/// Returns the command for `kerf-controller` with its required settings; the caller may add others.
///
/// # Errors
/// Returns an error if the program is not built; the error contains the build command.
pub fn command(control_plane: &ControlPlane, aws: Aws<'_>, ports: Ports) -> Result<Command> {
    let mut command = local_command(control_plane, Account::Controller, ports)?;
    command
        .env("CLUSTER_NAME", aws.cluster)
        .env("CLUSTER_ENDPOINT", control_plane.url())
        .env("CLUSTER_CIDR", aws.service_cidr)
        .env("CLUSTER_CA_BUNDLE", STANDARD.encode(control_plane.authority().certificate()))
        .env("AWS_REGION", aws.region)
        .env("AWS_ENDPOINT_URL", aws.endpoint)
        .env("AWS_ACCESS_KEY_ID", "demo")
        .env("AWS_SECRET_ACCESS_KEY", "demo")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("PACKING", "true")
        .env("SURGE", "true");
    Ok(command)
}

/// Returns the command for `kerf-controller` with simulated nodes. It has no setting of AWS.
///
/// # Errors
/// Returns an error if the program is not built; the error contains the build command.
pub fn kwok_command(control_plane: &ControlPlane, ports: Ports) -> Result<Command> {
    let mut command = local_command(control_plane, Account::Kwok, ports)?;
    command.env("PROVIDER", "kwok").env("CLUSTER_NAME", "kwok");
    Ok(command)
}

fn local_command(control_plane: &ControlPlane, account: Account, ports: Ports) -> Result<Command> {
    let program = find_program("kerf-controller", "KERF_CONTROLLER", "cargo build --workspace")?;
    let mut command = Command::new(program);
    command
        .env("KUBECONFIG", control_plane.kubeconfig_of(account))
        .env("LISTEN_ADDRESS", Ipv4Addr::LOCALHOST.to_string())
        .env("METRICS_PORT", ports.metrics.to_string())
        .env("HEALTH_PROBE_PORT", ports.probes.to_string())
        .env("DEBUG_PORT", "0");
    Ok(command)
}
