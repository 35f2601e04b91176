//! What the pods of a node use, fourteen bytes each: all that a decision about one pod asks, and 110 of them in 2 KiB of text.
//! Whole histograms of 110 pods would be ten times that, in every node's object every five minutes.

use super::buckets::Level;
use super::wire::{self, InvalidText};

/// Of the encoding below.
const VERSION: u8 = 1;
const BYTES: usize = 14;
/// A share of time that nobody could measure.
pub const UNKNOWN: u8 = u8::MAX;

/// The first ten hexadecimal digits of a pod's UID: enough to tell the pods of one node apart, and to be recognised by people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId([u8; 5]);

impl PodId {
    /// Of a UID as the API server, a cgroup (underscores for dashes) or a static pod's annotation
    /// `kubernetes.io/config.mirror` writes it; `None` for what is no UID.
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

/// What one pod uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodUsage {
    /// Which one.
    pub id: PodId,
    /// Median of its CPU.
    pub cpu_p50: Level,
    /// CPU that it stays within for 95 % of the time.
    pub cpu_p95: Level,
    /// Highest CPU of a sample within 24 hours.
    pub cpu_peak: Level,
    /// Working set that it stays within for 95 % of the time.
    pub memory_p95: Level,
    /// Highest working set within 24 hours.
    pub memory_peak: Level,
    /// Percent of its quota's periods in which a container was throttled, in the worst five minutes of the last hour.
    pub throttled: u8,
    /// Percent of the time in which a process waited for memory or a disk, in the worst five minutes of the last hour;
    /// [`UNKNOWN`] where the kernel does not tell.
    pub pressure: u8,
    /// Processes of it that the kernel killed for want of memory within 24 hours.
    pub oom_kills: u8,
    /// Hours of history behind the percentiles, rounded down; 255 is that many or more.
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

/// The text of all pods, in the order of their ids. Pods whose ids coincide are left out: nobody could tell them apart.
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

/// The pods of a text, in the order of their ids.
///
/// # Errors
/// [`InvalidText`] for what [`encode_pods`] does not write.
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
