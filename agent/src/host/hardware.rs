//! Memory and devices of the machine, as far as bootstrap depends on them.

use std::fs;
use std::path::Path;

use super::{ContainerdVersion, Host, HostError};

/// PCI vendor id of NVIDIA.
pub(crate) const NVIDIA: &str = "0x10de";

impl Host {
    /// Returns the machine's memory in bytes: its online blocks, else the total of `/proc/meminfo`; 0 when neither is
    /// available.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let blocks = online_blocks(&self.at("/sys/devices/system/memory"));
        let total = || fs::read_to_string(self.at("/proc/meminfo")).ok().and_then(|text| meminfo_total(&text));
        blocks.or_else(total).unwrap_or_default()
    }

    /// Reports whether a PCI device of this vendor is attached. The id has the kernel's form, such as `0x10de`.
    #[must_use]
    pub fn has_pci_vendor(&self, vendor: &str) -> bool {
        let Ok(devices) = fs::read_dir(self.at("/sys/bus/pci/devices")) else { return false };
        let said = |device: fs::DirEntry| fs::read_to_string(device.path().join("vendor")).ok();
        devices.flatten().filter_map(said).any(|found| found.trim() == vendor)
    }

    /// Returns the version of containerd: from a file of the image, else from the program; `None` when neither has one, as on a
    /// machine without containerd.
    ///
    /// # Errors
    /// [`HostError::File`] for a file that exists but cannot be read.
    pub async fn containerd_version(&self) -> Result<Option<ContainerdVersion>, HostError> {
        let text = match self.read_text("/etc/eks/containerd-version.txt")? {
            Some(text) => text,
            None => self.output("containerd", &["--version"]).await.unwrap_or_default(),
        };
        Ok(ContainerdVersion::parse(&text))
    }
}

/// Returns the bytes of the online memory blocks below `folder`; `None` where the kernel lists no blocks.
fn online_blocks(folder: &Path) -> Option<u64> {
    let size = fs::read_to_string(folder.join("block_size_bytes")).ok()?;
    let size = u64::from_str_radix(size.trim(), 16).ok()?;
    let is_online = |entry: &fs::DirEntry| {
        let is_block = entry.file_name().to_string_lossy().strip_prefix("memory").is_some_and(is_number);
        is_block && fs::read_to_string(entry.path().join("online")).is_ok_and(|online| online.trim() == "1")
    };
    let online = fs::read_dir(folder).ok()?.flatten().filter(is_online).count();
    (online > 0).then(|| size.saturating_mul(online as u64))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn meminfo_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes.saturating_mul(1024))
}
