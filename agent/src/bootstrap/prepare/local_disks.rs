//! Preparation of instance store disks in a unit of their own. Mounts in bootstrap's sandbox are invisible to other processes,
//! and bootstrap has no permission to mount.

use machine::quote::problem;
use thiserror::Error;

use crate::bootstrap::plan::disks::LocalDisks;
use crate::bootstrap::plan::environment::in_file;
use crate::host::{Host, HostError};

/// The unit, in `systemd/kerf-local-disks.service`.
pub const UNIT: &str = "kerf-local-disks.service";
/// Arguments of the unit's program.
pub const ENVIRONMENT_FILE: &str = "/run/kerf/local-disks.env";
/// Output of the unit's program.
pub const OUTPUT_FILE: &str = "/run/kerf/local-disks.log";
/// Exit status by which systemd reports that it could not start the program.
const NO_PROGRAM: &str = "203";

/// Reasons why disks are not prepared.
#[derive(Debug, Error)]
pub enum DisksError {
    /// The unit failed.
    #[error(
        "instance store disks are not prepared: {why}; repair it, or remove spec.instance.localStorage from the \
         NodeConfig"
    )]
    Failed {
        /// Failure of the unit or of its program.
        why: String,
    },
    /// A command or a file operation on the machine failed.
    #[error("instance store disks are not prepared")]
    Host(#[from] HostError),
}

/// Starts the unit that prepares `disks`, and waits for its end. The wait has no deadline, because the time to build a mirrored
/// array grows with the size of its disks.
///
/// # Errors
/// [`DisksError`]; a retry is safe.
pub(in crate::bootstrap) async fn prepare(host: &Host, disks: &LocalDisks) -> Result<(), DisksError> {
    host.write(ENVIRONMENT_FILE, environment_file(disks).as_bytes(), 0o644)?;
    host.remove(OUTPUT_FILE)?;
    host.status("preparing instance store disks");
    match host.output_within("systemctl", &["restart", UNIT], None).await {
        Ok(_) => {
            log::info!(unit = UNIT; "prepared instance store disks: {}", last_line(host)?);
            Ok(())
        }
        Err(HostError::Failed { .. }) => Err(DisksError::Failed { why: why(host).await? }),
        Err(other) => Err(other.into()),
    }
}

/// Returns the unit's environment file. An empty list adds no arguments.
fn environment_file(disks: &LocalDisks) -> String {
    let (strategy, folder) = (in_file(disks.strategy_word()), in_file(&disks.mount_path));
    format!("STRATEGY={strategy}\nDIR={folder}\nKEPT={}\n", in_file(&disks.kept_words().join(" ")))
}

async fn why(host: &Host) -> Result<String, DisksError> {
    let state = host.output("systemctl", &["show", UNIT, "--property=LoadState,ExecMainStatus"]).await?;
    let value = |name: &str| state.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    Ok(match (value("LoadState="), value("ExecMainStatus=")) {
        ("not-found", _) => format!("the image has no unit {UNIT}"),
        (_, NO_PROGRAM) => "the image has no program setup-local-disks".to_owned(),
        (_, status) => {
            format!("setup-local-disks exited with status {status} and `{}` (see {OUTPUT_FILE})", last_line(host)?)
        }
    })
}

fn last_line(host: &Host) -> Result<String, HostError> {
    let output = host.read_text(OUTPUT_FILE)?.unwrap_or_default();
    Ok(problem(output.trim().lines().last().unwrap_or("no output")))
}
