//! Where the programs of a machine come from: the folder that this very program was built into, or the environment.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The programs that run on machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// `kerf-agent`.
    pub agent: PathBuf,
    /// What machines find as `systemctl`.
    pub systemctl: PathBuf,
}

impl Programs {
    /// Finds the agent (`KERF_AGENT`) and the shim (`KERF_SYSTEMCTL_SHIM`): by those variables where they are set, else
    /// beside this program or, for a test, in the folder above.
    ///
    /// # Errors
    /// When one is missing; says how to build it.
    pub fn find() -> Result<Self> {
        Ok(Self {
            agent: find_program("kerf-agent", "KERF_AGENT", "cargo build -p agent")?,
            systemctl: find_program("systemctl-shim", "KERF_SYSTEMCTL_SHIM", "cargo build -p tests --bins")?,
        })
    }
}

/// Finds a program of this workspace by its name, or by an environment variable that names its path.
///
/// # Errors
/// When it is nowhere; says how to build it.
pub fn find_program(name: &str, variable: &str, build: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from) {
        if !path.is_file() {
            bail!("{variable} names {}, which is no file", path.display());
        }
        // Machines find it through a link, which must not depend on where we are.
        return path.canonicalize().with_context(|| format!("{} cannot be followed", path.display()));
    }
    let here = std::env::current_exe().context("this program does not know its own path")?;
    let folders: Vec<&Path> = here.ancestors().skip(1).take(2).collect();
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    let above = folders.last().map(|folder| folder.display().to_string()).unwrap_or_default();
    found.with_context(|| format!("there is no {name} in {above}: run `{build}`, or set {variable} to its path"))
}
