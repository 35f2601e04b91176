//! Amounts that nodes reported, by instance type. EC2 lists the hardware; kernel, file system and kubelet leave less of it. The
//! difference depends on the instance type, the image and the EC2NodeClass.

mod readings;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use planner::Resources;
use serde::{Deserialize, Serialize};

use crate::InstanceTypeInfo;
use readings::{Reading, Readings};

/// Lifetime of a reading.
pub const BELIEVED: SignedDuration = SignedDuration::from_hours(60 * 24);
/// Maximum number of amounts, the newest. The JSON has about 700 KB; a ConfigMap holds 1 MiB.
const MOST: usize = 6_000;
/// Allocatable resources that kubelet computes itself. Device plugins report the others, some time after the node.
pub(super) const MEASURED: [&str; 6] =
    [Resources::CPU, Resources::MEMORY, Resources::EPHEMERAL_STORAGE, Resources::PODS, HUGE_PAGES[0], HUGE_PAGES[1]];
/// Huge pages that a kernel reserves at boot, on request of the image or the user data. EC2 has no amount of them.
pub(super) const HUGE_PAGES: [&str; 2] = ["hugepages-1Gi", "hugepages-2Mi"];
/// Devices of EC2's instance types that device plugins report.
pub(super) const DEVICES: [&str; 5] =
    ["nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"];
/// Name of the number of EBS volumes among the readings.
pub(super) const VOLUMES: &str = "volumes";
/// Name of the kernel's memory among contested amounts. Pods can use less of it.
pub(super) const MEMORY: &str = "kernel memory";

/// Amounts reported by nodes: by a set of equally configured nodes, then by instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Measurements {
    sets: BTreeMap<String, BTreeMap<String, Readings>>,
}

/// Amounts that one node reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReading {
    /// Name of the NodeClaim's EC2NodeClass.
    pub class: String,
    /// Hash of the EC2NodeClass that the node was launched with; `None` if its settings are not those of the class alone.
    pub class_hash: Option<String>,
    /// Number of the node, from [`node_number`].
    pub node: u32,
    /// Instance type.
    pub instance_type: String,
    /// Image that the node runs.
    pub image: String,
    /// Memory in bytes that the kernel reports.
    pub memory: Option<i64>,
    /// Allocatable resources of [`MEASURED`], or the number of one kind of devices.
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
    /// Names of the amounts about which nodes contradict each other.
    pub contested: BTreeSet<&'static str>,
}

impl Measured {
    /// Returns the upper limit of an amount, which is `most` where all nodes agree.
    pub(super) fn most(&self, name: &str, estimate: i64, most: i64) -> i64 {
        if self.contested.contains(name) { estimate } else { most }
    }
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

/// Returns a short number of a node from its provider id: the end of the instance id.
#[must_use]
pub(super) fn node_number(provider_id: &str) -> u32 {
    let start = provider_id.len().saturating_sub(8);
    provider_id.get(start..).and_then(|end| u32::from_str_radix(end, 16).ok()).unwrap_or_default()
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
            let known = |name: &str| MEASURED.contains(&name) || DEVICES.contains(&name);
            let measured = reading.allocatable.iter().filter(|(name, _)| known(name));
            amounts.extend(measured.map(|(name, amount)| (settings.key(name), amount)));
            amounts.extend(reading.volumes.map(|volumes| (settings.key(VOLUMES), volumes)));
        }
        let learn = |(set, amount): (String, i64)| {
            let found = Reading { amount, at: now.as_second(), node: reading.node };
            self.learn_amount(&set, &reading.instance_type, found, now)
        };
        let news = amounts.into_iter().map(learn).max().unwrap_or(MeasurementUpdate::Nothing);
        self.shrink();
        news
    }

    /// Records one amount.
    fn learn_amount(&mut self, set: &str, instance_type: &str, found: Reading, now: Timestamp) -> MeasurementUpdate {
        if found.amount <= 0 {
            return MeasurementUpdate::Nothing;
        }
        let set = self.sets.entry(set.to_owned()).or_default();
        let held = set.get(instance_type);
        let learned = Readings::new(held, found, now);
        if held.is_some_and(|held| held.is_like(&learned, now)) {
            return MeasurementUpdate::Nothing;
        }
        let is_same = held.and_then(|held| held.amount(now)) == learned.amount(now);
        set.insert(instance_type.to_owned(), learned);
        if is_same { MeasurementUpdate::Renewed } else { MeasurementUpdate::Changed }
    }

    /// Returns the amounts by instance type, for nodes with these settings.
    #[must_use]
    pub fn by_type(&self, settings: NodeSettings<'_>, now: Timestamp) -> BTreeMap<String, Measured> {
        let mut types: BTreeMap<String, Measured> = BTreeMap::new();
        let mut read = |set: &str, name: &'static str, write: &dyn Fn(&mut Measured, i64)| {
            for (instance_type, readings) in self.sets.get(set).into_iter().flatten() {
                let Some(amount) = readings.amount(now) else { continue };
                let measured = types.entry(instance_type.clone()).or_default();
                write(measured, amount.value);
                if amount.contested {
                    measured.contested.insert(name);
                }
            }
        };
        read(settings.images, MEMORY, &|measured, amount| measured.memory = Some(amount));
        for resource in MEASURED.into_iter().chain(DEVICES) {
            read(&settings.key(resource), resource, &|measured, amount| measured.allocatable.set(resource, amount));
        }
        read(&settings.key(VOLUMES), VOLUMES, &|measured, amount| measured.volumes = Some(amount));
        types
    }

    /// Deletes expired readings.
    pub fn expire(&mut self, now: Timestamp) {
        self.retain(|readings| readings.newest() > now.as_second() - BELIEVED.as_secs());
    }

    /// Returns the number of amounts.
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
        let mut times: Vec<i64> = self.sets.values().flat_map(BTreeMap::values).map(Readings::newest).collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let oldest = times.get(MOST).copied().unwrap_or_default();
        self.retain(|readings| readings.newest() > oldest);
    }

    fn retain(&mut self, keep: impl Fn(&Readings) -> bool) {
        self.sets.values_mut().for_each(|set| set.retain(|_, readings| keep(readings)));
        self.sets.retain(|_, set| !set.is_empty());
    }
}

/// Reports whether a node of the type can have this memory in bytes: 85 to 100 % of EC2's amount.
#[must_use]
pub(super) fn is_plausible_memory(info: &InstanceTypeInfo, memory: i64) -> bool {
    let listed = i64::try_from(info.memory_mib << 20).ok();
    listed.is_some_and(|listed| memory <= listed && memory >= listed / 100 * 85)
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

    /// Memory that a node of m5.large reports, in `ami-1`.
    fn reading(node: u32, memory: i64) -> NodeReading {
        NodeReading { node, instance_type: "m5.large".to_owned(), memory: Some(memory), ..NodeReading::default() }
    }

    fn learn(all: &mut Measurements, node: u32, memory: i64, at: Timestamp) -> MeasurementUpdate {
        all.learn(settings("ami-1"), &reading(node, memory), at)
    }

    fn known(all: &Measurements, at: Timestamp) -> Option<i64> {
        all.by_type(settings("ami-1"), at).get("m5.large").and_then(|it| it.memory)
    }

    #[test]
    fn learn_takes_the_second_smallest_reading_of_two_nodes() {
        let mut memory = Measurements::default();
        assert_eq!(learn(&mut memory, 1, 100, NOW), MeasurementUpdate::Renewed, "stored, but without effect");
        assert_eq!(known(&memory, NOW), None);
        assert_eq!(learn(&mut memory, 1, 100, NOW), MeasurementUpdate::Nothing, "one node counts once");
        assert_eq!(learn(&mut memory, 2, 101, NOW), MeasurementUpdate::Changed);
        assert_eq!(known(&memory, NOW), Some(101));
        assert_eq!(learn(&mut memory, 3, 102, NOW), MeasurementUpdate::Nothing, "a higher one does not replace");
        assert_eq!(learn(&mut memory, 4, 1, NOW), MeasurementUpdate::Changed);
        assert_eq!(known(&memory, NOW), Some(100), "a lie of one node has no effect");
        assert_eq!(learn(&mut memory, 5, 0, NOW), MeasurementUpdate::Nothing, "a node that reports nothing");
    }

    #[test]
    fn learn_takes_the_second_largest_reading_when_two_nodes_report_much_less() {
        let mut memory = Measurements::default();
        for (node, amount) in [(1, 50), (2, 1_000), (3, 60), (4, 1_001), (5, 55)] {
            learn(&mut memory, node, amount, NOW);
        }
        assert_eq!(known(&memory, NOW), Some(1_000), "two report about 1,000");
        assert_eq!(Measurements::read(&memory.text()).unwrap(), memory);
        learn(&mut memory, 6, 2_000, NOW);
        assert_eq!(known(&memory, NOW), Some(1_001), "a lie of one node has no effect");
        learn(&mut memory, 4, 60, NOW);
        assert_eq!(known(&memory, NOW), Some(55), "node 6 alone reports much");
    }

    #[test]
    fn learn_keeps_two_readings_while_they_are_nearly_equal() {
        let mut memory = Measurements::default();
        for (node, amount) in [(1, 1_000), (2, 1_001), (3, 1_099), (4, 1_100)] {
            learn(&mut memory, node, amount, NOW);
        }
        assert_eq!(known(&memory, NOW), Some(1_001));
        assert!(!memory.text().contains("largest"), "{}", memory.text());
    }

    #[test]
    fn learn_believes_readings_for_sixty_days() {
        let mut memory = Measurements::default();
        learn(&mut memory, 1, 90, NOW);
        learn(&mut memory, 2, 90, NOW);
        assert_eq!(learn(&mut memory, 2, 90, later(2)), MeasurementUpdate::Nothing);
        assert_eq!(learn(&mut memory, 2, 90, later(26)), MeasurementUpdate::Renewed);
        assert_eq!(learn(&mut memory, 1, 90, later(26)), MeasurementUpdate::Renewed);
        let end = 26 + 60 * 24;
        assert_eq!((known(&memory, later(end - 1)), known(&memory, later(end))), (Some(90), None));
        learn(&mut memory, 3, 200, later(end));
        assert_eq!(learn(&mut memory, 4, 200, later(end)), MeasurementUpdate::Changed, "the old ones are not believed");
        assert_eq!(known(&memory, later(end)), Some(200));
        memory.expire(later(2 * end));
        assert!(memory.is_empty());
    }

    #[test]
    fn node_number_is_the_end_of_the_instance_id() {
        assert_eq!(node_number("aws:///us-west-2a/i-0123456789abcdef0"), 0x9abc_def0);
        assert_eq!(node_number("kind://other"), 0);
    }

    #[test]
    fn by_type_is_empty_when_the_images_differ() {
        let mut memory = Measurements::default();
        let images = image_set(["ami-2", "ami-1", "ami-2"]);
        assert_eq!(images, image_set(["ami-1", "ami-2"]));
        for node in [1, 2] {
            memory.learn(settings(&images), &reading(node, 100), NOW);
        }
        assert_eq!(memory.by_type(settings(&image_set(["ami-1"])), NOW), BTreeMap::new());
    }

    #[test]
    fn learn_ignores_class_amounts_when_the_class_hash_differs() {
        let known = [(Resources::CPU, 1930), (Resources::PODS, 29), ("nvidia.com/gpu", 1)];
        let amounts: Resources = known.into_iter().chain([("example.com/other", 1)]).collect();
        let reading = |node: u32, hash: Option<&str>| NodeReading {
            node,
            class_hash: hash.map(str::to_owned),
            instance_type: "m5.large".to_owned(),
            memory: Some(100),
            allocatable: amounts.clone(),
            volumes: Some(25),
            ..NodeReading::default()
        };
        let found = |hash| {
            let mut all = Measurements::default();
            assert_eq!(all.learn(settings("ami-1"), &reading(1, hash), NOW), MeasurementUpdate::Renewed);
            assert_eq!(all.learn(settings("ami-1"), &reading(2, hash), NOW), MeasurementUpdate::Changed);
            assert_eq!(all.learn(settings("ami-1"), &reading(2, hash), NOW), MeasurementUpdate::Nothing);
            let of_another_class = NodeSettings { class_hash: "2", ..settings("ami-1") };
            let other = all.by_type(of_another_class, NOW)["m5.large"].clone();
            assert_eq!(other, Measured { memory: Some(100), ..Measured::default() });
            all.by_type(settings("ami-1"), NOW)["m5.large"].clone()
        };
        let allocatable: Resources = known.into_iter().collect();
        assert_eq!(
            found(Some("1")),
            Measured { memory: Some(100), allocatable, volumes: Some(25), ..Measured::default() }
        );
        for hash in [None, Some("3")] {
            assert_eq!(found(hash), Measured { memory: Some(100), ..Measured::default() }, "{hash:?}");
        }
    }

    #[test]
    fn read_accepts_readings_of_memory_alone() {
        let text = r#"{"ami-1":{"m5.large":{"memory":100,"at":1790000000}}}"#;
        let mut memory = Measurements::read(text).unwrap();
        assert_eq!(known(&memory, NOW), None, "of one unknown node");
        learn(&mut memory, 1, 100, NOW);
        assert_eq!(known(&memory, NOW), Some(100));
    }

    #[test]
    fn read_restores_measurements_from_text() {
        let mut memory = Measurements::default();
        learn(&mut memory, 1, 100, NOW);
        learn(&mut memory, 2, 100, later(1));
        memory.learn(settings("ami-2"), &reading(1, 90), later(1));
        assert_eq!(Measurements::read(&memory.text()).unwrap(), memory);
        assert!(Measurements::read("[]").is_err() && Measurements::read("").is_err());
    }

    #[test]
    fn learn_deletes_the_oldest_readings_above_the_maximum() {
        let mut memory = Measurements::default();
        for number in 0..12_000 {
            for node in [u32::MAX, u32::MAX - 1] {
                let found = NodeReading { instance_type: format!("t{number}"), ..reading(node, 1 << 40) };
                memory.learn(settings(&format!("ami-{}", number % 7)), &found, later(number / 50));
            }
        }
        assert!(memory.len() <= MOST && memory.len() > MOST - 100, "{}", memory.len());
        assert!(!memory.by_type(settings("ami-0"), NOW).contains_key("t0"));
        assert!(memory.text().len() < 900_000);
    }

    #[test]
    fn is_plausible_memory_permits_85_to_100_percent_of_the_listed_memory() {
        let info = InstanceTypeInfo { name: "m5.large".to_owned(), memory_mib: 8192, ..InstanceTypeInfo::default() };
        let rows = [(6963, false), (6964, true), (7772, true), (8192, true), (8193, false), (1, false)];
        for (mebibytes, expected) in rows {
            assert_eq!(is_plausible_memory(&info, mebibytes << 20), expected, "{mebibytes} MiB");
        }
    }
}
