//! Fake kubelet with the real interface to agent and cluster. The fake reads only the files that the agent wrote and joins with
//! their identity. Its Node becomes `Ready` only if a CNI configuration exists, and its pods run in the API only.
//!
//! All that API server and scheduler see follows kubelet 1.36: labels, taints, capacity, allocatable, addresses, conditions,
//! the lease, pod statuses, in-place resizes, the order of a pod's end. The fake starts no container, mounts nothing, and has
//! no graceful node shutdown, no admission of its own and no image pulls. A preStop hook takes the time that it sleeps, and a
//! readiness probe of a port succeeds if the container declares the port. Static pods and readiness gates are not supported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinHandle;

mod access;
mod config;
mod devices;
mod heartbeat;
mod node;
mod pods;
mod run;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use node::seconds;
pub use settings::Settings;

/// Hardware that a kernel would report to kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Instance type, such as `m7g.large`; kubelet itself does not use it.
    pub instance_type: String,
    /// Architecture in EC2's form, `x86_64` or `arm64`.
    pub architecture: String,
    /// Number of logical processors.
    pub vcpus: u32,
    /// Memory that EC2 lists, in bytes; the kernel reports less (see [`Hardware::visible_memory`]).
    pub memory_bytes: u64,
    /// Memory that the kernel reserves for huge pages of 2 MiB, in bytes.
    pub huge_page_bytes: u64,
    /// Size of the disk for pods, in bytes.
    pub disk_bytes: u64,
    /// Devices by resource name, which kubelet reports once their plugin runs.
    pub devices: BTreeMap<String, u32>,
}

impl Hardware {
    /// Returns the memory in `/proc/meminfo`, in bytes: 6.25 % less than EC2 lists. Real machines lose between 3.5 % (large
    /// ones) and 7 % (2 GiB ones) to firmware and kernel. A planner that assumes a loss of 7.5 % is always safe.
    #[must_use]
    pub fn visible_memory(&self) -> u64 {
        self.memory_bytes - self.memory_bytes / 16
    }

    /// Returns the architecture in Kubernetes' form.
    #[must_use]
    pub fn arch(&self) -> &'static str {
        if self.architecture == "arm64" { "arm64" } else { "amd64" }
    }
}

/// Periods of the fake kubelet: kubelet's own ones where other programs depend on them, short ones where only a test would
/// wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time from a pod's binding to `Running`.
    pub pod_start: Duration,
    /// Time from a pod's deletion to its end, limited by its grace period.
    pub pod_stop: Duration,
    /// Interval between renewals of the lease.
    pub lease: Duration,
    /// Interval between reports of an unchanged status.
    pub status: Duration,
    /// Interval between two checks of the files and of due steps.
    pub poll: Duration,
}

impl Timing {
    /// Returns periods that leave an API server on two cores time for other work beside 1,000 kubelets.
    #[must_use]
    pub fn of_many_nodes() -> Self {
        Self {
            lease: Duration::from_secs(60),
            status: Duration::from_secs(300),
            poll: Duration::from_millis(500),
            ..Self::default()
        }
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            pod_start: Duration::from_millis(300),
            pod_stop: Duration::from_millis(500),
            lease: Duration::from_secs(10),
            status: Duration::from_secs(60),
            poll: Duration::from_millis(100),
        }
    }
}

/// Configuration of one machine's kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Folder that stands for `/`.
    pub root: PathBuf,
    /// Hardware of the machine.
    pub hardware: Hardware,
    /// Two numbers that make pod addresses `100.X.Y.n` unique among machines.
    pub pod_network: [u8; 2],
    /// Periods of the kubelet.
    pub timing: Timing,
    /// Log file of the kubelet.
    pub log: PathBuf,
    /// Resources whose device plugin is part of the image.
    pub built_in_plugins: Vec<&'static str>,
    /// Program to run instead of `aws eks get-token` in a kubeconfig; without it, such a kubeconfig is an error.
    pub plugin: Option<Plugin>,
}

/// Agent as a credential plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// Path of `kerf-agent`.
    pub program: PathBuf,
    /// Endpoint of the machine's metadata.
    pub endpoint: String,
}

/// Running fake kubelet. Dropping it is like a power failure: its Node and its pods remain in the API.
#[derive(Debug)]
pub struct Kubelet {
    settings: Arc<Settings>,
    task: JoinHandle<()>,
}

impl Kubelet {
    /// Reads the files below the root, as kubelet does at its start, and joins the cluster in the background with unlimited
    /// retries.
    ///
    /// # Errors
    /// Returns the errors with which kubelet would exit at once: a missing or invalid file, a label that a node may not set
    /// itself, no client certificate. The error contains the file.
    pub async fn start(options: Options) -> Result<Self> {
        let settings = Arc::new(Settings::read(&options.root)?);
        let client = access::client(&options.root, &settings.kubeconfig, options.plugin.as_ref()).await?;
        let work = run::Work::new(options, Arc::clone(&settings), client)?;
        Ok(Self { settings, task: tokio::spawn(run::run(work)) })
    }

    /// Returns the settings from the files.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Stops the kubelet and waits for its end.
    pub async fn stop(mut self) {
        self.task.abort();
        // The expected result is a cancellation; a panic was printed when it happened.
        drop((&mut self.task).await);
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reports whether the container runtime would find a network configuration below `root`.
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
