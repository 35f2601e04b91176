//! Layout of cgroups, and the folders of pods: cgroup v2, v1 and both together, with the folder names of both of kubelet's
//! cgroup drivers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const MOUNT: &str = "sys/fs/cgroup";

/// Hierarchy of each resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) cpu: Cpu,
    pub(super) memory: Memory,
    /// Hierarchy of pressure, which v2 alone reports, even without controllers.
    pub(super) pressure: Option<PathBuf>,
}

/// Hierarchy of CPU usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cpu {
    /// v2: one file.
    Unified(PathBuf),
    /// v1: the controllers for time and for quotas, which usually are one folder with two names.
    Split { time: PathBuf, quota: PathBuf },
}

/// Hierarchy of memory usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Unified(PathBuf),
    V1(PathBuf),
}

impl Memory {
    pub(super) fn folder(&self) -> &Path {
        match self {
            Self::Unified(path) | Self::V1(path) => path,
        }
    }
}

impl Layout {
    /// Detects the layout of the machine below `root`.
    pub(super) fn detect(root: &Path) -> Self {
        let top = root.join(MOUNT);
        let controllers = |folder: &Path| fs::read_to_string(folder.join("cgroup.controllers")).ok();
        let (unified, controllers, pure) = match controllers(&top) {
            Some(found) => (Some(top.clone()), found, true),
            None => {
                let beside = top.join("unified");
                let found = controllers(&beside);
                (found.is_some().then_some(beside), found.unwrap_or_default(), false)
            }
        };
        let has = |name: &str| unified.clone().filter(|_| pure || controllers.split_whitespace().any(|it| it == name));
        let v1 = |name: &str| Some(top.join(name)).filter(|folder| folder.is_dir());
        let together = || v1("cpu,cpuacct").unwrap_or_else(|| top.join("cpu"));
        Self {
            cpu: match has("cpu") {
                Some(folder) => Cpu::Unified(folder),
                None => Cpu::Split {
                    time: v1("cpuacct").unwrap_or_else(together),
                    quota: v1("cpu").unwrap_or_else(together),
                },
            },
            memory: has("memory").map_or_else(|| Memory::V1(top.join("memory")), Memory::Unified),
            pressure: unified,
        }
    }

    /// Returns the folders of current pods by UID, relative to each hierarchy. `base` is kubelet's `cgroupRoot`.
    pub(super) fn pods(&self, base: &str) -> BTreeMap<String, PathBuf> {
        let mut found = BTreeMap::new();
        for start in starts(base) {
            collect(self.memory.folder(), start, true, &mut found);
        }
        found
    }
}

/// Returns the folders with all pods of kubelet's two cgroup drivers: `BASE/kubepods`, and systemd's form with nested names.
fn starts(base: &str) -> [PathBuf; 2] {
    let parts: Vec<&str> = base.split('/').filter(|part| !part.is_empty() && *part != "..").collect();
    let mut nested = PathBuf::new();
    let mut name = String::new();
    for part in parts.iter().copied().chain(["kubepods"]) {
        if !name.is_empty() {
            name.push('-');
        }
        name.push_str(part);
        nested.push(format!("{name}.slice"));
    }
    [parts.iter().collect::<PathBuf>().join("kubepods"), nested]
}

fn collect(hierarchy: &Path, folder: PathBuf, classes: bool, found: &mut BTreeMap<String, PathBuf>) {
    let Ok(entries) = fs::read_dir(hierarchy.join(&folder)) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Some(uid) = pod_uid(name) {
            found.insert(uid, folder.join(name));
        } else if classes && is_class(name) {
            collect(hierarchy, folder.join(name), false, found);
        }
    }
}

/// Reports whether it is the folder of a quality-of-service class; guaranteed pods have none.
fn is_class(name: &str) -> bool {
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let class = name.rsplit('-').next().unwrap_or(name);
    matches!(class, "burstable" | "besteffort")
}

/// Returns the UID of a pod's folder, with dashes: `podUID`, or `...-podUID.slice` with underscores in it.
pub(super) fn pod_uid(name: &str) -> Option<String> {
    let uid = match name.strip_suffix(".slice") {
        Some(slice) => slice.rsplit_once("-pod")?.1,
        None => name.strip_prefix("pod")?,
    };
    let plausible = uid.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_'));
    (plausible && uid.len() >= 10).then(|| uid.replace('_', "-"))
}

/// Returns the folders of containers in a pod's folder: every folder, including the sandbox.
pub(super) fn containers(pod: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(pod) else { return Vec::new() };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_uid_parses_the_folders_of_both_drivers() {
        let uid = "8f14e45f-ceea-467a-9575-7dbd5c6d4b6a";
        for name in [
            "pod8f14e45f-ceea-467a-9575-7dbd5c6d4b6a",
            "kubepods-pod8f14e45f_ceea_467a_9575_7dbd5c6d4b6a.slice",
            "kubepods-burstable-pod8f14e45f_ceea_467a_9575_7dbd5c6d4b6a.slice",
            "kubelet-kubepods-besteffort-pod8f14e45f_ceea_467a_9575_7dbd5c6d4b6a.slice",
        ] {
            assert_eq!(pod_uid(name).as_deref(), Some(uid), "{name}");
        }
        let config_hash = "kubepods-burstable-pod0123456789abcdef0123456789abcdef.slice";
        assert_eq!(pod_uid(config_hash).as_deref(), Some("0123456789abcdef0123456789abcdef"));
        for name in ["pod", "podman", "kubepods-burstable.slice", "burstable", "pod../../etc", "-pod.slice", ""] {
            assert_eq!(pod_uid(name), None, "{name}");
        }
        assert!(
            ["burstable", "kubepods-besteffort.slice", "a-kubepods-burstable.slice"].map(is_class).iter().all(|is| *is)
        );
        assert!(!is_class("kubepods.slice"));
    }

    #[test]
    fn starts_returns_the_folders_of_both_drivers() {
        let text = |base: &str| starts(base).map(|path| path.to_string_lossy().into_owned());
        assert_eq!(text("/"), ["kubepods", "kubepods.slice"]);
        assert_eq!(text("/a/b"), ["a/b/kubepods", "a.slice/a-b.slice/a-b-kubepods.slice"]);
        assert_eq!(text("/../a"), text("a"));
    }
}
