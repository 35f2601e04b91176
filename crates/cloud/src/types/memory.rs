//! Memory of instances, learned from nodes. EC2 lists the memory of the hardware and the kernel reports less. The difference
//! depends on the instance type and the image.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Lifetime of a reading.
pub const BELIEVED: SignedDuration = SignedDuration::from_hours(60 * 24);
/// Minimum age at which an equal reading renews an old one. The delay avoids writes while many nodes of a type start.
const RENEWED: SignedDuration = SignedDuration::from_hours(24);
/// Maximum number of readings, the newest. The JSON has about 400 KB; a ConfigMap holds 1 MiB.
const MOST: usize = 5000;

/// Memory reported by nodes, by the images of their EC2NodeClass and by instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LearnedMemory {
    sets: BTreeMap<String, BTreeMap<String, Reading>>,
}

/// The smallest memory that a node of the type reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reading {
    /// Memory in bytes.
    memory: i64,
    /// Time in seconds since 1970.
    at: i64,
}

/// The effect of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUpdate {
    /// The memory of the type changed.
    Changed,
    /// The value is the same and its lifetime begins again.
    Renewed,
    /// No effect.
    Nothing,
}

/// Returns the images of an EC2NodeClass as one key. A different set of images starts from the estimate.
#[must_use]
pub fn image_set<'a>(ids: impl IntoIterator<Item = &'a str>) -> String {
    let mut ids: Vec<&str> = ids.into_iter().collect();
    ids.sort_unstable();
    ids.dedup();
    ids.join(" ")
}

impl LearnedMemory {
    /// Records the memory that a node of the type reported, in bytes. The smallest reading counts: pods can run with a low
    /// estimate, but not with a high one.
    pub fn learn(&mut self, images: &str, instance_type: &str, memory: i64, now: Timestamp) -> MemoryUpdate {
        if memory <= 0 {
            return MemoryUpdate::Nothing;
        }
        let set = self.sets.entry(images.to_owned()).or_default();
        let held = set.get(instance_type).filter(|reading| reading.is_believed(now)).copied();
        let news = match held {
            Some(held) if memory > held.memory => return MemoryUpdate::Nothing,
            Some(held) if memory == held.memory && held.age(now) < RENEWED => return MemoryUpdate::Nothing,
            Some(held) if memory == held.memory => MemoryUpdate::Renewed,
            _ => MemoryUpdate::Changed,
        };
        set.insert(instance_type.to_owned(), Reading { memory, at: now.as_second() });
        self.shrink();
        news
    }

    /// Returns the memory in bytes by instance type, for EC2NodeClasses with these images.
    #[must_use]
    pub fn for_images(&self, images: &str, now: Timestamp) -> BTreeMap<String, i64> {
        let believed = self.sets.get(images).into_iter().flatten().filter(|(_, reading)| reading.is_believed(now));
        believed.map(|(name, reading)| (name.clone(), reading.memory)).collect()
    }

    /// Deletes expired readings.
    pub fn expire(&mut self, now: Timestamp) {
        self.retain(|reading| reading.is_believed(now));
    }

    /// Returns the number of readings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sets.values().map(BTreeMap::len).sum()
    }

    /// Reports whether there are no readings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the readings as JSON for [`Self::read`].
    #[must_use]
    pub fn text(&self) -> String {
        // Serialization of maps with strings and numbers cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the JSON of [`Self::text`].
    ///
    /// # Errors
    /// When the text is not such JSON.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Deletes the oldest readings above the maximum.
    fn shrink(&mut self) {
        if self.len() <= MOST {
            return;
        }
        let mut times: Vec<i64> = self.sets.values().flat_map(BTreeMap::values).map(|reading| reading.at).collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let oldest = times.get(MOST).copied().unwrap_or_default();
        self.retain(|reading| reading.at > oldest);
    }

    fn retain(&mut self, keep: impl Fn(&Reading) -> bool) {
        self.sets.values_mut().for_each(|set| set.retain(|_, reading| keep(reading)));
        self.sets.retain(|_, set| !set.is_empty());
    }
}

impl Reading {
    fn age(&self, now: Timestamp) -> SignedDuration {
        SignedDuration::from_secs(now.as_second().saturating_sub(self.at))
    }

    fn is_believed(&self, now: Timestamp) -> bool {
        self.age(now) < BELIEVED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_790_000_000, 0);

    fn later(hours: i64) -> Timestamp {
        NOW.checked_add(SignedDuration::from_hours(hours)).unwrap()
    }

    #[test]
    fn learn_keeps_the_smallest_reading_for_sixty_days() {
        let mut memory = LearnedMemory::default();
        let known = |memory: &LearnedMemory, at| memory.for_images("ami-1", at).get("m5.large").copied();
        assert_eq!(memory.learn("ami-1", "m5.large", 100, NOW), MemoryUpdate::Changed);
        assert_eq!(memory.learn("ami-1", "m5.large", 101, NOW), MemoryUpdate::Nothing, "a higher one does not replace");
        assert_eq!(memory.learn("ami-1", "m5.large", 90, later(1)), MemoryUpdate::Changed);
        assert_eq!(memory.learn("ami-1", "m5.large", 90, later(2)), MemoryUpdate::Nothing);
        assert_eq!(memory.learn("ami-1", "m5.large", 90, later(26)), MemoryUpdate::Renewed);
        assert_eq!(memory.learn("ami-1", "m5.large", 0, later(26)), MemoryUpdate::Nothing, "a node that says nothing");
        let end = 26 + 60 * 24;
        assert_eq!((known(&memory, later(end - 1)), known(&memory, later(end))), (Some(90), None));
        assert_eq!(
            memory.learn("ami-1", "m5.large", 200, later(end)),
            MemoryUpdate::Changed,
            "nothing is believed any more"
        );
        assert_eq!(known(&memory, later(end)), Some(200));
        memory.expire(later(2 * end));
        assert!(memory.is_empty());
    }

    #[test]
    fn for_images_is_empty_when_the_images_differ() {
        let mut memory = LearnedMemory::default();
        let images = image_set(["ami-2", "ami-1", "ami-2"]);
        assert_eq!(images, image_set(["ami-1", "ami-2"]));
        memory.learn(&images, "m5.large", 100, NOW);
        assert_eq!(memory.for_images(&image_set(["ami-1"]), NOW), BTreeMap::new());
    }

    #[test]
    fn read_restores_learned_memory_from_text() {
        let mut memory = LearnedMemory::default();
        memory.learn("ami-1", "m5.large", 100, NOW);
        memory.learn("ami-2", "m5.large", 90, later(1));
        assert_eq!(LearnedMemory::read(&memory.text()).unwrap(), memory);
        assert!(LearnedMemory::read("[]").is_err() && LearnedMemory::read("").is_err());
    }

    #[test]
    fn learn_deletes_the_oldest_readings_above_the_maximum() {
        let mut memory = LearnedMemory::default();
        for number in 0..6000 {
            memory.learn(&format!("ami-{}", number % 7), &format!("t{number}"), 100, later(number / 50));
        }
        assert!(memory.len() <= MOST && memory.len() > MOST - 100, "{}", memory.len());
        assert!(!memory.for_images("ami-0", NOW).contains_key("t0"));
        assert!(memory.text().len() < 900_000);
    }
}
