//! A report as values, with the rules of whether it counts: what the planner's snapshot takes over.

use jiff::{SignedDuration, Timestamp};

use super::histogram::Histogram;
use super::joint::Joint;
use super::pods::{PodId, PodUsage, decode_pods};
use super::wire::InvalidText;
use crate::nodeusage::{Figures, NodeUsageSpec, Pressure};
use crate::quantity::{CPU, InvalidQuantity, MEMORY};

/// Agents report every five minutes at the latest: with three reports missing nobody knows any more.
pub const STALE_AFTER: SignedDuration = SignedDuration::from_mins(15);
/// Clocks differ a little; a report from further ahead than this is of no use.
const SKEW: SignedDuration = SignedDuration::from_mins(2);

/// Somebody who could run had no CPU for half of the time: bursts on a well used machine stay below that.
const CPU_STALLS: u16 = 500;
/// The kernel looks for memory so often only where the working sets hardly fit; a page cache that turns over costs a hundredth.
const MEMORY_STALLS: u16 = 100;
/// Nobody ran at all for want of memory: half of it is too much already.
const MEMORY_FULL_STALLS: u16 = 50;
/// Nobody ran at all because of the disk. Batch work waits much, so this is a quarter of the time, and only of waits by all.
const DISK_STALLS: u16 = 250;

/// What one machine uses. Kept small: there is one for each node.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// The EC2 instance.
    pub instance: Box<str>,
    /// When it was measured.
    pub measured_at: Timestamp,
    /// Since when there is history.
    pub since: Timestamp,
    /// CPU in millicores.
    pub cpu: Amounts,
    /// Working set in bytes.
    pub memory: Amounts,
    /// How long processes waited; `None` where the kernel does not tell.
    pub pressure: Option<Pressure>,
    /// Thousandths of periods with throttling, in the worst five minutes of the last hour.
    pub throttled: u16,
    /// Processes killed for want of memory within 24 hours.
    pub oom_kills: u32,
    /// CPU and memory at the same time.
    pub joint: Joint,
    /// The pods in the order of their ids.
    pods: Box<[PodUsage]>,
}

/// What a machine is short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Processes wait for a CPU much of the time.
    Cpu,
    /// Processes wait for memory.
    Memory,
    /// All processes wait for a disk.
    Disk,
    /// Processes were killed for want of memory.
    Killed,
}

/// Figures of one resource, in millicores or bytes; [`Figures`] says what they mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Median.
    pub p50: i64,
    /// 95th percentile.
    pub p95: i64,
    /// 99th percentile.
    pub p99: i64,
    /// Highest of 5 minutes.
    pub peak_5m: i64,
    /// Highest of an hour.
    pub peak_1h: i64,
    /// Highest of 24 hours.
    pub peak_24h: i64,
}

/// Why a report counts as none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReport {
    /// A figure is no quantity.
    #[error("in the figures of {0}")]
    Figure(&'static str, #[source] InvalidQuantity),
    /// A histogram or the list of pods cannot be read.
    #[error("in {0}")]
    Text(&'static str, #[source] InvalidText),
}

impl Usage {
    /// Reads a report.
    ///
    /// # Errors
    /// [`InvalidReport`] names the field that no agent of this version wrote.
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

    /// Whether it speaks of now: neither stale nor from the future.
    #[must_use]
    pub fn is_current(&self, now: Timestamp) -> bool {
        !self.is_stale(now) && !self.is_ahead(now)
    }

    /// Whether it was measured too long ago.
    #[must_use]
    pub fn is_stale(&self, now: Timestamp) -> bool {
        now.duration_since(self.measured_at) >= STALE_AFTER
    }

    /// Whether it says that it was measured later than clocks differ.
    #[must_use]
    pub fn is_ahead(&self, now: Timestamp) -> bool {
        now.duration_since(self.measured_at) <= -SKEW
    }

    /// When [`Usage::is_current`] will answer otherwise than at `now`, if ever.
    #[must_use]
    pub fn changes_after(&self, now: Timestamp) -> Option<Timestamp> {
        let begins = self.measured_at.checked_sub(SKEW).ok()?.checked_add(SignedDuration::from_nanos(1)).ok();
        let ends = self.measured_at.checked_add(STALE_AFTER).ok();
        begins.into_iter().chain(ends).find(|at| *at > now)
    }

    /// What the machine is short of already, the worst first: more pods would make all of them slower.
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

    /// Whether the machine is short of anything.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.shortage().is_some()
    }

    /// What the pod of this UID uses, if the machine saw it.
    #[must_use]
    pub fn pod(&self, uid: &str) -> Option<&PodUsage> {
        let id = PodId::from_uid(uid)?;
        self.pods.binary_search_by_key(&id, |pod| pod.id).ok().map(|index| &self.pods[index])
    }

    /// All pods that the machine saw.
    #[must_use]
    pub fn pods(&self) -> &[PodUsage] {
        &self.pods
    }
}

fn amounts(resource: &'static str, figures: &Figures) -> Result<Amounts, InvalidReport> {
    let amount =
        |quantity: &crate::Quantity| quantity.amount(resource).map_err(|error| InvalidReport::Figure(resource, error));
    Ok(Amounts {
        p50: amount(&figures.p50)?,
        p95: amount(&figures.p95)?,
        p99: amount(&figures.p99)?,
        peak_5m: amount(&figures.peak5m)?,
        peak_1h: amount(&figures.peak1h)?,
        peak_24h: amount(&figures.peak24h)?,
    })
}
