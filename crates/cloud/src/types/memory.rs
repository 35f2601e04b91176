//! Real memory of machines, learned from nodes: EC2 says what the hardware has, the kernel what is left of it, and the
//! difference depends on type and image (aws 3.6).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// How long a reading is believed.
pub const BELIEVED: SignedDuration = SignedDuration::from_hours(60 * 24);
/// A reading that says nothing new renews its time only after this long, so that a fleet which grows writes nothing.
const RENEWED: SignedDuration = SignedDuration::from_hours(24);
/// So many readings are kept, the youngest; about 400 KB as text, where a ConfigMap holds 1 MiB.
const MOST: usize = 5000;

/// What nodes reported, by the images of their class and by instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LearnedMemory {
    sets: BTreeMap<String, BTreeMap<String, Reading>>,
}

/// The least memory that a node of the type reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reading {
    /// Bytes.
    memory: i64,
    /// Seconds since 1970.
    at: i64,
}

/// What came of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUpdate {
    /// The type has another memory now.
    Changed,
    /// The same as before, believed for longer.
    Renewed,
    /// Nothing new.
    Nothing,
}

/// The images of a class, as one key; another set of images begins with the estimate again.
#[must_use]
pub fn image_set<'a>(ids: impl IntoIterator<Item = &'a str>) -> String {
    let mut ids: Vec<&str> = ids.into_iter().collect();
    ids.sort_unstable();
    ids.dedup();
    ids.join(" ")
}

impl LearnedMemory {
    /// Takes in what a node of the type reported, in bytes. The least of all readings counts: pods that are promised too
    /// little run, pods that are promised too much do not.
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

    /// Memory in bytes by instance type, for classes with these images.
    #[must_use]
    pub fn for_images(&self, images: &str, now: Timestamp) -> BTreeMap<String, i64> {
        let believed = self.sets.get(images).into_iter().flatten().filter(|(_, reading)| reading.is_believed(now));
        believed.map(|(name, reading)| (name.clone(), reading.memory)).collect()
    }

    /// Forgets what is believed no longer.
    pub fn expire(&mut self, now: Timestamp) {
        self.retain(|reading| reading.is_believed(now));
    }

    /// How many readings there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sets.values().map(BTreeMap::len).sum()
    }

    /// Whether nothing was learned yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As a text that [`Self::read`] reads.
    #[must_use]
    pub fn text(&self) -> String {
        // Maps of texts and numbers can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads such a text.
    ///
    /// # Errors
    /// When it is something else.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Lets the oldest go where there are too many.
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
    fn the_least_reading_counts_for_sixty_days() {
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
    fn other_images_begin_with_the_estimate_again() {
        let mut memory = LearnedMemory::default();
        let images = image_set(["ami-2", "ami-1", "ami-2"]);
        assert_eq!(images, image_set(["ami-1", "ami-2"]));
        memory.learn(&images, "m5.large", 100, NOW);
        assert_eq!(memory.for_images(&image_set(["ami-1"]), NOW), BTreeMap::new());
    }

    #[test]
    fn a_text_keeps_it_across_a_restart() {
        let mut memory = LearnedMemory::default();
        memory.learn("ami-1", "m5.large", 100, NOW);
        memory.learn("ami-2", "m5.large", 90, later(1));
        assert_eq!(LearnedMemory::read(&memory.text()).unwrap(), memory);
        assert!(LearnedMemory::read("[]").is_err() && LearnedMemory::read("").is_err());
    }

    #[test]
    fn the_oldest_go_where_there_are_too_many() {
        let mut memory = LearnedMemory::default();
        for number in 0..6000 {
            memory.learn(&format!("ami-{}", number % 7), &format!("t{number}"), 100, later(number / 50));
        }
        assert!(memory.len() <= MOST && memory.len() > MOST - 100, "{}", memory.len());
        assert!(!memory.for_images("ami-0", NOW).contains_key("t0"));
        assert!(memory.text().len() < 900_000);
    }
}
