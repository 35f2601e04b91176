//! A stand-in for kubelet that is honest where others look: it reads the files that the agent wrote and nothing else, joins
//! with the identity they name, says `Ready` only when a CNI configuration exists, and runs pods in name only.
//!
//! It follows kubelet 1.36 in what the API server and the scheduler see: labels, taints, capacity, allocatable, addresses,
//! conditions, the lease, pod statuses, requests that change, the order of a pod's end. It starts no container, mounts nothing, and has no
//! graceful node shutdown, no admission of its own and no image pulls. Static pods and readiness gates do not exist for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinHandle;

mod access;
mod config;
mod heartbeat;
mod node;
mod pods;
mod run;
mod settings;
#[cfg(test)]
mod tests;

pub use settings::Settings;

/// The hardware that a kernel would show to kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Such as `m7g.large`; kubelet itself does not know it, but needs a name for nothing else.
    pub instance_type: String,
    /// `x86_64` or `arm64`, as EC2 says it.
    pub architecture: String,
    /// Logical processors.
    pub vcpus: u32,
    /// What EC2 sells, in bytes; the kernel shows less (see [`Hardware::visible_memory`]).
    pub memory_bytes: u64,
    /// The root volume, in bytes.
    pub disk_bytes: u64,
}

impl Hardware {
    /// The memory in `/proc/meminfo`, in bytes: 6.25 % less than what EC2 sells. Real machines lose between 3.5 % (large
    /// ones) and 7 % (2 GiB ones) to firmware and kernel; planners who expect 7.5 % to be missing are always right.
    #[must_use]
    pub fn visible_memory(&self) -> u64 {
        self.memory_bytes - self.memory_bytes / 16
    }

    /// Kubernetes' name of the architecture.
    #[must_use]
    pub fn arch(&self) -> &'static str {
        if self.architecture == "arm64" { "arm64" } else { "amd64" }
    }
}

/// How fast things go. Kubelet's own periods where they matter to others, short ones where only a test would wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From a pod's binding to `Running`.
    pub pod_start: Duration,
    /// From a pod's deletion to its end, never longer than its grace period.
    pub pod_stop: Duration,
    /// Between renewals of the lease.
    pub lease: Duration,
    /// Between reports of an unchanged status.
    pub status: Duration,
    /// Between looks at the files and at what is due.
    pub look: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            pod_start: Duration::from_millis(300),
            pod_stop: Duration::from_millis(500),
            lease: Duration::from_secs(10),
            status: Duration::from_secs(60),
            look: Duration::from_millis(100),
        }
    }
}

/// One machine as its kubelet finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The folder that stands for `/`.
    pub root: PathBuf,
    /// The machine below it.
    pub hardware: Hardware,
    /// Two numbers that make pod addresses `100.X.Y.n` unique among machines.
    pub pod_network: [u8; 2],
    /// How fast things go.
    pub timing: Timing,
    /// Where it writes what it does.
    pub log: PathBuf,
    /// What it runs instead of a kubeconfig's `aws eks get-token`; without it such a kubeconfig is no use.
    pub plugin: Option<Plugin>,
}

/// The agent as a credential plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// `kerf-agent`.
    pub program: PathBuf,
    /// The machine's metadata.
    pub endpoint: String,
}

/// A running stand-in. Dropping it ends it as a power cut would: its Node and its pods stay as they are in the API.
#[derive(Debug)]
pub struct Kubelet {
    settings: Arc<Settings>,
    task: JoinHandle<()>,
}

impl Kubelet {
    /// Reads the files below the root as kubelet does at its start, then joins the cluster in the background, trying for ever.
    ///
    /// # Errors
    /// What would make kubelet exit at once: a file that is missing or wrong, a label that a node may not set itself, no
    /// client certificate. Names the file.
    pub async fn start(options: Options) -> Result<Self> {
        let settings = Arc::new(Settings::read(&options.root)?);
        let client = access::client(&options.root, &settings.kubeconfig, options.plugin.as_ref()).await?;
        let work = run::Work::new(options, Arc::clone(&settings), client)?;
        Ok(Self { settings, task: tokio::spawn(run::run(work)) })
    }

    /// What it read.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Ends it; nothing of it runs any more when this returns.
    pub async fn stop(mut self) {
        self.task.abort();
        // Cancelled is what it should say; a panic was printed when it happened.
        drop((&mut self.task).await);
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether the container runtime would find a network configuration below `root`.
#[must_use]
pub fn network_ready(root: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(root.join("etc/cni/net.d")) else {
        return false;
    };
    let configures = |path: &Path| {
        path.extension().and_then(|text| text.to_str()).is_some_and(|text| matches!(text, "conf" | "conflist" | "json"))
    };
    entries.flatten().any(|entry| configures(&entry.path()))
}
