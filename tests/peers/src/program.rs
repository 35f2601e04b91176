//! Go programs of our own, built once into the cache.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Names the folder for what is built once and outlives a checkout.
const CACHE: &str = "KERF_CACHE";

/// Finds the program of a folder in the cache, or builds it there: minutes when Go's own cache is cold.
///
/// # Errors
/// When it is not there and cannot be built, because Go is missing for example.
pub(crate) fn built(folder: &str) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join("build.sh");
    let output = Command::new(&script)
        .arg(cache()?.join("peers"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    ensure!(output.status.success(), "{} failed ({}); it needs Go", script.display(), output.status);
    let path = String::from_utf8(output.stdout).context("a path that is not UTF-8")?;
    Ok(PathBuf::from(path.trim_end()))
}

fn cache() -> Result<PathBuf> {
    if let Some(cache) = std::env::var_os(CACHE) {
        return Ok(PathBuf::from(cache));
    }
    let home = std::env::home_dir().with_context(|| format!("no home folder to cache programs in; set {CACHE}"))?;
    Ok(home.join(".cache/kerf"))
}
