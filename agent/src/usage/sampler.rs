//! Sampler of the machine and its pods: converts counters into amounts since the last sample. The sampler keeps no older state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cgroups::{Cpu, Layout, Memory, containers};
use super::files::Reader;
use super::parse::{self, Stall};
use super::windows::Part;
use crate::host::files::FileBackup;

/// Number of samples after which a pod's containers are listed again; those of a new pod are listed at each sample.
const ROUNDS: u32 = 6;

/// A sample of the machine and its pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageSample {
    /// The machine.
    pub node: NodeSample,
    /// Its pods by UID, where at least CPU or memory could be read.
    pub pods: Vec<(String, PodSample)>,
}

/// Usage of the machine since the last sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSample {
    /// CPU in nanocores.
    pub cpu: Option<u64>,
    /// Working set in bytes.
    pub memory: Option<u64>,
    /// Total memory in bytes.
    pub memory_total: u64,
    /// Stall times of processes.
    pub pressure: Option<[Part; 5]>,
    /// Quota periods, summed over the most throttled container of each pod.
    pub throttled: Part,
    /// Processes killed for lack of memory.
    pub oom_kills: u64,
}

/// Usage of a pod since the last sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSample {
    /// CPU in nanocores; `None` at the first sample.
    pub cpu: Option<u64>,
    /// Working set in bytes.
    pub memory: Option<u64>,
    /// Time in which some process was stalled on memory or I/O, the longer of both.
    pub pressure: Option<Part>,
    /// Quota periods of the most throttled container.
    pub throttled: Part,
    /// Processes killed for lack of memory.
    pub oom_kills: u64,
}

/// A counter with the time of its last read.
#[derive(Clone, Copy, Debug, Default)]
struct Meter(Option<(u64, Duration)>);

impl Meter {
    /// Returns the increase and its duration. Returns `None` at the first read, after a decrease, or when no time has passed.
    fn grown(&mut self, value: Option<u64>, now: Duration) -> Option<(u64, Duration)> {
        let value = value?;
        let (before, at) = self.0.replace((value, now))?;
        let (more, time) = (value.checked_sub(before)?, now.checked_sub(at)?);
        (!time.is_zero()).then_some((more, time))
    }

    /// Converts nanoseconds of CPU to nanocores.
    fn rate(&mut self, nanoseconds: Option<u64>, now: Duration) -> Option<u64> {
        let (more, time) = self.grown(nanoseconds, now)?;
        u64::try_from(u128::from(more) * 1_000_000_000 / time.as_nanos().max(1)).ok()
    }

    /// Converts microseconds of stalls to a part of the time.
    fn waited(&mut self, microseconds: Option<u64>, now: Duration) -> Option<Part> {
        let (part, time) = self.grown(microseconds, now)?;
        Some(Part { part, whole: u64::try_from(time.as_micros()).unwrap_or(u64::MAX) })
    }
}

/// A pressure file with its meters.
#[derive(Debug)]
struct Waits {
    file: FileBackup,
    some: Meter,
    full: Meter,
}

impl Waits {
    fn new(file: PathBuf) -> Self {
        Self { file: FileBackup::new(file), some: Meter::default(), full: Meter::default() }
    }

    fn read(&mut self, reader: &mut Reader, now: Duration) -> (Option<Part>, Option<Part>) {
        let Stall { some, full } = reader.read(&mut self.file).map(parse::stall).unwrap_or_default();
        (self.some.waited(some, now), self.full.waited(full, now))
    }
}

/// Meters of quota periods.
#[derive(Debug, Default)]
struct Quota {
    periods: Meter,
    throttled: Meter,
}

impl Quota {
    /// Reads a `cpu.stat` of either version.
    fn take(&mut self, text: Option<&[u8]>, now: Duration) -> Part {
        let grown = |meter: &mut Meter, key| {
            let value = text.and_then(|text| parse::keyed(text, key));
            meter.grown(value, now).map_or(0, |(more, _)| more)
        };
        let whole = grown(&mut self.periods, "nr_periods");
        let part = grown(&mut self.throttled, "nr_throttled");
        Part { part: part.min(whole), whole }
    }
}

/// A counter of OOM kills. A counter that appears between two samples starts from zero.
#[derive(Debug)]
struct Kills {
    file: FileBackup,
    meter: Meter,
}

impl Kills {
    fn new(file: PathBuf, since: Option<Duration>) -> Self {
        Self { file: FileBackup::new(file), meter: Meter(since.map(|at| (0, at))) }
    }

    fn read(&mut self, reader: &mut Reader, now: Duration) -> u64 {
        let kills = reader.read(&mut self.file).and_then(|text| parse::keyed(text, "oom_kill"));
        self.meter.grown(kills, now).map_or(0, |(more, _)| more)
    }
}

#[derive(Debug)]
struct ContainerMeters {
    stat: FileBackup,
    quota: Quota,
    /// Counter of the container: v1 counts kills for each cgroup alone.
    kills: Option<Kills>,
}

#[derive(Debug)]
struct PodMeters {
    relative: PathBuf,
    time: FileBackup,
    cpu: Meter,
    /// Second file of v1, which has time and quota in two files.
    throttling: Option<FileBackup>,
    quota: Quota,
    current: FileBackup,
    stat: FileBackup,
    inactive: &'static str,
    kills: Option<Kills>,
    memory_waits: Option<Waits>,
    io_waits: Option<Waits>,
    containers: BTreeMap<PathBuf, ContainerMeters>,
    rounds: u32,
}

impl PodMeters {
    fn new(layout: &Layout, relative: &Path, since: Option<Duration>) -> Self {
        let memory = layout.memory.folder().join(relative);
        let unified = matches!(layout.memory, Memory::Unified(_));
        let (time, throttling) = match &layout.cpu {
            Cpu::Unified(folder) => (folder.join(relative).join("cpu.stat"), None),
            Cpu::Split { time, quota } => {
                (time.join(relative).join("cpuacct.usage"), Some(quota.join(relative).join("cpu.stat")))
            }
        };
        let waits = |file| layout.pressure.as_ref().map(|folder| Waits::new(folder.join(relative).join(file)));
        Self {
            time: FileBackup::new(time),
            cpu: Meter::default(),
            throttling: throttling.map(FileBackup::new),
            quota: Quota::default(),
            current: FileBackup::new(memory.join(if unified { "memory.current" } else { "memory.usage_in_bytes" })),
            stat: FileBackup::new(memory.join("memory.stat")),
            inactive: if unified { "inactive_file" } else { "total_inactive_file" },
            kills: unified.then(|| Kills::new(memory.join("memory.events"), since)),
            memory_waits: waits("memory.pressure"),
            io_waits: waits("io.pressure"),
            containers: BTreeMap::new(),
            rounds: 0,
            relative: relative.to_owned(),
        }
    }

    /// Lists the containers from time to time.
    fn find_containers(&mut self, layout: &Layout, since: Option<Duration>) {
        let due = self.rounds < ROUNDS || self.rounds.is_multiple_of(ROUNDS);
        self.rounds = self.rounds.wrapping_add(1);
        if !due {
            return;
        }
        let v1 = matches!(layout.memory, Memory::V1(_));
        let found = containers(&layout.memory.folder().join(&self.relative));
        self.containers.retain(|folder, _| found.contains(folder));
        for folder in found {
            let name = folder.file_name().unwrap_or_default();
            let quota = match &layout.cpu {
                Cpu::Unified(cpu) => cpu,
                Cpu::Split { quota, .. } => quota,
            };
            let stat = FileBackup::new(quota.join(&self.relative).join(name).join("cpu.stat"));
            let kills = v1.then(|| Kills::new(folder.join("memory.oom_control"), since));
            self.containers.entry(folder).or_insert(ContainerMeters { stat, quota: Quota::default(), kills });
        }
    }

    fn read(&mut self, reader: &mut Reader, now: Duration) -> PodSample {
        let (cpu, own) = self.read_cpu(reader, now);
        let mut sample = PodSample { cpu, memory: self.read_memory(reader), throttled: own, ..PodSample::default() };
        let waits = [&mut self.memory_waits, &mut self.io_waits].map(|waits| waits.as_mut()?.read(reader, now).0);
        sample.pressure = waits.into_iter().flatten().max_by_key(|wait| wait.part);
        sample.oom_kills = self.kills.as_mut().map_or(0, |kills| kills.read(reader, now));
        for container in self.containers.values_mut() {
            let throttled = container.quota.take(reader.read(&mut container.stat), now);
            sample.throttled = worse(sample.throttled, throttled);
            sample.oom_kills += container.kills.as_mut().map_or(0, |kills| kills.read(reader, now));
        }
        sample
    }

    /// Reads CPU, and the pod's own quota.
    fn read_cpu(&mut self, reader: &mut Reader, now: Duration) -> (Option<u64>, Part) {
        match &mut self.throttling {
            None => {
                let text = reader.read(&mut self.time);
                let used = text.and_then(|text| parse::keyed(text, "usage_usec"));
                let cpu = self.cpu.rate(used.and_then(|used| used.checked_mul(1000)), now);
                (cpu, self.quota.take(text, now))
            }
            Some(throttling) => {
                let used = reader.read(&mut self.time).and_then(parse::number);
                let cpu = self.cpu.rate(used, now);
                (cpu, self.quota.take(reader.read(throttling), now))
            }
        }
    }

    fn read_memory(&mut self, reader: &mut Reader) -> Option<u64> {
        let current = reader.read(&mut self.current).and_then(parse::number)?;
        let inactive = reader.read(&mut self.stat).and_then(|text| parse::keyed(text, self.inactive))?;
        Some(current.saturating_sub(inactive))
    }
}

/// Returns the one that was throttled for the larger share of its periods.
fn worse(one: Part, other: Part) -> Part {
    let (left, right) =
        (u128::from(one.part) * u128::from(other.whole), u128::from(other.part) * u128::from(one.whole));
    let larger = if left == right { other.whole > one.whole } else { right > left };
    if larger { other } else { one }
}

#[derive(Debug)]
struct NodeMeters {
    cpu: FileBackup,
    proc_stat: FileBackup,
    unified: bool,
    time: Meter,
    meminfo: FileBackup,
    waits: [Waits; 3],
    kills: Kills,
}

impl NodeMeters {
    fn new(root: &Path, layout: &Layout) -> Self {
        let proc = root.join("proc");
        let (cpu, unified) = match &layout.cpu {
            Cpu::Unified(folder) => (folder.join("cpu.stat"), true),
            Cpu::Split { time, .. } => (time.join("cpuacct.usage"), false),
        };
        Self {
            cpu: FileBackup::new(cpu),
            proc_stat: FileBackup::new(proc.join("stat")),
            unified,
            time: Meter::default(),
            meminfo: FileBackup::new(proc.join("meminfo")),
            waits: ["cpu", "memory", "io"].map(|resource| Waits::new(proc.join("pressure").join(resource))),
            kills: Kills::new(proc.join("vmstat"), None),
        }
    }

    fn read(&mut self, reader: &mut Reader, now: Duration) -> NodeSample {
        let memory = reader.read(&mut self.meminfo).and_then(parse::memory);
        let [cpu, memory_waits, io] = self.waits.each_mut().map(|waits| waits.read(reader, now));
        let pressure = match (cpu.0, memory_waits, io) {
            (Some(cpu), (Some(memory), Some(memory_full)), (Some(io), Some(io_full))) => {
                Some([cpu, memory, memory_full, io, io_full])
            }
            _ => None,
        };
        NodeSample {
            cpu: self.read_cpu(reader, now),
            memory: memory.map(|memory| memory.working_set),
            memory_total: memory.map_or(0, |memory| memory.total),
            pressure,
            throttled: Part::default(),
            oom_kills: self.kills.read(reader, now),
        }
    }

    /// Reads the root cgroup, which counts all; without it `/proc/stat`, whose read is more expensive on large machines.
    fn read_cpu(&mut self, reader: &mut Reader, now: Duration) -> Option<u64> {
        let unified = self.unified;
        let used = reader.read(&mut self.cpu).and_then(|text| match unified {
            true => parse::keyed(text, "usage_usec").and_then(|used| used.checked_mul(1000)),
            false => parse::number(text),
        });
        let used = used.or_else(|| reader.read(&mut self.proc_stat).and_then(parse::busy));
        self.time.rate(used, now)
    }
}

/// Sampler of one machine.
#[derive(Debug)]
pub struct Sampler {
    root: PathBuf,
    base: String,
    layout: Layout,
    reader: Reader,
    machine: NodeMeters,
    pods: BTreeMap<String, PodMeters>,
    /// Time of the last sample.
    sampled: Option<Duration>,
}

impl Sampler {
    /// Returns a sampler of the machine below `root`, whose kubelet has the `cgroupRoot` of `base`.
    #[must_use]
    pub fn new(root: &Path, base: &str) -> Self {
        let layout = Layout::detect(root);
        Self {
            machine: NodeMeters::new(root, &layout),
            layout,
            root: root.to_owned(),
            base: base.to_owned(),
            reader: Reader::new(),
            pods: BTreeMap::new(),
            sampled: None,
        }
    }

    /// Takes a sample. `now` must be of a monotonic clock.
    pub fn sample(&mut self, now: Duration) -> UsageSample {
        self.reader.begin();
        self.find_pods();
        let mut node = self.machine.read(&mut self.reader, now);
        let mut pods = Vec::with_capacity(self.pods.len());
        for (uid, pod) in &mut self.pods {
            let sample = pod.read(&mut self.reader, now);
            node.throttled.part = node.throttled.part.saturating_add(sample.throttled.part);
            node.throttled.whole = node.throttled.whole.saturating_add(sample.throttled.whole);
            if sample.cpu.is_some() || sample.memory.is_some() {
                pods.push((uid.clone(), sample));
            }
        }
        self.sampled = Some(now);
        UsageSample { node, pods }
    }

    fn find_pods(&mut self) {
        if self.pods.is_empty() {
            self.mend_layout();
        }
        let found = self.layout.pods(&self.base);
        self.pods.retain(|uid, pod| found.get(uid) == Some(&pod.relative));
        for (uid, relative) in found {
            let since = self.sampled;
            let pod = self.pods.entry(uid).or_insert_with(|| PodMeters::new(&self.layout, &relative, since));
            pod.find_containers(&self.layout, since);
        }
    }

    /// Detects the layout again: hierarchies may be mounted after the start.
    fn mend_layout(&mut self) {
        let layout = Layout::detect(&self.root);
        if layout != self.layout {
            self.machine = NodeMeters::new(&self.root, &layout);
            self.layout = layout;
        }
    }
}
