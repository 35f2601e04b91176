//! The plan of bootstrap, as a value: files with their content, units, programs and disks. The same facts give the same plan.
//! The code that carries out a plan makes no choices.

pub mod containerd;
pub mod credentials;
pub mod disks;
pub mod environment;
mod folders;
pub mod hosts;
pub mod kubeconfig;
pub mod kubelet;
pub mod resolved;
pub mod volumes;

use machine::nodeconfig::{INSTANCE_ID_NODE_NAME, NodeConfigError};

use super::facts::Facts;
use disks::LocalDisks;
use volumes::PlannedVolume;

/// CA bundle of the cluster.
pub const CA_BUNDLE: &str = "/etc/kubernetes/pki/ca.crt";

/// Changes of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootstrapPlan {
    /// The name that kubelet registers.
    pub node_name: String,
    /// `aws:///ZONE/INSTANCE-ID`.
    pub provider_id: String,
    /// Files to write, in order; no path twice.
    pub files: Vec<PlannedFile>,
    /// Files of an earlier plan that must be removed.
    pub absent: Vec<String>,
    /// EBS volumes to format and mount, before the daemons start and before instance store disks.
    pub volumes: Vec<PlannedVolume>,
    /// Setup of instance store disks, before the daemons start; `None` leaves the disks unchanged.
    pub disks: Option<LocalDisks>,
    /// Units of the system to restart when files of [`PlanPart::System`] changed, after a `daemon-reload`.
    pub system_units: Vec<String>,
    /// Units of the daemons to restart, in order, after a `daemon-reload`.
    pub units: Vec<String>,
    /// Programs to run, in order, each once its unit is active.
    pub programs: Vec<Program>,
    /// Requested settings without effect, and ignored input: one sentence each.
    pub warnings: Vec<String>,
}

/// One file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Absolute path on the machine.
    pub path: String,
    /// Whole content of the file.
    pub content: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
    /// The part of the machine that the file configures.
    pub part: PlanPart,
}

/// A part of the machine that a file configures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanPart {
    /// The machine below Kubernetes: environment and name resolution.
    System,
    /// The container runtime.
    Containerd,
    /// kubelet, with its access to the API server.
    Kubelet,
}

/// A program to run after a unit has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The unit that must be active.
    pub after: String,
    /// Name of the program.
    pub program: String,
    /// Arguments of the program.
    pub arguments: Vec<String>,
}

impl PlannedFile {
    /// Returns a file with mode 0644, the mode of all files of a node.
    fn new(part: PlanPart, path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.to_owned(), content: content.into(), mode: 0o644, part }
    }
}

/// Makes the plan for a machine.
///
/// # Errors
/// [`NodeConfigError`] for an invalid NodeConfig, with field and remedy.
pub fn plan(facts: &Facts) -> Result<BootstrapPlan, NodeConfigError> {
    let config = &facts.user_data.config;
    config.validate()?;
    let mut plan = BootstrapPlan {
        node_name: node_name(facts),
        provider_id: format!("aws:///{}/{}", facts.identity.availability_zone, facts.identity.instance_id),
        units: facts.user_data.agent.units.clone(),
        warnings: facts.user_data.warnings.clone(),
        ..BootstrapPlan::default()
    };
    volumes::add(&mut plan, &config.spec.instance.storage)?;
    disks::add(&mut plan, &config.spec.instance.local_storage)?;
    environment::add(&mut plan, &config.spec.instance.environment);
    resolved::add(&mut plan, &config.spec.instance.network);
    containerd::add(&mut plan, facts)?;
    hosts::add(&mut plan, facts)?;
    plan.put(PlanPart::Kubelet, CA_BUNDLE, config.spec.cluster.ca_bundle()?);
    kubeconfig::add(&mut plan, facts);
    credentials::add(&mut plan, facts);
    kubelet::add(&mut plan, facts)?;
    Ok(plan)
}

impl BootstrapPlan {
    /// Returns the planned file at a path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&PlannedFile> {
        self.files.iter().find(|file| file.path == path)
    }

    fn put(&mut self, part: PlanPart, path: &str, content: impl Into<Vec<u8>>) {
        self.files.push(PlannedFile::new(part, path, content));
    }

    /// Plans to write the file, or to remove the file of an earlier plan where `content` is `None`.
    fn put_or_remove(&mut self, part: PlanPart, path: &str, content: Option<String>) {
        match content {
            Some(content) => self.put(part, path, content),
            None => self.absent.push(path.to_owned()),
        }
    }

    fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }
}

fn node_name(facts: &Facts) -> String {
    let name = match facts.user_data.config.gate(INSTANCE_ID_NODE_NAME) {
        true => &facts.identity.instance_id,
        false => &facts.hostname,
    };
    name.to_lowercase()
}
