//! One machine with one program that handles the notices of its Node: Kerf's agent, or the Node Termination Handler as its
//! DaemonSet runs it.

use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tempfile::TempDir;
use testbed::controlplane::ControlPlane;
use testbed::eventually;
use testbed::imds::{Facts, Imds, Interruption};
use testbed::process::Process;

const LIMIT: Duration = Duration::from_secs(60);
const SPOT: &str = "meta-data/spot/instance-action";
const GRACE: Duration = Duration::from_secs(5);
/// Private DNS name of the instance that boots. Metadata has it, so bootstrap need not call EC2.
const HOST_NAME: &str = "ip-10-0-0-1.us-west-2.compute.internal";
/// Number of bootstrap runs for the measurement.
const BOOTS: usize = 20;

/// Program under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Agent,
    TerminationHandler,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agent => "kerf-agent",
            Self::TerminationHandler => "Node Termination Handler",
        }
    }

    const fn short(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::TerminationHandler => "nth",
        }
    }
}

/// Program with its path.
#[derive(Clone, Debug)]
pub struct Program {
    pub kind: Kind,
    pub path: PathBuf,
}

/// Simulated machine with the program.
pub struct Subject {
    program: Program,
    node: String,
    root: TempDir,
    imds: Imds,
    nodes: Api<Node>,
    process: Option<Process>,
    boots: u32,
    host: (String, String),
}

impl Subject {
    /// Creates the Node and starts the program.
    pub async fn start(control_plane: &Arc<ControlPlane>, program: &Program, number: usize) -> Result<Self> {
        let node = format!("{}-{number}", program.kind.short());
        let instance = format!("i-{number:017x}");
        let root = tempfile::tempdir().context("cannot make a machine's folder")?;
        let facts = facts(&instance, &node);
        let imds = Imds::start(IpAddr::V4(Ipv4Addr::LOCALHOST), facts).await?;
        let nodes: Api<Node> = Api::all(control_plane.admin().await?);
        let object =
            json!({"metadata": {"name": node}, "spec": {"providerID": format!("aws:///us-west-2a/{instance}")}});
        nodes.create(&PostParams::default(), &serde_json::from_value(object)?).await.context("cannot make the Node")?;
        let url = control_plane.url();
        let (host, port) = url.trim_start_matches("https://").rsplit_once(':').context("no port")?;
        let host = (host.to_owned(), port.to_owned());
        let mut subject = Self { program: program.clone(), node, root, imds, nodes, process: None, boots: 0, host };
        match program.kind {
            Kind::Agent => subject.furnish_agent(control_plane)?,
            Kind::TerminationHandler => subject.furnish_handler(control_plane).await?,
        }
        subject.run()?;
        Ok(subject)
    }

    /// Returns the folder that represents `/` on this machine.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn node(&self) -> &str {
        &self.node
    }

    /// Returns the process id of the program; 0 before it runs.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, Process::id)
    }

    pub fn exit_report(&self) -> String {
        self.process.as_ref().map(|process| process.log_tail(10)).unwrap_or_default()
    }

    /// Waits until the program polls for spot notices regularly.
    pub async fn watches(&self) -> Result<()> {
        let begin = self.imds.requests(SPOT);
        let asked = eventually("questions for notices", LIMIT, async || {
            Ok((self.imds.requests(SPOT) >= begin + 3).then_some(()))
        });
        asked.await.with_context(|| self.exit_report())
    }

    /// Serves a spot notice from now on.
    pub fn interrupt(&self) {
        let time = Timestamp::now() + SignedDuration::from_secs(120);
        self.imds.update(|facts| facts.interruption = Some(Interruption { action: "terminate".to_owned(), time }));
    }

    /// Resets the machine to the state without a notice. For Kerf's agent a notice is final, so the machine reboots; the Node
    /// Termination Handler needs no reboot.
    pub async fn begin_anew(&mut self) -> Result<()> {
        self.imds.update(|facts| facts.interruption = None);
        if let Some(mut process) = self.process.take() {
            process.stop(GRACE).await?;
        }
        let state = self.root.path().join("var/lib/kerf");
        if state.exists() {
            std::fs::remove_dir_all(&state).context("cannot forget the last notice")?;
        }
        let clean = json!({"spec": {"unschedulable": null}, "metadata": {"annotations": null, "labels": null}});
        self.nodes.patch(&self.node, &PatchParams::default(), &Patch::Merge(clean)).await.context("cannot uncordon")?;
        self.run()
    }

    fn run(&mut self) -> Result<()> {
        self.boots += 1;
        self.write("proc/sys/kernel/random/boot_id", &format!("boot-{}\n", self.boots))?;
        let log = self.root.path().join("log");
        let process = Process::spawn(self.program.kind.name(), self.command(), &log)?;
        self.process = Some(process);
        Ok(())
    }

    fn command(&self) -> Command {
        match self.program.kind {
            Kind::Agent => {
                let mut command = Command::new(&self.program.path);
                command.arg("run").env("KERF_ROOT", self.root.path());
                command.env("AWS_EC2_METADATA_SERVICE_ENDPOINT", self.imds.url());
                command
            }
            Kind::TerminationHandler => {
                // The program reads the files of its ServiceAccount from one fixed path, so it gets a mount namespace of its
                // own.
                let enter = "mkdir -p /run/secrets && mount -t tmpfs tmpfs /run/secrets && mkdir -p /run/secrets/kubernetes.io && \
                             cp -r \"$1\" /run/secrets/kubernetes.io/serviceaccount && exec \"$2\"";
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c", enter, "sh"]).arg(self.root.path().join("account"));
                command.arg(&self.program.path).env("NODE_NAME", &self.node).env("POD_NAME", &self.node);
                command.env("INSTANCE_METADATA_URL", self.imds.url()).env("ENABLE_PROMETHEUS_SERVER", "false");
                command.env("KUBERNETES_SERVICE_HOST", &self.host.0).env("KUBERNETES_SERVICE_PORT", &self.host.1);
                command
            }
        }
    }

    fn furnish_agent(&self, control_plane: &ControlPlane) -> Result<()> {
        let kubeconfig = control_plane.kubeconfig(&format!("system:node:{}", self.node), "system:nodes")?;
        self.write("var/lib/kubelet/kubeconfig", &kubeconfig)?;
        let arguments = format!("NODEADM_KUBELET_ARGS=\"--hostname-override={}\"\n", self.node);
        self.write("etc/eks/kubelet/environment", &arguments)?;
        // The CNI is configured, as on every working node: without it the agent checks for it every second.
        self.write("etc/cni/net.d/10-aws.conflist", r#"{"plugins": [{"type": "aws-cni"}]}"#)?;
        let plugin = self.root.path().join("opt/cni/bin/aws-cni");
        write(&plugin, "")?;
        std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755))?;
        let done = json!({"state": "done", "nodeName": self.node, "since": "2026-01-01T00:00:00Z"});
        self.write("run/kerf/bootstrap.json", &done.to_string())
    }

    /// Creates a ServiceAccount with cluster-admin, which includes every right of its chart.
    async fn furnish_handler(&self, control_plane: &ControlPlane) -> Result<()> {
        let client = control_plane.admin().await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "kube-system");
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nth"}});
        let apply = PatchParams::apply("numbers").force();
        accounts.patch("nth", &apply, &Patch::Apply(account)).await.context("cannot make its account")?;
        let bindings: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> = Api::all(client);
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "nth"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "nth", "namespace": "kube-system"}],
        });
        bindings.patch("nth", &apply, &Patch::Apply(binding)).await.context("cannot give it rights")?;
        let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
        let answer = accounts.create_token_request("nth", &PostParams::default(), &request).await?;
        let token = answer.status.and_then(|status| status.token).context("no token")?;
        self.write("account/token", &token)?;
        self.write("account/namespace", "kube-system")?;
        self.write("account/ca.crt", control_plane.authority().certificate())
    }

    fn write(&self, path: &str, text: &str) -> Result<()> {
        write(&self.root.path().join(path), text)
    }
}

/// Returns the median time from the start of `kerf-agent bootstrap` until it starts kubelet through systemd, with a responsive
/// metadata service.
pub async fn bootstrap(control_plane: &ControlPlane, path: &Path) -> Result<Duration> {
    let mut took = Vec::new();
    for _ in 0..BOOTS {
        took.push(boot(control_plane, path).await?);
    }
    took.sort();
    Ok(took[took.len() / 2])
}

async fn boot(control_plane: &ControlPlane, path: &Path) -> Result<Duration> {
    let root = tempfile::tempdir().context("cannot make a machine's folder")?;
    let authority = STANDARD.encode(control_plane.authority().certificate());
    let config = json!({
        "apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig",
        "spec": {"cluster": {"name": "numbers", "apiServerEndpoint": control_plane.url(),
                             "certificateAuthority": authority, "cidr": "10.96.0.0/16"}},
    });
    let facts = Facts { user_data: Some(config.to_string().into_bytes()), ..facts("i-0123456789abcdef0", HOST_NAME) };
    let imds = Imds::start(IpAddr::V4(Ipv4Addr::LOCALHOST), facts).await?;
    let programs = root.path().join("programs");
    write(&programs.join("systemctl"), "#!/bin/sh\ncase \"$*\" in *kubelet*) date +%s%N >>\"$0.called\" ;; esac\n")?;
    std::fs::set_permissions(programs.join("systemctl"), std::fs::Permissions::from_mode(0o755))?;
    write(&root.path().join("etc/eks/kubelet-version.txt"), "v1.36.3\n")?;
    write(&root.path().join("etc/eks/containerd-version.txt"), "2.2.1\n")?;
    write(&root.path().join("etc/eks/image-credential-provider/ecr-credential-provider"), "")?;
    let start = std::time::SystemTime::now();
    let started = Instant::now();
    let bootstrap = tokio::process::Command::new(path)
        .arg("bootstrap")
        .env("KERF_ROOT", root.path())
        .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
        .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", imds.url())
        .kill_on_drop(true)
        .output();
    let ended = tokio::time::timeout(LIMIT, bootstrap).await;
    let output = ended.with_context(|| format!("bootstrap did not end within {LIMIT:?}"))??;
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "bootstrap ended with {} after {:?}: {log}", output.status, started.elapsed());
    let called = std::fs::read_to_string(programs.join("systemctl.called")).context("kubelet was not started")?;
    let called: u64 = called.lines().next().context("kubelet was not started")?.parse()?;
    let called = std::time::UNIX_EPOCH + Duration::from_nanos(called);
    called.duration_since(start).context("the clock was set meanwhile")
}

fn facts(instance: &str, node: &str) -> Facts {
    Facts {
        instance_id: instance.to_owned(),
        instance_type: "m5.large".to_owned(),
        architecture: "x86_64".to_owned(),
        zone: "us-west-2a".to_owned(),
        region: "us-west-2".to_owned(),
        local_hostname: node.to_owned(),
        local_ipv4: "10.0.0.1".to_owned(),
        mac: "02:00:0a:00:00:01".to_owned(),
        spot: true,
        ..Facts::default()
    }
}

/// Writes a file and the folders above it.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().context("a path without a folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
