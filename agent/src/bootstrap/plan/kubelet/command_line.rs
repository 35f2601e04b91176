//! kubelet's command line, in the environment file of its unit. The computed flags come first, sorted by name. The user's flags
//! follow, so that they take precedence.

use machine::nodeconfig::labels::{self, PermittedFlags};

use super::{KUBELET_CONFIG, KUBELET_CONFIG_DIR};
use crate::bootstrap::facts::Facts;
use crate::bootstrap::plan::credentials;
use crate::bootstrap::plan::environment::in_file;
use crate::bootstrap::plan::kubeconfig::{BOOTSTRAP_KUBECONFIG, KUBECONFIG};

/// Environment file of kubelet's unit, with its command line.
pub const KUBELET_ENVIRONMENT: &str = "/etc/eks/kubelet/environment";
const ARGUMENTS: &str = "NODEADM_KUBELET_ARGS";

/// First minor release from which nodes with NVIDIA devices set their device label themselves.
const DEVICE_LABELS_SINCE: u32 = 35;
/// First minor release whose drop-in folders need no environment variable.
const DROP_INS_STABLE_SINCE: u32 = 30;

/// Returns the user's flags without labels with which kubelet does not start.
pub(super) fn permitted(facts: &Facts) -> PermittedFlags {
    labels::permitted_flags(&facts.user_data.config.spec.kubelet.flags)
}

/// Returns the text of the environment file, with the user's `flags` at the end.
pub(super) fn environment(facts: &Facts, node_name: &str, has_drop_in: bool, user: Vec<String>) -> String {
    let mut flags = flags(facts, node_name);
    let mut variables = String::new();
    if has_drop_in {
        flags.push(("config-dir", KUBELET_CONFIG_DIR.to_owned()));
        if !facts.software.kubelet.at_least(DROP_INS_STABLE_SINCE) {
            variables.push_str("KUBELET_CONFIG_DROPIN_DIR_ALPHA=\"on\"\n");
        }
    }
    flags.sort_unstable();
    let generated = flags.into_iter().map(|(name, value)| format!("--{name}={value}"));
    let arguments: Vec<String> = generated.chain(user).collect();
    format!("{variables}{ARGUMENTS}={}\n", in_file(&arguments.join(" ")))
}

fn flags(facts: &Facts, node_name: &str) -> Vec<(&'static str, String)> {
    let mut flags = vec![
        ("cloud-provider", "external".to_owned()),
        ("config", KUBELET_CONFIG.to_owned()),
        ("hostname-override", node_name.to_owned()),
        ("kubeconfig", KUBECONFIG.to_owned()),
        ("node-ip", facts.node_ip.clone()),
        ("runtime-cgroups", "/runtime.slice/containerd.service".to_owned()),
    ];
    if facts.user_data.config.spec.cluster.on_outpost() {
        flags.push(("bootstrap-kubeconfig", BOOTSTRAP_KUBECONFIG.to_owned()));
    }
    if let Some(provider) = &facts.software.credential_provider {
        flags.push(("image-credential-provider-bin-dir", credentials::folder(provider)));
        flags.push(("image-credential-provider-config", credentials::CONFIG.to_owned()));
    }
    if facts.hardware.nvidia && facts.software.kubelet.at_least(DEVICE_LABELS_SINCE) {
        flags.push(("node-labels", "nvidia.com/gpu.present=true".to_owned()));
    }
    flags
}
