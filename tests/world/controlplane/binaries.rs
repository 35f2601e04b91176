//! Where the control plane's programs come from: a folder that the user names, or our own build of all four in one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::Component;

/// Names a folder with `etcd`, `kube-apiserver` and so on, as controller-runtime's tests use it.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

pub(super) enum Binaries {
    /// One program a component.
    Folder(PathBuf),
    /// One program for all; its first argument picks the component.
    One(PathBuf),
}

impl Binaries {
    /// Finds or builds the programs for `needed`. Blocks: a first build takes minutes.
    pub(super) fn find(needed: &[Component]) -> Result<Self> {
        match std::env::var_os(ASSETS).map(PathBuf::from) {
            Some(folder) if holds(&folder, needed) => Ok(Self::Folder(folder)),
            _ => Ok(Self::One(build()?)),
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

/// Runs `tests/steps/go-program`, which prints the program's path; what it says about its progress goes to our standard
/// error.
fn build() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(here.join("steps/go-program"))
        .arg(here.join("controlplane"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run tests/steps/go-program")?;
    let advice = "it needs Go, or set KUBEBUILDER_ASSETS to a folder with the programs";
    ensure!(output.status.success(), "building the control plane failed ({}); {advice}", output.status);
    let path = String::from_utf8(output.stdout).context("a path that is not UTF-8")?;
    Ok(PathBuf::from(path.trim_end()))
}
