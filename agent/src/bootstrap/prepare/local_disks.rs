//! Preparation of instance store disks in a unit of their own.

use super::disk_unit::{DiskUnit, DisksError};
use crate::bootstrap::plan::disks::LocalDisks;
use crate::bootstrap::plan::environment::in_file;
use crate::host::Host;

/// The unit, in `systemd/kerf-local-disks.service`.
const UNIT: DiskUnit = DiskUnit {
    unit: "kerf-local-disks.service",
    program: "setup-local-disks",
    input: "/run/kerf/local-disks.env",
    output: "/run/kerf/local-disks.log",
    disks: "instance store disks",
    field: "spec.instance.localStorage",
};

/// Starts the unit that prepares `disks`, and waits for its end.
///
/// # Errors
/// [`DisksError`]; a retry is safe.
pub(in crate::bootstrap) async fn prepare(host: &Host, disks: &LocalDisks) -> Result<(), DisksError> {
    UNIT.run(host, &environment_file(disks)).await
}

/// Returns the unit's environment file. An empty list adds no arguments.
fn environment_file(disks: &LocalDisks) -> String {
    let (strategy, folder) = (in_file(disks.strategy_word()), in_file(&disks.mount_path));
    format!("STRATEGY={strategy}\nDIR={folder}\nKEPT={}\n", in_file(&disks.kept_words().join(" ")))
}
