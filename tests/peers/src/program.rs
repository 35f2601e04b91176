//! Go programs of our own, built once into the cache.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Finds the program of a folder in the cache, or builds it there: minutes when Go's own cache is cold.
///
/// # Errors
/// When it is not there and cannot be built, because Go is missing for example.
pub(crate) fn built(folder: &str) -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(here.join("../steps/go-program"))
        .arg(here.join(folder))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run tests/steps/go-program")?;
    ensure!(output.status.success(), "building {folder} failed ({}); it needs Go", output.status);
    let path = String::from_utf8(output.stdout).context("a path that is not UTF-8")?;
    Ok(PathBuf::from(path.trim_end()))
}
