//! Parsed utilization report, and the rules for its validity. The planner's snapshot contains these values.

use jiff::{SignedDuration, Timestamp};

use super::histogram::Histogram;
use super::joint::Joint;
use super::pods::{PodId, PodUsage, decode_pods};
use super::wire::InvalidText;
use crate::resources::nodeusage::{Figures, NodeUsageSpec, Pressure};
use crate::units::quantity::{CPU, InvalidQuantity, MEMORY, Quantity};

/// Age at which a report is stale. Agents report at least every five minutes, so three reports are missing at this age.
pub const STALE_AFTER: SignedDuration = SignedDuration::from_mins(15);
/// Maximum clock difference. A report from further in the future is ignored.
const SKEW: SignedDuration = SignedDuration::from_mins(2);

/// CPU stall threshold: some runnable process had no CPU for half of the time. Bursts on a well utilized node stay below it.
const CPU_STALLS: u16 = 500;
/// Memory stall threshold. The kernel reclaims so often only if the working sets hardly fit. Turnover of the page cache costs a
/// hundredth of the time.
const MEMORY_STALLS: u16 = 100;
/// Threshold of stalls of all processes for lack of memory, half of the threshold above.
const MEMORY_FULL_STALLS: u16 = 50;
/// Disk stall threshold: a quarter of the time, and only stalls of all processes, because batch jobs often wait for disks.
const DISK_STALLS: u16 = 250;

/// Utilization of one node. Kept small, because there is one for each node.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// EC2 instance id.
    pub instance: Box<str>,
    /// Time of the measurement.
    pub measured_at: Timestamp,
    /// Start of the history.
    pub since: Timestamp,
    /// CPU in millicores.
    pub cpu: Amounts,
    /// Working set in bytes.
    pub memory: Amounts,
    /// Stalls of processes; `None` if the kernel does not report them.
    pub pressure: Option<Pressure>,
    /// Thousandths of CPU quota periods with throttling, in the worst five minutes of the last hour.
    pub throttled: u16,
    /// Number of OOM-killed processes within 24 hours.
    pub oom_kills: u32,
    /// Joint histogram of CPU and memory.
    pub joint: Joint,
    /// Pods in the order of their ids.
    pods: Box<[PodUsage]>,
}

/// Resource that a node is short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Processes wait for a CPU much of the time.
    Cpu,
    /// Processes wait for memory.
    Memory,
    /// All processes wait for a disk.
    Disk,
    /// Processes were OOM-killed.
    Killed,
}

/// Figures of one resource, in millicores or bytes. [`Figures`] documents them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Median.
    pub p50: i64,
    /// 95th percentile.
    pub p95: i64,
    /// 99th percentile.
    pub p99: i64,
    /// Maximum of 5 minutes.
    pub peak_5m: i64,
    /// Maximum of an hour.
    pub peak_1h: i64,
    /// Maximum of 24 hours.
    pub peak_24h: i64,
}

/// Reason why a report is ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReport {
    /// Figure that is not a quantity.
    #[error("in the figures of {0}")]
    Figure(&'static str, #[source] InvalidQuantity),
    /// Histogram or list of pods that is invalid.
    #[error("in {0}")]
    Text(&'static str, #[source] InvalidText),
}

impl Usage {
    /// Parses a report.
    ///
    /// # Errors
    /// Returns [`InvalidReport`] with the field that no agent of this version writes.
    pub fn read(spec: &NodeUsageSpec) -> Result<Self, InvalidReport> {
        let histogram = |field, text| Histogram::read(text).map_err(|error| InvalidReport::Text(field, error));
        histogram("histograms.cpu", &spec.histograms.cpu)?;
        histogram("histograms.memory", &spec.histograms.memory)?;
        let joint = Joint::read(&spec.histograms.joint);
        let pods = decode_pods(&spec.pods).map_err(|error| InvalidReport::Text("pods", error))?;
        Ok(Self {
            instance: spec.instance.as_str().into(),
            measured_at: spec.measured_at.0,
            since: spec.since.0,
            cpu: amounts(CPU, &spec.cpu)?,
            memory: amounts(MEMORY, &spec.memory)?,
            pressure: spec.pressure,
            throttled: spec.throttled,
            oom_kills: spec.oom_kills,
            joint: joint.map_err(|error| InvalidReport::Text("histograms.joint", error))?,
            pods: pods.into(),
        })
    }

    /// Reports whether the report is current: neither stale nor from the future.
    #[must_use]
    pub fn is_current(&self, now: Timestamp) -> bool {
        !self.is_stale(now) && !self.is_ahead(now)
    }

    /// Reports whether the measurement is too old.
    #[must_use]
    pub fn is_stale(&self, now: Timestamp) -> bool {
        now.duration_since(self.measured_at) >= STALE_AFTER
    }

    /// Reports whether the measurement is further in the future than clocks differ.
    #[must_use]
    pub fn is_ahead(&self, now: Timestamp) -> bool {
        now.duration_since(self.measured_at) <= -SKEW
    }

    /// Returns the next time after `now` at which the result of [`Usage::is_current`] changes, if ever.
    #[must_use]
    pub fn changes_after(&self, now: Timestamp) -> Option<Timestamp> {
        let begins = self.measured_at.checked_sub(SKEW).ok()?.checked_add(SignedDuration::from_nanos(1)).ok();
        let ends = self.measured_at.checked_add(STALE_AFTER).ok();
        begins.into_iter().chain(ends).find(|at| *at > now)
    }

    /// Returns the resource that the node is short of, the most severe first. More pods would slow all of them down.
    #[must_use]
    pub fn shortage(&self) -> Option<Shortage> {
        let stalls = self.pressure.unwrap_or_default();
        let of_memory = stalls.memory >= MEMORY_STALLS || stalls.memory_full >= MEMORY_FULL_STALLS;
        let rows = [
            (self.oom_kills > 0, Shortage::Killed),
            (of_memory, Shortage::Memory),
            (stalls.cpu >= CPU_STALLS, Shortage::Cpu),
            (stalls.io_full >= DISK_STALLS, Shortage::Disk),
        ];
        rows.into_iter().find(|(holds, _)| *holds).map(|(_, shortage)| shortage)
    }

    /// Reports whether the node is short of any resource.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.shortage().is_some()
    }

    /// Returns the utilization of the pod with this UID, if the report has it.
    #[must_use]
    pub fn pod(&self, uid: &str) -> Option<&PodUsage> {
        let id = PodId::from_uid(uid)?;
        self.pods.binary_search_by_key(&id, |pod| pod.id).ok().map(|index| &self.pods[index])
    }

    /// Returns all pods of the report.
    #[must_use]
    pub fn pods(&self) -> &[PodUsage] {
        &self.pods
    }
}

fn amounts(resource: &'static str, figures: &Figures) -> Result<Amounts, InvalidReport> {
    let amount =
        |quantity: &Quantity| quantity.amount(resource).map_err(|error| InvalidReport::Figure(resource, error));
    Ok(Amounts {
        p50: amount(&figures.p50)?,
        p95: amount(&figures.p95)?,
        p99: amount(&figures.p99)?,
        peak_5m: amount(&figures.peak5m)?,
        peak_1h: amount(&figures.peak1h)?,
        peak_24h: amount(&figures.peak24h)?,
    })
}
