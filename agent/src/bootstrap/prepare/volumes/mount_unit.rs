//! Mount units of systemd for volumes and folders.

use std::fmt::Write as _;

/// A mount unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MountUnit {
    /// Name, which systemd derives from the path.
    pub(super) name: String,
    /// Content of the unit file.
    pub(super) text: String,
}

impl MountUnit {
    /// Mounts the file system with this UUID. The UUID stays when the device gets another name.
    pub(super) fn of_volume(device: &str, uuid: &str, file_system: &str, target: &str) -> Self {
        Self::new(
            device,
            target,
            &format!("What=/dev/disk/by-uuid/{uuid}\nType={file_system}\nOptions=defaults,noatime\n"),
        )
    }

    /// Mounts a folder of a volume on another folder.
    pub(super) fn of_folder(device: &str, folder: &str, target: &str) -> Self {
        Self::new(device, target, &format!("What={folder}\nType=none\nOptions=bind\n"))
    }

    fn new(device: &str, target: &str, settings: &str) -> Self {
        let text = format!(
            "[Unit]\nDescription=EBS volume {device} on {target}\nBefore=containerd.service kubelet.service\n\n\
             [Mount]\nWhere={target}\n{settings}\n[Install]\nWantedBy=multi-user.target\n"
        );
        Self { name: name(target), text }
    }
}

/// Returns the name of the mount unit of an absolute path without superfluous slashes.
pub(super) fn name(path: &str) -> String {
    let mut name = String::new();
    for (index, byte) in path.trim_matches('/').bytes().enumerate() {
        match byte {
            b'/' => name.push('-'),
            b'.' if index > 0 => name.push('.'),
            b':' | b'_' => name.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
            _ => drop(write!(name, "\\x{byte:02x}")),
        }
    }
    name + ".mount"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names are those of `systemd-escape --path --suffix=mount`.
    #[test]
    fn name_escapes_as_systemd_does() {
        for (path, expected) in [
            ("/var/lib/containerd", "var-lib-containerd.mount"),
            ("/mnt/kerf-volumes/xvdb", r"mnt-kerf\x2dvolumes-xvdb.mount"),
            ("/.hidden/a.b", r"\x2ehidden-a.b.mount"),
            ("/data_1:x", "data_1:x.mount"),
            ("/a@b+c", r"a\x40b\x2bc.mount"),
        ] {
            assert_eq!(name(path), expected, "{path}");
        }
    }
}
