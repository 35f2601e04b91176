//! Conversion of the history into a NodeUsage, and detection of changes that are worth an early write.

use api::Quantity;
use api::nodeusage::{Figures, Histograms, NodeUsageSpec, Pressure, Time};
use api::quantity::cpu_text;
use api::usage::{Histogram, Level, PodId, PodUsage, UNKNOWN, encode_pods};
use jiff::Timestamp;

use super::history::{History, PodHistory, Resource};
use super::windows::{Part, Ring};

/// Least observed time, in microseconds, for a slot to have a pressure value.
const A_MINUTE: u64 = 60_000_000;
/// Least observed periods, of 0.1 s each, for a slot to have a throttling value.
const PERIODS: u64 = 100;

/// Returns the report of `instance` at `now`; `None` until the machine's CPU and memory were measured.
pub fn report(history: &mut History, instance: &str, now: Timestamp) -> Option<NodeUsageSpec> {
    overview(history, instance, now).map(|spec| whole(spec, history, now))
}

/// Adds histograms and pods, which consumers compare and which are most of the report's cost.
pub(super) fn whole(overview: NodeUsageSpec, history: &mut History, now: Timestamp) -> NodeUsageSpec {
    let node = &history.node;
    let histograms = Histograms {
        cpu: node.cpu.spread.abridged(),
        memory: node.memory.spread.abridged(),
        joint: node.joint.abridged(),
    };
    let pods: Vec<PodUsage> = history.pods.iter_mut().filter_map(|(uid, pod)| pod_usage(uid, pod, now)).collect();
    NodeUsageSpec { histograms, pods: encode_pods(&pods), ..overview }
}

/// Returns the part of a report about the machine as a whole.
pub(super) fn overview(history: &mut History, instance: &str, now: Timestamp) -> Option<NodeUsageSpec> {
    let node = &mut history.node;
    Some(NodeUsageSpec {
        instance: instance.to_owned(),
        measured_at: Time(whole_second(now)),
        since: Time(whole_second(node.since.min(now))),
        cpu: figures(&mut node.cpu, cpu, now)?,
        memory: figures(&mut node.memory, memory, now)?,
        pressure: pressure(&mut node.pressure, now),
        throttled: node.throttled.worst(PERIODS, now).unwrap_or(0),
        oom_kills: kills(&mut node.oom_kills, now),
        histograms: Histograms::default(),
        pods: String::new(),
    })
}

/// Truncates a time to whole seconds, as Kubernetes writes times.
fn whole_second(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

/// Returns nanocores as a quantity, rounded up to a thousandth.
fn cpu(nanocores: u64) -> Quantity {
    cpu_text(i64::try_from(nanocores.div_ceil(1_000_000)).unwrap_or(i64::MAX)).into()
}

/// Returns bytes as a quantity, rounded up to a MiB.
fn memory(bytes: u64) -> Quantity {
    format!("{}Mi", bytes.div_ceil(1 << 20)).into()
}

fn figures(resource: &mut Resource, text: impl Fn(u64) -> Quantity, now: Timestamp) -> Option<Figures> {
    let percentile = |per_mille| resource.spread.percentile(per_mille).map(|level| text(level.end()));
    Some(Figures {
        p50: percentile(500)?,
        p95: percentile(950)?,
        p99: percentile(990)?,
        peak5m: text(resource.peak_5m.highest(now)),
        peak1h: text(resource.peak_1h.highest(now)),
        peak24h: text(resource.peak_24h.highest(now)),
    })
}

fn pressure(rings: &mut [Ring<Part>; 5], now: Timestamp) -> Option<Pressure> {
    let [cpu, memory, memory_full, io, io_full] = rings.each_mut().map(|ring| ring.worst(A_MINUTE, now));
    Some(Pressure { cpu: cpu?, memory: memory?, memory_full: memory_full?, io: io?, io_full: io_full? })
}

fn kills(ring: &mut Ring<u32>, now: Timestamp) -> u32 {
    ring.recent(now).iter().fold(0, |sum, kills| sum.saturating_add(*kills))
}

/// Returns the usage of a pod; `None` for a pod that was observed for too short a time.
fn pod_usage(uid: &str, pod: &mut PodHistory, now: Timestamp) -> Option<PodUsage> {
    let percentile = |histogram: &Histogram, per_mille| histogram.percentile(per_mille);
    let percent = |per_mille: u16| u8::try_from(per_mille.div_ceil(10)).unwrap_or(100);
    Some(PodUsage {
        id: PodId::from_uid(uid)?,
        cpu_p50: percentile(&pod.cpu, 500)?,
        cpu_p95: percentile(&pod.cpu, 950)?,
        cpu_peak: Level::at(pod.cpu_peak.highest(now))?,
        memory_p95: percentile(&pod.memory, 950)?,
        memory_peak: Level::at(pod.memory_peak.highest(now))?,
        throttled: percent(pod.throttled.worst(PERIODS, now).unwrap_or(0)),
        pressure: pod.pressure.worst(A_MINUTE, now).map_or(UNKNOWN, percent),
        oom_kills: u8::try_from(kills(&mut pod.oom_kills, now)).unwrap_or(u8::MAX),
        hours: u8::try_from(pod.observed / 3600).unwrap_or(u8::MAX),
    })
}

/// Values on which decisions depend. A change of them makes a report due early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReportSummary {
    cpu: Option<Level>,
    memory: Option<Level>,
    pressure: [u16; 5],
    throttled: u16,
    oom_kills: u32,
}

/// Least changes that count: two levels (a tenth) in percentiles, a twentieth of the time in shares.
const LEVELS: u8 = 2;
const SHARE: u16 = 50;

impl ReportSummary {
    pub(super) fn from_history(history: &mut History, now: Timestamp) -> Self {
        let node = &mut history.node;
        Self {
            cpu: node.cpu.spread.percentile(950),
            memory: node.memory.spread.percentile(950),
            pressure: node.pressure.each_mut().map(|ring| ring.worst(A_MINUTE, now).unwrap_or(0)),
            throttled: node.throttled.worst(PERIODS, now).unwrap_or(0),
            oom_kills: kills(&mut node.oom_kills, now),
        }
    }

    /// Reports whether a decision might change with the later summary `other`.
    pub(super) fn differs(&self, other: &Self) -> bool {
        let number = |level: Option<Level>| level.map_or(0, Level::number);
        let moved = |one, another| number(one).abs_diff(number(another)) >= LEVELS;
        let shares = self.pressure.iter().zip(&other.pressure).any(|(one, another)| one.abs_diff(*another) >= SHARE);
        moved(self.cpu, other.cpu)
            || moved(self.memory, other.memory)
            || shares
            || self.throttled.abs_diff(other.throttled) >= SHARE
            || other.oom_kills > self.oom_kills
    }
}
