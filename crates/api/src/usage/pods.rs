//! Utilization of the pods of a node in fourteen bytes each. The bytes hold all figures for decisions about one pod, and 110
//! pods take 2 KiB of text. Complete histograms of 110 pods would take ten times as much, in every node's object every five
//! minutes.

use super::buckets::Level;
use super::wire::{self, InvalidText};

/// Version of the encoding below.
const VERSION: u8 = 1;
const BYTES: usize = 14;
/// Marker for a share of time that could not be measured.
pub const UNKNOWN: u8 = u8::MAX;

/// First ten hexadecimal digits of a pod's UID: enough to distinguish the pods of one node, and for people to recognize a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId([u8; 5]);

impl PodId {
    /// Returns the id for a UID. Accepts the spellings of the API server, of cgroups (underscores for dashes), and of the
    /// annotation `kubernetes.io/config.mirror` of a static pod. Returns `None` if the text is not a UID.
    #[must_use]
    pub fn from_uid(uid: &str) -> Option<Self> {
        let mut digits = uid.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_digit(16));
        let mut id = [0; 5];
        for byte in &mut id {
            let (high, low) = (digits.next()??, digits.next()??);
            *byte = u8::try_from(high << 4 | low).ok()?;
        }
        Some(Self(id))
    }
}

/// Utilization of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodUsage {
    /// Id of the pod.
    pub id: PodId,
    /// Median CPU.
    pub cpu_p50: Level,
    /// 95th percentile of CPU.
    pub cpu_p95: Level,
    /// Maximum CPU of a sample within 24 hours.
    pub cpu_peak: Level,
    /// 95th percentile of the working set.
    pub memory_p95: Level,
    /// Maximum working set within 24 hours.
    pub memory_peak: Level,
    /// Percentage of CPU quota periods in which a container was throttled, in the worst five minutes of the last hour.
    pub throttled: u8,
    /// Percentage of the time in which a process waited for memory or a disk, in the worst five minutes of the last hour.
    /// [`UNKNOWN`] if the kernel does not report it.
    pub pressure: u8,
    /// Number of the pod's processes that the kernel OOM-killed within 24 hours.
    pub oom_kills: u8,
    /// Hours of history behind the percentiles, rounded down. 255 means 255 or more.
    pub hours: u8,
}

impl PodUsage {
    fn bytes(&self) -> [u8; BYTES] {
        let [a, b, c, d, e] = self.id.0;
        let levels = [self.cpu_p50, self.cpu_p95, self.cpu_peak, self.memory_p95, self.memory_peak].map(Level::number);
        let [f, g, h, i, j] = levels;
        [a, b, c, d, e, f, g, h, i, j, self.throttled, self.pressure, self.oom_kills, self.hours]
    }

    fn read(bytes: &[u8; BYTES]) -> Result<Self, InvalidText> {
        let [a, b, c, d, e, f, g, h, i, j, throttled, pressure, oom_kills, hours] = *bytes;
        let level = |number| Level::at(number).ok_or(InvalidText("a level is beyond the scale"));
        Ok(Self {
            id: PodId([a, b, c, d, e]),
            cpu_p50: level(f)?,
            cpu_p95: level(g)?,
            cpu_peak: level(h)?,
            memory_p95: level(i)?,
            memory_peak: level(j)?,
            throttled,
            pressure,
            oom_kills,
            hours,
        })
    }
}

/// Returns the text of all pods, in the order of their ids. Pods with equal ids are omitted, because they cannot be
/// distinguished.
#[must_use]
pub fn encode_pods(pods: &[PodUsage]) -> String {
    let mut sorted: Vec<&PodUsage> = pods.iter().collect();
    sorted.sort_by_key(|pod| pod.id);
    let mut bytes = vec![VERSION];
    for same in sorted.chunk_by(|one, other| one.id == other.id) {
        if let [only] = same {
            bytes.extend(only.bytes());
        }
    }
    wire::text(&bytes)
}

/// Parses the pods of a text, in the order of their ids.
///
/// # Errors
/// Returns [`InvalidText`] for a text that [`encode_pods`] does not write.
pub fn decode_pods(text: &str) -> Result<Vec<PodUsage>, InvalidText> {
    let bytes = wire::bytes(text)?;
    let Some((VERSION, entries)) = bytes.split_first().map(|(version, rest)| (*version, rest)) else {
        return Err(InvalidText("its pods are in another version's form"));
    };
    let (entries, rest) = entries.as_chunks::<BYTES>();
    if !rest.is_empty() {
        return Err(InvalidText("its last pod is cut off"));
    }
    let pods = entries.iter().map(PodUsage::read).collect::<Result<Vec<_>, _>>()?;
    match pods.is_sorted_by(|one, next| one.id < next.id) {
        true => Ok(pods),
        false => Err(InvalidText("its pods are not in order")),
    }
}
