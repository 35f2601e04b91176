//! Programs that tests run and that are built from Go modules, once, into the cache: parts of Kubernetes, peers, linters.
//! A crate of its own, so that the agent's tests and the peers need not build the testbed for it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// How many lines of a failed build an error shows.
const LAST_LINES: usize = 30;

/// Builds the program or the programs that `folder`, below the tests, describes, and returns their path. Blocks: a first build takes
/// minutes, at low priority, since the caller may run a cluster meanwhile.
///
/// # Errors
/// When the build fails, for want of Go perhaps; with the end of its output.
pub fn go_program(folder: &str) -> Result<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new("nice")
        .arg(tests.join("steps/go-program"))
        .arg(tests.join(folder))
        .stdin(Stdio::null())
        .output()
        .context("cannot run tests/steps/go-program")?;
    let log = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = log.lines().rev().take(LAST_LINES).collect();
    let end: Vec<&str> = last.into_iter().rev().collect();
    ensure!(output.status.success(), "building {folder} failed ({}); it needs Go:\n{}", output.status, end.join("\n"));
    let path = String::from_utf8(output.stdout).context("a path that is not UTF-8")?;
    Ok(PathBuf::from(path.trim_end()))
}

/// Returns the folder with the sources of a Go module, in the version that the program of `folder` uses, and downloads them first if
/// they are missing.
///
/// # Errors
/// When the download fails.
pub fn module_folder(folder: &str, module: &str) -> Result<PathBuf> {
    #[derive(Deserialize)]
    struct Module {
        #[serde(rename = "Dir")]
        folder: PathBuf,
    }
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let output = Command::new("go").args(["mod", "download", "-json", module]).current_dir(program).output();
    let output = output.context("cannot run go")?;
    ensure!(output.status.success(), "go mod download {module}: {}", String::from_utf8_lossy(&output.stderr));
    let module: Module = serde_json::from_slice(&output.stdout)?;
    Ok(module.folder)
}
