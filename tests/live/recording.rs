//! `kerf record` beside a run, on request.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use testbed::controlplane::ControlPlane;
use testbed::machines::find_program;
use testbed::process::Process;

/// Time for the last changes.
const STOP: Duration = Duration::from_secs(60);

/// Starts a recording in the folder of `KERF_LIVE_RECORD`, if it is set.
pub fn begin(control_plane: &ControlPlane, name: &str) -> Result<Option<Process>> {
    let Some(folder) = std::env::var_os("KERF_LIVE_RECORD") else { return Ok(None) };
    let mut command = Command::new(find_program("kerf", "KERF_CLI", "cargo build --workspace")?);
    command.args(["record", "--out"]).arg(Path::new(&folder).join(name));
    command.env("KUBECONFIG", control_plane.admin_kubeconfig());
    Process::spawn("recording", command, &control_plane.folder().join("recording.log")).map(Some)
}

/// Ends a recording as Ctrl-C does.
pub async fn end(recording: Option<Process>) -> Result<()> {
    match recording {
        Some(mut recording) => recording.stop(STOP).await.map(drop),
        None => Ok(()),
    }
}
