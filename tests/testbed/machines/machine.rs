//! One machine from power-on to power-off.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use cloud::fake::{self, FakeCloud};
use cloud::types::ClassSettings;
use cloud::{InstanceStatus, InstanceTypeInfo, InterfaceKind, NetworkInterface};
use jiff::Timestamp;
use systemd_container::System;
use tokio::net::UnixListener;
use tokio::sync::{Notify, watch};

use super::agent::{Agent, RUN};
use super::own_network::{OwnNetwork, Servers};
use super::systemctl::{self, Units};
use super::user_scripts::{huge_pages, time_to_panic};
use super::{Options, Programs, Signer, facts, image};
use crate::eks::{Eks, ROLE};
use crate::imds::{Facts, Imds, Role};
use crate::kubelet::{self, Hardware, Plugin, Timing};
use crate::pki::Credentials;

/// Size of the root volume if the template has none.
const DISK_GIB: u64 = 20;

/// Time limit of a reboot.
const REBOOT: Duration = Duration::from_secs(30);

/// Socket of the machine's shims, in its folder. The name is short because the length of a socket path is limited.
const SOCKET: &str = "systemctl.sock";

/// Stage in the lifecycle of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The disk is being written.
    Booting,
    /// `kerf-agent bootstrap` runs, possibly after a failure, and `kerf-agent run` concurrently.
    Bootstrapping,
    /// Bootstrap has succeeded; `kerf-agent run` runs, possibly after a restart.
    Running,
    /// The instance shuts down, and the processes have received SIGTERM.
    ShuttingDown,
    /// Power is off, and no process runs.
    Ended,
    /// The machine never booted, with the reason.
    Broken(String),
}

/// Public state of a machine.
#[derive(Debug)]
pub struct Machine {
    instance_id: String,
    node_name: String,
    folder: PathBuf,
    log: PathBuf,
    inside: Mutex<Inside>,
    calls: Mutex<Vec<String>>,
    reset: Notify,
    boots: watch::Sender<u32>,
}

#[derive(Debug)]
struct Inside {
    phase: Phase,
    imds: Option<Arc<Imds>>,
    system: Option<Arc<System>>,
    agents: BTreeMap<&'static str, u32>,
    starts: u32,
}

impl Machine {
    pub(super) fn new(instance_id: &str, spec: &MachineSpec) -> Self {
        let folder = spec.folder.clone();
        Self {
            instance_id: instance_id.to_owned(),
            node_name: spec.node_name.clone(),
            log: folder.join("agent.log"),
            folder,
            inside: Mutex::new(Inside {
                phase: Phase::Booting,
                imds: None,
                system: None,
                agents: BTreeMap::new(),
                starts: 0,
            }),
            calls: Mutex::default(),
            reset: Notify::new(),
            boots: watch::Sender::new(1),
        }
    }

    /// Returns the instance id, `i-...`.
    #[must_use]
    pub fn instance_id(&self) -> &str {
        &self.instance_id
    }

    /// Returns the name of the Node: the private DNS name, or the instance id if the user data requests it.
    #[must_use]
    pub fn node_name(&self) -> &str {
        &self.node_name
    }

    /// Returns the folder of the machine: `root/` stands for `/`; `agent.log` and `kubelet.log` are next to it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the log of the agent, with all its starts in one file.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the stage of the machine.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.inside().phase.clone()
    }

    /// Returns the metadata service, while there is one.
    #[must_use]
    pub fn imds(&self) -> Option<Arc<Imds>> {
        self.inside().imds.clone()
    }

    /// Returns the real system of a real machine, while it runs.
    #[must_use]
    pub fn system(&self) -> Option<Arc<System>> {
        self.inside().system.clone()
    }

    /// Returns the process id of `kerf-agent run`, while it runs. Tests may kill the process; it is restarted.
    #[must_use]
    pub fn agent_pid(&self) -> Option<u32> {
        self.inside().agents.get(RUN).copied()
    }

    /// Returns the process ids of the agent, including `bootstrap`.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.inside().agents.values().copied().collect()
    }

    /// Returns the number of agent starts, for both subcommands together.
    #[must_use]
    pub fn agent_starts(&self) -> u32 {
        self.inside().starts
    }

    /// Returns every call of `systemctl` so far, with its arguments joined by spaces.
    #[must_use]
    pub fn systemctl_calls(&self) -> Vec<String> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls the machine's `systemctl` as an administrator would, for example to stop its kubelet. Returns the exit code and
    /// the output.
    ///
    /// # Errors
    /// Returns an error if the machine does not run.
    pub async fn systemctl(&self, arguments: &[&str]) -> Result<(u8, String)> {
        systemctl::call(&self.folder.join(SOCKET), arguments).await
    }

    /// Reboots the machine: all processes end, `/run` is emptied, the boot id changes, and only the agent's units start again.
    /// Disk and instance remain. Returns when the machine has booted.
    ///
    /// # Errors
    /// Returns an error if the machine does not boot, for example because its instance ends.
    pub async fn reboot(&self) -> Result<()> {
        let mut boots = self.boots.subscribe();
        let before = *boots.borrow_and_update();
        self.reset.notify_one();
        let again = tokio::time::timeout(REBOOT, boots.wait_for(|boots| *boots > before)).await;
        again.with_context(|| format!("{} does not come up again", self.instance_id))?.map(drop).context("it is gone")
    }

    pub(super) fn has_booted(&self, imds: &Arc<Imds>, system: Option<&Arc<System>>) {
        let mut inside = self.inside();
        inside.imds = Some(Arc::clone(imds));
        inside.system = system.map(Arc::clone);
    }

    pub(super) fn lost_power(&self) {
        let mut inside = self.inside();
        inside.imds = None;
        inside.system = None;
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.inside().phase = phase;
    }

    pub(super) fn agent_runs(&self, verb: &'static str, pid: Option<u32>) {
        let mut inside = self.inside();
        inside.starts += u32::from(pid.is_some());
        match pid {
            Some(pid) => inside.agents.insert(verb, pid),
            None => inside.agents.remove(verb),
        };
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Configuration of one machine.
#[derive(Clone)]
pub struct MachineSpec {
    pub(super) instance_id: String,
    pub(super) kubernetes: String,
    pub(super) hardware: Hardware,
    pub(super) programs: Programs,
    pub(super) environment: BTreeMap<String, String>,
    cloud: FakeCloud,
    /// Time from the first boot to a kernel panic.
    panic_after: Option<Duration>,
    node_name: String,
    address: Ipv4Addr,
    zone_id: String,
    folder: PathBuf,
    sign: Signer,
    eks: Option<Arc<Eks>>,
    timing: Timing,
    grace: Duration,
    servers: Option<Servers>,
}

impl MachineSpec {
    pub(super) fn new(
        options: &Options,
        types: &BTreeMap<String, InstanceTypeInfo>,
        machine: &fake::FakeInstance,
    ) -> Self {
        let instance = &machine.instance;
        let subnet = options.cloud.subnet(&instance.subnet_id);
        Self {
            instance_id: instance.id.clone(),
            kubernetes: options.kubernetes.clone(),
            hardware: hardware(types.get(&instance.instance_type), machine),
            programs: options.programs.clone(),
            environment: options.environment.clone(),
            cloud: options.cloud.clone(),
            panic_after: time_to_panic(&facts::user_data(machine)),
            node_name: facts::node_name(machine),
            address: instance.private_ip.parse().unwrap_or(Ipv4Addr::LOCALHOST),
            zone_id: subnet.map(|subnet| subnet.zone_id).unwrap_or_default(),
            folder: options.folder.join(&instance.id),
            sign: Arc::clone(&options.sign),
            eks: options.eks.clone(),
            timing: options.timing,
            grace: options.grace,
            servers: options.servers,
        }
    }

    pub(super) fn node_name(&self) -> &str {
        &self.node_name
    }

    pub(super) fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    pub(super) fn shims(&self) -> PathBuf {
        self.folder.join("bin")
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    /// Returns an address in 127.64.0.0/10, which has space for the private addresses 10.N.x.y of 64 networks N.
    pub(super) fn loopback(&self) -> IpAddr {
        let [_, second, third, fourth] = self.address.octets();
        Ipv4Addr::new(127, 64 | (second & 63), third, fourth).into()
    }

    /// Returns the machine's own network.
    ///
    /// # Errors
    /// Returns an error if the simulator does not know the servers.
    pub(super) fn own_network(&self) -> Result<OwnNetwork> {
        Ok(OwnNetwork {
            address: self.address,
            servers: self.servers.context("no servers for machines with an own network")?,
        })
    }

    /// Returns the configuration of kubelet with the metadata service at `endpoint`.
    pub(super) fn kubelet(&self, endpoint: &str) -> kubelet::Options {
        let [_, _, third, fourth] = self.address.octets();
        let plugin = Plugin { program: self.programs.agent.clone(), endpoint: endpoint.to_owned() };
        kubelet::Options {
            root: self.root(),
            hardware: self.hardware.clone(),
            pod_network: [third, fourth],
            timing: self.timing,
            log: self.folder.join("kubelet.log"),
            built_in_plugins: Vec::new(),
            plugin: Some(plugin),
        }
    }

    /// Returns the identity of the machine: a certificate on its disk, or a role in its metadata.
    pub(super) fn identity(&self) -> Result<(Option<Credentials>, Option<Role>)> {
        match &self.eks {
            None => Ok((Some((self.sign)(&format!("system:node:{}", self.node_name))?), None)),
            Some(eks) => {
                let keys = eks.issue(&self.instance_id, &self.node_name);
                Ok((None, Some(Role { name: ROLE.to_owned(), keys })))
            }
        }
    }
}

fn hardware(kind: Option<&InstanceTypeInfo>, machine: &fake::FakeInstance) -> Hardware {
    let root =
        machine.template.block_devices.first().and_then(|device| device.size_gib).map_or(DISK_GIB, u64::from) << 30;
    let store = kind.map_or(0, |kind| kind.local_storage_gb * 1_000_000_000);
    Hardware {
        instance_type: machine.instance.instance_type.clone(),
        architecture: machine.architecture.clone(),
        vcpus: kind.map_or(2, |kind| kind.vcpus),
        memory_bytes: kind.map_or(8192, |kind| kind.memory_mib) << 20,
        huge_page_bytes: huge_pages(&facts::user_data(machine)),
        disk_bytes: if store > 0 && facts::has_striped_disks(machine) { store } else { root },
        devices: kind.map(|kind| devices(kind, machine)).unwrap_or_default(),
    }
}

/// Returns the devices of an instance by resource name.
fn devices(kind: &InstanceTypeInfo, machine: &fake::FakeInstance) -> BTreeMap<String, u32> {
    let Ok(facts) = cloud::data::facts() else { return BTreeMap::new() };
    let all = cloud::types::capacity(kind, facts, &ClassSettings::default(), &cloud::Settings::default());
    let is_efa = |interface: &&NetworkInterface| interface.kind != InterfaceKind::Interface;
    let attached = machine.template.network_interfaces.iter().filter(is_efa).count();
    let of_machine = |(name, count): (&str, i64)| {
        let count = if name == cloud::types::EFA { u32::try_from(attached) } else { u32::try_from(count) };
        Some((name.to_owned(), count.ok().filter(|count| *count > 0)?))
    };
    all.iter().filter(|(name, _)| name.contains('/')).filter_map(of_machine).collect()
}

/// State of the instance in EC2; `None` after its end.
pub(super) type InstanceUpdates = watch::Receiver<Option<fake::FakeInstance>>;

/// Runs a machine from its boot to its end. A cancellation is a power failure.
pub async fn run_machine(machine: Arc<Machine>, spec: MachineSpec, mut updates: InstanceUpdates) {
    let booted = boot(&machine, &spec, &updates).await;
    let (imds, listener) = match booted {
        Ok(parts) => parts,
        Err(error) => {
            log::error!(instance = machine.instance_id(); "does not boot: {error:#}");
            return machine.enter(Phase::Broken(format!("{error:#}")));
        }
    };
    log::info!(instance = machine.instance_id(), metadata = imds.url().as_str(); "booted");
    while up(&machine, &spec, &mut updates, &imds, &listener).await {
        let boots = *machine.boots.borrow() + 1;
        if let Err(error) = image::reboot(&spec, boots) {
            log::error!(instance = machine.instance_id(); "does not reboot: {error:#}");
            return machine.enter(Phase::Broken(format!("{error:#}")));
        }
        machine.boots.send_replace(boots);
    }
    until_gone(&mut updates).await;
    imds.stop().await;
    machine.lost_power();
    machine.enter(Phase::Ended);
    log::info!(instance = machine.instance_id(); "powered off");
}

/// Reason for the end of a machine's processes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    ShutDown,
    Reboot,
    Panic,
}

/// Runs the units until all processes have ended; returns true for a reboot.
async fn up(
    machine: &Machine,
    spec: &MachineSpec,
    updates: &mut InstanceUpdates,
    imds: &Imds,
    listener: &UnixListener,
) -> bool {
    let mut units = Units::new(spec.kubelet(&imds.url()));
    let mut agent = Agent::new(machine, spec, &imds.url());
    let cause = tokio::select! {
        () = agent.run() => Cause::ShutDown,
        () = units.serve(listener, &machine.calls) => Cause::ShutDown,
        () = until_shutdown(updates, imds) => Cause::ShutDown,
        () = machine.reset.notified() => Cause::Reboot,
        () = until_panic(machine, spec) => Cause::Panic,
    };
    if cause == Cause::Panic {
        // No process ends in order, and EC2 notices that the instance does not respond.
        agent.stop(Duration::ZERO).await;
        units.stop_kubelet().await;
        let since = Some(Timestamp::now().to_string());
        let instance = spec.instance_id.clone();
        let status = InstanceStatus { instance, instance_impaired_since: since, ..InstanceStatus::default() };
        spec.cloud.set_status(status);
        until_shutdown(updates, imds).await;
        return false;
    }
    machine.enter(if cause == Cause::Reboot { Phase::Booting } else { Phase::ShuttingDown });
    agent.stop(spec.grace).await;
    units.stop_kubelet().await;
    cause == Cause::Reboot
}

/// Waits for the kernel panic of the first boot, or forever.
async fn until_panic(machine: &Machine, spec: &MachineSpec) {
    match spec.panic_after.filter(|_| *machine.boots.borrow() == 1) {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

async fn boot(machine: &Machine, spec: &MachineSpec, updates: &InstanceUpdates) -> Result<(Arc<Imds>, UnixListener)> {
    let (certificate, role) = spec.identity()?;
    image::install(spec, certificate.as_ref())?;
    image::install_shim(&spec.shims(), &spec.programs)?;
    let listener = systemctl::listen(&spec.socket())?;
    let imds = Arc::new(metadata(spec, updates, role).await?);
    machine.has_booted(&imds, None);
    Ok((imds, listener))
}

/// Starts the machine's own metadata service.
pub(super) async fn metadata(spec: &MachineSpec, updates: &InstanceUpdates, role: Option<Role>) -> Result<Imds> {
    let instance = updates.borrow().clone().context("the instance went away before it booted")?;
    let facts = Facts { role, ..facts::facts(&instance, &spec.zone_id) };
    Imds::start(spec.loopback(), facts).await
}

/// Forwards notices to the metadata service until the instance begins to end.
pub(super) async fn until_shutdown(updates: &mut InstanceUpdates, imds: &Imds) {
    loop {
        match updates.borrow_and_update().as_ref() {
            Some(machine) if is_on(machine) => imds.update(|facts| facts::refresh(facts, machine)),
            _ => return,
        }
        if updates.changed().await.is_err() {
            return;
        }
    }
}

/// Reports whether the instance neither stops nor ends.
fn is_on(machine: &fake::FakeInstance) -> bool {
    machine.stopped.is_none() && !machine.instance.is_ending()
}

pub(super) async fn until_gone(updates: &mut InstanceUpdates) {
    // An error means that the simulator has ended, which is a power failure.
    drop(updates.wait_for(Option::is_none).await);
}
