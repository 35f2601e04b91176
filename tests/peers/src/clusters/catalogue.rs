//! Instance types of a few families, with random offerings in some zones.

use std::collections::BTreeMap;

use api::label;
use planner::{CapacityType, Catalogue, InstanceType, MicroDollars, Offering, Reservation, Resources};

use super::Dice;
use super::kinds::{Kind, Kinds};
use super::{CLASS, DRIVER, ZONES};

/// GPU resource.
pub(super) const GPU: &str = "nvidia.com/gpu";
/// Other device resources, each with the amount that pods request.
pub(super) const DEVICES: [(&str, &str); 2] = [("aws.amazon.com/neuron", "1"), ("hugepages-2Mi", "64Mi")];
const GIB: i64 = 1 << 30;
const SIZES: [(&str, i64); 4] = [("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16)];

struct Family {
    name: &'static str,
    category: &'static str,
    generation: &'static str,
    arch: &'static str,
    memory: i64,
    gpus: i64,
}

const FAMILIES: [Family; 4] = [
    Family { name: "m7i", category: "m", generation: "7", arch: "amd64", memory: 4, gpus: 0 },
    Family { name: "c6a", category: "c", generation: "6", arch: "amd64", memory: 2, gpus: 0 },
    Family { name: "r8g", category: "r", generation: "8", arch: "arm64", memory: 8, gpus: 0 },
    Family { name: "g5", category: "g", generation: "5", arch: "amd64", memory: 4, gpus: 1 },
];

pub(super) fn catalogue(dice: &mut Dice, kinds: Kinds) -> Catalogue {
    let mut types = Vec::new();
    for family in FAMILIES.iter().filter(|family| family.gpus == 0 || kinds.has(Kind::Extended)) {
        for (size, cpus) in SIZES {
            // The first type always exists, because a cluster without any offering tests little.
            if types.is_empty() || dice.chance(70) {
                types.push(instance_type(dice, kinds, family, size, cpus));
            }
        }
    }
    types.sort_by(|one, other| one.name.cmp(&other.name));
    Catalogue { name: CLASS.to_owned(), types, ..Catalogue::default() }
}

fn instance_type(dice: &mut Dice, kinds: Kinds, family: &Family, size: &str, cpus: i64) -> InstanceType {
    let mut capacity = Resources::from_iter([
        (Resources::CPU, cpus * 1000),
        (Resources::MEMORY, cpus * family.memory * GIB),
        (Resources::EPHEMERAL_STORAGE, 20 * GIB),
        (Resources::PODS, *dice.one(&[4, 8, 29, 58])),
    ]);
    if family.gpus > 0 {
        capacity.set(GPU, family.gpus);
    }
    if kinds.has(Kind::Devices) {
        for ((device, _), amount) in DEVICES.iter().zip([2, GIB / 8]) {
            if dice.chance(40) {
                capacity.set(device, amount);
            }
        }
    }
    let mut allocatable = capacity.clone();
    allocatable.subtract(&Resources::from_iter([(Resources::CPU, 80), (Resources::MEMORY, GIB / 2)]));
    let limit = (DRIVER.to_owned(), i64::from(dice.between(1, 4)));
    InstanceType {
        name: format!("{}.{size}", family.name),
        labels: labels(family, size, cpus),
        capacity,
        allocatable,
        offerings: offerings(dice, kinds, (family.name, size), cpus * (family.memory + 8) * (1 + 4 * family.gpus)),
        attach_limits: if kinds.has(Kind::Volumes) { BTreeMap::from([limit]) } else { BTreeMap::new() },
        ..InstanceType::default()
    }
}

fn labels(family: &Family, size: &str, cpus: i64) -> BTreeMap<String, Vec<String>> {
    let mut labels = BTreeMap::new();
    let mut set = |key: &str, value: String| labels.insert(key.to_owned(), vec![value]);
    set(label::ARCH, family.arch.to_owned());
    set(label::OS, label::OS_LINUX.to_owned());
    set(label::INSTANCE_TYPE, format!("{}.{size}", family.name));
    set(label::INSTANCE_CATEGORY, family.category.to_owned());
    set(label::INSTANCE_FAMILY, family.name.to_owned());
    set(label::INSTANCE_GENERATION, family.generation.to_owned());
    set(label::INSTANCE_SIZE, size.to_owned());
    set(label::INSTANCE_CPU, cpus.to_string());
    set(label::INSTANCE_MEMORY, (cpus * family.memory * 1024).to_string());
    if family.gpus > 0 {
        set(label::INSTANCE_GPU_NAME, "a10g".to_owned());
        set(label::INSTANCE_GPU_COUNT, family.gpus.to_string());
    }
    labels
}

fn offerings(dice: &mut Dice, kinds: Kinds, (family, size): (&str, &str), worth: i64) -> Vec<Offering> {
    let mut offerings = Vec::new();
    for (position, zone) in ZONES.iter().enumerate() {
        let mut sell = |capacity_type, price, available, reservation| {
            offerings.push(Offering {
                zone: (*zone).to_owned(),
                capacity_type,
                price: MicroDollars(price),
                premium: MicroDollars(0),
                available,
                labels: BTreeMap::from([(label::ZONE_ID.to_owned(), format!("usw2-az{}", position + 1))]),
                reservation,
            });
        };
        for capacity_type in [CapacityType::Spot, CapacityType::OnDemand] {
            let share = if capacity_type == CapacityType::Spot { dice.between(300, 900) } else { 1000 };
            let (sold, available) = (dice.chance(80), dice.chance(85));
            if sold {
                sell(capacity_type, worth * i64::from(share) * 4, available, None);
            }
        }
        if kinds.has(Kind::Reserved) && dice.chance(15) {
            let remaining = dice.between(0, 2);
            let reservation = Reservation { id: format!("cr-{family}-{size}-{zone}"), remaining };
            sell(CapacityType::Reserved, 0, remaining > 0, Some(reservation));
        }
    }
    offerings
}
