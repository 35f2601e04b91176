//! Past usage of the machine and of each pod, in bounded space: histograms that decay, and the last day in slots.

use std::collections::BTreeMap;

use api::usage::{Histogram, Joint, Level, Share};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::sampler::{NodeSample, PodSample, UsageSample};
use super::windows::{Part, Ring};

/// Time after which an unseen pod is dropped. A pod that was hidden briefly by a restart of the agent is kept.
const GONE: SignedDuration = SignedDuration::from_mins(10);

const MINUTE: u64 = 60;
const FIVE_MINUTES: u64 = 300;
const HOUR: u64 = 3600;

/// The whole history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// History of the machine.
    pub(super) node: NodeHistory,
    /// History of its pods by UID.
    pub(super) pods: BTreeMap<String, PodHistory>,
}

/// History of one resource of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Resource {
    #[serde(with = "text")]
    pub(super) spread: Histogram,
    pub(super) peak_5m: Ring<u64>,
    pub(super) peak_1h: Ring<u64>,
    pub(super) peak_24h: Ring<u64>,
}

impl Default for Resource {
    fn default() -> Self {
        Self {
            spread: Histogram::default(),
            peak_5m: Ring::new(MINUTE, 6),
            peak_1h: Ring::new(FIVE_MINUTES, 13),
            peak_24h: Ring::new(HOUR, 25),
        }
    }
}

impl Resource {
    fn take(&mut self, value: u64, now: Timestamp) {
        self.spread.add(value, now);
        for peak in [&mut self.peak_5m, &mut self.peak_1h, &mut self.peak_24h] {
            peak.raise(value, now);
        }
    }

    fn fits(&self, new: &Self) -> bool {
        let peaks = |it: &Self| [it.peak_5m.clone(), it.peak_1h.clone(), it.peak_24h.clone()];
        peaks(self).iter().zip(&peaks(new)).all(|(one, other)| one.fits(other))
    }
}

/// History of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct NodeHistory {
    pub(super) since: Timestamp,
    pub(super) cpu: Resource,
    pub(super) memory: Resource,
    #[serde(with = "text")]
    pub(super) joint: Joint,
    /// Order: CPU, some of memory, full of memory, some of I/O, full of I/O.
    pub(super) pressure: [Ring<Part>; 5],
    pub(super) throttled: Ring<Part>,
    pub(super) oom_kills: Ring<u32>,
}

impl NodeHistory {
    fn new(now: Timestamp) -> Self {
        Self {
            since: now,
            cpu: Resource::default(),
            memory: Resource::default(),
            joint: Joint::default(),
            pressure: std::array::from_fn(|_| shares()),
            throttled: shares(),
            oom_kills: Ring::new(HOUR, 25),
        }
    }

    fn take(&mut self, sample: &NodeSample, cpus: u32, now: Timestamp) {
        if let Some(cpu) = sample.cpu {
            self.cpu.take(cpu, now);
        }
        if let Some(memory) = sample.memory {
            self.memory.take(memory, now);
        }
        if let (Some(cpu), Some(memory)) = (sample.cpu, sample.memory) {
            let cpu = Share { used: cpu, of: u64::from(cpus) * 1_000_000_000 };
            self.joint.add(cpu, Share { used: memory, of: sample.memory_total }, now);
        }
        for (ring, part) in self.pressure.iter_mut().zip(sample.pressure.into_iter().flatten()) {
            ring.add(part, now);
        }
        self.throttled.add(sample.throttled, now);
        count(&mut self.oom_kills, sample.oom_kills, now);
    }

    fn fits(&self, new: &Self) -> bool {
        let resources = self.cpu.fits(&new.cpu) && self.memory.fits(&new.memory);
        let pressure = self.pressure.iter().zip(&new.pressure).all(|(one, other)| one.fits(other));
        resources && pressure && self.throttled.fits(&new.throttled) && self.oom_kills.fits(&new.oom_kills)
    }
}

/// History of one pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PodHistory {
    pub(super) seen: Timestamp,
    /// Seconds of observation.
    pub(super) observed: u64,
    #[serde(with = "text")]
    pub(super) cpu: Histogram,
    #[serde(with = "text")]
    pub(super) memory: Histogram,
    /// Numbers of levels.
    pub(super) cpu_peak: Ring<u8>,
    pub(super) memory_peak: Ring<u8>,
    pub(super) pressure: Ring<Part>,
    pub(super) throttled: Ring<Part>,
    pub(super) oom_kills: Ring<u32>,
}

impl PodHistory {
    fn new(now: Timestamp) -> Self {
        Self {
            seen: now,
            observed: 0,
            cpu: Histogram::default(),
            memory: Histogram::default(),
            cpu_peak: Ring::new(HOUR, 25),
            memory_peak: Ring::new(HOUR, 25),
            pressure: shares(),
            throttled: shares(),
            oom_kills: Ring::new(HOUR, 25),
        }
    }

    fn take(&mut self, sample: &PodSample, period: u64, now: Timestamp) {
        self.seen = now;
        if let Some(cpu) = sample.cpu {
            self.observed = self.observed.saturating_add(period);
            self.cpu.add(cpu, now);
            self.cpu_peak.raise(Level::containing(cpu).number(), now);
        }
        if let Some(memory) = sample.memory {
            self.memory.add(memory, now);
            self.memory_peak.raise(Level::containing(memory).number(), now);
        }
        if let Some(pressure) = sample.pressure {
            self.pressure.add(pressure, now);
        }
        self.throttled.add(sample.throttled, now);
        count(&mut self.oom_kills, sample.oom_kills, now);
    }

    fn fits(&self, new: &Self) -> bool {
        let peaks = self.cpu_peak.fits(&new.cpu_peak) && self.memory_peak.fits(&new.memory_peak);
        let shares = self.pressure.fits(&new.pressure) && self.throttled.fits(&new.throttled);
        peaks && shares && self.oom_kills.fits(&new.oom_kills)
    }
}

/// Returns a ring of one hour in slots of five minutes.
fn shares() -> Ring<Part> {
    Ring::new(FIVE_MINUTES, 13)
}

fn count(ring: &mut Ring<u32>, kills: u64, now: Timestamp) {
    let slot = ring.at(now);
    *slot = slot.saturating_add(u32::try_from(kills).unwrap_or(u32::MAX));
}

impl History {
    /// Returns an empty history.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self { node: NodeHistory::new(now), pods: BTreeMap::new() }
    }

    /// Adds a sample of a machine with `cpus` CPUs, taken at `now`, `period` seconds after the one before.
    pub fn take(&mut self, sample: &UsageSample, cpus: u32, period: u64, now: Timestamp) {
        self.node.take(&sample.node, cpus, now);
        for (uid, pod) in &sample.pods {
            match self.pods.get_mut(uid) {
                Some(history) => history.take(pod, period, now),
                None => {
                    let mut history = PodHistory::new(now);
                    history.take(pod, period, now);
                    self.pods.insert(uid.clone(), history);
                }
            }
        }
        self.pods.retain(|_, pod| now.duration_since(pod.seen).abs() < GONE);
    }

    /// Reports whether the rings have the dimensions of this version.
    pub(super) fn fits(&self) -> bool {
        let pod = PodHistory::new(self.node.since);
        self.node.fits(&NodeHistory::new(self.node.since)) && self.pods.values().all(|it| it.fits(&pod))
    }

    /// Moves a start in the future to `now`: the clock may have been wrong when the history was written.
    pub(super) fn begin_by(&mut self, now: Timestamp) {
        self.node.since = self.node.since.min(now);
    }
}

/// Lossless text form of histograms.
mod text {
    use api::usage::{Histogram, InvalidText, Joint};
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) trait Whole: Sized {
        fn write(&self) -> String;
        fn parse(text: &str) -> Result<Self, InvalidText>;
    }

    impl Whole for Histogram {
        fn write(&self) -> String {
            self.whole()
        }

        fn parse(text: &str) -> Result<Self, InvalidText> {
            Self::read(text)
        }
    }

    impl Whole for Joint {
        fn write(&self) -> String {
            self.whole()
        }

        fn parse(text: &str) -> Result<Self, InvalidText> {
            Self::read(text)
        }
    }

    pub(super) fn serialize<T: Whole, S: Serializer>(histogram: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&histogram.write())
    }

    pub(super) fn deserialize<'de, T: Whole, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        T::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
