//! The kernel's own cgroups on this machine: a process of predictable CPU and memory use in the folder of a pod. The test is
//! skipped where no cgroup can be made (not root, no v1 hierarchies, no cgroup at all).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agent::usage::{Sampler, UsageSample};

use super::tree::uid;

const CGROUPS: &str = "/sys/fs/cgroup";
const MIB: u64 = 1 << 20;

/// Folders of one pod in every existing hierarchy; deleted on drop.
struct Pod {
    folders: Vec<PathBuf>,
    base: String,
}

impl Pod {
    /// Creates the folders; returns `None` where no cgroup can be made.
    fn make() -> Option<Self> {
        let base = format!("kerf-usage-{}", std::process::id());
        let unified = Path::new(CGROUPS).join("cgroup.controllers").exists();
        let hierarchies = if unified { vec![""] } else { vec!["cpu", "cpuacct", "cpu,cpuacct", "memory", "unified"] };
        let mut pod = Self { folders: Vec::new(), base };
        for hierarchy in hierarchies {
            let top = Path::new(CGROUPS).join(hierarchy);
            if !top.is_dir() || fs::symlink_metadata(&top).is_ok_and(|it| it.is_symlink()) {
                continue;
            }
            let folder = top.join(&pod.base).join("kubepods").join(format!("pod{}", uid(1)));
            fs::create_dir_all(&folder).ok()?;
            pod.folders.push(folder);
        }
        (!pod.folders.is_empty()).then_some(pod)
    }

    /// Starts a process in the cgroup that copies zeros forever. The process uses a whole CPU and a buffer of 48 MiB.
    fn feed(&self) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", "for f in \"$@\"; do echo $$ > $f; done; exec dd if=/dev/zero of=/dev/null bs=48M", "sh"]);
        command.args(self.folders.iter().map(|folder| folder.join("cgroup.procs")));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Reports whether the process is in the cgroup.
    fn has(&self, child: &Child) -> bool {
        let inside = |folder: &PathBuf| fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        self.folders.iter().all(|folder| inside(folder).lines().any(|line| line == child.id().to_string()))
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        for folder in &self.folders {
            for folder in folder.ancestors().take(3) {
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

/// Returns user and system time of a process, in ticks of 10 ms.
fn ticks(child: &Child) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn sampler_measures_cpu_and_memory_of_a_real_process() {
    let Some(pod) = Pod::make() else {
        skip::report("no cgroup can be made here");
        return;
    };
    let mut child = pod.feed();
    let clock = Instant::now();
    // The process has allocated its buffer once it has used some CPU.
    while ticks(&child) < 20 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let measured = pod.has(&child).then(|| measure(&pod, &child, clock));
    child.kill().unwrap();
    child.wait().unwrap();
    drop(pod);
    let Some((sample, took, elapsed)) = measured else {
        skip::report("no process may be moved into a cgroup here");
        return;
    };
    let (_, pod) = sample.pods.iter().find(|(it, _)| *it == uid(1)).expect("the pod is found");
    // The comparison is with the kernel's other account of the same process, whose tick is 10 ms, never with a clock.
    let counted = pod.cpu.unwrap() as f64 * elapsed.as_secs_f64() / 1e9;
    let slack = 0.06 + took * 0.1;
    assert!((counted - took).abs() <= slack, "{counted} s in the cgroup, {took} s of the process");
    assert!(pod.cpu.unwrap() <= sample.node.cpu.unwrap() + sample.node.cpu.unwrap() / 10, "{sample:?}");
    if let Some(memory) = pod.memory {
        assert!((48 * MIB..96 * MIB).contains(&memory), "{} MiB", memory / MIB);
    }
    assert!(sample.node.memory.unwrap() > 48 * MIB && sample.node.memory_total > sample.node.memory.unwrap());
}

/// Takes samples until the process has used half a second of CPU in between. Returns the last sample, the CPU time in seconds,
/// and the time between the samples.
fn measure(pod: &Pod, child: &Child, clock: Instant) -> (UsageSample, f64, Duration) {
    let mut sampler = Sampler::new(Path::new("/"), &pod.base);
    let (before, from) = (ticks(child), clock.elapsed());
    sampler.sample(from);
    while ticks(child) < before + 50 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (after, to) = (ticks(child), clock.elapsed());
    let sample = sampler.sample(to);
    (sample, (after - before) as f64 / 100.0, to - from)
}
