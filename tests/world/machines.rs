//! The machine room: it watches the fake EC2 and gives every running instance a machine. A machine is a folder that stands
//! for `/`, a loopback address with instance metadata, a node certificate or a role, a `systemctl`, the stand-in kubelet, and the
//! real agent: `kerf-agent bootstrap` and beside it `kerf-agent run`, as systemd would start and restart them.
//!
//! Instances that shut down get SIGTERM and a moment; those that are gone take everything with them, by pid. Their Nodes
//! stay in the API, as in life, until somebody deletes them.

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
mod programs;
pub mod real;
mod systemctl;
#[cfg(test)]
mod tests;

pub use machine::{Machine, Phase};
pub use programs::{Programs, find_program};

use machine::Blueprint;

/// How long the room waits at most before it looks at EC2 again.
const LOOK: Duration = Duration::from_millis(200);

/// Signs a client certificate for a user name in the group `system:nodes`.
pub type Signer = Arc<dyn Fn(&str) -> Result<Credentials> + Send + Sync>;

/// A signer that uses the control plane's own authority.
#[must_use]
pub fn signer(control_plane: &Arc<ControlPlane>) -> Signer {
    let control_plane = Arc::clone(control_plane);
    Arc::new(move |user| control_plane.authority().client(user, "system:nodes"))
}

/// What a room needs.
#[derive(Clone)]
pub struct Options {
    /// Where instances come from.
    pub cloud: FakeCloud,
    /// Who signs node certificates.
    pub sign: Signer,
    /// Who hands out roles: with it machines have no certificates, and prove who they are by tokens as on EKS.
    pub eks: Option<Arc<Eks>>,
    /// The folder for the machines' folders, one a machine, named by instance id.
    pub folder: PathBuf,
    /// The agent and the shim.
    pub programs: Programs,
    /// What `/etc/eks/kubelet-version.txt` of the image says, such as `v1.36.3`.
    pub kubernetes: String,
    /// How fast the stand-in kubelets are.
    pub timing: Timing,
    /// Further environment of the agents.
    pub environment: BTreeMap<String, String>,
    /// How long an agent may take to end after SIGTERM when its instance shuts down.
    pub grace: Duration,
    /// What machines of the NodePool [`real::POOL`] are made of, once that is built; without it they are like all others.
    pub real: Arc<OnceLock<real::Parts>>,
}

impl Options {
    /// The usual room: Kubernetes 1.36.3, half a second of grace.
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
        }
    }
}

/// A running room. Dropping it ends every machine as a power cut would; [`MachineRoom::stop`] also waits for that.
pub struct MachineRoom {
    machines: Shared,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// The machines by instance id, those that have ended included.
type Shared = Arc<Mutex<BTreeMap<String, Arc<Machine>>>>;

impl MachineRoom {
    /// Opens the room. Machines come and go by themselves from here on.
    ///
    /// # Errors
    /// When the folder cannot be made or the fake does not tell its instance types.
    pub async fn start(options: Options) -> Result<Self> {
        let folder = &options.folder;
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let types = cloud::Cloud::instance_types(&options.cloud).await.context("cannot learn the instance types")?;
        let types = types.into_iter().map(|kind| (kind.name.clone(), kind)).collect();
        let machines = Shared::default();
        let (stop, stopped) = oneshot::channel();
        let room = Room { options, types, machines: Arc::clone(&machines), running: BTreeMap::new() };
        Ok(Self { machines, stop: Some(stop), task: tokio::spawn(room.run(stopped)) })
    }

    /// Every machine so far, in the order of the instance ids, those that have ended included.
    #[must_use]
    pub fn machines(&self) -> Vec<Arc<Machine>> {
        lock(&self.machines).values().cloned().collect()
    }

    /// The machine of an instance, once EC2 has said that it runs.
    #[must_use]
    pub fn machine(&self, instance_id: &str) -> Option<Arc<Machine>> {
        lock(&self.machines).get(instance_id).cloned()
    }

    /// The metadata service of an instance, for scripting; `None` before its machine has booted and after its end.
    #[must_use]
    pub fn imds(&self, instance_id: &str) -> Option<Arc<Imds>> {
        self.machine(instance_id)?.imds()
    }

    /// Process ids of everything that runs of the agents now: of a machine that boots two, else one.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.machines().iter().flat_map(|machine| machine.pids()).collect()
    }

    /// Ends every machine (SIGTERM, grace, SIGKILL) and waits until nothing of them runs.
    ///
    /// # Errors
    /// When the room itself failed.
    pub async fn stop(mut self) -> Result<()> {
        drop(self.stop.take());
        (&mut self.task).await.context("the machine room failed")
    }
}

impl Drop for MachineRoom {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(machines: &Shared) -> MutexGuard<'_, BTreeMap<String, Arc<Machine>>> {
    machines.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Room {
    options: Options,
    types: BTreeMap<String, InstanceTypeInfo>,
    machines: Shared,
    /// What each live machine hears of its instance; `None` is the power cut.
    running: BTreeMap<String, watch::Sender<Option<cloud::fake::FakeInstance>>>,
}

impl Room {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let mut changes = self.options.cloud.changes();
        let mut lives = JoinSet::new();
        loop {
            self.look(&mut lives);
            tokio::select! {
                // Whether it was used or dropped, the room is to end.
                _ = &mut stopped => break,
                _ = changes.changed() => {}
                () = tokio::time::sleep(self.pause()) => {}
                Some(_) = lives.join_next() => {}
            }
        }
        for told in self.running.values() {
            told.send_replace(None);
        }
        while lives.join_next().await.is_some() {}
    }

    /// Until EC2's next own change, but never longer than [`LOOK`].
    fn pause(&self) -> Duration {
        let cloud = &self.options.cloud;
        let next = cloud.next_change().map(|at| at.duration_since(cloud.now()));
        next.and_then(|left| Duration::try_from(left).ok()).unwrap_or(LOOK).clamp(Duration::from_millis(5), LOOK)
    }

    /// Tells every machine what EC2 says of its instance, and boots those that EC2 says are running.
    fn look(&mut self, lives: &mut JoinSet<()>) {
        let mut known: BTreeMap<String, _> =
            self.options.cloud.machines().into_iter().map(|machine| (machine.instance.id.clone(), machine)).collect();
        self.running.retain(|id, told| {
            let now = known.remove(id).filter(|machine| machine.instance.state != "terminated");
            let alive = now.is_some();
            told.send_if_modified(|before| {
                let changed = *before != now;
                *before = now;
                changed
            });
            alive
        });
        for (id, machine) in known {
            if machine.instance.state == "running" && !lock(&self.machines).contains_key(&id) {
                self.boot(&id, machine, lives);
            }
        }
    }

    fn boot(&mut self, id: &str, instance: cloud::fake::FakeInstance, lives: &mut JoinSet<()>) {
        let blueprint = Blueprint::new(&self.options, &self.types, &instance);
        let parts = self.options.real.get().cloned().filter(|_| real::wanted(&instance));
        let machine = Arc::new(Machine::new(id, &blueprint));
        lock(&self.machines).insert(id.to_owned(), Arc::clone(&machine));
        let (told, hears) = watch::channel(Some(instance));
        self.running.insert(id.to_owned(), told);
        match parts {
            Some(parts) => lives.spawn(real::live(machine, blueprint, parts, hears)),
            None => lives.spawn(machine::live(machine, blueprint, hears)),
        };
    }
}
