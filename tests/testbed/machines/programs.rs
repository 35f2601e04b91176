//! Programs of a machine: from the folder of this program's build, or from the environment.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Programs that run on machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// Path of `kerf-agent`.
    pub agent: PathBuf,
    /// Path of the program that machines use as `systemctl`.
    pub systemctl: PathBuf,
}

impl Programs {
    /// Finds the agent (`KERF_AGENT`) and the shim (`KERF_SYSTEMCTL_SHIM`). Without these variables, the folder of this program
    /// and, for a test, the folder above are searched.
    ///
    /// # Errors
    /// Returns an error if one is missing; the error contains the build command.
    pub fn find() -> Result<Self> {
        Ok(Self {
            agent: find_program("kerf-agent", "KERF_AGENT", "cargo build -p agent")?,
            systemctl: find_program("systemctl-shim", "KERF_SYSTEMCTL_SHIM", "cargo build -p tests --bins")?,
        })
    }
}

/// Finds a program of this workspace by its name, or by an environment variable with its path.
///
/// # Errors
/// Returns an error if the program is missing; the error contains the build command.
pub fn find_program(name: &str, variable: &str, build: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from) {
        if !path.is_file() {
            bail!("{variable} names {}, which is no file", path.display());
        }
        // Machines use the program through a link, which must not depend on the current folder.
        return path.canonicalize().with_context(|| format!("{} cannot be followed", path.display()));
    }
    let here = std::env::current_exe().context("this program does not know its own path")?;
    let folders: Vec<&Path> = here.ancestors().skip(1).take(2).collect();
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    let above = folders.last().map(|folder| folder.display().to_string()).unwrap_or_default();
    found.with_context(|| format!("there is no {name} in {above}: run `{build}`, or set {variable} to its path"))
}
