//! Checks of a machine image before any machine starts from it: without metadata and without a cluster.

use std::fs;
use std::path::Path;

use machine::agent::{self, AgentSettings};

use super::{Diagnosis, DoctorVerdict};
use crate::bootstrap::mode::{BootstrapMode, bootstrap_mode};
use crate::bootstrap::{observe, policies};
use crate::run::journal;

/// Programs that kubelet needs, each in any of the folders below.
const PROGRAMS: [&str; 2] = ["containerd", "kubelet"];
const FOLDERS: [&str; 4] = ["usr/bin", "usr/local/bin", "usr/sbin", "bin"];
/// Files of a node that must not be in an image for other nodes.
const REMAINS: [&str; 3] = [journal::FILE, "var/lib/kubelet/kubeconfig", "etc/kubernetes/kubelet/kubeconfig"];
const UNITS: [&str; 2] = ["kerf-agent.service", "kerf-agent-bootstrap.service"];

/// Checks the image below `root`.
#[must_use]
pub fn examine(root: &Path) -> Diagnosis {
    let mut found = Diagnosis::default();
    let settings = settings(&mut found, root);
    let (mode, doubt) = bootstrap_mode(settings.mode, observe::other(root));
    match (mode, doubt) {
        (_, Some(doubt)) => found.note("mode", DoctorVerdict::Broken, doubt),
        (BootstrapMode::Configure, None) => found.note("mode", DoctorVerdict::Ok, "the agent configures the node"),
        (BootstrapMode::Observe(Some(other)), None) => {
            found.note("mode", DoctorVerdict::Ok, format!("{} configures the node; the agent observes", other.name()));
        }
        (BootstrapMode::Observe(None), None) => {
            let cure = "enable nodeadm-config and nodeadm-run, or write mode: bootstrap";
            found.note("mode", DoctorVerdict::Broken, format!("no program configures the node: {cure}"));
        }
    }
    for program in PROGRAMS {
        match FOLDERS.iter().map(|folder| root.join(folder).join(program)).find(|path| path.exists()) {
            Some(path) => found.note("programs", DoctorVerdict::Ok, path.display().to_string()),
            None => {
                found.note("programs", DoctorVerdict::Broken, format!("{program} is missing: use an EKS image as base"))
            }
        }
    }
    for unit in UNITS {
        match observe::is_enabled(root, unit) {
            true => found.note("units", DoctorVerdict::Ok, format!("{unit} is enabled")),
            false => found.note(
                "units",
                DoctorVerdict::Broken,
                format!("{unit} is not enabled: run `systemctl preset {unit}`"),
            ),
        }
    }
    for path in REMAINS.map(|path| root.join(path)).iter().filter(|path| path.exists()) {
        found.note("remains", DoctorVerdict::Broken, format!("delete {}: it belongs to another node", path.display()));
    }
    found
}

/// Returns the image's own settings, or the defaults where they cannot be read.
fn settings(found: &mut Diagnosis, root: &Path) -> AgentSettings {
    let path = root.join(policies::FILE);
    let Ok(text) = fs::read_to_string(&path) else {
        found.note("settings", DoctorVerdict::Ok, "the defaults, unless user data sets them");
        return AgentSettings::default();
    };
    let read = agent::parse(&text);
    let says = read.as_ref().map(|_| format!("{}, unless user data sets them", path.display()));
    found.record("settings", says.map_err(|error| error as &dyn std::error::Error));
    read.unwrap_or_default()
}
