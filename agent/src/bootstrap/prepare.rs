//! What comes before the daemons of a node start: disks where their data goes, and a mark by which the machine's network
//! knows that interfaces are the network plugin's from now on.

use super::disks::LocalDisks;
use super::plan::BootstrapPlan;
use crate::host::{Host, HostError};

/// Exists once daemons are being started: interfaces that appear from then on are not systemd-networkd's. EKS's own
/// programs look for it too.
pub const MARKER: &str = "/run/nodeadm/init";
/// The program that EKS's images bring: it makes arrays, file systems and mounts, and does nothing the second time.
const DISKS: &str = "setup-local-disks";

/// Says that interfaces which appear from now on are the network plugin's.
///
/// # Errors
/// [`HostError::File`].
pub(super) fn mark(host: &Host) -> Result<(), HostError> {
    host.write(MARKER, b"", 0o644).map(|_| ())
}

/// Prepares the machine for the daemons of `plan`, for a caller who sees the machine's own mounts.
///
/// # Errors
/// [`HostError`] when the mark cannot be written, or disks cannot be prepared: daemons would fill the root disk then.
pub async fn prepare(host: &Host, plan: &BootstrapPlan) -> Result<(), HostError> {
    mark(host)?;
    match &plan.disks {
        Some(disks) => set_up(host, disks).await,
        None => Ok(()),
    }
}

/// Without a deadline: a mirrored array takes as long as its disks are large, and half of one is worse than none.
async fn set_up(host: &Host, disks: &LocalDisks) -> Result<(), HostError> {
    host.status("preparing instance store disks");
    let said = host.output_within(DISKS, &disks.arguments(), None).await?;
    log::info!("{DISKS}: {}", said.trim().lines().last().unwrap_or("no output"));
    Ok(())
}
