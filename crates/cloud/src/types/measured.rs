//! Amounts that nodes reported, by instance type. EC2 lists the hardware; kernel, file system and kubelet leave less of it. The
//! difference depends on the instance type, the image and the EC2NodeClass.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use planner::Resources;
use serde::{Deserialize, Serialize};

/// Lifetime of a reading.
pub const BELIEVED: SignedDuration = SignedDuration::from_hours(60 * 24);
/// Minimum age at which an equal reading renews an old one. The delay avoids writes while many nodes of a type start.
const RENEWED: SignedDuration = SignedDuration::from_hours(24);
/// Maximum number of readings, the newest. The JSON has about 600 KB; a ConfigMap holds 1 MiB.
const MOST: usize = 10_000;
/// Allocatable resources that kubelet computes itself. Device plugins report the others, some time after the node.
pub const MEASURED: [&str; 4] = [Resources::CPU, Resources::MEMORY, Resources::EPHEMERAL_STORAGE, Resources::PODS];
/// Name of the number of EBS volumes among the readings.
const VOLUMES: &str = "volumes";

/// Amounts reported by nodes: by a set of equally configured nodes, then by instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Measurements {
    sets: BTreeMap<String, BTreeMap<String, Reading>>,
}

/// The smallest amount that a node of the type reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reading {
    /// Amount in the planner's unit.
    #[serde(alias = "memory")]
    amount: i64,
    /// Time in seconds since 1970.
    at: i64,
}

/// Amounts that one node reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReading {
    /// Name of the NodeClaim's EC2NodeClass.
    pub class: String,
    /// Hash of the EC2NodeClass that the node was launched with; `None` if its settings are not those of the class alone.
    pub class_hash: Option<String>,
    /// Instance type.
    pub instance_type: String,
    /// Image that the node runs.
    pub image: String,
    /// Memory in bytes that the kernel reports.
    pub memory: Option<i64>,
    /// Allocatable resources of [`MEASURED`].
    pub allocatable: Resources,
    /// Number of EBS volumes that the CSI driver can attach.
    pub volumes: Option<i64>,
}

/// Amounts of an instance type as its nodes reported them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Memory in bytes.
    pub memory: Option<i64>,
    /// Allocatable resources.
    pub allocatable: Resources,
    /// Number of EBS volumes.
    pub volumes: Option<i64>,
}

/// Configuration that equally configured nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSettings<'a> {
    /// Images of the EC2NodeClass, from [`image_set`]. Memory depends on them alone.
    pub images: &'a str,
    /// Hash of the EC2NodeClass, which covers its disks and kubelet settings.
    pub class_hash: &'a str,
}

/// The effect of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MeasurementUpdate {
    /// No effect.
    Nothing,
    /// The value is the same and its lifetime begins again.
    Renewed,
    /// An amount of the type changed.
    Changed,
}

/// Returns the images of an EC2NodeClass as one key. A different set of images starts from the estimate.
#[must_use]
pub fn image_set<'a>(ids: impl IntoIterator<Item = &'a str>) -> String {
    let mut ids: Vec<&str> = ids.into_iter().collect();
    ids.sort_unstable();
    ids.dedup();
    ids.join(" ")
}

impl NodeSettings<'_> {
    /// Returns the key of the readings of one amount.
    fn key(&self, name: &str) -> String {
        format!("{name} {} {}", self.class_hash, self.images)
    }
}

impl Measurements {
    /// Records the amounts of a node. Those that depend on the EC2NodeClass are ignored if the node has other settings than
    /// the class now.
    pub fn learn(&mut self, settings: NodeSettings<'_>, reading: &NodeReading, now: Timestamp) -> MeasurementUpdate {
        let mut amounts: Vec<(String, i64)> = Vec::new();
        amounts.extend(reading.memory.map(|memory| (settings.images.to_owned(), memory)));
        if reading.class_hash.as_deref() == Some(settings.class_hash) {
            let measured = reading.allocatable.iter().filter(|(name, _)| MEASURED.contains(name));
            amounts.extend(measured.map(|(name, amount)| (settings.key(name), amount)));
            amounts.extend(reading.volumes.map(|volumes| (settings.key(VOLUMES), volumes)));
        }
        let learn = |(set, amount): (String, i64)| self.learn_amount(&set, &reading.instance_type, amount, now);
        let news = amounts.into_iter().map(learn).max().unwrap_or(MeasurementUpdate::Nothing);
        self.shrink();
        news
    }

    /// Records one amount. The smallest reading counts: pods can run with a low estimate, but not with a high one.
    fn learn_amount(&mut self, set: &str, instance_type: &str, amount: i64, now: Timestamp) -> MeasurementUpdate {
        if amount <= 0 {
            return MeasurementUpdate::Nothing;
        }
        let set = self.sets.entry(set.to_owned()).or_default();
        let held = set.get(instance_type).filter(|reading| reading.is_believed(now)).copied();
        let news = match held {
            Some(held) if amount > held.amount => return MeasurementUpdate::Nothing,
            Some(held) if amount == held.amount && held.age(now) < RENEWED => return MeasurementUpdate::Nothing,
            Some(held) if amount == held.amount => MeasurementUpdate::Renewed,
            _ => MeasurementUpdate::Changed,
        };
        set.insert(instance_type.to_owned(), Reading { amount, at: now.as_second() });
        news
    }

    /// Returns the amounts by instance type, for nodes with these settings.
    #[must_use]
    pub fn by_type(&self, settings: NodeSettings<'_>, now: Timestamp) -> BTreeMap<String, Measured> {
        let mut types: BTreeMap<String, Measured> = BTreeMap::new();
        for (name, amount) in self.believed(settings.images, now) {
            types.entry(name.to_owned()).or_default().memory = Some(amount);
        }
        for resource in MEASURED {
            for (name, amount) in self.believed(&settings.key(resource), now) {
                types.entry(name.to_owned()).or_default().allocatable.set(resource, amount);
            }
        }
        for (name, amount) in self.believed(&settings.key(VOLUMES), now) {
            types.entry(name.to_owned()).or_default().volumes = Some(amount);
        }
        types
    }

    fn believed(&self, set: &str, now: Timestamp) -> impl Iterator<Item = (&str, i64)> {
        let set = self.sets.get(set).into_iter().flatten();
        set.filter(move |(_, reading)| reading.is_believed(now)).map(|(name, reading)| (name.as_str(), reading.amount))
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

    fn settings(images: &str) -> NodeSettings<'_> {
        NodeSettings { images, class_hash: "1" }
    }

    fn learn(
        all: &mut Measurements,
        images: &str,
        instance_type: &str,
        memory: i64,
        at: Timestamp,
    ) -> MeasurementUpdate {
        let reading =
            NodeReading { instance_type: instance_type.to_owned(), memory: Some(memory), ..NodeReading::default() };
        all.learn(settings(images), &reading, at)
    }

    fn known(all: &Measurements, at: Timestamp) -> Option<i64> {
        all.by_type(settings("ami-1"), at).get("m5.large").and_then(|it| it.memory)
    }

    #[test]
    fn learn_keeps_the_smallest_reading_for_sixty_days() {
        let mut memory = Measurements::default();
        assert_eq!(learn(&mut memory, "ami-1", "m5.large", 100, NOW), MeasurementUpdate::Changed);
        assert_eq!(
            learn(&mut memory, "ami-1", "m5.large", 101, NOW),
            MeasurementUpdate::Nothing,
            "a higher one does not replace"
        );
        assert_eq!(learn(&mut memory, "ami-1", "m5.large", 90, later(1)), MeasurementUpdate::Changed);
        assert_eq!(learn(&mut memory, "ami-1", "m5.large", 90, later(2)), MeasurementUpdate::Nothing);
        assert_eq!(learn(&mut memory, "ami-1", "m5.large", 90, later(26)), MeasurementUpdate::Renewed);
        assert_eq!(
            learn(&mut memory, "ami-1", "m5.large", 0, later(26)),
            MeasurementUpdate::Nothing,
            "a node that says nothing"
        );
        let end = 26 + 60 * 24;
        assert_eq!((known(&memory, later(end - 1)), known(&memory, later(end))), (Some(90), None));
        assert_eq!(
            learn(&mut memory, "ami-1", "m5.large", 200, later(end)),
            MeasurementUpdate::Changed,
            "nothing is believed any more"
        );
        assert_eq!(known(&memory, later(end)), Some(200));
        memory.expire(later(2 * end));
        assert!(memory.is_empty());
    }

    #[test]
    fn by_type_is_empty_when_the_images_differ() {
        let mut memory = Measurements::default();
        let images = image_set(["ami-2", "ami-1", "ami-2"]);
        assert_eq!(images, image_set(["ami-1", "ami-2"]));
        learn(&mut memory, &images, "m5.large", 100, NOW);
        assert_eq!(memory.by_type(settings(&image_set(["ami-1"])), NOW), BTreeMap::new());
    }

    #[test]
    fn learn_ignores_class_amounts_when_the_class_hash_differs() {
        let amounts: Resources =
            [(Resources::CPU, 1930), (Resources::PODS, 29), ("nvidia.com/gpu", 1)].into_iter().collect();
        let reading = |hash: Option<&str>| NodeReading {
            class_hash: hash.map(str::to_owned),
            instance_type: "m5.large".to_owned(),
            memory: Some(100),
            allocatable: amounts.clone(),
            volumes: Some(25),
            ..NodeReading::default()
        };
        let found = |hash| {
            let mut all = Measurements::default();
            assert_eq!(all.learn(settings("ami-1"), &reading(hash), NOW), MeasurementUpdate::Changed);
            assert_eq!(all.learn(settings("ami-1"), &reading(hash), NOW), MeasurementUpdate::Nothing);
            let of_another_class = NodeSettings { class_hash: "2", ..settings("ami-1") };
            let other = all.by_type(of_another_class, NOW)["m5.large"].clone();
            assert_eq!(other, Measured { memory: Some(100), ..Measured::default() });
            all.by_type(settings("ami-1"), NOW)["m5.large"].clone()
        };
        let allocatable: Resources = [(Resources::CPU, 1930), (Resources::PODS, 29)].into_iter().collect();
        assert_eq!(found(Some("1")), Measured { memory: Some(100), allocatable, volumes: Some(25) });
        for hash in [None, Some("3")] {
            assert_eq!(found(hash), Measured { memory: Some(100), ..Measured::default() }, "{hash:?}");
        }
    }

    #[test]
    fn read_accepts_readings_of_memory_alone() {
        let text = r#"{"ami-1":{"m5.large":{"memory":100,"at":1790000000}}}"#;
        assert_eq!(known(&Measurements::read(text).unwrap(), NOW), Some(100));
    }

    #[test]
    fn read_restores_measurements_from_text() {
        let mut memory = Measurements::default();
        learn(&mut memory, "ami-1", "m5.large", 100, NOW);
        learn(&mut memory, "ami-2", "m5.large", 90, later(1));
        assert_eq!(Measurements::read(&memory.text()).unwrap(), memory);
        assert!(Measurements::read("[]").is_err() && Measurements::read("").is_err());
    }

    #[test]
    fn learn_deletes_the_oldest_readings_above_the_maximum() {
        let mut memory = Measurements::default();
        for number in 0..12_000 {
            learn(&mut memory, &format!("ami-{}", number % 7), &format!("t{number}"), 100, later(number / 50));
        }
        assert!(memory.len() <= MOST && memory.len() > MOST - 100, "{}", memory.len());
        assert!(!memory.by_type(settings("ami-0"), NOW).contains_key("t0"));
        assert!(memory.text().len() < 900_000);
    }
}
