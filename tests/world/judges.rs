//! Programs of others that judge what we hand to AWS and to Prometheus: installed or built once, into the cache.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use go_programs::go_program;

/// The `bin` folder of a Python environment with what `tests/NAME/requirements.txt` names. Blocks: a first installation takes minutes.
///
/// # Errors
/// When it cannot be installed, for want of Python or of a package index.
pub fn python_programs(name: &str) -> Result<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = cache()?.join(name);
    let status = Command::new(tests.join("steps/python-programs"))
        .arg(tests.join(name).join("requirements.txt"))
        .arg(&folder)
        .stdin(Stdio::null())
        .status()
        .context("cannot run tests/steps/python-programs")?;
    ensure!(status.success(), "installing {name} failed; it needs python3 with venv and a Python package index");
    Ok(folder.join("bin"))
}

/// A Python that knows the judges' libraries.
///
/// # Errors
/// As [`python_programs`].
pub fn python() -> Result<PathBuf> {
    Ok(python_programs("judges")?.join("python3"))
}

/// Prometheus' checker of rules: the one of this machine, or else built from its source, which takes many minutes once.
///
/// # Errors
/// When it cannot be built.
pub fn promtool() -> Result<PathBuf> {
    match on_path("promtool") {
        Some(found) => Ok(found),
        None => Ok(go_program("promtool")?.join("promtool")),
    }
}

/// A program that this machine has; a judge that nobody can install for us.
#[must_use]
pub fn on_path(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Where Kerf keeps what tests build once.
fn cache() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("KERF_CACHE") {
        return Ok(folder.into());
    }
    let home = std::env::var_os("HOME").context("neither KERF_CACHE nor HOME is set")?;
    Ok(Path::new(&home).join(".cache/kerf"))
}
