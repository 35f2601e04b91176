//! Steps before the daemons of a node start. The steps prepare disks for their data, and write a marker. By the marker, the
//! machine's network service leaves new interfaces to the network plugin.

pub mod disk_unit;
pub mod local_disks;
pub mod volumes;

use super::plan::BootstrapPlan;
use super::plan::disks::LocalDisks;
use crate::host::{Host, HostError};

/// Marker file that exists once daemons are being started. systemd-networkd ignores interfaces that appear from then on. EKS's
/// own programs check the marker too.
pub const MARKER: &str = "/run/nodeadm/init";
/// Program of EKS images that makes arrays, file systems and mounts. A second run changes nothing.
const DISKS: &str = "setup-local-disks";

/// Writes the marker that leaves new interfaces to the network plugin.
///
/// # Errors
/// [`HostError::File`].
pub(super) fn mark(host: &Host) -> Result<(), HostError> {
    host.write(MARKER, b"", 0o644).map(|_| ())
}

/// Prepares the machine for the daemons of `plan`. The caller must run in the mount namespace of the machine.
///
/// # Errors
/// The marker cannot be written, or disks cannot be prepared. Without prepared disks, daemons would fill the root disk.
pub async fn prepare(host: &Host, plan: &BootstrapPlan) -> anyhow::Result<()> {
    mark(host)?;
    volumes::mount(host, &plan.volumes).await?;
    if let Some(disks) = &plan.disks {
        set_up(host, disks).await?;
    }
    Ok(())
}

/// Runs the setup program without a deadline. The time to build a mirrored array grows with the size of its disks, and half an
/// array is worse than none.
async fn set_up(host: &Host, disks: &LocalDisks) -> Result<(), HostError> {
    host.status("preparing instance store disks");
    let said = host.output_within(DISKS, &disks.arguments(), None).await?;
    log::info!("{DISKS}: {}", said.trim().lines().last().unwrap_or("no output"));
    Ok(())
}
