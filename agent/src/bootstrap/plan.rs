//! What bootstrap does to a machine, as a value: which files with which content, which units, which disks. Same facts,
//! same plan; whoever carries it out makes no choices.

use machine::nodeconfig::{INSTANCE_ID_NODE_NAME, NodeConfigError};

use super::disks::{self, LocalDisks};
use super::facts::Facts;
use super::{containerd, credentials, environment, hosts, kubeconfig, kubelet, resolved};

/// The cluster's CA bundle.
pub const CA_BUNDLE: &str = "/etc/kubernetes/pki/ca.crt";

/// What to do to a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootstrapPlan {
    /// The name that kubelet registers.
    pub node_name: String,
    /// `aws:///ZONE/INSTANCE-ID`.
    pub provider_id: String,
    /// Files to write, in order; no path twice.
    pub files: Vec<PlannedFile>,
    /// Files of an earlier plan that must not stay.
    pub absent: Vec<String>,
    /// What becomes of instance store disks, before the daemons start; `None` leaves them alone.
    pub disks: Option<LocalDisks>,
    /// Units of the system to restart when files of [`Part::System`] changed, after a `daemon-reload`.
    pub system_units: Vec<String>,
    /// The daemons' units to restart, in order, after a `daemon-reload`.
    pub units: Vec<String>,
    /// Programs to run, in order, each once its unit is active.
    pub programs: Vec<Program>,
    /// What the user asked for and does not get, and what was read over: one sentence each.
    pub warnings: Vec<String>,
}

/// One file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Absolute path on the machine.
    pub path: String,
    /// Its whole content.
    pub content: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
    /// Whose file it is.
    pub part: PlanPart,
}

/// Which part of the machine a file configures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanPart {
    /// The machine below Kubernetes: environment and name resolution.
    System,
    /// The container runtime.
    Containerd,
    /// kubelet, with its way to the API server.
    Kubelet,
}

/// A program to run after a unit has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The unit that must be active.
    pub after: String,
    /// The program, by name.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl PlannedFile {
    /// A file with mode 0644, as all of a node's are.
    pub(super) fn new(part: PlanPart, path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.to_owned(), content: content.into(), mode: 0o644, part }
    }
}

/// Decides what to do.
///
/// # Errors
/// [`NodeConfigError`] for a NodeConfig that cannot be followed, naming field and cure.
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
    disks::add(&mut plan, &config.spec.instance.local_storage);
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
    /// The planned content of a path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&PlannedFile> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(super) fn put(&mut self, part: PlanPart, path: &str, content: impl Into<Vec<u8>>) {
        self.files.push(PlannedFile::new(part, path, content));
    }

    /// Writes the file, or sees to it that an earlier plan's one goes.
    pub(super) fn put_or_remove(&mut self, part: PlanPart, path: &str, content: Option<String>) {
        match content {
            Some(content) => self.put(part, path, content),
            None => self.absent.push(path.to_owned()),
        }
    }

    pub(super) fn warn(&mut self, warning: impl Into<String>) {
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
