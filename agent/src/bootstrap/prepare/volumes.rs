//! Preparation of EBS volumes: a file system on an empty volume, the content that the folders have so far, and units that mount
//! the volume before the daemons start. Bootstrap runs it in a unit of its own.

mod mount_unit;

use anyhow::Context as _;
use thiserror::Error;

use super::disk_unit::{DiskUnit, DisksError};
use crate::bootstrap::plan::volumes::PlannedVolume;
use crate::host::{Host, HostError};
use mount_unit::MountUnit;

/// The planned volumes, in JSON.
pub const PLAN_FILE: &str = "/run/kerf/volumes.json";
/// Model of EBS volumes.
const MODEL: &str = "Amazon Elastic Block Store";
/// Folder on which a volume is mounted while content is copied to it.
const COPYING: &str = "/run/kerf/volume";
/// Folder that mkfs makes on ext4.
const LOST_AND_FOUND: &str = "lost+found";

/// The unit, in `systemd/kerf-volumes.service`.
const UNIT: DiskUnit = DiskUnit {
    unit: "kerf-volumes.service",
    program: "kerf-agent volumes",
    input: PLAN_FILE,
    output: "/run/kerf/volumes.log",
    disks: "EBS volumes",
    field: "spec.instance.storage",
};

/// Reasons why a volume is not mounted.
#[derive(Debug, Error)]
pub enum VolumeError {
    /// The device does not exist.
    #[error("{device} does not exist; add it to blockDeviceMappings of the EC2NodeClass or launch template")]
    Missing {
        /// Path of the device.
        device: String,
    },
    /// The device is another kind of disk.
    #[error("{device} is not an EBS volume but `{model}`; correct spec.instance.storage.volumes")]
    NotEbs {
        /// Path of the device.
        device: String,
        /// Model of the device.
        model: String,
    },
    /// The device has partitions, which a file system would overwrite.
    #[error("{device} has partitions; use a volume without partitions")]
    Partitioned {
        /// Path of the device.
        device: String,
    },
    /// A command or a file operation on the machine failed.
    #[error("cannot prepare the EBS volume {device}")]
    Host {
        /// Path of the device.
        device: String,
        /// Cause.
        #[source]
        source: HostError,
    },
}

/// Starts the unit that mounts `volumes`, and waits for its end.
///
/// # Errors
/// [`DisksError`]; a retry is safe.
pub(in crate::bootstrap) async fn prepare(host: &Host, volumes: &[PlannedVolume]) -> Result<(), DisksError> {
    let plan = serde_json::to_string(volumes).unwrap_or_default();
    UNIT.run(host, &plan).await
}

/// Mounts the volumes in [`PLAN_FILE`].
///
/// # Errors
/// The file cannot be read, or a volume cannot be mounted.
pub async fn mount_planned(host: &Host) -> anyhow::Result<()> {
    let plan =
        host.read(PLAN_FILE)?.with_context(|| format!("{PLAN_FILE} is missing; kerf-agent bootstrap writes it"))?;
    let volumes: Vec<PlannedVolume> =
        machine::document::read_json(&plan).with_context(|| format!("{PLAN_FILE} is invalid"))?;
    Ok(mount(host, &volumes).await?)
}

/// Mounts volumes that are not mounted yet. The caller must run in the mount namespace of the machine.
///
/// # Errors
/// [`VolumeError`] for the first volume that cannot be mounted; a retry is safe.
pub async fn mount(host: &Host, volumes: &[PlannedVolume]) -> Result<(), VolumeError> {
    for volume in volumes {
        if is_mounted(host, volume).await.map_err(|source| on(volume, source))? {
            log::info!(device = volume.device.as_str(); "volume is mounted already");
            continue;
        }
        check(host, volume).await?;
        set_up(host, volume).await.map_err(|source| on(volume, source))?;
        log::info!(device = volume.device.as_str(); "mounted volume on {}", volume.targets.join(", "));
    }
    Ok(())
}

fn on(volume: &PlannedVolume, source: HostError) -> VolumeError {
    VolumeError::Host { device: volume.device.clone(), source }
}

async fn is_mounted(host: &Host, volume: &PlannedVolume) -> Result<bool, HostError> {
    for target in &volume.targets {
        match host.systemctl(&["is-active", "--quiet", &mount_unit::name(target)]).await {
            Ok(()) => {}
            Err(HostError::Failed { .. }) => return Ok(false),
            Err(other) => return Err(other),
        }
    }
    Ok(true)
}

/// Checks that the device is an EBS volume without partitions.
async fn check(host: &Host, volume: &PlannedVolume) -> Result<(), VolumeError> {
    let device = volume.device.clone();
    if !host.exists(&device) {
        return Err(VolumeError::Missing { device });
    }
    let models = list(host, volume, "MODEL").await.map_err(|source| on(volume, source))?;
    match models.as_slice() {
        [model] if model == MODEL => Ok(()),
        [_] | [] => Err(VolumeError::NotEbs { device, model: models.join(" ") }),
        _ => Err(VolumeError::Partitioned { device }),
    }
}

/// Returns a column of lsblk: one line for the device, and one for each partition.
async fn list(host: &Host, volume: &PlannedVolume, column: &str) -> Result<Vec<String>, HostError> {
    let arguments = ["--noheadings", "--list", "--output", column, volume.device.as_str()];
    let lines = host.output("lsblk", &arguments).await?;
    Ok(lines.lines().map(|line| line.trim().to_owned()).collect())
}

async fn set_up(host: &Host, volume: &PlannedVolume) -> Result<(), HostError> {
    let file_system = file_system(host, volume).await?;
    let uuid = host.output("blkid", &["-s", "UUID", "-o", "value", &volume.device]).await?;
    let of_volume = |target: &str| MountUnit::of_volume(&volume.device, uuid.trim(), &file_system, target);
    for target in &volume.targets {
        host.create_folder(target)?;
        stop_user_of(host, target).await?;
    }
    match (&volume.mounted_on, volume.targets.as_slice()) {
        (None, [target]) => {
            copy_into_empty_volume(host, volume, target).await?;
            start(host, &of_volume(target)).await
        }
        (mounted_on, targets) => {
            let mounted_on = mounted_on.as_deref().unwrap_or(COPYING);
            host.create_folder(mounted_on)?;
            start(host, &of_volume(mounted_on)).await?;
            for target in targets {
                let folder = format!("{mounted_on}{target}");
                copy_into_empty_folder(host, target, &folder).await?;
                start(host, &MountUnit::of_folder(&volume.device, &folder, target)).await?;
            }
            Ok(())
        }
    }
}

/// Returns the type of the volume's file system, which is made on an empty volume.
async fn file_system(host: &Host, volume: &PlannedVolume) -> Result<String, HostError> {
    let found = list(host, volume, "FSTYPE").await?.join("");
    if found.is_empty() {
        host.output_within(&format!("mkfs.{}", volume.file_system), &[&volume.device], None).await?;
        return Ok(volume.file_system.clone());
    }
    if found != volume.file_system {
        log::warn!(device = volume.device.as_str(); "volume has the file system {found}, which stays");
    }
    Ok(found)
}

/// Stops the daemon that writes to a folder. The caller starts it later.
async fn stop_user_of(host: &Host, target: &str) -> Result<(), HostError> {
    let unit = match target {
        "/var/lib/containerd" => "containerd.service",
        "/var/lib/kubelet" | "/var/log/pods" => "kubelet.service",
        _ => return Ok(()),
    };
    match host.systemctl(&["stop", unit]).await {
        // The image may have no such unit.
        Err(HostError::Failed { .. }) | Ok(()) => Ok(()),
        Err(other) => Err(other),
    }
}

/// Copies the content of a folder to a volume without content, such as one that was just formatted.
async fn copy_into_empty_volume(host: &Host, volume: &PlannedVolume, target: &str) -> Result<(), HostError> {
    if host.list(target)?.is_empty() {
        return Ok(());
    }
    host.create_folder(COPYING)?;
    host.output("mount", &[&volume.device, COPYING]).await?;
    let copied = copy_into_empty_folder(host, target, COPYING).await;
    host.output("umount", &[COPYING]).await?;
    copied
}

async fn copy_into_empty_folder(host: &Host, from: &str, to: &str) -> Result<(), HostError> {
    host.create_folder(to)?;
    let is_empty = host.list(to)?.iter().all(|name| name == LOST_AND_FOUND);
    if is_empty && !host.list(from)?.is_empty() {
        host.output_within("cp", &["-a", &format!("{from}/."), &format!("{to}/")], None).await?;
    }
    Ok(())
}

async fn start(host: &Host, unit: &MountUnit) -> Result<(), HostError> {
    host.write(&format!("/etc/systemd/system/{}", unit.name), unit.text.as_bytes(), 0o644)?;
    host.systemctl(&["daemon-reload"]).await?;
    host.systemctl(&["enable", "--now", &unit.name]).await
}
