//! What comes before the daemons of a node start: disks where their data goes, and a mark by which the machine's network
//! knows that interfaces are the network plugin's from now on.

use machine::nodeconfig::{DisabledMount, LocalStorageStrategy};

use super::disks::LocalDisks;
use super::plan::Plan;
use crate::host::{Host, HostError};

/// Exists once daemons are being started: interfaces that appear from then on are not systemd-networkd's. EKS's own
/// programs look for it too.
pub const MARKER: &str = "/run/nodeadm/init";
/// The program that EKS's images bring: it makes arrays, file systems and mounts, and does nothing the second time.
const DISKS: &str = "setup-local-disks";

/// Prepares the machine for the daemons of `plan`.
///
/// # Errors
/// [`HostError`] when the mark cannot be written, or disks cannot be prepared: daemons would fill the root disk then.
pub async fn prepare(host: &Host, plan: &Plan) -> Result<(), HostError> {
    host.write(MARKER, b"", 0o644)?;
    match &plan.disks {
        Some(disks) => set_up(host, disks).await,
        None => Ok(()),
    }
}

/// Without a deadline: a mirrored array takes as long as its disks are large, and half of one is worse than none.
async fn set_up(host: &Host, disks: &LocalDisks) -> Result<(), HostError> {
    let arguments = arguments(disks);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    host.status("preparing the instance store disks");
    let said = host.output_within(DISKS, &arguments, None).await?;
    log::info!("{DISKS}: {}", said.trim().lines().last().unwrap_or("it said nothing"));
    Ok(())
}

/// The strategy comes first: a program that does not know one of the others goes by it alone.
fn arguments(disks: &LocalDisks) -> Vec<String> {
    let strategy = match disks.strategy {
        LocalStorageStrategy::Raid0 => "raid0",
        LocalStorageStrategy::Raid10 => "raid10",
        LocalStorageStrategy::Mount => "mount",
    };
    let kept = disks.disabled_mounts.iter().map(|mount| match mount {
        DisabledMount::Containerd => "--no-bind-containerd",
        DisabledMount::PodLogs => "--no-bind-pods-logs",
        DisabledMount::Soci => "--no-bind-soci-snapshotter",
    });
    [strategy, "--dir", &disks.mount_path].into_iter().chain(kept).map(str::to_owned).collect()
}
