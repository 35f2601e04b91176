//! External programs that verify Kerf's requests to AWS and its rules for Prometheus: installed or built once, into the cache.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use go_programs::go_program;

/// Returns the `bin` folder of a Python environment with the packages of `tests/NAME/requirements.txt`. Blocks: a first
/// installation takes minutes.
///
/// # Errors
/// Returns an error if the installation fails, for example without Python or a package index.
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

/// Returns a Python with the packages of `tests/linters`.
///
/// # Errors
/// Returns the errors of [`python_programs`].
pub fn python() -> Result<PathBuf> {
    Ok(python_programs("linters")?.join("python3"))
}

/// Returns a program of Prometheus, `prometheus` or `promtool`, built from its source: minutes, once.
///
/// # Errors
/// Returns an error if it cannot be built.
pub fn prometheus(program: &str) -> Result<PathBuf> {
    Ok(go_program("prometheus")?.join(program))
}

/// Returns an installed program of this machine, for programs that tests cannot install.
#[must_use]
pub fn on_path(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Returns the folder for artifacts that tests build once.
///
/// # Errors
/// Returns an error if the environment names neither the folder nor a home.
pub fn cache() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("KERF_CACHE") {
        return Ok(folder.into());
    }
    let home = std::env::var_os("HOME").context("neither KERF_CACHE nor HOME is set")?;
    Ok(Path::new(&home).join(".cache/kerf"))
}
