//! Kerf's controller with `OBSERVE`, beside another controller: in a namespace and with permissions and a connection to EC2 of
//! its own.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::controller::{self, Aws, Ports};
use crate::controlplane::Account;
use crate::ec2wire::Ec2Wire;
use crate::environment::{CLUSTER, Environment, REGION, SERVICE_CIDR};
use crate::eventually;
use crate::process::Process;

/// Time limit until the controller is ready.
const START: Duration = Duration::from_secs(120);
const STOP: Duration = Duration::from_secs(20);
/// Calls that change AWS.
const CHANGES: [&str; 6] =
    ["CreateFleet", "RunInstances", "TerminateInstances", "CreateTags", "CreateLaunchTemplate", "DeleteLaunchTemplate"];
/// Resources that it may write.
const OWN: [&str; 2] = ["configmaps", "leases"];

/// Running process with its own HTTP server of EC2.
pub struct ObservingController {
    wire: Ec2Wire,
    process: Process,
    ports: Ports,
}

impl ObservingController {
    /// Applies the permissions and starts the controller.
    ///
    /// # Errors
    /// Returns an error if the controller is not ready in time.
    pub async fn start(environment: &Environment) -> Result<Self> {
        let (account, folder) = (Account::Observer, environment.folder());
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": account.namespace()}});
        environment.apply_value(namespace).await?;
        environment.control_plane.apply_rights(account).await?;
        let wire = Ec2Wire::start(environment.ec2.clone(), Some(&folder.join("observer-wire.log"))).await?;
        let (ports, url) = (Ports::choose()?, wire.url());
        let aws = Aws { endpoint: &url, region: REGION, cluster: CLUSTER, service_cidr: SERVICE_CIDR };
        let mut command = controller::command(&environment.control_plane, aws, ports)?;
        command
            .env("KUBECONFIG", environment.control_plane.kubeconfig_of(account))
            .env("SYSTEM_NAMESPACE", account.namespace())
            .env("OBSERVE", "true")
            .env("LOG_LEVEL", "debug");
        let process = Process::spawn("observer", command, &folder.join("observer.log"))?;
        let observing = Self { wire, process, ports };
        eventually("the observing controller to be ready", START, async || {
            controller::get(&format!("127.0.0.1:{}", ports.probes), "/readyz").await.map(Some)
        })
        .await
        .with_context(|| observing.process.exit_report())?;
        Ok(observing)
    }

    /// Returns its metrics.
    ///
    /// # Errors
    /// Returns an error if the controller does not respond.
    pub async fn metrics(&self) -> Result<String> {
        controller::get(&format!("127.0.0.1:{}", self.ports.metrics), "/metrics").await
    }

    /// Asserts that it planned, and changed only its own objects and nothing in AWS.
    ///
    /// # Errors
    /// Returns an error with the request that it should not have sent.
    pub fn changed_nothing(&self, environment: &Environment) -> Result<()> {
        let requests = environment.control_plane.requests_of(Account::Observer)?;
        let is_watched = requests.iter().any(|request| request.verb == "watch" && request.resource == "pods");
        ensure!(is_watched, "the observer watched no pods");
        let reads = |verb: &str| ["get", "list", "watch"].contains(&verb);
        let wrong = requests
            .iter()
            .find(|request| request.forbidden || (!reads(&request.verb) && !OWN.contains(&request.resource.as_str())));
        ensure!(wrong.is_none(), "{wrong:?}");
        ensure!(!self.wire.exchanges("DescribeInstanceTypes").is_empty(), "the observer asked EC2 nothing");
        let changes: Vec<&str> = CHANGES.into_iter().filter(|action| !self.wire.exchanges(action).is_empty()).collect();
        ensure!(changes.is_empty(), "{changes:?}");
        Ok(())
    }

    /// Stops the controller, which stores its last records.
    ///
    /// # Errors
    /// Returns an error if it does not end well.
    pub async fn stop(&mut self) -> Result<()> {
        let status = self.process.stop(STOP).await?;
        ensure!(status.success(), "{}", self.process.exit_report());
        Ok(())
    }
}
