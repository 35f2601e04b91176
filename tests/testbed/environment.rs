//! Complete test cluster: a real control plane, a fake EC2 with an HTTP server, machines, and the controller as a process.
//!
//! The demo runs on it, and tests inject faults into it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::ccm::CloudController;
use crate::controller::{self, Aws, Ports};
use crate::controller_pods::{ControllerPods, MakeCommand, PodPlace};
use crate::controlplane::{Account, Component, ControlPlane, Options, SERVICE_CIDR as CONTROL_PLANE_CIDR};
use crate::ec2wire::Ec2Wire;
use crate::eks::Eks;
use crate::karpenter;
use crate::kubelet::Timing;
use crate::machines::own_network::Servers;
use crate::machines::real::Parts;
use crate::machines::{NodeSimulator, Options as SimulatorOptions, Programs, signer};
use crate::network::Network;
use crate::pod_network::PodNetwork;
use crate::process::Process;
use anyhow::{Context, Result};
use cloud::fake::{Builder, FakeCloud, FakeInstance};
use kube::Client;
use serde_json::json;

/// Cluster name in the tags of the examples.
pub const CLUSTER: &str = "kerf-demo";
/// Region of the cluster.
pub const REGION: &str = "us-west-2";
/// Service CIDR in the settings of the controller.
pub const SERVICE_CIDR: &str = "10.100.0.0/16";
/// The same with IPv6.
pub const IPV6_SERVICE_CIDR: &str = "fd00:10:96::/112";
const STOP: Duration = Duration::from_secs(20);

/// Properties of a test cluster that a few users choose themselves.
#[derive(Clone, Default)]
pub struct Setup {
    /// Components of real machines, once they are built.
    pub real: Arc<OnceLock<Parts>>,
    /// Gives Services and nodes IPv6 addresses.
    pub ipv6: bool,
    /// Lets the API server reach ports of the controller's pods.
    pub pod_network: bool,
    /// Lets two cores run hundreds of nodes: AL2023 boots without an agent, as EKS' stock image, and kubelets report rarely.
    pub many_nodes: bool,
    /// Leaves the permissions of the controller to the user's `helm install`.
    pub without_rights: bool,
    /// Changes the description of EC2.
    pub describe: Option<fn(Builder) -> Builder>,
}

/// Complete test cluster.
pub struct Environment {
    /// API server and the other components of the control plane.
    pub control_plane: Arc<ControlPlane>,
    /// Client of the administrator.
    pub client: Client,
    /// State of EC2.
    pub ec2: FakeCloud,
    /// EC2's HTTP server for the controller.
    pub wire: Ec2Wire,
    /// Source of the machines' roles, and token webhook of the API server.
    pub eks: Arc<Eks>,
    /// Simulated machines.
    pub simulator: NodeSimulator,
    ccm: CloudController,
    controller: Option<Process>,
    controller_pods: Option<ControllerPods>,
    gates: String,
    queue: String,
    /// Program of the real Karpenter, which runs in place of Kerf's controller.
    karpenter: Option<PathBuf>,
    metrics_detail: &'static str,
    cost_label: &'static str,
    zonal_shift: bool,
    service_cidr: &'static str,
    ports: Ports,
    pod_network: Option<PodNetwork>,
    _network: Network,
}

impl Environment {
    /// Starts all components except the controller.
    ///
    /// # Errors
    /// Returns an error if a component does not start.
    pub async fn start() -> Result<Self> {
        Self::start_with(Setup::default()).await
    }

    /// Starts the cluster as [`Environment::start`] does, with these properties.
    ///
    /// # Errors
    /// Returns an error if a component does not start.
    pub async fn start_with(setup: Setup) -> Result<Self> {
        let network = Network::take()?;
        let eks = Arc::new(Eks::start(CLUSTER, REGION).await?);
        let mut options = eks.with_webhook(Options::full("demo"));
        let pod_network = setup.pod_network.then(|| PodNetwork::start(network.number())).transpose()?;
        if let Some(pods) = &pod_network {
            options = pods.with_proxy(options);
        }
        if setup.ipv6 {
            let ranges = format!("--service-cluster-ip-range={CONTROL_PLANE_CIDR},{IPV6_SERVICE_CIDR}");
            options = options.with_flag(Component::ApiServer, &ranges);
        }
        if setup.many_nodes {
            options = options.with_flag(Component::ControllerManager, "--node-monitor-grace-period=240s");
        }
        let control_plane = Arc::new(ControlPlane::start(options).await?);
        control_plane.apply_crds().await?;
        if !setup.without_rights {
            control_plane.apply_rights(Account::Controller).await?;
        }
        let client = control_plane.admin().await?;
        let described = FakeCloud::builder(REGION).cluster(CLUSTER).kubernetes("1.36").network(network.number());
        let ec2 = setup.describe.unwrap_or(std::convert::identity)(described).build()?;
        let folder = control_plane.folder().to_owned();
        let wire = Ec2Wire::start(ec2.clone(), Some(&folder.join("ec2-wire.log"))).await?;
        let ccm = CloudController::start(client.clone(), ec2.clone());
        let machines = folder.join("machines");
        let defaults = SimulatorOptions::new(ec2.clone(), signer(&control_plane), machines, Programs::find()?);
        let servers = Servers { api_server: control_plane.address(), aws: wire.address() };
        let options = SimulatorOptions {
            real: setup.real,
            // Tokens for hundreds of kubelets would need as many runs of the agent's plugin.
            eks: (!setup.many_nodes).then(|| Arc::clone(&eks)),
            servers: Some(servers),
            stock_al2023: setup.many_nodes,
            timing: if setup.many_nodes { Timing::of_many_nodes() } else { Timing::default() },
            ..defaults
        };
        let simulator = NodeSimulator::start(options).await?;
        let ports = Ports::choose()?;
        let (gates, queue) = (String::new(), String::new());
        Ok(Self {
            control_plane,
            client,
            ec2,
            wire,
            eks,
            simulator,
            ccm,
            controller: None,
            controller_pods: None,
            gates,
            queue,
            karpenter: None,
            metrics_detail: "aggregated",
            cost_label: "",
            zonal_shift: false,
            service_cidr: if setup.ipv6 { IPV6_SERVICE_CIDR } else { SERVICE_CIDR },
            ports,
            pod_network,
            _network: network,
        })
    }

    /// Returns the folder with all logs.
    pub fn folder(&self) -> &Path {
        self.control_plane.folder()
    }

    /// Keeps the logs after the end.
    pub fn keep_logs(&self) {
        self.control_plane.keep_logs();
    }

    /// Sets the feature gates, such as `NodeOverlay=true`, of controllers that start from now on.
    pub fn set_gates(&mut self, gates: &str) {
        gates.clone_into(&mut self.gates);
    }

    /// Sets the interruption queue of controllers that start from now on; empty for none.
    pub fn set_queue(&mut self, queue: &str) {
        queue.clone_into(&mut self.queue);
    }

    /// Sets the detail of metrics, `aggregated` or `karpenter`, of controllers that start from now on.
    pub fn set_metrics_detail(&mut self, detail: &'static str) {
        self.metrics_detail = detail;
    }

    /// Sets the label by whose values controllers that start from now on report the cost; empty for none.
    pub fn set_cost_label(&mut self, label: &'static str) {
        self.cost_label = label;
    }

    /// Sets whether controllers that start from now on follow zonal shifts.
    pub fn set_zonal_shift(&mut self, enabled: bool) {
        self.zonal_shift = enabled;
    }

    /// Starts the controller, also after it was killed.
    pub fn start_controller(&mut self) -> Result<()> {
        let mut command = self.make_command()(self.ports)?;
        command.env("INTERRUPTION_QUEUE", &self.queue).env("LOG_LEVEL", "debug");
        if !self.gates.is_empty() {
            command.env("FEATURE_GATES", &self.gates);
        }
        command.env("METRICS_DETAIL", self.metrics_detail).env("COST_LABEL", self.cost_label);
        command.env("ENABLE_ZONAL_SHIFT", self.zonal_shift.to_string());
        let name = if self.karpenter.is_some() { "karpenter" } else { "controller" };
        self.controller = Some(Process::spawn(name, command, &self.folder().join(format!("{name}.log")))?);
        Ok(())
    }

    /// Starts the controller as the pods of a Deployment `karpenter`, which others may change.
    ///
    /// # Errors
    /// Returns an error if the API server refuses the Deployment.
    pub async fn start_controller_pods(&mut self) -> Result<()> {
        let variables = [
            ("FEATURE_GATES", self.gates.as_str()),
            ("INTERRUPTION_QUEUE", self.queue.as_str()),
            ("LOG_LEVEL", "debug"),
        ];
        let place = PodPlace {
            folder: self.folder().to_owned(),
            addresses: self.pod_network.as_ref().map(PodNetwork::addresses),
        };
        let pods = ControllerPods::start(self.client.clone(), place, &variables, self.make_command()).await?;
        self.controller_pods = Some(pods);
        Ok(())
    }

    /// Returns the function that makes the command of the controller.
    fn make_command(&self) -> MakeCommand {
        let (control_plane, url) = (Arc::clone(&self.control_plane), self.wire.url());
        let (program, service_cidr) = (self.karpenter.clone(), self.service_cidr);
        Box::new(move |ports| {
            let aws = Aws { endpoint: &url, region: REGION, cluster: CLUSTER, service_cidr };
            match &program {
                None => controller::command(&control_plane, aws, ports),
                Some(program) => Ok(karpenter::command(program, &control_plane, aws, ports)),
            }
        })
    }

    /// Replaces the controller of later starts: the real Karpenter's program, or Kerf's controller.
    pub fn set_karpenter(&mut self, program: Option<PathBuf>) {
        self.karpenter = program;
    }

    /// Kills the controller, as with `kill -9`.
    pub fn kill_controller(&mut self) -> Result<()> {
        let mut controller = self.controller.take().context("the controller does not run")?;
        controller.kill().map(drop)
    }

    /// Stops the controller and reports whether its exit code was 0.
    pub async fn stop_controller(&mut self) -> Result<bool> {
        let mut controller = self.controller.take().context("the controller does not run")?;
        Ok(controller.stop(STOP).await?.success())
    }

    /// Reports whether the controller was started, and neither stopped nor killed since. It may have ended by itself.
    #[must_use]
    pub fn has_controller(&self) -> bool {
        self.controller.is_some()
    }

    /// Returns an error with the end of the controller's log if it is not running.
    pub fn ensure_controller_runs(&mut self) -> Result<()> {
        let controller = self.controller.as_mut().context("the controller does not run")?;
        match controller.ended()? {
            None => Ok(()),
            Some(_) => anyhow::bail!("{}", controller.exit_report()),
        }
    }

    /// Returns the process id of the controller.
    ///
    /// # Errors
    /// Returns an error if the controller does not run.
    pub fn controller_pid(&self) -> Result<u32> {
        Ok(self.controller.as_ref().context("the controller does not run")?.id())
    }

    /// Returns the address of the controller's probes.
    pub fn probes(&self) -> String {
        format!("127.0.0.1:{}", self.ports.probes)
    }

    /// Applies a manifest of the examples, such as `getting-started/nodepool.yaml`, as `kubectl apply` would.
    pub async fn apply(&self, file: &str) -> Result<()> {
        crate::apply_example(&self.client, file).await
    }

    /// Applies one object, as `kubectl apply` would.
    ///
    /// # Errors
    /// Returns an error if the value is no object, or if the API server rejects it.
    pub async fn apply_value(&self, value: serde_json::Value) -> Result<()> {
        crate::apply(&self.client, value).await
    }

    /// Creates a ReplicaSet with one pod that requests this amount of CPU and nodes with these labels.
    ///
    /// # Errors
    /// Returns an error if the API server rejects it.
    pub async fn pod(&self, name: &str, cpu: &str, selector: serde_json::Value) -> Result<()> {
        let app = json!({"app": name});
        let replica_set = json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": app},
                "template": {"metadata": {"labels": app}, "spec": {
                    "nodeSelector": selector,
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}}],
                }},
            },
        });
        self.apply_value(replica_set).await
    }

    /// Returns the instances that are neither shutting down nor terminated.
    #[must_use]
    pub fn running_instances(&self) -> Vec<FakeInstance> {
        let ended = |machine: &FakeInstance| matches!(machine.instance.state.as_str(), "terminated" | "shutting-down");
        self.ec2.machines().into_iter().filter(|machine| !ended(machine)).collect()
    }

    /// Stops all components of the cluster.
    pub async fn stop(mut self) -> Result<()> {
        if let Some(mut controller) = self.controller.take() {
            controller.stop(STOP).await?;
        }
        if let Some(pods) = self.controller_pods.take() {
            pods.stop().await?;
        }
        self.simulator.stop().await?;
        self.ccm.stop().await;
        drop(self.wire);
        drop(self.client);
        match Arc::try_unwrap(self.control_plane) {
            Ok(control_plane) => control_plane.stop().await.map(drop),
            // Another owner exists: dropping the last one ends the processes.
            Err(_) => Ok(()),
        }
    }
}

/// Returns the folder of the examples.
pub(crate) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}
