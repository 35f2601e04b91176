//! Artificial machine: cgroups in any layout and the files of `/proc`, with all counters under control of the test.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Layout of the machine's cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// v2 with kubelet's systemd driver, as in current images.
    Systemd,
    /// v2 with the cgroupfs driver.
    Cgroupfs,
    /// v1 with one folder for both CPU controllers, as in older images.
    V1Together,
    /// v1 with one folder for each CPU controller.
    V1Apart,
    /// v1, and beside it v2 without controllers.
    Hybrid,
}

pub const KINDS: [Kind; 5] = [Kind::Systemd, Kind::Cgroupfs, Kind::V1Together, Kind::V1Apart, Kind::Hybrid];

/// Counters of a cgroup.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub cpu_usec: u64,
    pub periods: u64,
    pub throttled: u64,
    pub memory: u64,
    pub inactive: u64,
    pub oom_kills: u64,
    /// Microseconds of waiting for memory and disks.
    pub memory_wait: u64,
    pub io_wait: u64,
}

/// Pod with its own counters and those of its containers.
#[derive(Clone, Debug)]
pub struct PodTree {
    pub class: &'static str,
    pub own: Counters,
    pub containers: Vec<Counters>,
}

impl PodTree {
    pub fn new(class: &'static str, containers: usize) -> Self {
        Self { class, own: Counters::default(), containers: vec![Counters::default(); containers] }
    }
}

/// The artificial machine.
pub struct Tree {
    pub root: TempDir,
    pub kind: Kind,
    pub node: Counters,
    pub pods: BTreeMap<String, PodTree>,
    /// Support of the kernel for pressure (PSI). Kernels can be built without PSI.
    pub pressure: bool,
}

pub fn uid(number: usize) -> String {
    format!("{:08x}-ceea-467a-9575-{number:012x}", number.wrapping_mul(0x9e37_79b9) as u32)
}

impl Tree {
    pub fn new(kind: Kind) -> Self {
        let pressure = !matches!(kind, Kind::V1Together | Kind::V1Apart);
        Self { root: tempfile::tempdir().unwrap(), kind, node: Counters::default(), pods: BTreeMap::new(), pressure }
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    pub fn pod(&mut self, uid: &str) -> &mut PodTree {
        self.pods.get_mut(uid).unwrap()
    }

    fn cgroup(&self) -> PathBuf {
        self.path().join("sys/fs/cgroup")
    }

    fn is_unified(&self) -> bool {
        matches!(self.kind, Kind::Systemd | Kind::Cgroupfs)
    }

    /// Returns the folder of a pod below a hierarchy.
    pub fn folder(&self, uid: &str) -> String {
        let class = self.pods[uid].class;
        match (self.kind, class) {
            (Kind::Systemd, "") => format!("kubepods.slice/kubepods-pod{}.slice", uid.replace('-', "_")),
            (Kind::Systemd, class) => {
                let slice = format!("kubepods-{class}");
                format!("kubepods.slice/{slice}.slice/{slice}-pod{}.slice", uid.replace('-', "_"))
            }
            (_, "") => format!("kubepods/pod{uid}"),
            (_, class) => format!("kubepods/{class}/pod{uid}"),
        }
    }

    /// Returns the folder of the memory hierarchy, in which the sampler finds pods.
    pub fn memory(&self) -> PathBuf {
        if self.is_unified() { self.cgroup() } else { self.cgroup().join("memory") }
    }

    pub fn remove(&mut self, uid: &str) {
        let folder = self.memory().join(self.folder(uid));
        self.pods.remove(uid);
        fs::remove_dir_all(folder).unwrap();
    }

    /// Writes all files.
    pub fn write(&self) {
        self.write_proc();
        if self.is_unified() {
            write(&self.cgroup().join("cgroup.controllers"), "cpuset cpu io memory hugetlb pids\n");
        } else if self.kind == Kind::Hybrid {
            write(&self.cgroup().join("unified/cgroup.controllers"), "hugetlb\n");
        }
        self.write_cgroup("", &self.node);
        for (uid, pod) in &self.pods {
            let folder = self.folder(uid);
            self.write_cgroup(&folder, &pod.own);
            for (number, container) in pod.containers.iter().enumerate() {
                let name = match self.kind {
                    Kind::Systemd => format!("cri-containerd-{number:064x}.scope"),
                    _ => format!("{number:064x}"),
                };
                self.write_cgroup(&format!("{folder}/{name}"), container);
            }
        }
    }

    fn write_proc(&self) {
        let proc = self.path().join("proc");
        let kib = |bytes: u64| bytes / 1024;
        let (total, used) = (8 << 30, self.node.memory);
        let meminfo = format!(
            "MemTotal: {} kB\nMemFree: {} kB\nInactive(file): {} kB\n",
            kib(total),
            kib(total - used),
            kib(self.node.inactive)
        );
        write(&proc.join("meminfo"), &meminfo);
        write(&proc.join("vmstat"), &format!("nr_free_pages 1\noom_kill {}\n", self.node.oom_kills));
        write(&proc.join("stat"), &format!("cpu  {} 0 0 1000 0 0 0 0 0 0\n", self.node.cpu_usec / 10_000));
        if self.pressure {
            for (name, wait) in [("cpu", 0), ("memory", self.node.memory_wait), ("io", self.node.io_wait)] {
                write(&proc.join("pressure").join(name), &stall(wait));
            }
        }
    }

    fn write_cgroup(&self, folder: &str, it: &Counters) {
        let root = folder.is_empty();
        let top = self.cgroup();
        if self.is_unified() {
            let here = top.join(folder);
            let quota = format!("nr_periods {}\nnr_throttled {}\nthrottled_usec 5\n", it.periods, it.throttled);
            write(&here.join("cpu.stat"), &format!("usage_usec {}\nuser_usec 1\nsystem_usec 1\n{quota}", it.cpu_usec));
            if !root {
                write(&here.join("memory.current"), &format!("{}\n", it.memory));
                write(
                    &here.join("memory.stat"),
                    &format!("anon 1\nfile 2\ninactive_file {}\nactive_file 3\n", it.inactive),
                );
                write(
                    &here.join("memory.events"),
                    &format!("low 0\nhigh 0\nmax 4\noom 9\noom_kill {}\n", it.oom_kills),
                );
            }
            self.write_pressure(&here, it);
            return;
        }
        let (time, quota) = match self.kind {
            Kind::V1Together => ("cpu,cpuacct", "cpu,cpuacct"),
            _ => ("cpuacct", "cpu"),
        };
        write(&top.join(time).join(folder).join("cpuacct.usage"), &format!("{}\n", it.cpu_usec * 1000));
        let stat = format!("nr_periods {}\nnr_throttled {}\nthrottled_time 5\n", it.periods, it.throttled);
        write(&top.join(quota).join(folder).join("cpu.stat"), &stat);
        let here = top.join("memory").join(folder);
        write(&here.join("memory.usage_in_bytes"), &format!("{}\n", it.memory));
        write(&here.join("memory.stat"), &format!("inactive_file 1\ntotal_inactive_file {}\n", it.inactive));
        write(
            &here.join("memory.oom_control"),
            &format!("oom_kill_disable 0\nunder_oom 0\noom_kill {}\n", it.oom_kills),
        );
        if self.kind == Kind::Hybrid {
            self.write_pressure(&top.join("unified").join(folder), it);
        }
    }

    fn write_pressure(&self, here: &Path, it: &Counters) {
        if self.pressure {
            write(&here.join("memory.pressure"), &stall(it.memory_wait));
            write(&here.join("io.pressure"), &stall(it.io_wait));
        }
    }
}

fn stall(some: u64) -> String {
    let averages = "avg10=0.00 avg60=0.00 avg300=0.00";
    format!("some {averages} total={some}\nfull {averages} total={}\n", some / 2)
}

/// Writes a file in place, as the kernel does: readers with an open file see the new text.
pub fn write(path: &Path, text: &str) {
    if fs::write(path, text).is_err() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}
