//! Plan for EBS volumes, as a value: file systems, and the folders on which they are mounted before the daemons start.

use std::collections::BTreeSet;

use machine::nodeconfig::{EbsStorage, EbsVolume, NodeConfigError};
use machine::quote::quote;
use serde::{Deserialize, Serialize};

use super::{BootstrapPlan, folders};

const FIELD: &str = "spec.instance.storage.volumes";
/// Default file system, as that of instance store disks.
const FILE_SYSTEM: &str = "xfs";
/// Folder of volumes that hold the content of several folders.
const SHARED: &str = "/mnt/kerf-volumes";

/// One volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedVolume {
    /// Path of the device.
    pub device: String,
    /// Type of the file system of an empty volume.
    pub file_system: String,
    /// Folder on which the volume itself is mounted, if that is no target.
    pub mounted_on: Option<String>,
    /// Folders whose content the volume holds, in order.
    pub targets: Vec<String>,
}

/// Plans the volumes of a NodeConfig.
///
/// # Errors
/// [`NodeConfigError::Invalid`] for an unusable device, folder or type, and for a repeated device or folder.
pub(super) fn add(plan: &mut BootstrapPlan, storage: &EbsStorage) -> Result<(), NodeConfigError> {
    let mut known = BTreeSet::new();
    for volume in &storage.volumes {
        let planned = planned(volume)?;
        for path in planned.targets.iter().chain([&planned.device]) {
            if !known.insert(path.clone()) {
                return Err(invalid(path, "name each device and folder only once"));
            }
        }
        plan.volumes.push(planned);
    }
    Ok(())
}

fn planned(volume: &EbsVolume) -> Result<PlannedVolume, NodeConfigError> {
    let device = folders::normalized(&volume.device).filter(|device| device.starts_with("/dev/") && is_plain(device));
    let device = device.ok_or_else(|| invalid(&volume.device, "write a device below /dev, such as /dev/xvdb"))?;
    let file_system = if volume.fs_type.is_empty() { FILE_SYSTEM } else { &volume.fs_type };
    if !file_system.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        return Err(invalid(file_system, "write a type of file system, such as xfs or ext4"));
    }
    let target = |text: &str| {
        let folder = folders::mount_point(text).filter(|folder| is_plain(folder));
        folder.ok_or_else(|| invalid(text, "write the path of a folder, such as /var/lib/containerd"))
    };
    let targets = volume.targets().map(target).collect::<Result<Vec<String>, _>>()?;
    let mounted_on = match targets.len() {
        0 => return Err(invalid(&device, "set mountTarget of this volume to a folder")),
        1 => None,
        _ => Some(format!("{SHARED}/{}", device.rsplit('/').next().unwrap_or_default())),
    };
    Ok(PlannedVolume { device, file_system: file_system.to_owned(), mounted_on, targets })
}

/// Reports whether no character of a path has a meaning in a unit file.
fn is_plain(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-:@+".contains(&byte))
}

fn invalid(value: &str, cure: &'static str) -> NodeConfigError {
    NodeConfigError::Invalid { field: FIELD, value: quote(value), cure }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(volumes: &[(&str, &str, &[&str], &str)]) -> Result<Vec<PlannedVolume>, NodeConfigError> {
        let volume = |(device, target, targets, kind): &(&str, &str, &[&str], &str)| EbsVolume {
            device: (*device).to_owned(),
            mount_target: (*target).to_owned(),
            mount_targets: targets.iter().map(|target| (*target).to_owned()).collect(),
            fs_type: (*kind).to_owned(),
        };
        let mut plan = BootstrapPlan::default();
        add(&mut plan, &EbsStorage { volumes: volumes.iter().map(volume).collect() })?;
        Ok(plan.volumes)
    }

    #[test]
    fn add_plans_one_folder_or_several_for_a_volume() {
        let volumes = plan(&[
            ("/dev/xvdb", "/var/lib//containerd/", &[], ""),
            ("/dev/disk/by-id/nvme-x", "", &["/var/lib/kubelet", "/var/log/pods"], "ext4"),
        ]);
        let planned = |device: &str, kind: &str, on: Option<&str>, targets: &[&str]| PlannedVolume {
            device: device.to_owned(),
            file_system: kind.to_owned(),
            mounted_on: on.map(str::to_owned),
            targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        };
        let expected = vec![
            planned("/dev/xvdb", "xfs", None, &["/var/lib/containerd"]),
            planned(
                "/dev/disk/by-id/nvme-x",
                "ext4",
                Some("/mnt/kerf-volumes/nvme-x"),
                &["/var/lib/kubelet", "/var/log/pods"],
            ),
        ];
        assert_eq!(volumes, Ok(expected));
    }

    #[test]
    fn add_reports_value_and_fix_when_a_volume_is_invalid() {
        const NONE: &[&str] = &[];
        let target = "/var/lib/containerd";
        for (volumes, expected) in [
            (vec![("", target, NONE, "")], "is ``; write a device below /dev"),
            (vec![("/var/disk", target, NONE, "")], "is `/var/disk`; write a device"),
            (vec![("/dev/xvdb", "", NONE, "")], "is `/dev/xvdb`; set mountTarget"),
            (vec![("/dev/xvdb", "/", NONE, "")], "is `/`; write the path of a folder"),
            (vec![("/dev/xvdb", "var/lib", NONE, "")], "is `var/lib`; write the path"),
            (vec![("/dev/xvdb", "/var/../etc", NONE, "")], "is `/var/../etc`; write the path"),
            (vec![("/dev/xvdb", "/etc//kubernetes", NONE, "")], "is `/etc//kubernetes`; write the path"),
            (vec![("/dev/xvdb", "/usr", NONE, "")], "is `/usr`; write the path"),
            (vec![("/dev/../etc/x", target, NONE, "")], "is `/dev/../etc/x`; write a device"),
            (vec![("/dev/xvdb", "/a b", NONE, "")], "is `/a b`; write the path"),
            (vec![("/dev/xvdb", target, &[], "xfs -f")], "is `xfs -f`; write a type"),
            (
                vec![("/dev/xvdb", target, NONE, ""), ("/dev/xvdc", target, NONE, "")],
                "name each device and folder only once",
            ),
            (vec![("/dev/xvdb", "/a", NONE, ""), ("/dev/xvdb", "/b", NONE, "")], "is `/dev/xvdb`; name each"),
        ] {
            let error = plan(&volumes).map_err(|error| error.to_string());
            assert!(
                error.as_ref().is_err_and(|error| error.starts_with(FIELD) && error.contains(expected)),
                "{error:?}"
            );
        }
    }
}
