//! Storage of instances: the disk space for pods, and the number of volumes that can be attached.

use std::collections::BTreeMap;

use api::nodeclass::AmiFamily;
use api::objects::EBS_DRIVER;

use super::{ClassSettings, compatibility, measured_bounds};
use crate::calls::InstanceTypeInfo;

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
/// Hypervisor where volumes share no slots with network interfaces, and the most volumes that the CSI driver counts there.
const XEN: &str = "xen";
const XEN_VOLUMES: u32 = 39;

/// Returns the size in bytes of the file system for pods. No estimate is above the size on real nodes, as far as images are
/// known.
pub(super) fn file_system_bytes(info: &InstanceTypeInfo, class: &ClassSettings) -> i64 {
    let bytes = if class.raid0 && info.local_storage_gb > 0 {
        let devices = i64::try_from(info.local_storage_gb).unwrap_or(i64::MAX).saturating_mul(1_000_000_000);
        // XFS keeps a log that grows with disk and CPUs, and the RAID keeps space on each device.
        devices - devices / 100 - 64 * MIB
    } else {
        class.disk_bytes - root_overhead(class.family, class.disk_bytes)
    };
    bytes.max(0)
}

/// Returns the bytes of a volume that partitions and the metadata of the file system take.
fn root_overhead(family: AmiFamily, volume: i64) -> i64 {
    match family {
        // XFS with the log of the image: the size of the volume does not matter.
        AmiFamily::Al2 => 16 * MIB,
        AmiFamily::Al2023 => 80 * MIB,
        // Ext4, whose inode tables take a 64th; XFS in later versions takes less.
        AmiFamily::Bottlerocket => volume / 60,
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => 128 * MIB,
        // Ubuntu has 1 GiB of other partitions and ext4.
        AmiFamily::Custom => GIB + volume / 50,
    }
}

/// Returns the number of volumes that a new node can attach, as the EBS CSI driver will report it: EC2's limit less the node's
/// own volumes. Where EC2 counts network interfaces too, those beyond the first are subtracted. EC2's number is without the
/// first one, instance store volumes and accelerators.
pub(super) fn attach_limits(info: &InstanceTypeInfo, class: &ClassSettings) -> BTreeMap<String, i64> {
    if info.ebs_attachments == 0 {
        return BTreeMap::new();
    }
    let (slots, interfaces) = match info.hypervisor.as_str() {
        XEN => (info.ebs_attachments.min(XEN_VOLUMES), 0),
        _ if info.ebs_attachments_shared => (info.ebs_attachments, further_interfaces(info, class)),
        _ => (info.ebs_attachments, 0),
    };
    let estimate = i64::from(slots.saturating_sub(class.volumes).saturating_sub(interfaces));
    let measured = class.measured.get(&info.name);
    let reported = measured.and_then(|it| measured_bounds::volumes(it, estimate, i64::from(slots)));
    let count = reported.unwrap_or(estimate);
    // The driver reports at least one, because Kubernetes takes zero for no limit.
    [(EBS_DRIVER.to_owned(), count.max(1))].into()
}

/// Returns the number of network interfaces beyond the first when the CSI driver starts: those of the launch, and the one that
/// the VPC CNI keeps ready.
fn further_interfaces(info: &InstanceTypeInfo, class: &ClassSettings) -> u32 {
    let listed = class.network_interfaces.as_deref().unwrap_or_default();
    let launched = u32::try_from(listed.len()).unwrap_or(u32::MAX).saturating_sub(1);
    let efa_only = compatibility::efa_only(listed, |_| true);
    let used = u32::try_from(listed.len()).unwrap_or(u32::MAX).saturating_sub(efa_only).max(1);
    launched + u32::from(info.max_interfaces > used)
}
