//! Real machine from PID 1 up: systemd boots Kerf's units, which configure and start the real containerd, runc and kubelet.
//! Only the hardware is shared with the test, so kubelet reports this computer and not the instance type. Machines of the NodePool
//! also share the network; those of the node group have their own, and their pods too.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use api::label;
use cloud::fake;
use go_programs::go_program;
use systemd_container::{Layer, System, is_installed};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use super::machine::{self, InstanceUpdates, Machine, MachineSpec, Phase};
use super::own_network;
use crate::pki::Credentials;

/// NodePool of real machines; machines of other NodePools are simulated, which is cheaper.
pub const POOL: &str = "real";
/// Managed node group of real machines, which no controller launches. It may have several at a time.
pub const NODE_GROUP: &str = "system";
/// Tag of the instances of a managed node group.
pub const NODE_GROUP_TAG: &str = "eks:nodegroup-name";

/// Units of containerd and kubelet as in EKS's image for Amazon Linux 2023, without the parts for its own disks and firewall.
const CONTAINERD: &str = "[Unit]
Description=containerd
[Service]
ExecStart=/usr/bin/containerd
# What the image's own import of its pause container does.
ExecStartPost=/bin/sh -ec 'for image in /etc/eks/*.tar; do /usr/bin/ctr -n k8s.io images import --local --snapshotter native $$image; done'
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=1
Slice=runtime.slice
";
const KUBELET: &str = "[Unit]
Description=kubelet
After=containerd.service
Wants=containerd.service
[Service]
EnvironmentFile=/etc/eks/kubelet/environment
ExecStart=/usr/bin/kubelet $NODEADM_KUBELET_ARGS
KillMode=process
Restart=on-failure
RestartForceExitStatus=SIGPIPE
RestartSec=1
Slice=runtime.slice
";
/// CNI configuration that is sufficient for pods in the host network.
const HOST_NETWORK: &str = r#"{"cniVersion": "1.0.0", "name": "lo", "plugins": [{"type": "loopback"}]}"#;

/// Image of its pods' sandboxes, and of most pods.
const IMAGE: &str = "pod.tar";

/// Network plugins, at Debian's path.
const PLUGINS: &str = "/usr/lib/cni";

/// Folders of containerd and kubelet, below the tests.
const PROGRAMS: [&str; 2] = ["node/containerd", "node/kubelet"];

/// Components of a real machine besides the agent.
#[derive(Clone, Debug)]
pub struct Parts {
    containerd: PathBuf,
    kubelet: PathBuf,
    /// Folder of the image; removed when the last copy of the components is dropped.
    image: Arc<TempDir>,
    /// Archives of further images.
    further_images: Vec<PathBuf>,
}

/// Lock for the one real machine that the ports of this computer permit at a time, because kubelet and containerd use their
/// default ports. Other processes wait until this value is dropped.
#[derive(Debug)]
pub struct Slot {
    _locked: File,
}

impl Slot {
    /// Acquires the lock; returns `None` while another process holds it.
    ///
    /// # Errors
    /// Returns an error if the lock file cannot be created.
    pub fn take() -> Result<Option<Self>> {
        let mut file = Self::open()?;
        if file.try_lock().is_err() {
            return Ok(None);
        }
        file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).context("cannot write the lock file")?;
        Ok(Some(Self { _locked: file }))
    }

    /// Returns the id of the process that holds the lock, if there is one.
    ///
    /// # Errors
    /// Returns an error if the lock file cannot be created.
    pub fn holder() -> Result<Option<String>> {
        let mut file = Self::open()?;
        if file.try_lock().is_ok() {
            return Ok(None);
        }
        let mut holder = String::new();
        file.read_to_string(&mut holder).context("cannot read the lock file")?;
        Ok(Some(holder))
    }

    fn open() -> Result<File> {
        let path = std::env::temp_dir().join("kerf-real-machine.lock");
        let opened = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        opened.with_context(|| format!("cannot open {}", path.display()))
    }
}

impl Parts {
    /// Returns the reason why this computer cannot boot a real machine, or `None` if it can.
    #[must_use]
    pub fn obstacle() -> Option<String> {
        let missing = |what: &str, package: &str| Some(format!("{what} is missing: install the package {package}"));
        System::obstacle().or_else(|| if is_installed("runc") { None } else { missing("runc", "runc") }).or_else(|| {
            if Path::new(PLUGINS).exists() { None } else { missing(PLUGINS, "containernetworking-plugins") }
        })
    }

    /// Returns the command that builds the missing programs at low priority; the first build takes minutes.
    #[must_use]
    pub fn build() -> Command {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new("nice");
        command.args(["sh", "-ec", r#"for folder; do "$0" "$folder"; done"#]).arg(tests.join("steps/go-program"));
        command.args(PROGRAMS.map(|folder| tests.join(folder)));
        command
    }

    /// Finds the components, and builds the missing ones.
    ///
    /// # Errors
    /// Returns an error if Go or gcc is missing, or if a build fails.
    pub fn find() -> Result<Self> {
        let node = Path::new(env!("CARGO_MANIFEST_DIR")).join("node");
        let image = Arc::new(tempfile::tempdir().context("cannot make a folder for the image")?);
        let file = image.path().join(IMAGE);
        let built = Command::new(node.join("image/build")).arg(file).status().context("cannot run image/build")?;
        ensure!(built.success(), "the image of the real node's pods was not built ({built}); it needs gcc");
        let (containerd, kubelet) = (go_program(PROGRAMS[0])?, go_program(PROGRAMS[1])?);
        Ok(Self { containerd, kubelet, image, further_images: Vec::new() })
    }

    /// Adds an image, as an OCI archive, to the disks of the machines.
    #[must_use]
    pub fn with_image(mut self, archive: PathBuf) -> Self {
        self.further_images.push(archive);
        self
    }

    /// Returns the disk of a machine with instance metadata at the URL `imds`.
    fn layer(&self, spec: &MachineSpec, imds: &str, certificate: Option<&Credentials>) -> Layer {
        let layer = Layer::new(&spec.programs.agent, imds);
        for name in ["containerd", "containerd-shim-runc-v2", "ctr"] {
            layer.program(&format!("usr/bin/{name}"), &self.containerd.join(name));
        }
        for plugin in ["bridge", "host-local", "loopback"] {
            layer.program(&format!("opt/cni/bin/{plugin}"), &Path::new(PLUGINS).join(plugin));
        }
        layer.program("usr/bin/kubelet", &self.kubelet.join("kubelet"));
        layer.program("etc/eks/pause.tar", &self.image.path().join(IMAGE));
        for (number, archive) in self.further_images.iter().enumerate() {
            layer.program(&format!("etc/eks/image-{number}.tar"), archive);
        }
        layer.write("etc/systemd/system/containerd.service", CONTAINERD);
        layer.write("etc/systemd/system/kubelet.service", KUBELET);
        layer.write("etc/eks/kubelet-version.txt", &format!("{}\n", spec.kubernetes));
        layer.write("etc/eks/containerd-version.txt", "2.4.2\n");
        layer.program("etc/eks/image-credential-provider/ecr-credential-provider", Path::new("/bin/false"));
        match certificate {
            Some(certificate) => layer.write("var/lib/kubelet/pki/kubelet-client-current.pem", &certificate.bundle()),
            None => layer.script("usr/bin/aws", &aws(imds)),
        }
        layer
    }
}

/// Returns the part of the AWS CLI that kubelet calls: it runs the agent's own token plugin with the same arguments.
fn aws(imds: &str) -> String {
    format!(
        "#!/bin/sh
[ \"$1 $2\" = 'eks get-token' ] || exit 64
shift 2
export AWS_EC2_METADATA_SERVICE_ENDPOINT={imds} KERF_LOG_LEVEL=warn
exec /usr/bin/kerf-agent token \"$@\"
"
    )
}

/// Reports whether the instance gets a real machine.
pub(super) fn wanted(instance: &fake::FakeInstance) -> bool {
    instance.instance.tags.get(label::NODEPOOL).is_some_and(|pool| pool == POOL) || is_in_node_group(instance)
}

fn is_in_node_group(instance: &fake::FakeInstance) -> bool {
    instance.instance.tags.get(NODE_GROUP_TAG).is_some_and(|group| group == NODE_GROUP)
}

/// Runs a machine from its boot to its end. A cancellation is a power failure.
pub(super) async fn run_machine(machine: Arc<Machine>, spec: MachineSpec, parts: Parts, mut updates: InstanceUpdates) {
    if let Err(error) = boot_and_serve(&machine, &spec, &parts, &mut updates).await {
        log::error!(instance = machine.instance_id(); "the real machine does not boot: {error:#}");
        return machine.enter(Phase::Broken(format!("{error:#}")));
    }
    machine.enter(Phase::Ended);
    log::info!(instance = machine.instance_id(); "powered off");
}

async fn boot_and_serve(
    machine: &Machine,
    spec: &MachineSpec,
    parts: &Parts,
    updates: &mut InstanceUpdates,
) -> Result<()> {
    std::fs::create_dir_all(machine.folder()).context("cannot make the machine's folder")?;
    let (certificate, role) = spec.identity()?;
    let imds = Arc::new(machine::metadata(spec, updates, role).await?);
    let has_own_network = updates.borrow().as_ref().is_some_and(is_in_node_group);
    let (system, _relays) = if has_own_network {
        let (network, layer) =
            (spec.own_network()?, parts.layer(spec, &own_network::metadata_url(), certificate.as_ref()));
        layer.write("etc/cni/net.d/10-pods.conflist", &network.cni());
        let boot = move || System::boot_in_own_network(layer, &network.addresses());
        let system = spawn_blocking(boot).await.context("systemd did not boot")?;
        let relays = network.connect(&system, imds.address())?;
        (Arc::new(system), Some(relays))
    } else {
        let layer = parts.layer(spec, &imds.url(), certificate.as_ref());
        (Arc::new(spawn_blocking(move || System::boot(layer)).await.context("systemd did not boot")?), None)
    };
    machine.has_booted(&imds, Some(&system));
    system.systemctl(&["start", "--no-block", "kerf-agent-bootstrap.service", "kerf-agent.service"]);
    machine.enter(Phase::Running);
    machine::until_shutdown(updates, &imds).await;
    machine.enter(Phase::ShuttingDown);
    let log = machine.log().to_owned();
    spawn_blocking(move || power_off(&system, &log)).await.context("the machine's end failed")?;
    machine::until_gone(updates).await;
    imds.stop().await;
    machine.lost_power();
    Ok(())
}

/// Powers off as the hypervisor does: all processes receive a request to end first. The journal is saved before.
fn power_off(system: &System, log: &Path) {
    let journal = system.run(&["journalctl", "--no-pager", "--output", "short-iso-precise"]);
    if let Err(error) = std::fs::write(log, journal.stdout) {
        log::warn!("the journal of a real machine is lost: {error}");
    }
    system.power_off();
}

/// Writes the network configuration of the pods. Until then the node is not ready, as with a CNI plugin that has not started
/// yet.
pub fn install_cni(system: &System) {
    system.write("etc/cni/net.d/10-lo.conflist", HOST_NETWORK);
}
