//! What bootstrap does to a machine, as a value: which files with which content, which units. Same facts, same plan.

use machine::nodeconfig::{NodeConfig, NodeConfigError};

use super::facts::Facts;
use super::{files, kubelet};

/// The generated KubeletConfiguration.
pub const KUBELET_CONFIG: &str = "/etc/kubernetes/kubelet/config.json";
/// The folder of KubeletConfiguration drop-ins.
pub const KUBELET_CONFIG_DIR: &str = "/etc/kubernetes/kubelet/config.json.d";
/// The user's KubeletConfiguration.
pub const KUBELET_DROP_IN: &str = "/etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf";
/// kubelet's way to the API server.
pub const KUBECONFIG: &str = "/var/lib/kubelet/kubeconfig";
/// The cluster's CA bundle.
pub const CA_BUNDLE: &str = "/etc/kubernetes/pki/ca.crt";
/// The environment of kubelet's unit: its command line.
pub const KUBELET_ENVIRONMENT: &str = "/etc/eks/kubelet/environment";

/// One file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Absolute path on the machine.
    pub path: String,
    /// Its whole content.
    pub content: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

/// What to do to a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The name that kubelet registers.
    pub node_name: String,
    /// `aws:///ZONE/INSTANCE-ID`.
    pub provider_id: String,
    /// Files to write, in order.
    pub files: Vec<File>,
    /// Files of an earlier plan that must not stay.
    pub absent: Vec<String>,
    /// Units to restart, in order, after a `daemon-reload`.
    pub units: Vec<String>,
    /// What the user asked for and does not get, one sentence each.
    pub warnings: Vec<String>,
}

/// Decides what to do.
///
/// # Errors
/// [`NodeConfigError`] for a NodeConfig that cannot be followed, naming field and cure.
pub fn plan(facts: &Facts) -> Result<Plan, NodeConfigError> {
    let config = &facts.user_data.config;
    config.validate()?;
    refuse_outpost(config)?;
    let node_name = node_name(facts);
    let provider_id = format!("aws:///{}/{}", facts.identity.availability_zone, facts.identity.instance_id);
    let kubelet = kubelet::configuration(facts, &provider_id)?;
    let environment = files::kubelet_environment(facts, &node_name, kubelet.drop_in.is_some());
    let mut files = vec![
        file(CA_BUNDLE, config.spec.cluster.ca_bundle()?),
        file(KUBECONFIG, files::kubeconfig(facts)),
        file(KUBELET_CONFIG, kubelet.main),
        file(KUBELET_ENVIRONMENT, environment),
    ];
    let mut absent = Vec::new();
    match kubelet.drop_in {
        Some(content) => files.insert(3, file(KUBELET_DROP_IN, content)),
        None => absent.push(KUBELET_DROP_IN.to_owned()),
    }
    let warnings = [facts.user_data.warnings.clone(), not_applied(config)].concat();
    Ok(Plan { node_name, provider_id, files, absent, units: facts.user_data.agent.units.clone(), warnings })
}

fn file(path: &str, content: impl Into<Vec<u8>>) -> File {
    File { path: path.to_owned(), content: content.into(), mode: 0o644 }
}

fn node_name(facts: &Facts) -> String {
    let name = match facts.user_data.config.gate("InstanceIdNodeName") {
        true => &facts.identity.instance_id,
        false => &facts.hostname,
    };
    name.to_lowercase()
}

fn refuse_outpost(config: &NodeConfig) -> Result<(), NodeConfigError> {
    if config.spec.cluster.enable_outpost != Some(true) {
        return Ok(());
    }
    Err(NodeConfigError::Invalid {
        field: "spec.cluster.enableOutpost",
        value: "true".to_owned(),
        cure: "local clusters on Outposts cannot be joined by this agent; leave the node's bootstrap to nodeadm",
    })
}

/// The parts of NodeConfig that this agent reads but does not carry out.
fn not_applied(config: &NodeConfig) -> Vec<String> {
    let spec = &config.spec;
    let asked = [
        ("spec.containerd.config", !spec.containerd.config.is_empty()),
        ("spec.containerd.baseRuntimeSpec", !spec.containerd.base_runtime_spec.is_empty()),
        ("spec.instance.localStorage.strategy", spec.instance.local_storage.strategy.is_some()),
        ("spec.instance.environment", !spec.instance.environment.is_empty()),
        ("spec.instance.network", !spec.instance.network.is_empty()),
        ("spec.kubelet.maxPodsExpression", !spec.kubelet.max_pods_expression.is_empty()),
        ("spec.featureGates.FastImagePull", config.gate("FastImagePull")),
    ];
    let unmet = asked.into_iter().filter(|(_, asked)| *asked);
    unmet
        .map(|(field, _)| format!("{field} is set but this agent does not apply it; the machine goes without"))
        .collect()
}
