//! Units that prepare disks for bootstrap. Mounts in bootstrap's sandbox are invisible to other processes, and bootstrap has no
//! permission to mount.

use machine::quote::problem;
use thiserror::Error;

use crate::host::{Host, HostError};

/// Exit status by which systemd reports that it could not start the program.
const NO_PROGRAM: &str = "203";

/// A unit that prepares disks.
#[derive(Debug, Clone, Copy)]
pub(super) struct DiskUnit {
    /// Name of the unit.
    pub(super) unit: &'static str,
    /// Program of the unit.
    pub(super) program: &'static str,
    /// Input of the program.
    pub(super) input: &'static str,
    /// Output of the program.
    pub(super) output: &'static str,
    /// The disks, for messages.
    pub(super) disks: &'static str,
    /// Field of the NodeConfig that requests them.
    pub(super) field: &'static str,
}

/// Reasons why disks are not prepared.
#[derive(Debug, Error)]
pub enum DisksError {
    /// The unit failed.
    #[error("{disks} are not prepared: {why}; repair it, or remove {field} from the NodeConfig")]
    Failed {
        /// The disks.
        disks: &'static str,
        /// Failure of the unit or of its program.
        why: String,
        /// Field of the NodeConfig.
        field: &'static str,
    },
    /// A command or a file operation on the machine failed.
    #[error("disks are not prepared")]
    Host(#[from] HostError),
}

impl DiskUnit {
    /// Starts the unit with this input, and waits for its end. The wait has no deadline, because the time to prepare a disk
    /// grows with its size.
    ///
    /// # Errors
    /// [`DisksError`]; a retry is safe.
    pub(super) async fn run(&self, host: &Host, input: &str) -> Result<(), DisksError> {
        let Self { unit, disks, field, .. } = *self;
        host.write(self.input, input.as_bytes(), 0o644)?;
        host.remove(self.output)?;
        host.status(&format!("preparing {disks}"));
        match host.output_within("systemctl", &["restart", unit], None).await {
            Ok(_) => {
                log::info!(unit = unit; "prepared {disks}: {}", self.last_line(host)?);
                Ok(())
            }
            Err(HostError::Failed { .. }) => Err(DisksError::Failed { disks, why: self.why(host).await?, field }),
            Err(other) => Err(other.into()),
        }
    }

    async fn why(&self, host: &Host) -> Result<String, DisksError> {
        let Self { unit, program, output, .. } = *self;
        let state = host.output("systemctl", &["show", unit, "--property=LoadState,ExecMainStatus"]).await?;
        let value = |name: &str| state.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        Ok(match (value("LoadState="), value("ExecMainStatus=")) {
            ("not-found", _) => format!("the image has no unit {unit}"),
            (_, NO_PROGRAM) => format!("the image has no program {program}"),
            (_, status) => {
                format!("{program} exited with status {status} and `{}` (see {output})", self.last_line(host)?)
            }
        })
    }

    fn last_line(&self, host: &Host) -> Result<String, HostError> {
        let output = host.read_text(self.output)?.unwrap_or_default();
        Ok(problem(output.trim().lines().last().unwrap_or("no output")))
    }
}
