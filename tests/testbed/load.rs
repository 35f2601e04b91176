//! Simulated resource usage of the pods on a machine: cgroups and some files of `/proc`, as plain files below its root. The
//! node simulator runs no containers, so there is no real usage.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinHandle;

/// Update interval of the counters. An agent's sample consists of two reads that are at least one second apart.
const COUNT: Duration = Duration::from_millis(100);
const MEMINFO: &str = "proc/meminfo";
/// Pressure file without stalls.
const STALL: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=10\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";

/// Pod and its usage.
#[derive(Clone, Debug)]
pub struct Used {
    /// UID of the pod.
    pub uid: String,
    /// Number of its containers, which share the usage equally.
    pub containers: u64,
    /// CPU usage in millicores.
    pub cpu: u64,
    /// Memory usage in bytes.
    pub memory: u64,
}

/// Simulated usage of pods on a machine; dropping it stops the updates.
pub struct Load(JoinHandle<()>);

impl Drop for Load {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Load {
    /// Starts the simulated usage of these pods on the machine below `root`.
    ///
    /// # Errors
    /// Returns an error if the files cannot be written, or if `/proc/meminfo` has no total memory.
    pub fn start(root: &Path, pods: Vec<Used>) -> Result<Self> {
        let (root, started) = (PathBuf::from(root), Instant::now());
        let total = total(&root)?;
        count(&root, total, &pods, Duration::ZERO)?;
        Ok(Self(tokio::spawn(async move {
            loop {
                tokio::time::sleep(COUNT).await;
                if let Err(error) = count(&root, total, &pods, started.elapsed()) {
                    log::warn!("the load is not counted any more: {error:#}");
                    return;
                }
            }
        })))
    }
}

/// Writes the kernel's counters for a machine with `total` bytes of memory after these pods have run for `worked`.
///
/// # Errors
/// Returns an error if the files cannot be written.
pub fn count(root: &Path, total: u64, pods: &[Used], worked: Duration) -> Result<()> {
    let top = root.join("sys/fs/cgroup");
    write(&top.join("cgroup.controllers"), "cpuset cpu io memory hugetlb pids\n")?;
    write(&top.join("cpu.stat"), &cpu(pods.iter().map(|pod| pod.cpu).sum(), worked))?;
    for pod in pods {
        let uid = pod.uid.replace('-', "_");
        let folder = top.join(format!("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice"));
        cgroup(&folder, pod.cpu, pod.memory, worked)?;
        for number in 0..pod.containers {
            let container = folder.join(format!("cri-containerd-{number:064x}.scope"));
            cgroup(&container, pod.cpu / pod.containers, pod.memory / pod.containers, worked)?;
        }
    }
    let used: u64 = pods.iter().map(|pod| pod.memory).sum();
    let (total, free) = (total >> 10, total.saturating_sub(used) >> 10);
    write(&root.join(MEMINFO), &format!("MemTotal: {total} kB\nMemFree: {free} kB\nInactive(file): 0 kB\n"))?;
    let proc = root.join("proc");
    write(&proc.join("vmstat"), "nr_free_pages 1\noom_kill 0\n")?;
    write(&proc.join("stat"), "cpu  100 0 0 1000 0 0 0 0 0 0\n")?;
    ["cpu", "memory", "io"].into_iter().try_for_each(|name| write(&proc.join("pressure").join(name), STALL))
}

fn total(root: &Path) -> Result<u64> {
    let text = fs::read_to_string(root.join(MEMINFO)).with_context(|| format!("cannot read {MEMINFO}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).context("no MemTotal")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>().with_context(|| format!("MemTotal is {line}"))? << 10)
}

fn cpu(millis: u64, worked: Duration) -> String {
    let micros = u128::from(millis) * worked.as_micros() / 1000;
    format!("usage_usec {micros}\nuser_usec {micros}\nsystem_usec 0\nnr_periods 10\nnr_throttled 0\nthrottled_usec 0\n")
}

fn cgroup(folder: &Path, millis: u64, memory: u64, worked: Duration) -> Result<()> {
    let files = [
        ("cpu.stat", cpu(millis, worked)),
        ("memory.current", format!("{memory}\n")),
        ("memory.stat", format!("anon {memory}\nfile 0\ninactive_file 0\nactive_file 0\n")),
        ("memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n".to_owned()),
        ("memory.pressure", STALL.to_owned()),
        ("io.pressure", STALL.to_owned()),
    ];
    files.iter().try_for_each(|(name, text)| write(&folder.join(name), text))
}

/// Writes a file in place, as the kernel does: the agent keeps these files open and reads them concurrently.
fn write(path: &Path, text: &str) -> Result<()> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let written = OpenOptions::new().write(true).create(true).truncate(false).open(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}
