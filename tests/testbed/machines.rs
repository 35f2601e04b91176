//! Node simulator: watches the fake EC2 and starts a machine for every running instance. A machine has a folder that stands for
//! `/`, a loopback address with instance metadata, and a node certificate or a role. Each machine has a `systemctl`, the fake
//! kubelet, and the real agent. `kerf-agent bootstrap` and `kerf-agent run` run concurrently, started and restarted as by
//! systemd.
//!
//! Processes of instances that shut down get SIGTERM and a grace period. All processes of terminated instances are killed by
//! pid. As in a real cluster, their Nodes remain in the API until they are deleted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use cloud::InstanceTypeInfo;
use cloud::fake::FakeCloud;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::controlplane::ControlPlane;
use crate::eks::Eks;
use crate::imds::Imds;
use crate::kubelet::Timing;
use crate::pki::Credentials;

mod agent;
mod facts;
mod image;
mod machine;
pub mod own_network;
mod programs;
pub mod real;
mod stock;
mod systemctl;
#[cfg(test)]
mod tests;
mod user_scripts;

pub use machine::{Machine, Phase};
pub use programs::{Programs, find_program};

use machine::MachineSpec;

/// Longest interval between two checks of EC2.
const POLL: Duration = Duration::from_millis(200);

/// Function that signs a client certificate for a user name in the group `system:nodes`.
pub type Signer = Arc<dyn Fn(&str) -> Result<Credentials> + Send + Sync>;

/// Returns a signer that uses the control plane's own authority.
#[must_use]
pub fn signer(control_plane: &Arc<ControlPlane>) -> Signer {
    let control_plane = Arc::clone(control_plane);
    Arc::new(move |user| control_plane.authority().client(user, "system:nodes"))
}

/// Configuration of a node simulator.
#[derive(Clone)]
pub struct Options {
    /// Source of the instances.
    pub cloud: FakeCloud,
    /// Signer of node certificates.
    pub sign: Signer,
    /// Source of roles. With it, machines have no certificates and authenticate with tokens, as on EKS.
    pub eks: Option<Arc<Eks>>,
    /// Folder for the machines' folders, one per machine, named by instance id.
    pub folder: PathBuf,
    /// Agent and `systemctl` shim.
    pub programs: Programs,
    /// Content of the image's `/etc/eks/kubelet-version.txt`, such as `v1.36.3`.
    pub kubernetes: String,
    /// Periods of the fake kubelets.
    pub timing: Timing,
    /// Additional environment of the agents.
    pub environment: BTreeMap<String, String>,
    /// Grace period of an agent after SIGTERM when its instance shuts down.
    pub grace: Duration,
    /// Components of real machines, once they are built: those of NodePool [`real::POOL`] and of node group
    /// [`real::NODE_GROUP`]. Without the components, these machines are like all others.
    pub real: Arc<OnceLock<real::Parts>>,
    /// Servers that machines with an own network reach.
    pub servers: Option<own_network::Servers>,
    /// Boots AL2023 without an agent, as EKS' stock image. Two cores run 500 such machines, but not the agents of 500.
    pub stock_al2023: bool,
}

impl Options {
    /// Creates the default options: Kubernetes 1.36.3, a grace period of half a second.
    #[must_use]
    pub fn new(cloud: FakeCloud, sign: Signer, folder: PathBuf, programs: Programs) -> Self {
        Self {
            cloud,
            sign,
            eks: None,
            folder,
            programs,
            kubernetes: "v1.36.3".to_owned(),
            timing: Timing::default(),
            environment: BTreeMap::new(),
            grace: Duration::from_millis(500),
            real: Arc::default(),
            servers: None,
            stock_al2023: false,
        }
    }
}

/// Running node simulator. Dropping it ends every machine like a power failure; [`NodeSimulator::stop`] also waits for the end.
pub struct NodeSimulator {
    machines: Shared,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// Machines by instance id, including ended ones.
type Shared = Arc<Mutex<BTreeMap<String, Arc<Machine>>>>;

impl NodeSimulator {
    /// Starts the simulator, which from then on starts and ends machines by itself.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created, or if the fake returns no instance types.
    pub async fn start(options: Options) -> Result<Self> {
        let folder = &options.folder;
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let types = cloud::Cloud::instance_types(&options.cloud).await.context("cannot list the instance types")?;
        let types = types.into_iter().map(|kind| (kind.name.clone(), kind)).collect();
        let machines = Shared::default();
        let (stop, stopped) = oneshot::channel();
        let worker = Worker { options, types, machines: Arc::clone(&machines), running: BTreeMap::new() };
        Ok(Self { machines, stop: Some(stop), task: tokio::spawn(worker.run(stopped)) })
    }

    /// Returns all machines so far, in the order of their instance ids, including ended ones.
    #[must_use]
    pub fn machines(&self) -> Vec<Arc<Machine>> {
        lock(&self.machines).values().cloned().collect()
    }

    /// Returns the machine of an instance, after EC2 has reported the instance as running.
    #[must_use]
    pub fn machine(&self, instance_id: &str) -> Option<Arc<Machine>> {
        lock(&self.machines).get(instance_id).cloned()
    }

    /// Returns the metadata service of an instance, for scripted faults; `None` before its machine has booted and after its
    /// end.
    #[must_use]
    pub fn imds(&self, instance_id: &str) -> Option<Arc<Imds>> {
        self.machine(instance_id)?.imds()
    }

    /// Returns the process ids of all running agents: two for a machine during bootstrap, else one.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.machines().iter().flat_map(|machine| machine.pids()).collect()
    }

    /// Ends every machine (SIGTERM, grace period, SIGKILL) and waits until none of their processes runs.
    ///
    /// # Errors
    /// Returns an error if the simulator itself failed.
    pub async fn stop(mut self) -> Result<()> {
        drop(self.stop.take());
        (&mut self.task).await.context("the node simulator failed")
    }
}

impl Drop for NodeSimulator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reports whether an instance in this state has no power.
fn is_off(state: &str) -> bool {
    matches!(state, "stopped" | "terminated")
}

fn lock(machines: &Shared) -> MutexGuard<'_, BTreeMap<String, Arc<Machine>>> {
    machines.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Worker {
    options: Options,
    types: BTreeMap<String, InstanceTypeInfo>,
    machines: Shared,
    /// State of its instance for each running machine; `None` is a power failure.
    running: BTreeMap<String, watch::Sender<Option<cloud::fake::FakeInstance>>>,
}

impl Worker {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let mut changes = self.options.cloud.changes();
        let mut tasks = JoinSet::new();
        loop {
            self.reconcile(&mut tasks);
            tokio::select! {
                // A message and a dropped sender both end the simulator.
                _ = &mut stopped => break,
                () = changes.changed() => {}
                () = tokio::time::sleep(self.pause()) => {}
                Some(_) = tasks.join_next() => {}
            }
        }
        for sender in self.running.values() {
            sender.send_replace(None);
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Returns the time to EC2's next change, limited by [`POLL`].
    fn pause(&self) -> Duration {
        let cloud = &self.options.cloud;
        let next = cloud.next_change().map(|at| at.duration_since(cloud.now()));
        next.and_then(|left| Duration::try_from(left).ok()).unwrap_or(POLL).clamp(Duration::from_millis(5), POLL)
    }

    /// Sends the state of its instance to every machine, and boots machines for new running instances.
    fn reconcile(&mut self, tasks: &mut JoinSet<()>) {
        let mut known: BTreeMap<String, _> =
            self.options.cloud.machines().into_iter().map(|machine| (machine.instance.id.clone(), machine)).collect();
        self.running.retain(|id, sender| {
            let now = known.remove(id).filter(|machine| !is_off(&machine.instance.state));
            let alive = now.is_some();
            sender.send_if_modified(|before| {
                let changed = *before != now;
                *before = now;
                changed
            });
            alive
        });
        for (id, machine) in known {
            if machine.instance.state == "running" && !lock(&self.machines).contains_key(&id) {
                self.boot(&id, machine, tasks);
            }
        }
    }

    fn boot(&mut self, id: &str, instance: cloud::fake::FakeInstance, tasks: &mut JoinSet<()>) {
        let spec = MachineSpec::new(&self.options, &self.types, &instance);
        let image = self.options.cloud.account().image_name(&instance.instance.image_id).unwrap_or_default();
        let start = stock::Start::of(&instance, &image);
        let al2023 = || self.options.stock_al2023.then(|| stock::Start::of_al2023(&instance, spec.hardware.vcpus));
        let start = start.or_else(al2023);
        let parts = self.options.real.get().cloned().filter(|_| real::wanted(&instance));
        let machine = Arc::new(Machine::new(id, &spec));
        lock(&self.machines).insert(id.to_owned(), Arc::clone(&machine));
        let (sender, receiver) = watch::channel(Some(instance));
        self.running.insert(id.to_owned(), sender);
        if let Some(start) = start {
            match start {
                Ok(start) => drop(tasks.spawn(stock::run_machine(machine, spec, start, receiver))),
                Err(error) => machine.enter(Phase::Broken(format!("{error:#}"))),
            }
            return;
        }
        match parts {
            Some(parts) => tasks.spawn(real::run_machine(machine, spec, parts, receiver)),
            None => tasks.spawn(machine::run_machine(machine, spec, receiver)),
        };
    }
}
