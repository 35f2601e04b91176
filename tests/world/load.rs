//! What a machine's kernel would say of the pods on it: their cgroups and a few files of `/proc`, as plain files below its root. In a
//! machine room nothing runs, so nothing would use anything.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinHandle;

/// The kernel counts all the time; who reads takes two looks a second apart at the least.
const COUNT: Duration = Duration::from_millis(100);
const MEMINFO: &str = "proc/meminfo";
/// Nobody waited for anything.
const STALL: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=10\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";

/// One pod and what it uses.
#[derive(Clone, Debug)]
pub struct Used {
    /// Its UID.
    pub uid: String,
    /// Its containers, which share what it uses.
    pub containers: u64,
    /// Thousandths of a CPU.
    pub cpu: u64,
    /// Bytes.
    pub memory: u64,
}

/// Pods at work on a machine, until this is dropped.
pub struct Load(JoinHandle<()>);

impl Drop for Load {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Load {
    /// Puts these pods to work on the machine below `root`.
    ///
    /// # Errors
    /// When the files cannot be written, or do not say how much memory the machine has.
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

/// Writes what the kernel of a machine with so many bytes of memory has counted when these pods have worked for so long.
///
/// # Errors
/// When the files cannot be written.
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

/// In place and at once, as the kernel does: the agent keeps these files open, and reads while this writes.
fn write(path: &Path, text: &str) -> Result<()> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let written = OpenOptions::new().write(true).create(true).truncate(false).open(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}
