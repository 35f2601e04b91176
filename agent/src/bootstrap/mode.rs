//! Mode of bootstrap on this machine: configure it, or wait until another program has configured it and read its files.

use std::path::Path;

use jiff::Timestamp;
use machine::agent::mode::Mode;

use crate::bootstrap::observe::{self, Configurator};

/// Mode of bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootstrapMode {
    /// Creation of kubelet's files and start of kubelet.
    Configure,
    /// Wait for the files of the other program, without a change of the operating system's files. The program is given where it
    /// is known.
    Observe(Option<Configurator>),
}

/// Returns the mode that follows from the settings and from the other program on the machine, with a warning for users.
#[must_use]
pub fn bootstrap_mode(mode: Mode, other: Option<Configurator>) -> (BootstrapMode, Option<&'static str>) {
    match (mode, other) {
        (Mode::Auto | Mode::Bootstrap, None) => (BootstrapMode::Configure, None),
        (Mode::Bootstrap, Some(Configurator::Nodeadm)) => (BootstrapMode::Configure, Some(TWO)),
        (Mode::Bootstrap, Some(Configurator::Bottlerocket)) => (BootstrapMode::Observe(other), Some(READ_ONLY)),
        (Mode::Auto, Some(_)) | (Mode::Observe, _) => (BootstrapMode::Observe(other), None),
    }
}

const TWO: &str = "nodeadm is enabled too, and both write kubelet's files; disable nodeadm-config and nodeadm-run, \
                   or set `mode: observe`";
const READ_ONLY: &str = "Bottlerocket configures kubelet by its settings; `mode: bootstrap` is treated as `observe`";

/// Error: a file of the other program does not exist yet.
#[derive(Debug, thiserror::Error)]
#[error("{who} did not write {what} yet; {}", hint(*who_is))]
pub struct NotYet {
    who: &'static str,
    who_is: Option<Configurator>,
    what: String,
}

fn hint(other: Option<Configurator>) -> &'static str {
    other.map_or("check which program configures this node, or set `mode: bootstrap`", Configurator::hint)
}

/// Facts that the other program left on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedResult {
    /// The name that kubelet registers.
    pub node_name: String,
    /// Time at which the kubeconfig was written.
    pub written: Option<Timestamp>,
}

/// Reads kubeconfig and node name below `root`.
///
/// # Errors
/// [`NotYet`], with the missing file and the place to check.
pub fn read_result(root: &Path, other: Option<Configurator>) -> Result<ObservedResult, NotYet> {
    let missing =
        |what: String| NotYet { who: other.map_or("the other program", Configurator::name), who_is: other, what };
    let path = observe::kubeconfig(root);
    let metadata = std::fs::metadata(&path).map_err(|_| missing(format!("kubelet's kubeconfig {}", path.display())))?;
    let node_name = observe::node_name(root).ok_or_else(|| missing("kubelet's command line".to_owned()))?;
    Ok(ObservedResult { node_name, written: metadata.modified().ok().and_then(|at| Timestamp::try_from(at).ok()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootstrap_mode_observes_when_another_program_configures_the_machine() {
        let (nodeadm, bottlerocket) = (Some(Configurator::Nodeadm), Some(Configurator::Bottlerocket));
        let rows = [
            (Mode::Auto, None, BootstrapMode::Configure, false),
            (Mode::Auto, nodeadm, BootstrapMode::Observe(nodeadm), false),
            (Mode::Auto, bottlerocket, BootstrapMode::Observe(bottlerocket), false),
            (Mode::Bootstrap, None, BootstrapMode::Configure, false),
            (Mode::Bootstrap, nodeadm, BootstrapMode::Configure, true),
            (Mode::Bootstrap, bottlerocket, BootstrapMode::Observe(bottlerocket), true),
            (Mode::Observe, None, BootstrapMode::Observe(None), false),
            (Mode::Observe, nodeadm, BootstrapMode::Observe(nodeadm), false),
        ];
        for (mode, other, expected, warned) in rows {
            let (mode_found, warning) = bootstrap_mode(mode, other);
            assert_eq!((mode_found, warning.is_some()), (expected, warned), "{mode:?} {other:?}");
        }
    }
}
