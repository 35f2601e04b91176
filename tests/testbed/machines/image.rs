//! Content of a machine's disk before its start: files of the image, the processors that the kernel reports, and the
//! certificate of a bootstrapped kubelet.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{MachineSpec, Programs};
use crate::load;
use crate::pki::{Credentials, write_private};

/// File with the kernel's id of this boot.
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

/// Writes the root of a machine, with kubelet's certificate if it has one. The root must not exist yet.
///
/// # Errors
/// Returns an error with the file's name if it cannot be written.
pub fn install(spec: &MachineSpec, certificate: Option<&Credentials>) -> Result<()> {
    let root = spec.root();
    for folder in ["etc/cni/net.d", "etc/kubernetes", "var/lib/kubelet/pki", "var/lib/kerf", "run", "usr/bin"] {
        make(&root.join(folder))?;
    }
    write(&root, "etc/eks/kubelet-version.txt", &format!("{}\n", spec.kubernetes))?;
    write(&root, "etc/eks/containerd-version.txt", "containerd github.com/containerd/containerd/v2 v2.1.4\n")?;
    write(&root, "etc/eks/image-credential-provider/ecr-credential-provider", "")?;
    write(&root, "etc/os-release", "ID=\"amzn\"\nVERSION_ID=\"2023\"\nPRETTY_NAME=\"Kerf node simulator\"\n")?;
    write(&root, "etc/machine-id", &format!("{:0>32}\n", spec.instance_id.trim_start_matches("i-")))?;
    write(&root, BOOT_ID, &boot_id(&spec.instance_id, 1))?;
    load::count(&root, spec.hardware.visible_memory(), &[], Duration::ZERO)?;
    processors(&root, spec.hardware.vcpus)?;
    let bundle = root.join("var/lib/kubelet/pki/kubelet-client-current.pem");
    certificate.map_or(Ok(()), |certificate| write_private(&bundle, &certificate.bundle()))
}

/// Applies the changes of a reboot to the disk: `/run` is empty, and the boot id is new. `boots` is the number of this boot.
///
/// # Errors
/// Returns an error with the file's name if it cannot be written or removed.
pub fn reboot(spec: &MachineSpec, boots: u32) -> Result<()> {
    let root = spec.root();
    let run = root.join("run");
    std::fs::remove_dir_all(&run).with_context(|| format!("cannot empty {}", run.display()))?;
    make(&run)?;
    write(&root, BOOT_ID, &boot_id(&spec.instance_id, boots))
}

/// Creates the folder that comes first in the agent's PATH.
///
/// # Errors
/// Returns an error if the folder or the link cannot be created.
pub fn install_shim(folder: &Path, programs: &Programs) -> Result<()> {
    make(folder)?;
    let link = folder.join("systemctl");
    std::os::unix::fs::symlink(&programs.systemctl, &link).with_context(|| format!("cannot link {}", link.display()))
}

/// Writes a topology with one socket, one NUMA node and two threads per core, all online.
fn processors(root: &Path, vcpus: u32) -> Result<()> {
    let last = vcpus.saturating_sub(1);
    write(root, "sys/devices/system/cpu/online", &format!("0-{last}\n"))?;
    write(root, "sys/devices/system/node/online", "0\n")?;
    write(root, "sys/devices/system/node/node0/cpulist", &format!("0-{last}\n"))?;
    for cpu in 0..vcpus {
        let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        write(root, &format!("{topology}/core_id"), &format!("{}\n", cpu / 2))?;
        write(root, &format!("{topology}/physical_package_id"), "0\n")?;
        make(&root.join(format!("sys/devices/system/node/node0/cpu{cpu}")))?;
    }
    Ok(())
}

/// Returns a UUID from the instance id and the number of the boot, with a line break as the kernel writes it.
fn boot_id(instance_id: &str, boots: u32) -> String {
    let digits = format!("{:0>32}", instance_id.trim_start_matches("i-"));
    let cut = |from: usize, to: usize| digits.get(from..to).unwrap_or_default().to_owned();
    let uuid = [format!("{boots:08x}"), cut(8, 12), cut(12, 16), cut(16, 20), cut(20, 32)].join("-");
    uuid + "\n"
}

/// Writes a file below the root, with its folders.
pub(super) fn write(root: &Path, path: &str, text: &str) -> Result<()> {
    let file = root.join(path);
    if let Some(folder) = file.parent() {
        make(folder)?;
    }
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn make(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}
