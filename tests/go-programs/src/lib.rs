//! Programs that tests run and that are built from Go modules, once, into the cache: parts of Kubernetes, peers, judges.
//! A crate of its own, so that the agent's tests and the peers need not build the world for it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Builds what `folder`, below the tests, describes, and gives where it is: a program, or a folder of programs. Blocks: a first
/// build takes minutes, and what it says about its progress goes to our standard error.
///
/// # Errors
/// When the build fails, for want of Go perhaps.
pub fn go_program(folder: &str) -> Result<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(tests.join("steps/go-program"))
        .arg(tests.join(folder))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run tests/steps/go-program")?;
    ensure!(output.status.success(), "building {folder} failed ({}); it needs Go", output.status);
    let path = String::from_utf8(output.stdout).context("a path that is not UTF-8")?;
    Ok(PathBuf::from(path.trim_end()))
}
