//! The node simulator against a real control plane, with real agents: the lifecycle of an instance, an interruption as the instance
//! sees it, and the cleanup.

#[path = "node_simulator/bad_user_data.rs"]
mod bad_user_data;
#[path = "node_simulator/stopped.rs"]
mod stopped;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::{Taint, condition, label, taint};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloud::fake::FakeCloud;
use cloud::{Cloud, Filter, FleetConfig, FleetOverride, FleetRequest, LaunchTemplateRequest};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use machine::userdata::{self, AmiFamily, Bootstrap};
use serde_json::{Value, json};
use testbed::ccm::{self, CloudController};
use testbed::controlplane::{ControlPlane, Options};
use testbed::eventually;
use testbed::imds::Imds;
use testbed::machines::{self, Machine, NodeSimulator, Phase, Programs};
use testbed::process::RunFolder;
use tokio::net::TcpStream;

/// Time limit of every wait. The limit is high, because the machine may compile something else at the same time.
const LIMIT: Duration = Duration::from_secs(90);

/// Cluster, cloud and node simulator of a test.
struct Fixture {
    control_plane: Arc<ControlPlane>,
    client: Client,
    cloud: FakeCloud,
    simulator: NodeSimulator,
    ccm: CloudController,
    folder: RunFolder,
}

impl Fixture {
    async fn start(name: &str) -> Result<Self> {
        let programs = Programs::find()?;
        let control_plane = Arc::new(ControlPlane::start(Options::full(name)).await?);
        let client = control_plane.admin().await?;
        let cloud = FakeCloud::builder("us-west-2").build()?;
        let folder = RunFolder::create(name)?;
        let sign = machines::signer(&control_plane);
        let options = machines::Options::new(cloud.clone(), sign, folder.path().join("machines"), programs);
        let simulator = NodeSimulator::start(options).await?;
        let ccm = CloudController::start(client.clone(), cloud.clone());
        Ok(Self { control_plane, client, cloud, simulator, ccm, folder })
    }

    /// Stops everything, and asserts that no process of the test is left.
    async fn stop(self) -> Result<()> {
        let Self { control_plane, simulator, ccm, folder, .. } = self;
        let mut pids = simulator.pids();
        pids.extend(control_plane.pids().into_iter().map(|(_, pid)| pid));
        simulator.stop().await?;
        ccm.stop().await;
        let control_plane = Arc::into_inner(control_plane).context("the control plane is still in use")?;
        let killed = control_plane.stop().await?;
        ensure!(killed.is_empty(), "{killed:?} had to be killed");
        for pid in pids {
            ensure!(!Path::new(&format!("/proc/{pid}")).exists(), "process {pid} is left behind");
        }
        let left = processes_below(folder.path())?;
        ensure!(left.is_empty(), "processes are left behind: {left:?}");
        Ok(())
    }

    /// Launches one spot instance with this user data, as the controller would.
    async fn launch(&self, token: &str, user_data: impl AsRef<[u8]>) -> Result<String> {
        let subnets = self.cloud.subnets(&Filter::default()).await?;
        let subnet = subnets.first().context("the fake has no subnet")?;
        let images = self.cloud.images(&Filter::default()).await?;
        let image = images.iter().find(|image| image.architecture == "x86_64").context("no image")?;
        let template = LaunchTemplateRequest {
            name: format!("template-{token}"),
            image_id: image.id.clone(),
            user_data: STANDARD.encode(user_data),
            ..LaunchTemplateRequest::default()
        };
        self.cloud.create_launch_template(&template).await?;
        let choice = FleetOverride {
            instance_type: "m5.large".to_owned(),
            zone: subnet.zone.clone(),
            subnet_id: subnet.id.clone(),
            image_id: image.id.clone(),
            priority: 1,
        };
        let request = FleetRequest {
            client_token: token.to_owned(),
            target: 1,
            capacity_type: "spot".to_owned(),
            configs: vec![FleetConfig { launch_template: template.name, overrides: vec![choice] }],
            ..FleetRequest::default()
        };
        let answer = self.cloud.create_fleet(&request).await?;
        let instance =
            answer.instances.first().with_context(|| format!("nothing was launched: {:?}", answer.errors))?;
        Ok(instance.id.clone())
    }

    /// Returns user data as the controller renders it for a NodeClaim with the agent's startup taint.
    fn user_data(&self) -> Result<String> {
        let input = Bootstrap {
            cluster_name: "kerf".to_owned(),
            cluster_endpoint: self.control_plane.url(),
            cluster_ca: userdata::encode(self.control_plane.authority().certificate()),
            cluster_cidr: "10.96.0.0/16".to_owned(),
            labels: [(label::NODEPOOL.to_owned(), "default".to_owned())].into(),
            taints: vec![Taint {
                key: taint::AGENT_NOT_READY.to_owned(),
                value: None,
                effect: taint::NO_EXECUTE.to_owned(),
                time_added: None,
            }],
            ..Bootstrap::default()
        };
        Ok(userdata::render(AmiFamily::Al2023, &input)?.text)
    }

    /// Creates the DaemonSet of the CNI plugin, reduced to its tolerations and host network.
    async fn install_cni(&self) -> Result<()> {
        let labels = json!({"app": "aws-node"});
        let document = json!({
            "metadata": {"name": "aws-node", "namespace": "kube-system"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "hostNetwork": true,
                    "priorityClassName": "system-node-critical",
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "aws-node", "image": "local/aws-node"}],
                }},
            },
        });
        let daemon_sets = Api::<DaemonSet>::namespaced(self.client.clone(), "kube-system");
        daemon_sets.create(&PostParams::default(), &serde_json::from_value(document)?).await?;
        Ok(())
    }

    async fn machine(&self, id: &str) -> Result<Arc<Machine>> {
        eventually("the machine", LIMIT, async || Ok(self.simulator.machine(id))).await
    }

    async fn node(&self, name: &str) -> Result<Node> {
        let nodes = Api::<Node>::all(self.client.clone());
        nodes.get(name).await.with_context(|| format!("Node {name}"))
    }

    /// Waits until a condition of a Node has this status.
    async fn condition(&self, machine: &Machine, kind: &str, status: &str) -> Result<Node> {
        let what = format!("{kind}={status} on {}", machine.node_name());
        let waited = eventually(&what, LIMIT, async || {
            let node = self.node(machine.node_name()).await?;
            let now = condition_of(&node, kind);
            ensure!(now == status, "it is {now:?}");
            Ok(Some(node))
        });
        waited.await.with_context(|| self.evidence(machine))
    }

    /// Returns the logs for the analysis of a failure.
    fn evidence(&self, machine: &Machine) -> String {
        self.folder.keep();
        let tail = |path: &Path| {
            let text = std::fs::read_to_string(path).unwrap_or_else(|error| error.to_string());
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(20)..].join("\n")
        };
        let kubelet = tail(&machine.folder().join("kubelet.log"));
        format!(
            "{} is {:?}, see {}\nagent:\n{}\nkubelet:\n{kubelet}\nsystemctl: {:?}",
            machine.instance_id(),
            machine.phase(),
            machine.folder().display(),
            tail(machine.log()),
            machine.systemctl_calls(),
        )
    }
}

fn condition_of(node: &Node, kind: &str) -> String {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().find(|condition| condition.type_ == kind).map_or("absent", |found| &found.status).to_owned()
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect()
}

/// Returns processes whose root, by their own environment, lies below a folder. Only processes of the same user are readable,
/// which is enough.
fn processes_below(folder: &Path) -> Result<Vec<String>> {
    let mark = folder.display().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|byte| byte.is_ascii_digit()) || name == std::process::id().to_string() {
            continue;
        }
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if String::from_utf8_lossy(&environment).contains(&mark) {
            found.push(name);
        }
    }
    Ok(found)
}

/// Sends one GET request with a new token, through the real protocol.
async fn ask_metadata(imds: &Imds, path: &str) -> Result<(u16, String)> {
    let stream = TcpStream::connect(imds.address()).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut token = String::new();
    let mut last = (0, String::new());
    for (method, path) in [("PUT", "api/token"), ("GET", path)] {
        let request = http::Request::builder().method(method).uri(format!("/latest/{path}")).header("host", "imds");
        let request = request
            .header("x-aws-ec2-metadata-token-ttl-seconds", "60")
            .header("x-aws-ec2-metadata-token", &token)
            .body(http_body_util::Empty::<hyper::body::Bytes>::new())?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        let body = http_body_util::BodyExt::collect(response.into_body()).await?.to_bytes();
        token = String::from_utf8(body.to_vec())?;
        last = (status, token.clone());
    }
    Ok(last)
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_becomes_node_and_ends_without_leftovers() -> Result<()> {
    let fixture = Fixture::start("node-simulator").await?;
    let id = fixture.launch("lifecycle", fixture.user_data()?).await?;
    let machine = fixture.machine(&id).await?;
    joins(&fixture, &machine).await?;
    becomes_ready(&fixture, &machine).await?;
    carries_pods(&fixture, &machine).await?;
    dies_and_comes_back(&fixture, &machine).await?;
    learns_nothing(&fixture).await?;
    is_interrupted(&fixture, &machine).await?;
    fixture.stop().await
}

/// Asserts that the Node has the identity, labels and taints from user data, and is not ready without a CNI.
async fn joins(fixture: &Fixture, machine: &Machine) -> Result<()> {
    let node = fixture.condition(machine, condition::READY, condition::FALSE).await?;
    let spec = node.spec.clone().unwrap_or_default();
    let instance = fixture.cloud.machine(machine.instance_id()).context("the fake lost it")?.instance;
    ensure!(spec.provider_id == Some(instance.provider_id()), "providerID {:?}", spec.provider_id);
    let startup = format!("{}:{}", taint::AGENT_NOT_READY, taint::NO_EXECUTE);
    ensure!(taints(&node).contains(&startup), "taints {:?}", taints(&node));
    let labels = node.metadata.labels.unwrap_or_default();
    ensure!(labels.get(label::NODEPOOL).is_some_and(|name| name == "default"), "labels {labels:?}");
    let calls = machine.systemctl_calls();
    ensure!(
        calls == ["daemon-reload", "restart containerd.service", "restart kubelet.service"],
        "systemctl was called {calls:?}"
    );
    completed_by_the_cloud(fixture, machine).await
}

async fn completed_by_the_cloud(fixture: &Fixture, machine: &Machine) -> Result<()> {
    let node = eventually("the cloud's taint to go", LIMIT, async || {
        let node = fixture.node(machine.node_name()).await?;
        let taints = taints(&node);
        ensure!(!taints.iter().any(|taint| taint.starts_with(ccm::UNINITIALIZED)), "{taints:?}");
        Ok(Some(node))
    })
    .await?;
    let labels = node.metadata.labels.unwrap_or_default();
    ensure!(labels.get(label::INSTANCE_TYPE).is_some_and(|name| name == "m5.large"), "labels {labels:?}");
    ensure!(labels.contains_key(label::ZONE) && labels.contains_key(label::ZONE_ID), "labels {labels:?}");
    Ok(())
}

/// Asserts that the pod of the CNI plugin makes the Node ready, and that the agent then opens its gates.
async fn becomes_ready(fixture: &Fixture, machine: &Machine) -> Result<()> {
    fixture.install_cni().await?;
    let node = fixture.condition(machine, condition::READY, condition::TRUE).await?;
    let allocatable = node.status.and_then(|status| status.allocatable).unwrap_or_default();
    let cpu = allocatable.get("cpu").map(|quantity| quantity.0.clone());
    ensure!(cpu.as_deref() == Some("1930m"), "an m5.large has 2 CPUs of which 70m are reserved, not {cpu:?}");
    let pods = Api::<Pod>::namespaced(fixture.client.clone(), "kube-system");
    let pods = pods.list(&ListParams::default().labels("app=aws-node")).await?;
    let pod = pods.items.first().context("aws-node has no pod")?;
    let host = pod.status.as_ref().and_then(|status| status.host_ip.clone());
    ensure!(host == machine.imds().map(|imds| imds.facts().local_ipv4), "the pod's host is {host:?}");
    fixture.condition(machine, condition::AGENT_READY, condition::TRUE).await?;
    Ok(())
}

/// Removes the startup taint, as the controller does, and asserts that pods run, each with an address of its own.
async fn carries_pods(fixture: &Fixture, machine: &Machine) -> Result<()> {
    let nodes = Api::<Node>::all(fixture.client.clone());
    let lifted = Patch::Merge(json!({"spec": {"taints": null}}));
    nodes.patch(machine.node_name(), &PatchParams::default(), &lifted).await?;
    let labels = json!({"app": "inflate"});
    let container = json!({"name": "inflate", "image": "local/pause", "resources": {"requests": {"cpu": "200m"}}});
    let document = json!({
        "metadata": {"name": "inflate"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    });
    let deployments = Api::<Deployment>::namespaced(fixture.client.clone(), "default");
    deployments.create(&PostParams::default(), &serde_json::from_value(document)?).await?;
    eventually("three pods to run", LIMIT, async || {
        let ready = deployments.get("inflate").await?.status.and_then(|status| status.ready_replicas);
        ensure!(ready == Some(3), "{ready:?} are ready");
        Ok(Some(()))
    })
    .await
    .with_context(|| fixture.evidence(machine))?;
    let pods = bound(fixture, machine).await?;
    let addresses: BTreeSet<_> = pods.iter().filter_map(|pod| pod.status.as_ref()?.pod_ip.clone()).collect();
    ensure!(addresses.len() == 3, "addresses {addresses:?}");
    Ok(())
}

/// Returns the pods of `inflate` that are bound to the node of a machine.
async fn bound(fixture: &Fixture, machine: &Machine) -> Result<Vec<Pod>> {
    let pods = Api::<Pod>::namespaced(fixture.client.clone(), "default");
    let here = ListParams::default().fields(&format!("spec.nodeName={}", machine.node_name())).labels("app=inflate");
    Ok(pods.list(&here).await?.items)
}

/// Asserts that the simulator restarts a killed agent, as systemd would.
async fn dies_and_comes_back(fixture: &Fixture, machine: &Machine) -> Result<()> {
    let before = machine.agent_pid().context("no agent runs")?;
    let starts = machine.agent_starts();
    let pid = nix::unistd::Pid::from_raw(before.cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL)?;
    eventually("the agent to come back", LIMIT, async || {
        let now = machine.agent_pid().context("no agent runs")?;
        ensure!(now != before && machine.agent_starts() == starts + 1, "{now} after {before}");
        Ok(Some(()))
    })
    .await
    .with_context(|| fixture.evidence(machine))
}

/// Asserts that the metadata service shows the notice, and that the agent cordons and drains its node. At the deadline the
/// whole machine ends, except its Node.
async fn is_interrupted(fixture: &Fixture, machine: &Machine) -> Result<()> {
    let imds = machine.imds().context("there is no metadata service")?;
    ensure!(ask_metadata(&imds, "meta-data/spot/instance-action").await?.0 == 404, "there is a notice already");
    let deadline = Timestamp::now() + SignedDuration::from_secs(30);
    ensure!(fixture.cloud.interrupt(machine.instance_id(), deadline), "the fake refuses to interrupt");
    eventually("the notice", LIMIT, async || {
        let (status, body) = ask_metadata(&imds, "meta-data/spot/instance-action").await?;
        ensure!(status == 200, "status {status}");
        let notice: Value = serde_json::from_str(&body)?;
        ensure!(notice["time"] == deadline.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), "{notice}");
        Ok(Some(()))
    })
    .await?;
    fixture.condition(machine, condition::INTERRUPTED, condition::TRUE).await?;
    eventually("the agent to cordon its node", LIMIT, async || {
        let node = fixture.node(machine.node_name()).await?;
        Ok(node.spec.and_then(|spec| spec.unschedulable).filter(|cordoned| *cordoned))
    })
    .await
    .with_context(|| fixture.evidence(machine))?;
    eventually("the agent to empty its node", LIMIT, async || {
        let left = bound(fixture, machine).await?.len();
        ensure!(left == 0, "{left} pods are left");
        Ok(Some(()))
    })
    .await
    .with_context(|| fixture.evidence(machine))?;
    ensure!(machine.phase() == Phase::Running, "the machine was gone before its pods were: {:?}", machine.phase());
    ends(fixture, machine, &imds).await
}

async fn ends(fixture: &Fixture, machine: &Machine, imds: &Imds) -> Result<()> {
    eventually("power off", LIMIT, async || {
        ensure!(machine.phase() == Phase::Ended, "it is {:?}", machine.phase());
        Ok(Some(()))
    })
    .await?;
    ensure!(machine.agent_pid().is_none() && machine.imds().is_none(), "something of it is left");
    ensure!(TcpStream::connect(imds.address()).await.is_err(), "its metadata service still answers");
    let left = processes_below(machine.folder())?;
    ensure!(left.is_empty(), "processes are left behind: {left:?}");
    fixture.node(machine.node_name()).await.context("a Node must stay until it is deleted")?;
    Ok(())
}

/// Launches a second machine whose user data is a script. Its agent must report the missing NodeConfig, retry, and change
/// nothing.
async fn learns_nothing(fixture: &Fixture) -> Result<()> {
    let id = fixture.launch("nonsense", "#!/bin/sh\necho not read by anything\n").await?;
    let machine = fixture.machine(&id).await?;
    eventually("the agent's complaint", LIMIT, async || {
        let log = std::fs::read_to_string(machine.log())?;
        ensure!(log.contains("NodeConfig"), "it says {log}");
        Ok(Some(()))
    })
    .await
    .with_context(|| fixture.evidence(&machine))?;
    ensure!(machine.phase() == Phase::Bootstrapping, "it is {:?}", machine.phase());
    ensure!(machine.systemctl_calls().is_empty(), "systemctl was called {:?}", machine.systemctl_calls());
    ensure!(fixture.node(machine.node_name()).await.is_err(), "a Node appeared");
    let facts = machine.imds().context("there is no metadata service")?.facts();
    ensure!(facts.user_data.is_some_and(|bytes| bytes.starts_with(b"#!/bin/sh")), "EC2 decodes base64");
    Ok(())
}

/// Reports whether the agent has a subcommand.
fn knows(agent: &Path, verb: &str) -> Result<bool> {
    let output = std::process::Command::new(agent).args([verb, "--help"]).output()?;
    Ok(output.status.success())
}

#[test]
fn units_start_only_existing_agent_subcommands() -> Result<()> {
    let agent = Programs::find()?.agent;
    ensure!(!knows(&agent, "dance")?, "the agent takes any word for a subcommand");
    let (mut verbs, mut others) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../systemd"))? {
        let path = entry?.path();
        if path.extension().is_none_or(|kind| kind != "service") {
            continue;
        }
        let unit = std::fs::read_to_string(&path)?;
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart="));
        let start = start.with_context(|| format!("{} starts nothing", path.display()))?;
        let Some(verb) = start.strip_prefix("/usr/bin/kerf-agent ") else {
            others.extend(start.split(' ').next().map(str::to_owned));
            continue;
        };
        ensure!(knows(&agent, verb)?, "{} starts `kerf-agent {verb}`, which does not exist", path.display());
        if verb != "volumes" {
            ensure!(unit.lines().any(|line| line == "RestartSec=1"), "{} waits unlike the simulator", path.display());
        }
        verbs.push(verb.to_owned());
    }
    verbs.sort();
    let known = ["bootstrap", "run", "volumes"];
    ensure!(verbs == known, "the simulator runs bootstrap and run, without volumes; the units {verbs:?}");
    ensure!(others == ["setup-local-disks"], "the images bring setup-local-disks, the units start {others:?} too");
    Ok(())
}
