//! What the kernel says of the machine's memory and devices, as far as bootstrap decides by it.

use std::fs;
use std::path::Path;

use super::{ContainerdVersion, Host, HostError};

/// NVIDIA, as a vendor of PCI devices.
pub(crate) const NVIDIA: &str = "0x10de";

impl Host {
    /// Memory of the machine, bytes: blocks that are online, else what `/proc/meminfo` totals; 0 when neither says it.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let blocks = online_blocks(&self.at("/sys/devices/system/memory"));
        let total = || fs::read_to_string(self.at("/proc/meminfo")).ok().and_then(|text| meminfo_total(&text));
        blocks.or_else(total).unwrap_or_default()
    }

    /// Whether a PCI device of this vendor is attached; the id is written as the kernel does, such as `0x10de`.
    #[must_use]
    pub fn has_pci_vendor(&self, vendor: &str) -> bool {
        let Ok(devices) = fs::read_dir(self.at("/sys/bus/pci/devices")) else { return false };
        let said = |device: fs::DirEntry| fs::read_to_string(device.path().join("vendor")).ok();
        devices.flatten().filter_map(said).any(|found| found.trim() == vendor)
    }

    /// The version of containerd: written down by the image, else asked of the program; `None` when neither says one,
    /// as on a machine without containerd.
    ///
    /// # Errors
    /// [`HostError::File`] for a file that is there but cannot be read.
    pub async fn containerd_version(&self) -> Result<Option<ContainerdVersion>, HostError> {
        let text = match self.read_text("/etc/eks/containerd-version.txt")? {
            Some(text) => text,
            None => self.output("containerd", &["--version"]).await.unwrap_or_default(),
        };
        Ok(ContainerdVersion::parse(&text))
    }
}

/// Bytes of the memory blocks below `folder` that are online; `None` where the kernel lists no blocks.
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
