//! Tests of instance types under an EC2NodeClass: listed network interfaces, Windows, measured amounts, volumes, incompatible types, and
//! invariants for every type and AMI family.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeMap;

use api::label;
use api::nodeclass::{AmiFamily, InterfaceType, NetworkInterface};
use cloud::nodeclass::{ResolvedImage, Zone};
use cloud::types::prices::PriceBook;
use cloud::types::{
    self, ClassSettings, Incompatible, Measured, Measurements, NodeReading, NodeSettings, OfferingSource, Quote,
    Source, Threshold, Unavailable,
};
use cloud::unavailable_offerings::UnavailableOfferings;
use cloud::{Image, Instance, InstanceTypeInfo, Settings, data};
use jiff::Timestamp;
use planner::{CapacityType, InstanceType, Operator, Requirement, Requirements, Resources};

const NOW: Timestamp = Timestamp::constant(1_790_000_000, 0);
const EFA: &str = "vpc.amazonaws.com/efa";
const POD_ENI: &str = "vpc.amazonaws.com/pod-eni";
const PRIVATE_IPV4: &str = "vpc.amazonaws.com/PrivateIPv4Address";
const FAMILIES: [AmiFamily; 7] = [
    AmiFamily::Al2,
    AmiFamily::Al2023,
    AmiFamily::Bottlerocket,
    AmiFamily::Custom,
    AmiFamily::Windows2019,
    AmiFamily::Windows2022,
    AmiFamily::Windows2025,
];

fn info(name: &str) -> InstanceTypeInfo {
    data::instance_types().unwrap()[name].clone()
}

fn class() -> ClassSettings {
    let zone = Zone { id: "use1-az1".to_owned(), subnets: vec!["subnet-1".to_owned()] };
    ClassSettings { zones: [("us-east-1a".to_owned(), zone)].into(), ..ClassSettings::default() }
}

/// Lists a type with the prices and zones of us-east-1, without spot prices, and with one image for all types.
fn listing(info: &InstanceTypeInfo, class: &ClassSettings) -> (InstanceType, Vec<Quote>) {
    let facts = data::facts().unwrap();
    let mut market = OfferingSource::with_prices(PriceBook::embedded(facts, "us-east-1"));
    market.set_offerings(data::type_offerings("us-east-1").unwrap());
    let images = [ResolvedImage { image: Image::default(), requirements: Vec::new() }];
    let source = Source {
        infos: std::slice::from_ref(info),
        facts,
        offerings: &market,
        shortages: &UnavailableOfferings::default(),
        images: &images,
    };
    types::listing(info, &source, class, &Settings { region: "us-east-1".to_owned(), ..Settings::default() }, NOW)
}

fn kind(name: &str, class: &ClassSettings) -> InstanceType {
    listing(&info(name), class).0
}

fn interface(network_card_index: i32, device_index: i32, interface_type: InterfaceType) -> NetworkInterface {
    NetworkInterface { network_card_index, device_index, interface_type }
}

#[test]
fn capacity_counts_network_interfaces_of_the_class() {
    let amount = |class: &ClassSettings, resource: &str| kind("m6idn.32xlarge", class).capacity.get(resource);
    let listed = |list: Vec<NetworkInterface>| ClassSettings { network_interfaces: Some(list), ..class() };
    let primary = || interface(0, 0, InterfaceType::Interface);
    let rows = [
        (class(), 394, 2),
        (listed(Vec::new()), 394, 0),
        (listed(vec![primary()]), 394, 0),
        (listed(vec![primary(), interface(0, 1, InterfaceType::EfaOnly)]), 345, 1),
        (listed(vec![primary(), interface(1, 1, InterfaceType::EfaOnly)]), 394, 1),
    ];
    for (class, pods, efa) in rows {
        assert_eq!((amount(&class, Resources::PODS), amount(&class, EFA)), (pods, efa), "{class:?}");
    }
    let busy = listed(vec![primary(), interface(0, 1, InterfaceType::EfaOnly)]);
    let kept = |class: &ClassSettings| {
        let kind = kind("m6idn.32xlarge", class);
        kind.capacity.get(Resources::MEMORY) - kind.allocatable.get(Resources::MEMORY)
    };
    assert_eq!(kept(&busy), kept(&class()), "the node computes its reservation without looking at EFA");
}

#[test]
fn capacity_has_branch_interfaces_and_windows_addresses() {
    assert!(!kind("t3.large", &class()).capacity.names(POD_ENI));
    assert_eq!(kind("m5.large", &class()).capacity.get(POD_ENI), 9);
    let windows = ClassSettings { family: AmiFamily::Windows2022, ..class() };
    assert_eq!(kind("m5.large", &windows).capacity.get(PRIVATE_IPV4), 9);
    assert!(!kind("m5.large", &class()).capacity.names(PRIVATE_IPV4));
    let unlisted = "t8i.small";
    assert!(!data::facts().unwrap().ipv4_per_interface.contains_key(unlisted));
    assert!(!kind(unlisted, &windows).capacity.names(PRIVATE_IPV4));
}

#[test]
fn os_labels_follow_the_ami_family() {
    let shown = |name: &str, family| {
        let kind = kind(name, &ClassSettings { family, ..class() });
        (kind.labels[label::OS].clone(), kind.labels.get(label::WINDOWS_BUILD).cloned())
    };
    let one = |text: &str| vec![text.to_owned()];
    for (family, build) in [
        (AmiFamily::Windows2019, "10.0.17763"),
        (AmiFamily::Windows2022, "10.0.20348"),
        (AmiFamily::Windows2025, "10.0.26100"),
    ] {
        assert_eq!(shown("m5.large", family), (one("windows"), Some(one(build))));
        assert_eq!(shown("m7g.large", family).0, Vec::<String>::new(), "no Windows for arm64");
    }
    assert_eq!(shown("m7g.large", AmiFamily::Bottlerocket), (one("linux"), None));
}

#[test]
fn tenancy_label_is_default_unless_requested() {
    let kind = kind("m5.large", &class());
    assert_eq!(kind.labels[label::INSTANCE_TENANCY], ["default", "dedicated"]);
    let instance = Instance { instance_type: kind.name.clone(), ..Instance::default() };
    let mut several = kind.clone();
    several.labels.insert("example.com/either".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
    let labels =
        cloud::launch::claim::describe(&instance, Some(&several), &Requirements::default(), &Settings::default())
            .labels;
    assert_eq!(labels.get(label::INSTANCE_TENANCY).map(String::as_str), Some("default"));
    assert!(!labels.contains_key("example.com/either"), "the value is ambiguous");
}

/// A node without the label that its pods select never receives them, and another node is launched for them.
#[test]
fn describe_follows_the_requirements_of_the_nodeclaim() {
    let mut kind = kind("m5.large", &class());
    let partitions = ["1", "2", "3"].map(str::to_owned).to_vec();
    kind.labels.insert(label::PLACEMENT_GROUP_PARTITION.to_owned(), partitions);
    let instance = Instance { instance_type: kind.name.clone(), ..Instance::default() };
    let labels = |requirements: &[Requirement]| {
        let requirements: Requirements = requirements.iter().collect();
        cloud::launch::claim::describe(&instance, Some(&kind), &requirements, &Settings::default()).labels
    };
    let of = |key: &str, requirement: Requirement| labels(&[requirement]).get(key).cloned();
    let (tenancy, partition, team) = (label::INSTANCE_TENANCY, label::PLACEMENT_GROUP_PARTITION, "example.com/team");
    for (key, operator, values, expected) in [
        (tenancy, Operator::In, vec!["dedicated"], Some("dedicated")),
        (tenancy, Operator::NotIn, vec!["default"], Some("dedicated")),
        (tenancy, Operator::In, vec!["dedicated", "default"], Some("default")),
        (partition, Operator::In, vec!["3", "2"], Some("2")),
        (partition, Operator::NotIn, vec!["1"], Some("2")),
        (team, Operator::In, vec!["a"], Some("a")),
        (team, Operator::In, vec!["a", "b"], None),
        (team, Operator::Exists, vec![], None),
        ("karpenter.sh/own", Operator::In, vec!["a"], None),
    ] {
        let found = of(key, Requirement::new(key, operator, values.clone()));
        assert_eq!(found.as_deref(), expected, "{key} {operator:?} {values:?}");
    }
    let unread = labels(&[]);
    assert_eq!(unread.get(partition).map(String::as_str), Some(""), "EC2 selects the partition");

    let running = Instance { placement_partition: Some(3), ..instance.clone() };
    let parts = cloud::launch::claim::describe(&running, Some(&kind), &Requirements::default(), &Settings::default());
    assert_eq!(parts.labels.get(partition).map(String::as_str), Some("3"), "EC2 reported it");
}

/// Rows: the reservation preference of the launch, whether the feature gate is enabled, and the capacity type.
#[test]
fn describe_returns_on_demand_when_reservation_is_not_targeted() {
    let only = Some("capacity-reservations-only");
    let rows = [
        (only, true, "reserved"),
        (only, false, "on-demand"),
        (Some("open"), true, "on-demand"),
        (None, true, "on-demand"),
    ];
    for (preference, open, expected) in rows {
        let instance = Instance {
            instance_type: "m5.large".to_owned(),
            capacity_reservation_id: Some("cr-1".to_owned()),
            capacity_reservation_preference: preference.map(str::to_owned),
            ..Instance::default()
        };
        let settings = Settings { reserved_capacity: open, ..Settings::default() };
        let labels = cloud::launch::claim::describe(
            &instance,
            Some(&kind("m5.large", &class())),
            &Requirements::default(),
            &settings,
        )
        .labels;
        let value = |key: &str| labels.get(key).map(String::as_str);
        assert_eq!(value(label::CAPACITY_TYPE), Some(expected), "{preference:?}, open {open}");
        let reserved = (expected == "reserved").then_some("cr-1");
        assert_eq!(value(label::CAPACITY_RESERVATION_ID), reserved, "{preference:?}, open {open}");
    }
}

#[test]
fn without_efa_removes_efa_from_the_claim() {
    let kind = kind("m6idn.32xlarge", &class());
    let parts = cloud::launch::claim::describe(
        &Instance::default(),
        Some(&kind),
        &Requirements::default(),
        &Settings::default(),
    );
    assert!(parts.capacity.contains_key(EFA) && parts.allocatable.contains_key(EFA));
    let parts = parts.without_efa();
    assert!(!parts.capacity.contains_key(EFA) && !parts.allocatable.contains_key(EFA));
    assert!(parts.capacity.contains_key("memory"));
}

#[test]
fn unfit_returns_the_reason_when_the_type_is_incompatible() {
    let listed = |list: &[NetworkInterface]| ClassSettings { network_interfaces: Some(list.to_vec()), ..class() };
    let efa = |device| interface(0, device, InterfaceType::EfaOnly);
    let strategy = |name: &str| ClassSettings { placement_strategy: Some(name.to_owned()), ..class() };
    let nested = ClassSettings { nested_virtualization: true, ..class() };
    let tracking = ClassSettings { connection_tracking: true, ..class() };
    let windows = ClassSettings { family: AmiFamily::Windows2025, ..class() };
    let al2 = ClassSettings { family: AmiFamily::Al2, ..class() };
    let rows = [
        ("a1.large", class(), Some(Incompatible::FirstGraviton)),
        ("a1.large", al2, None),
        ("m7g.large", windows, Some(Incompatible::WindowsOnArm)),
        ("m5.large", listed(&[efa(1)]), Some(Incompatible::TooManyEfa { asked: 1, has: 0 })),
        ("m6idn.32xlarge", listed(&[efa(1)]), None),
        ("m6idn.32xlarge", listed(&[efa(8)]), Some(Incompatible::CardFull { card: 0, carries: 8 })),
        (
            "m6idn.32xlarge",
            listed(&[interface(2, 1, InterfaceType::Interface)]),
            Some(Incompatible::NoNetworkCard { card: 2 }),
        ),
        ("m1.small", listed(&[interface(0, 0, InterfaceType::Interface)]), Some(Incompatible::NoNetworkAdapter)),
        ("m1.small", listed(&[]), None),
        ("m5.large", strategy("partition"), None),
        ("c7i-flex.large", strategy("cluster"), Some(Incompatible::PlacementStrategy("cluster".to_owned()))),
        ("m5.large", nested.clone(), Some(Incompatible::NoNestedVirtualization)),
        ("m8i.large", nested, None),
        ("m5.large", tracking.clone(), None),
        ("m5.metal", tracking, Some(Incompatible::NoConnectionTracking)),
    ];
    for (name, class, expected) in rows {
        assert_eq!(types::unfit(&info(name), &class), expected, "{name}");
        let (kind, quotes) = listing(&info(name), &class);
        assert!(expected.is_none() || kind.offerings.iter().all(|offering| !offering.available), "{name}");
        let value = |quote: &Quote| quote.obstacle == expected.clone().map(Unavailable::Unfit);
        assert!(expected.is_none() || quotes.iter().all(value), "{name}");
    }
}

#[test]
fn measured_memory_replaces_only_the_estimate() {
    let percent = ClassSettings { memory_threshold: Threshold::Share(5000), ..class() };
    let estimated = kind("m5.large", &percent);
    let real = 8_000_000_000;
    let measured = Measured { memory: Some(real), ..Measured::default() };
    let learned = ClassSettings { measured: [("m5.large".to_owned(), measured)].into(), ..percent };
    let found = kind("m5.large", &learned);
    let kept = |kind: &InstanceType| kind.capacity.get(Resources::MEMORY) - kind.allocatable.get(Resources::MEMORY);
    assert_eq!(found.capacity.get(Resources::MEMORY), real);
    assert_eq!(kept(&found), kept(&estimated), "a threshold in percent is of the estimate");
    assert_eq!(kind("m5.xlarge", &learned), kind("m5.xlarge", &class_with(Threshold::Share(5000))));
}

/// Rows: a resource, the amount that nodes report beside the estimate, and the expected difference from the estimate. Disk
/// space replaces the estimate, because its margin is for unknown file systems. The other amounts only lower the estimate.
#[test]
fn allocatable_is_never_above_measured_amounts() {
    let estimate = kind("m5.large", &class());
    let (memory, disk) =
        [Resources::MEMORY, Resources::EPHEMERAL_STORAGE].map(|it| estimate.allocatable.get(it)).into();
    let rows = [
        (Resources::CPU, -100, -100),
        (Resources::CPU, 100, 0),
        (Resources::MEMORY, -(1 << 20), -(1 << 20)),
        (Resources::MEMORY, 1 << 20, 0),
        (Resources::PODS, -9, -9),
        (Resources::EPHEMERAL_STORAGE, -(1 << 30), -(1 << 30)),
        (Resources::EPHEMERAL_STORAGE, 1 << 20, 1 << 20),
        // Lies of two nodes: at least a quarter of the estimate remains, and the disk grows by a quarter at most.
        (Resources::CPU, 1 - 1_930, 482 - 1_930),
        (Resources::MEMORY, 1 - memory, memory / 4 - memory),
        (Resources::PODS, -28, 7 - 29),
        (Resources::EPHEMERAL_STORAGE, 1 - disk, disk / 4 - disk),
        (Resources::EPHEMERAL_STORAGE, i64::MAX / 2, disk / 4),
    ];
    for (resource, reported, expected) in rows {
        let before = estimate.allocatable.get(resource);
        let allocatable = [(resource, before + reported)].into_iter().collect();
        let measured = Measured { allocatable, ..Measured::default() };
        let found =
            kind("m5.large", &ClassSettings { measured: [("m5.large".to_owned(), measured)].into(), ..class() });
        assert_eq!(found.allocatable.get(resource), before + expected, "{resource} {reported}");
        assert_eq!(found.capacity.get(Resources::PODS), estimate.capacity.get(Resources::PODS), "for the user data");
    }
}

/// Rows: a type, a device, the number that nodes report, and the expected number: never more than EC2's, and at least a quarter.
#[test]
fn devices_are_never_above_measured_numbers() {
    let rows = [
        ("g5.48xlarge", "nvidia.com/gpu", 8, 8),
        ("g5.48xlarge", "nvidia.com/gpu", 7, 7),
        ("g5.48xlarge", "nvidia.com/gpu", 1, 2),
        ("g5.48xlarge", "nvidia.com/gpu", 80, 8),
        ("g5.xlarge", "nvidia.com/gpu", 4, 1),
        ("inf2.48xlarge", "aws.amazon.com/neuron", 11, 11),
        ("m5.large", "nvidia.com/gpu", 4, 0),
    ];
    for (name, device, reported, expected) in rows {
        let allocatable = [(device, reported)].into_iter().collect();
        let measured = [(name.to_owned(), Measured { allocatable, ..Measured::default() })].into();
        let found = kind(name, &ClassSettings { measured, ..class() });
        assert_eq!(found.allocatable.get(device), expected, "{name} {device} {reported}");
        assert_eq!(found.allocatable.names(device), expected > 0, "{name} {device}");
        assert_eq!(found.capacity, kind(name, &class()).capacity, "limits count EC2's number");
    }
}

/// Rows: huge pages of 2 MiB and of 1 GiB that nodes report, by how much less memory they report, and the expected huge pages:
/// at most what is missing from the memory, with kubelet's reservations.
#[test]
fn huge_pages_count_when_memory_is_missing_for_them() {
    let estimate = kind("m5.xlarge", &class());
    let [capacity, memory] = [&estimate.capacity, &estimate.allocatable].map(|it| it.get(Resources::MEMORY));
    let gib = 1 << 30;
    let kept = capacity - memory;
    let rows = [
        ((0, 0), 0, (0, 0)),
        ((2 * gib, 0), 2 * gib, (2 * gib, 0)),
        ((gib, 2 * gib), 3 * gib, (gib, 2 * gib)),
        ((8 * gib, 0), 2 * gib, (2 * gib + kept, 0)),
        ((8 * gib, 2 * gib), 3 * gib, (gib + kept, 2 * gib)),
        ((i64::MAX, i64::MAX), 0, (0, kept)),
    ];
    for ((small, large), less, expected) in rows {
        let amounts = [("hugepages-2Mi", small), ("hugepages-1Gi", large), (Resources::MEMORY, memory - less)];
        let measured = Measured { allocatable: amounts.into_iter().collect(), ..Measured::default() };
        let settings = ClassSettings { measured: [("m5.xlarge".to_owned(), measured)].into(), ..class() };
        let found = kind("m5.xlarge", &settings).allocatable;
        assert_eq!((found.get("hugepages-2Mi"), found.get("hugepages-1Gi")), expected, "{small} {large} {less}");
        assert!(found.get(Resources::MEMORY) + expected.0 + expected.1 <= capacity, "{small} {large} {less}");
    }
}

/// The disk of an image is unknown if an EC2NodeClass of family Custom sets no size.
#[test]
fn disk_of_an_image_is_measured_up_to_eight_times_the_assumed_size() {
    let custom = ClassSettings { family: AmiFamily::Custom, ..class() };
    let disk = |class: &ClassSettings| kind("m5.large", class).allocatable.get(Resources::EPHEMERAL_STORAGE);
    let assumed = disk(&custom);
    let rows = [(assumed / 3, assumed / 3), (7 * assumed, 7 * assumed), (1, assumed / 8), (i64::MAX, 8 * assumed)];
    for (reported, expected) in rows {
        let allocatable = [(Resources::EPHEMERAL_STORAGE, reported)].into_iter().collect();
        let measured = [("m5.large".to_owned(), Measured { allocatable, ..Measured::default() })].into();
        assert_eq!(disk(&ClassSettings { measured, ..custom.clone() }), expected, "{reported}");
    }
}

/// Rows: AMI family, size of the volume in GiB, and the allocatable bytes that a real node with default settings reports.
#[test]
fn ephemeral_storage_is_not_above_that_of_real_nodes() {
    let rows = [
        (AmiFamily::Al2023, 20, 18_181_869_946),
        (AmiFamily::Al2, 20, 18_242_267_924),
        (AmiFamily::Bottlerocket, 20, 17_933_882_132),
        (AmiFamily::Bottlerocket, 20, 18_191_325_562),
        (AmiFamily::Windows2022, 50, 47_243_678_026),
    ];
    for (family, size, real) in rows {
        let disk_bytes = size << 30;
        let found = kind("m6i.large", &ClassSettings { family, disk_bytes, ..class() });
        let promised = found.allocatable.get(Resources::EPHEMERAL_STORAGE);
        assert!((real - real / 40..=real).contains(&promised), "{family:?}: {promised} instead of {real}");
    }
    let raid0 = ClassSettings { raid0: true, ..class() };
    let promised = kind("r5d.4xlarge", &raid0).allocatable.get(Resources::EPHEMERAL_STORAGE);
    assert!((530_000_000_000..=536_337_620_000).contains(&promised), "{promised}");
    let tiny = ClassSettings { family: AmiFamily::Custom, disk_bytes: 1 << 29, ..class() };
    assert_eq!(kind("m6i.large", &tiny).capacity.get(Resources::EPHEMERAL_STORAGE), 0);
}

/// Rows: a type, its class, and the number of volumes that the EBS CSI driver reports on a new node of it.
#[test]
fn attach_limits_are_those_of_the_csi_driver() {
    let listed = |list: &[NetworkInterface]| ClassSettings { network_interfaces: Some(list.to_vec()), ..class() };
    let efa = [
        interface(0, 0, InterfaceType::Interface),
        interface(0, 1, InterfaceType::EfaOnly),
        interface(1, 1, InterfaceType::EfaOnly),
    ];
    let measured = |volumes| Measured { volumes: Some(volumes), ..Measured::default() };
    let reported =
        |name: &str, volumes| ClassSettings { measured: [(name.to_owned(), measured(volumes))].into(), ..class() };
    let rows = [
        ("m5.large", class(), 25),
        ("m5.24xlarge", class(), 25),
        ("m5d.24xlarge", class(), 21),
        ("g5.48xlarge", class(), 7),
        ("d3.8xlarge", class(), 1),
        ("m7i.large", class(), 31),
        ("m7i.48xlarge", class(), 127),
        ("i4i.32xlarge", class(), 17),
        ("t2.micro", class(), 38),
        ("m5.large", ClassSettings { volumes: 2, ..class() }, 24),
        ("m6idn.32xlarge", listed(&efa), 19),
        ("m5.large", reported("m5.large", 10), 10),
        ("m5.large", reported("m5.large", 1), 6),
        ("m5.large", reported("m5.large", 1_000), 27),
        ("m5.large", reported("m7i.large", 10), 25),
    ];
    for (name, class, expected) in rows {
        let limits = kind(name, &class).attach_limits;
        assert_eq!(limits, [("ebs.csi.aws.com".to_owned(), expected)].into(), "{name}");
    }
    let unlisted = InstanceTypeInfo { ebs_attachments: 0, ..info("m5.large") };
    assert_eq!(listing(&unlisted, &class()).0.attach_limits, BTreeMap::new());
}

/// Rows: whether two more nodes lie, and the memory, disk space and volumes that count. Two honest nodes have less than the estimate,
/// and which of two pairs lies is unknown.
#[test]
fn amounts_are_never_above_the_estimate_when_nodes_contradict_each_other() {
    let estimate = kind("m5.large", &class());
    let (memory, disk) =
        (estimate.capacity.get(Resources::MEMORY), estimate.allocatable.get(Resources::EPHEMERAL_STORAGE));
    let honest = NodeReading { memory: Some(memory / 10 * 9), ..reading(disk / 10 * 9, 20) };
    let lie = NodeReading { memory: Some(memory / 10 * 12), ..reading(disk / 10 * 12, 27) };
    let rows = [(false, [memory / 10 * 9, disk / 10 * 9, 20]), (true, [memory, disk, 25])];
    for (contested, expected) in rows {
        let settings = NodeSettings { images: "ami-1", class_hash: "1" };
        let mut all = Measurements::default();
        for (node, reading) in
            [(1, &honest), (2, &honest), (3, &lie), (4, &lie)].into_iter().take(if contested { 4 } else { 2 })
        {
            all.learn(settings, &NodeReading { node, ..reading.clone() }, NOW);
        }
        let found = kind("m5.large", &ClassSettings { measured: all.by_type(settings, NOW), ..class() });
        let amounts = [
            found.capacity.get(Resources::MEMORY),
            found.allocatable.get(Resources::EPHEMERAL_STORAGE),
            found.attach_limits["ebs.csi.aws.com"],
        ];
        assert_eq!(amounts, expected, "{contested}");
    }
}

fn reading(disk: i64, volumes: i64) -> NodeReading {
    NodeReading {
        class_hash: Some("1".to_owned()),
        instance_type: "m5.large".to_owned(),
        allocatable: [(Resources::EPHEMERAL_STORAGE, disk)].into_iter().collect(),
        volumes: Some(volumes),
        ..NodeReading::default()
    }
}

fn class_with(memory_threshold: Threshold) -> ClassSettings {
    ClassSettings { memory_threshold, ..class() }
}

#[test]
fn listing_keeps_a_type_without_price_as_unpriced() {
    let unpriced = info("r9g.large");
    assert!(!data::facts().unwrap().on_demand.contains_key(&unpriced.name));
    let (kind, quotes) = listing(&unpriced, &class());
    assert!(kind.offerings.is_empty());
    let shown: Vec<_> = kind.unpriced.iter().map(|one| (one.zone.as_str(), one.capacity_type, one.available)).collect();
    let sold = quotes.iter().all(|quote| quote.price.is_none() && quote.obstacle == Some(Unavailable::NoPrice));
    assert!(sold && shown.iter().all(|(zone, _, available)| *zone == "us-east-1a" && *available), "{shown:?}");
    assert_eq!(shown.len(), quotes.len());
    assert_eq!(
        shown.iter().map(|(_, bought, _)| *bought).collect::<Vec<_>>(),
        [CapacityType::Spot, CapacityType::OnDemand]
    );
}

/// Invariants for every type under every AMI family. Allocatable amounts are never negative and never above the capacity.
/// Labels are not empty, except the hypervisor of bare metal. Offerings have a fixed order.
#[test]
fn listing_holds_invariants_for_every_type_and_family() {
    let mut seen = 0;
    for family in FAMILIES {
        let plain = ClassSettings { family, ..class() };
        let greedy = ClassSettings {
            max_pods: Some(3),
            kube_reserved: BTreeMap::from([("memory".to_owned(), 1 << 50), ("cpu".to_owned(), 1 << 30)]),
            system_reserved: BTreeMap::from([("pid".to_owned(), 100), ("ephemeral-storage".to_owned(), 1 << 50)]),
            memory_threshold: Threshold::Share(99_999),
            raid0: true,
            ..plain.clone()
        };
        for (class, info) in [&plain, &greedy]
            .into_iter()
            .flat_map(|class| data::instance_types().unwrap().values().map(move |info| (class, info)))
        {
            let (kind, quotes) = listing_of(info, class);
            seen += 1;
            for (resource, amount) in kind.allocatable.iter() {
                assert!((0..=kind.capacity.get(resource)).contains(&amount), "{} {resource} {amount}", info.name);
            }
            let empty = |(_, values): &(&String, &Vec<String>)| values.iter().any(String::is_empty);
            let empty: Vec<&String> = kind.labels.iter().filter(empty).map(|(key, _)| key).collect();
            let expected: &[&str] = if info.bare_metal { &[label::INSTANCE_HYPERVISOR] } else { &[] };
            assert_eq!(empty, expected, "{}", info.name);
            let order: Vec<_> = quotes.iter().map(|quote| (quote.zone.clone(), quote.capacity_type)).collect();
            assert!(order.is_sorted(), "{}: {order:?}", info.name);
        }
    }
    assert!(seen > 14 * 1300, "{seen}");
}

/// Lists a type as [`listing`], without parsing the region's zones again for every type.
fn listing_of(info: &InstanceTypeInfo, class: &ClassSettings) -> (InstanceType, Vec<Quote>) {
    let facts = data::facts().unwrap();
    let mut market = OfferingSource::with_prices(PriceBook::of_table([(info.name.clone(), 1000)].into()));
    let sold = |zone: &str| cloud::TypeOffering { instance_type: info.name.clone(), zone: zone.to_owned() };
    market.set_offerings(vec![sold("us-east-1b"), sold("us-east-1a")]);
    let images = [ResolvedImage { image: Image::default(), requirements: Vec::new() }];
    let infos = std::slice::from_ref(info);
    let source =
        Source { infos, facts, offerings: &market, shortages: &UnavailableOfferings::default(), images: &images };
    let zone = |name: &str| (name.to_owned(), Zone { id: name.to_owned(), subnets: vec!["subnet-1".to_owned()] });
    let class = ClassSettings { zones: ["us-east-1b", "us-east-1a"].map(zone).into(), ..class.clone() };
    types::listing(info, &source, &class, &Settings { region: "us-east-1".to_owned(), ..Settings::default() }, NOW)
}
