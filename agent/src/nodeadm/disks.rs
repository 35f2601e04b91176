//! Instance store disks: the image's own program makes arrays, file systems and mounts, and does nothing the second
//! time.

use machine::nodeconfig::{DisabledMount, LocalStorageStrategy};

use super::Machine;
use crate::bootstrap::disks::LocalDisks;

/// The program that EKS's images bring.
const PROGRAM: &str = "setup-local-disks";

pub(super) async fn set_up(machine: &Machine, disks: &LocalDisks) -> anyhow::Result<()> {
    let arguments = arguments(disks);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let said = machine.host.output_within(PROGRAM, &arguments, None).await?;
    log::info!("{PROGRAM}: {}", said.trim().lines().last().unwrap_or("it said nothing"));
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
