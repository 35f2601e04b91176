//! Folders that a NodeConfig names: normalized, and outside of those that a machine needs to boot.

/// Folders of the kernel and of the operating system. A disk that is mounted there hides what the machine needs.
const RESERVED: [&str; 11] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr"];

/// Returns the path without superfluous slashes; `None` unless it is absolute, below the root, and without `.`, `..` and control
/// characters.
pub(super) fn normalized(text: &str) -> Option<String> {
    let names: Vec<&str> = text.strip_prefix('/')?.split('/').filter(|name| !name.is_empty()).collect();
    let is_plain = |name: &&str| !matches!(*name, "." | "..") && !name.contains(char::is_control);
    (!names.is_empty() && names.iter().all(is_plain)).then(|| format!("/{}", names.join("/")))
}

/// Returns the normalized path of a folder on which a disk may be mounted.
pub(super) fn mount_point(text: &str) -> Option<String> {
    let is_within = |path: &str, folder: &str| {
        path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    normalized(text).filter(|path| path != "/var" && !RESERVED.iter().any(|reserved| is_within(path, reserved)))
}
