//! Tests of capacity, allocatable and labels of instance types against Karpenter's published table and known values.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeMap;

use api::nodeclass::AmiFamily;
use api::{label, quantity};
use cloud::nodeclass::{ResolvedImage, Zone};
use cloud::types::{self, ClassSettings, OfferingSource, Source, Threshold};
use cloud::unavailable_offerings::{Scope, UnavailableOfferings};
use cloud::{Image, InstanceTypeInfo, Settings, SpotPrice, data};
use jiff::{SignedDuration, Timestamp};
use planner::{CapacityType, MicroDollars, Resources};
use serde::Deserialize;

/// Rows of the table "Instance Types" of Karpenter's documentation.
const PUBLISHED: &str = include_str!("published-types.json");

#[derive(Deserialize)]
struct Example {
    labels: BTreeMap<String, String>,
    resources: BTreeMap<String, String>,
}

fn examples() -> BTreeMap<String, Example> {
    serde_json::from_str(PUBLISHED).unwrap()
}

fn settings() -> Settings {
    Settings { region: "us-west-2".to_owned(), ..Settings::default() }
}

fn info(name: &str) -> InstanceTypeInfo {
    data::instance_types().unwrap()[name].clone()
}

fn allocatable(name: &str, class: &ClassSettings, settings: &Settings) -> (Resources, Resources) {
    let info = info(name);
    let capacity = types::capacity(&info, data::facts().unwrap(), class, settings);
    let allocatable = types::allocatable(&info, &capacity, class);
    (capacity, allocatable)
}

/// Differences from the table: type, key, Kerf's value, the table's value.
///
/// Each is a difference in the data and not in a formula, because the table is older than the captured types. Since then EC2
/// corrected the clock speed of its newest processors. EC2 also lists the i8ge.48xlarge with two network cards of 12
/// interfaces; only the default card counts, as on the node. The list of branch interfaces now has the c9g and m8ib families.
const EXCEPTIONS: &[(&str, &str, &str, &str)] = &[
    ("c9g.16xlarge", label::INSTANCE_CPU_CLOCK, "3300", "2800"),
    ("c9g.16xlarge", "vpc.amazonaws.com/pod-eni", "106", ""),
    ("i7i.2xlarge", label::INSTANCE_CPU_CLOCK, "3200", "2400"),
    ("i8ge.48xlarge", "memory", "1518332805120", "1511550615552"),
    ("i8ge.48xlarge", "pods", "590", "1178"),
    ("m8ib.metal-96xl", "vpc.amazonaws.com/pod-eni", "98", ""),
    ("m9g.16xlarge", label::INSTANCE_CPU_CLOCK, "3300", "2800"),
    ("m9gd.metal-48xl", label::INSTANCE_CPU_CLOCK, "3300", "2800"),
];

#[test]
fn labels_and_resources_equal_the_published_table() {
    let class = ClassSettings::default();
    let examples = examples();
    assert_eq!(examples.len(), 40);
    let mut differences = Vec::new();
    for (name, example) in examples {
        let mut labels = types::labels(&info(&name), data::facts().unwrap(), &settings());
        // The table omits labels that are the same for all types of a region.
        assert_eq!(labels.remove(label::REGION), Some(vec!["us-west-2".to_owned()]));
        assert_eq!(labels.remove(label::INSTANCE_TENANCY), Some(["default", "dedicated"].map(str::to_owned).to_vec()));
        let (_, mut found) = allocatable(&name, &class, &settings());
        // The table rounds memory down to whole MiB.
        found.set(Resources::MEMORY, found.get(Resources::MEMORY) >> 20 << 20);
        // The table has the disk without its file system, which takes less than 1 %.
        let whole = quantity::amount(Resources::EPHEMERAL_STORAGE, &example.resources[Resources::EPHEMERAL_STORAGE]);
        let (whole, disk) = (whole.unwrap(), found.get(Resources::EPHEMERAL_STORAGE));
        assert!((whole - whole / 100..whole).contains(&disk), "{name} has {disk} of {whole}");
        found.set(Resources::EPHEMERAL_STORAGE, whole);
        let mut ours: BTreeMap<String, String> =
            labels.into_iter().map(|(key, values)| (key, values.join(","))).collect();
        ours.extend(found.iter().map(|(resource, amount)| (resource.to_owned(), amount.to_string())));
        let mut theirs = example.labels;
        for (resource, text) in example.resources {
            let amount = quantity::amount(&resource, &text).unwrap();
            theirs.insert(resource, amount.to_string());
        }
        let keys: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).cloned().collect();
        for key in keys {
            let (our, their) = (ours.get(&key).cloned(), theirs.get(&key).cloned());
            if our != their {
                differences.push((name.clone(), key, our.unwrap_or_default(), their.unwrap_or_default()));
            }
        }
    }
    let expected: Vec<_> =
        EXCEPTIONS.iter().map(|row| (row.0.to_owned(), row.1.to_owned(), row.2.to_owned(), row.3.to_owned())).collect();
    assert_eq!(differences, expected);
}

#[test]
fn allocatable_equals_known_values() {
    let mib = |resources: &Resources| resources.get(Resources::MEMORY) >> 20;
    let (capacity, left) = allocatable("m5.large", &ClassSettings::default(), &settings());
    assert_eq!((left.get(Resources::CPU), mib(&left), left.get(Resources::PODS)), (1930, 6903, 29));
    assert_eq!(capacity.get(Resources::CPU), 2000);
    for (name, pods) in [("t3.large", 35), ("m6idn.32xlarge", 394)] {
        let (capacity, _) = allocatable(name, &ClassSettings::default(), &settings());
        assert_eq!(capacity.get(Resources::PODS), pods, "{name}");
    }
}

#[test]
fn allocatable_memory_is_never_above_kubelet_reports() {
    for (name, kib) in
        [("t4g.small", 1_408_312), ("t4g.medium", 3_377_496), ("t4g.xlarge", 15_136_012), ("m5.large", 7_220_184)]
    {
        let (_, left) = allocatable(name, &ClassSettings::default(), &settings());
        assert!(left.get(Resources::MEMORY) <= kib * 1024, "{name} promises {}", left.get(Resources::MEMORY));
    }
}

/// Rows: class settings and settings, then pods and kubelet's memory reservation of a t3.large.
#[test]
fn max_pods_and_kube_reserved_follow_family_and_settings() {
    let reserved = |class: &ClassSettings, settings: &Settings| {
        let (capacity, left) = allocatable("t3.large", class, settings);
        let memory = capacity.get(Resources::MEMORY) - left.get(Resources::MEMORY);
        (capacity.get(Resources::PODS), (memory >> 20) - 100)
    };
    let class =
        |family, max_pods, pods_per_core| ClassSettings { family, max_pods, pods_per_core, ..ClassSettings::default() };
    let enis = |reserved_enis| Settings { reserved_enis, ..settings() };
    let rows = [
        (class(AmiFamily::Al2023, Some(10), None), enis(0), (10, 640)),
        (class(AmiFamily::Custom, Some(10), None), enis(0), (10, 640)),
        (class(AmiFamily::Bottlerocket, Some(10), None), enis(0), (10, 365)),
        (class(AmiFamily::Windows2022, Some(10), None), enis(0), (10, 365)),
        (class(AmiFamily::Al2023, None, None), enis(1), (24, 640)),
        (class(AmiFamily::Bottlerocket, None, None), enis(1), (24, 519)),
        (class(AmiFamily::Windows2022, None, None), enis(1), (110, 1465)),
        (class(AmiFamily::Al2023, None, None), enis(1_000_000), (0, 640)),
        (class(AmiFamily::Al2023, None, Some(4)), enis(0), (8, 640)),
        (class(AmiFamily::Al2023, None, Some(0)), enis(0), (35, 640)),
        (class(AmiFamily::Bottlerocket, None, Some(4)), enis(0), (35, 640)),
    ];
    for (class, settings, expected) in rows {
        assert_eq!(reserved(&class, &settings), expected, "{class:?} {}", settings.reserved_enis);
    }
}

#[test]
fn class_settings_parse_thresholds_and_disks() {
    let class = |yaml: &str| -> ClassSettings {
        let class: api::EC2NodeClass = serde_json::from_str(&format!(
            r#"{{"apiVersion":"karpenter.k8s.aws/v1","kind":"EC2NodeClass","metadata":{{"name":"c"}},"spec":{{
            "subnetSelectorTerms":[],"securityGroupSelectorTerms":[],"amiSelectorTerms":[{{"alias":"al2023@latest"}}],{yaml}}}}}"#
        ))
        .unwrap();
        ClassSettings::new(&class, BTreeMap::new()).unwrap()
    };
    let plain = class(r#""role":"r""#);
    assert_eq!(plain, ClassSettings { name: "c".to_owned(), ..ClassSettings::default() });
    let rows = [
        (r#""kubelet":{"evictionHard":{"memory.available":"5%"}}"#, Threshold::Share(5000)),
        (r#""kubelet":{"evictionHard":{"memory.available":"7.5%"}}"#, Threshold::Share(7500)),
        (r#""kubelet":{"evictionHard":{"memory.available":"500Mi"}}"#, Threshold::Bytes(500 << 20)),
        (r#""kubelet":{"evictionSoft":{"memory.available":"50%"}}"#, Threshold::Bytes(100 << 20)),
    ];
    for (yaml, expected) in rows {
        assert_eq!(class(yaml).memory_threshold, expected, "{yaml}");
    }
    assert_eq!((Threshold::Share(100_000).amount_of(1000), Threshold::Share(5000).amount_of(1001)), (0, 51));
    let kubelets = i64::from(20_893_676) * 1024;
    let threshold = Threshold::Share(10_000).amount_of(kubelets);
    assert!(
        (2_139_512_454..2_139_512_800).contains(&threshold),
        "kubelet computes 2139512454 with 32 bits: {threshold}"
    );
    let disks = [
        (r#""blockDeviceMappings":[{"deviceName":"/dev/xvda","ebs":{"volumeSize":"100Gi"}}]"#, 100 << 30),
        (r#""blockDeviceMappings":[{"deviceName":"/dev/xvdb","ebs":{"volumeSize":"100Gi"}}]"#, 20 << 30),
        (
            r#""blockDeviceMappings":[{"deviceName":"/dev/xvdb","rootVolume":true,"ebs":{"volumeSize":"20G"}}]"#,
            20_000_000_000,
        ),
        (r#""blockDeviceMappings":[{"deviceName":"/dev/xvda","ebs":{"snapshotID":"snap-1"}}]"#, 20 << 30),
    ];
    for (yaml, bytes) in disks {
        assert_eq!(class(yaml).disk_bytes, bytes, "{yaml}");
    }
    for (family, bytes) in
        [("AL2", 20 << 30), ("Bottlerocket", 20 << 30), ("Custom", 20 << 30), ("Windows2022", 50_i64 << 30)]
    {
        assert_eq!(class(&format!(r#""amiFamily":"{family}""#)).disk_bytes, bytes, "{family}");
    }
    let raid = class(r#""instanceStorePolicy":"RAID0""#);
    let (capacity, _) = allocatable("g5.xlarge", &raid, &settings());
    assert_eq!(capacity.get(Resources::EPHEMERAL_STORAGE), 247_500_000_000 - (64 << 20));
    let (capacity, _) = allocatable("m5.large", &raid, &settings());
    assert_eq!(capacity.get(Resources::EPHEMERAL_STORAGE), (20 << 30) - (80 << 20));
    let bad: api::EC2NodeClass = serde_json::from_str(
        r#"{"apiVersion":"karpenter.k8s.aws/v1","kind":"EC2NodeClass","metadata":{"name":"c"},"spec":{"subnetSelectorTerms":[],
        "securityGroupSelectorTerms":[],"amiSelectorTerms":[],"kubelet":{"kubeReserved":{"cpu":"much"}}}}"#,
    )
    .unwrap();
    let error = ClassSettings::new(&bad, BTreeMap::new()).unwrap_err();
    assert_eq!(error.field, "spec.kubelet.kubeReserved[cpu]");
}

#[test]
fn offerings_follow_zones_prices_capacity_and_images() {
    let now = Timestamp::constant(1_790_000_000, 0);
    let infos: Vec<InstanceTypeInfo> = ["m5.large", "m7g.large", "a1.large"].map(info).to_vec();
    let mut market = OfferingSource::new(
        [("m5.large", 96_000), ("m7g.large", 81_600), ("a1.large", 51_000)]
            .map(|(name, price)| (name.to_owned(), price))
            .into(),
    );
    market.set_offerings(data::type_offerings("us-west-2").unwrap());
    let zone = |id: &str, subnet: &str| Zone { id: id.to_owned(), subnets: vec![subnet.to_owned()] };
    let zones = [("us-west-2a", zone("usw2-az1", "subnet-1")), ("us-west-2x", zone("usw2-az9", "subnet-9"))];
    let zones = zones.map(|(name, zone)| (name.to_owned(), zone)).into();
    let class = ClassSettings { name: "default".to_owned(), zones, ..ClassSettings::default() };
    let image = ResolvedImage {
        image: Image { architecture: "x86_64".to_owned(), ..Image::default() },
        requirements: vec![api::Requirement::new(label::ARCH, api::Operator::In, ["amd64"])],
    };
    let mut shortages = UnavailableOfferings::without_risk();
    let offerings = |market: &OfferingSource, shortages: &UnavailableOfferings, name: &str, now: Timestamp| {
        let source = Source {
            infos: &infos,
            facts: data::facts().unwrap(),
            offerings: market,
            shortages,
            images: std::slice::from_ref(&image),
        };
        let catalogue = types::catalogue(&source, &class, &settings(), now);
        catalogue.types.into_iter().find(|kind| kind.name == name).unwrap().offerings
    };
    let shown = |market: &OfferingSource, shortages: &UnavailableOfferings, name: &str, now: Timestamp| {
        let offerings = offerings(market, shortages, name, now).into_iter();
        offerings.map(|one| (one.zone, one.capacity_type, one.price.0, one.available)).collect::<Vec<_>>()
    };
    let a = || "us-west-2a".to_owned();
    let (spot, list) = (CapacityType::Spot, CapacityType::OnDemand);
    let before = shown(&market, &shortages, "m5.large", now);
    assert_eq!(before, [(a(), spot, 96_000, true), (a(), list, 96_000, true)], "spot costs the list price at first");
    market.add_spot_prices(vec![SpotPrice { instance_type: "m5.large".to_owned(), zone: a(), micro_dollars: 30_000 }]);
    market.add_spot_prices(Vec::new());
    assert_eq!(market.price(spot, "m5.large", "us-west-2b"), None, "no history, no price");
    assert_eq!(market.price(spot, "m5.large", "us-west-2a"), Some(MicroDollars(30_000)));
    shortages.mark(Scope::offering(spot, "m5.large", "us-west-2a"), now);
    let dry = shown(&market, &shortages, "m5.large", now);
    assert_eq!(dry, [(a(), spot, 30_000, false), (a(), list, 96_000, true)]);
    let later = now.checked_add(SignedDuration::from_mins(3)).unwrap();
    assert!(shown(&market, &shortages, "m5.large", later)[0].3, "tried again after three minutes");
    let mut risky = UnavailableOfferings::default();
    risky.interrupted(Scope::offering(spot, "m5.large", "us-west-2a"), now);
    let prices: Vec<(i64, i64)> =
        offerings(&market, &risky, "m5.large", now).iter().map(|one| (one.price.0, one.charged().0)).collect();
    assert_eq!(prices, [(35_400, 30_000), (96_000, 96_000)], "15 % for the interruption, 3 % for the shortage");
    let mut dry = shortages.clone();
    dry.mark(Scope::Subnet("subnet-1".to_owned()), now);
    assert!(shown(&market, &dry, "m5.large", now).iter().all(|one| !one.3), "no addresses in the only subnet");
    let arm = shown(&market, &shortages, "m7g.large", now);
    assert_eq!(arm, [(a(), list, 81_600, false)], "no arm64 image, no spot price");
    assert!(
        shown(&market, &shortages, "a1.large", now).iter().all(|one| !one.3),
        "Amazon Linux 2023 does not run on a1"
    );
}

#[test]
fn interface_limits_equal_the_captured_types() {
    for (name, info) in data::instance_types().unwrap() {
        let limits = machine::pods::interface_limits(name).unwrap_or_else(|| panic!("the node does not know {name}"));
        let ours = (info.max_interfaces, info.ipv4_per_interface);
        assert_eq!((limits.interfaces, limits.ipv4_per_interface), ours, "{name}");
    }
}

#[test]
fn labels_and_allocatable_are_valid_for_every_captured_type() {
    let all = data::instance_types().unwrap();
    assert!(all.len() > 1300, "{}", all.len());
    for (name, info) in all {
        let labels = types::labels(info, data::facts().unwrap(), &settings());
        let (capacity, left) = allocatable(name, &ClassSettings::default(), &settings());
        for (resource, amount) in left.iter() {
            assert!((0..=capacity.get(resource)).contains(&amount), "{name} {resource} {amount}");
        }
        assert!(["amd64", "arm64"].contains(&labels[label::ARCH][0].as_str()), "{name}");
        for (key, values) in &labels {
            assert_eq!(values.len(), if key == label::INSTANCE_TENANCY { 2 } else { 1 }, "{name} {key}");
            let may_be_empty = key == label::INSTANCE_HYPERVISOR && info.bare_metal;
            assert!(may_be_empty || values.iter().all(|value| !value.is_empty()), "{name} {key}");
        }
    }
}
