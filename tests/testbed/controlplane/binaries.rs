//! Programs of the control plane: from a folder that the user sets, or a build of all four in one program.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use go_programs::go_program;

use super::Component;

/// Variable with a folder of `etcd`, `kube-apiserver` and so on, as controller-runtime's tests use it.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

pub(super) enum Binaries {
    /// Folder with one program per component.
    Folder(PathBuf),
    /// One program for all; its first argument selects the component.
    One(PathBuf),
}

impl Binaries {
    /// Finds or builds the programs for `needed`. Blocks: a first build takes minutes.
    pub(super) fn find(needed: &[Component]) -> Result<Self> {
        match std::env::var_os(ASSETS).map(PathBuf::from) {
            Some(folder) if holds(&folder, needed) => Ok(Self::Folder(folder)),
            _ => {
                let advice = "set KUBEBUILDER_ASSETS to a folder with the programs where Go is missing";
                Ok(Self::One(go_program("controlplane").context(advice)?))
            }
        }
    }

    pub(super) fn command(&self, component: Component) -> Command {
        match self {
            Self::Folder(folder) => Command::new(folder.join(component.name())),
            Self::One(program) => {
                let mut command = Command::new(program);
                command.arg(component.name());
                command
            }
        }
    }
}

fn holds(folder: &Path, needed: &[Component]) -> bool {
    needed.iter().all(|component| folder.join(component.name()).is_file())
}
