//! Tests of launch templates and fleets with settings of an EC2NodeClass or a NodeClaim that differ from the defaults.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeMap;

use api::label;
use api::nodeclass::EC2NodeClassSpec;
use cloud::fake::{Builder, FakeCloud, own_image, settings};
use cloud::launch::{ClaimId, InFlight, LaunchChoice, LaunchOffer, LaunchRequest, Token, Within, choose, interpret};
use cloud::nodeclass::{Answers, ResolutionCache, ResolvedClass, fetch, queries, resolve};
use cloud::unavailable_offerings::{Scope, UnavailableOfferings};
use cloud::{
    FleetAnswer, FleetError, FleetRequest, Image, InterfaceKind, LaunchTemplateRequest, NetworkInterface,
    PlacementGroup, Settings,
};
use jiff::Timestamp;
use planner::{CapacityType, Catalogue, InstanceType, MicroDollars, Offering, Reservation, Resources};
use serde_json::{Value, json};

const NOW: Timestamp = Timestamp::constant(1_790_000_000, 0);
const EFA: &str = "vpc.amazonaws.com/efa";

/// Returns a resolved EC2NodeClass with these fields besides the required ones.
async fn class(more: Value) -> ResolvedClass {
    let builder = FakeCloud::builder("us-west-2").only_types(&["m5.large"]);
    let cloud = own_images().into_iter().fold(builder, Builder::image).build().unwrap();
    let mut spec = json!({
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "kerf"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "kerf"}}],
        "amiSelectorTerms": [{"alias": "al2023@latest"}], "instanceProfile": "nodes",
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let object = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}});
    let mut object = object;
    object["spec"] = spec;
    let object: api::EC2NodeClass = serde_json::from_value(object).unwrap();
    let settings = settings();
    let questions = queries(&object, &settings);
    let answers: Answers = fetch(&cloud, &questions, &ResolutionCache::default(), Timestamp::UNIX_EPOCH).await;
    resolve(&object, answers, &settings, Timestamp::UNIX_EPOCH).class
}

/// Returns two images for amd64 and one for arm64.
fn own_images() -> [Image; 3] {
    [
        own_image("ami-old", "golden-1", "x86_64", "2026-01-01T00:00:00.000Z"),
        own_image("ami-new", "golden-2", "x86_64", "2026-02-01T00:00:00.000Z"),
        own_image("ami-arm", "golden-2-arm", "arm64", "2026-02-01T00:00:00.000Z"),
    ]
}

fn offering(zone: &str, capacity_type: CapacityType, price: i64) -> Offering {
    Offering {
        zone: zone.to_owned(),
        capacity_type,
        price: MicroDollars(price),
        premium: MicroDollars(0),
        available: true,
        labels: BTreeMap::new(),
        reservation: None,
    }
}

/// Returns a reserved offering; `kind` is `default`, `capacity-block` or `interruptible`.
fn reserved(zone: &str, id: &str, remaining: u32, kind: &str) -> Offering {
    let block = if kind == "capacity-block" { kind } else { "default" };
    let labels = [
        (label::CAPACITY_RESERVATION_TYPE.to_owned(), block.to_owned()),
        (label::CAPACITY_RESERVATION_INTERRUPTIBLE.to_owned(), (kind == "interruptible").to_string()),
    ];
    Offering {
        labels: labels.into(),
        reservation: Some(Reservation { id: id.to_owned(), remaining }),
        ..offering(zone, CapacityType::Reserved, 1)
    }
}

fn kind(name: &str, efa: i64, offerings: Vec<Offering>) -> InstanceType {
    let amounts: Resources = [(Resources::CPU, 8000), (Resources::MEMORY, 32 << 30), (Resources::PODS, 29), (EFA, efa)]
        .into_iter()
        .collect();
    let labels = [
        (label::INSTANCE_TYPE, vec![name]),
        (label::ARCH, vec!["amd64"]),
        (label::OS, vec!["linux"]),
        (label::INSTANCE_TENANCY, vec!["default", "dedicated"]),
    ];
    let owned = |(key, values): (&str, Vec<&str>)| (key.to_owned(), values.into_iter().map(str::to_owned).collect());
    InstanceType {
        name: name.to_owned(),
        labels: labels.into_iter().map(owned).collect(),
        capacity: amounts.clone(),
        allocatable: amounts,
        offerings,
        ..InstanceType::default()
    }
}

fn ask(requirements: &Value, requests: &[(&str, i64)]) -> LaunchRequest {
    let listed: Vec<api::Requirement> = serde_json::from_value(requirements.clone()).unwrap();
    LaunchRequest {
        pool: "general".to_owned(),
        requirements: cloud::requirements(&listed),
        requests: requests.iter().copied().collect(),
        ..LaunchRequest::default()
    }
}

fn choice_of(
    class: &ResolvedClass,
    types: Vec<InstanceType>,
    ask: &LaunchRequest,
    settings: &Settings,
) -> LaunchChoice {
    let catalogue = Catalogue { name: "default".to_owned(), types, ..Catalogue::default() };
    let (shortages, in_flight) = (UnavailableOfferings::default(), InFlight::default());
    let offer =
        LaunchOffer { class, catalogue: &catalogue, shortages: &shortages, in_flight: &in_flight, settings, now: NOW };
    choose(ask, &offer).unwrap()
}

fn plain() -> Vec<InstanceType> {
    vec![kind("m5.2xlarge", 0, vec![offering("us-west-2a", CapacityType::OnDemand, 384_000)])]
}

fn request(choice: &LaunchChoice) -> FleetRequest {
    let claims = [ClaimId { name: "a".to_owned(), uid: "uid".to_owned() }];
    choice.request(&Token::new(choice, &claims, NOW), &claims)
}

/// Returns the network interfaces of the only template.
fn interfaces(choice: &LaunchChoice) -> Vec<NetworkInterface> {
    assert_eq!(choice.templates.len(), 1);
    choice.templates[0].network_interfaces.clone()
}

#[tokio::test]
async fn template_has_defaults_when_nothing_special_is_requested() {
    let choice = choice_of(&class(json!({})).await, plain(), &ask(&json!([]), &[]), &settings());
    let template = &choice.templates[0];
    assert!(template.network_interfaces.is_empty() && template.connection_tracking.is_none());
    assert_eq!((template.placement.tenancy.clone(), template.nested_virtualization), (None, None));
    assert!(!template.enclave && !template.spot && template.market_type.is_none());
    assert_eq!(template.capacity_reservation, None, "without the gate EC2 decides");
    let request = request(&choice);
    assert_eq!((request.capacity_type.as_str(), request.default_target_capacity_type), ("on-demand", None));
}

#[tokio::test]
async fn interfaces_have_efa_only_when_requested() {
    let types = || vec![kind("p4d.24xlarge", 4, vec![offering("us-west-2a", CapacityType::OnDemand, 1)])];
    let class = class(json!({"associatePublicIPAddress": false})).await;
    assert!(interfaces(&choice_of(&class, types(), &ask(&json!([]), &[]), &settings())).is_empty());
    let all = interfaces(&choice_of(&class, types(), &ask(&json!([]), &[(EFA, 1)]), &settings()));
    let places: Vec<(u32, u32)> = all.iter().map(|one| (one.card, one.device)).collect();
    assert_eq!(places, [(0, 0), (1, 1), (2, 1), (3, 1)]);
    assert!(all.iter().all(|one| one.kind == InterfaceKind::Efa && one.associate_public_ip == Some(false)));
}

/// Rows: the service CIDR, and the IPv4 prefixes, IPv6 prefixes and IPv6 addresses of the interface with IP.
#[tokio::test]
async fn interfaces_of_the_class_have_no_ip_on_efa_only() {
    let class = class(json!({
        "associatePublicIPAddress": true, "ipPrefixCount": 2,
        "connectionTracking": {"tcpEstablishedTimeout": 600},
        "networkInterfaces": [
            {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
            {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
        ],
    }))
    .await;
    let rows = [("10.100.0.0/16", (Some(2), None, None)), ("fd00:10::/108", (None, Some(2), Some(1)))];
    for (cidr, addresses) in rows {
        let settings = Settings { cluster_cidr: cidr.to_owned(), ..settings() };
        let choice = choice_of(&class, plain(), &ask(&json!([]), &[]), &settings);
        let [ip, efa] = interfaces(&choice).try_into().unwrap();
        assert_eq!((ip.kind, ip.associate_public_ip), (InterfaceKind::Interface, Some(true)), "{cidr}");
        assert_eq!((ip.ipv4_prefixes, ip.ipv6_prefixes, ip.ipv6_addresses), addresses, "{cidr}");
        let bare = NetworkInterface { device: 1, kind: InterfaceKind::EfaOnly, ..NetworkInterface::default() };
        assert_eq!(efa, bare, "{cidr}");
        assert_eq!(choice.templates[0].connection_tracking.unwrap().tcp_established, Some(600), "{cidr}");
    }
}

#[tokio::test]
async fn interfaces_have_ipv6_when_the_cluster_is_ipv6() {
    let class = class(json!({"ipPrefixCount": 1, "associatePublicIPAddress": true})).await;
    let settings = Settings { cluster_cidr: "fd00:10::/108".to_owned(), ..settings() };
    let [one] = interfaces(&choice_of(&class, plain(), &ask(&json!([]), &[]), &settings)).try_into().unwrap();
    assert_eq!((one.primary_ipv6, one.ipv6_addresses), (Some(true), Some(1)));
    assert_eq!((one.ipv6_prefixes, one.ipv4_prefixes), (Some(1), None));
    assert_eq!(one.associate_public_ip, Some(true));
}

#[tokio::test]
async fn interfaces_follow_the_dns_address_before_the_service_cidr() {
    let class = class(json!({"associatePublicIPAddress": true})).await;
    for (dns, services, ipv6) in [("fd00:10::a", "10.100.0.0/16", true), ("10.100.0.10", "fd00:10::/108", false)] {
        let settings = Settings { cluster_dns: vec![dns.to_owned()], cluster_cidr: services.to_owned(), ..settings() };
        let found = interfaces(&choice_of(&class, plain(), &ask(&json!([]), &[]), &settings));
        assert_eq!(found.iter().any(|one| one.primary_ipv6 == Some(true)), ipv6, "{dns} before {services}");
    }
}

#[tokio::test]
async fn template_sets_tenancy_enclave_and_nested_virtualization() {
    let class = class(json!({"cpuOptions": {"nestedVirtualization": "enabled"}})).await;
    let dedicated = json!([{"key": label::INSTANCE_TENANCY, "operator": "In", "values": ["dedicated"]}]);
    let choice = choice_of(&class, plain(), &ask(&dedicated, &[]), &settings());
    let template = &choice.templates[0];
    assert_eq!(template.placement.tenancy.as_deref(), Some("dedicated"));
    assert_eq!(template.nested_virtualization, Some(true));
    let both = json!([{"key": label::INSTANCE_TENANCY, "operator": "In", "values": ["dedicated", "default"]}]);
    assert_eq!(choice_of(&class, plain(), &ask(&both, &[]), &settings()).templates[0].placement.tenancy, None);
    let slots = "eks.amazonaws.com/nip-slots";
    let mut types = plain();
    types[0].allocatable = types[0].allocatable.iter().chain([(slots, 4)]).collect();
    assert!(choice_of(&class, types, &ask(&json!([]), &[(slots, 1)]), &settings()).templates[0].enclave);
}

/// Rows: kind of reservation, DefaultTargetCapacityType, market type, allowed reservations of the fleet's reserved capacity.
#[tokio::test]
async fn request_sets_target_and_market_type_by_reservation_kind() {
    let class = class(json!({})).await;
    let settings = Settings { reserved_capacity: true, ..settings() };
    let rows = [
        ("default", None, None, None),
        ("capacity-block", Some("capacity-block"), Some("capacity-block"), None),
        (
            "interruptible",
            Some("reserved-capacity"),
            Some("interruptible-capacity-reservation"),
            Some("interruptible-capacity-reservation"),
        ),
    ];
    for (what, target, market, option) in rows {
        let offerings =
            vec![reserved("us-west-2a", "cr-1", 2, what), offering("us-west-2a", CapacityType::OnDemand, 384_000)];
        let choice = choice_of(&class, vec![kind("m5.2xlarge", 0, offerings)], &ask(&json!([]), &[]), &settings);
        assert_eq!(choice.capacity_type, CapacityType::Reserved, "{what}");
        let (request, template) = (request(&choice), &choice.templates[0]);
        assert_eq!(request.default_target_capacity_type.as_deref(), target, "{what}");
        assert_eq!(request.reserved_capacity_types.first().map(String::as_str), option, "{what}");
        assert_eq!(request.capacity_type, "on-demand", "{what}");
        assert_eq!(template.market_type.as_deref(), market, "{what}");
        let reservation = template.capacity_reservation.clone().unwrap();
        assert_eq!(
            (reservation.preference.as_str(), reservation.id.as_deref()),
            ("capacity-reservations-only", Some("cr-1"))
        );
    }
    let choice = choice_of(&class, plain(), &ask(&json!([]), &[]), &settings);
    let reservation = choice.templates[0].capacity_reservation.clone().unwrap();
    assert_eq!(
        (reservation.preference.as_str(), reservation.id),
        ("none", None),
        "nothing reserved is used up by accident"
    );
}

#[tokio::test]
async fn choose_uses_one_reservation_kind_and_the_largest_per_zone() {
    let class = class(json!({})).await;
    let settings = Settings { reserved_capacity: true, ..settings() };
    let used = |types: Vec<InstanceType>| -> Vec<String> {
        let choice = choice_of(&class, types, &ask(&json!([]), &[]), &settings);
        choice.reservations.into_values().collect()
    };
    let two = vec![reserved("us-west-2a", "cr-1", 1, "default"), reserved("us-west-2a", "cr-2", 5, "default")];
    assert_eq!(used(vec![kind("m5.2xlarge", 0, two)]), ["cr-2"]);
    let mixed = vec![reserved("us-west-2a", "cr-1", 1, "interruptible"), reserved("us-west-2b", "cr-2", 5, "default")];
    assert_eq!(used(vec![kind("m5.2xlarge", 0, mixed)]), ["cr-2"], "of equal price the plain one goes first");
    let blocks = |id: &str| vec![reserved("us-west-2a", id, 1, "capacity-block")];
    let types = vec![kind("p5.48xlarge", 0, blocks("cr-1")), kind("p4d.24xlarge", 0, blocks("cr-2"))];
    assert_eq!(used(types), ["cr-2"], "blocks are bought one type at a time");
    let empty = vec![reserved("us-west-2a", "cr-1", 0, "default"), offering("us-west-2a", CapacityType::OnDemand, 9)];
    assert_eq!(used(vec![kind("m5.2xlarge", 0, empty)]), [] as [&str; 0]);
}

#[tokio::test]
async fn interpret_marks_the_reservation_when_it_is_exhausted() {
    let class = class(json!({})).await;
    let settings = Settings { reserved_capacity: true, ..settings() };
    let types = vec![kind("m5.2xlarge", 0, vec![reserved("us-west-2a", "cr-1", 2, "default")])];
    let choice = choice_of(&class, types, &ask(&json!([]), &[]), &settings);
    let marked = |code: &str| {
        let error = FleetError {
            code: code.to_owned(),
            instance_type: "m5.2xlarge".to_owned(),
            zone: "us-west-2a".to_owned(),
            lifecycle: "on-demand".to_owned(),
            ..FleetError::default()
        };
        interpret(&FleetAnswer { errors: vec![error], ..FleetAnswer::default() }, &choice.within()).shortages
    };
    assert_eq!(marked("ReservationCapacityExceeded"), [Scope::Reservation("cr-1".to_owned())]);
    assert_eq!(marked("InsufficientInstanceCapacity"), [Scope::Reservation("cr-1".to_owned())]);
    assert_eq!(marked("RequestLimitExceeded"), []);
}

/// A full placement group affects only instances of its EC2NodeClass, which use another zone.
#[tokio::test]
async fn choose_avoids_a_zone_when_the_placement_group_is_full() {
    let group = PlacementGroup { id: "pg-1".to_owned(), strategy: "spread".to_owned(), ..PlacementGroup::default() };
    let grouped = ResolvedClass { placement_group: Some(group), ..class(json!({})).await };
    let free = class(json!({})).await;
    let mut shortages = UnavailableOfferings::default();
    shortages.mark(Scope::Group { group: "pg-1".to_owned(), zone: "us-west-2a".to_owned() }, NOW);
    let zones = |class: &ResolvedClass| -> Vec<String> {
        let offerings = ["us-west-2a", "us-west-2b"].map(|zone| offering(zone, CapacityType::OnDemand, 1)).to_vec();
        let catalogue = Catalogue {
            name: "default".to_owned(),
            types: vec![kind("m5.2xlarge", 0, offerings)],
            ..Catalogue::default()
        };
        let (in_flight, settings) = (InFlight::default(), settings());
        let offer = LaunchOffer {
            class,
            catalogue: &catalogue,
            shortages: &shortages,
            in_flight: &in_flight,
            settings: &settings,
            now: NOW,
        };
        let choice = choose(&ask(&json!([]), &[]), &offer).unwrap();
        choice.configs.into_iter().flat_map(|config| config.overrides).map(|one| one.zone).collect()
    };
    assert_eq!(zones(&grouped), ["us-west-2b"]);
    assert_eq!(zones(&free), ["us-west-2a", "us-west-2b"]);
}

#[test]
fn interpret_marks_only_the_placement_group_when_it_is_full() {
    let marked = |message: &str, partition| {
        let error = FleetError {
            code: "InsufficientInstanceCapacity".to_owned(),
            message: message.to_owned(),
            instance_type: "m5.2xlarge".to_owned(),
            zone: "us-west-2a".to_owned(),
            lifecycle: "spot".to_owned(),
            ..FleetError::default()
        };
        let within = Within { group: Some(("pg-1", partition)), ..Within::default() };
        interpret(&FleetAnswer { errors: vec![error], ..FleetAnswer::default() }, &within).shortages
    };
    let (group, zone) = ("pg-1".to_owned(), "us-west-2a".to_owned());
    let placed = Scope::Placed {
        capacity_type: CapacityType::Spot,
        instance_type: "m5.2xlarge".to_owned(),
        zone: zone.clone(),
        group: group.clone(),
        partition: Some(2),
    };
    assert_eq!(marked("There is no capacity available.", Some(2)), [placed]);
    let full = "The placement group takes at most 7 running instances per Availability Zone.";
    assert_eq!(marked(full, None), [Scope::Group { group, zone }]);
}

/// Two types with one image: one template for equal pod counts, two for different ones.
#[tokio::test]
async fn templates_are_shared_when_image_and_pod_count_match() {
    let class = class(json!({})).await;
    let types = |pods| {
        let mut all = plain();
        all.push(kind("c5.2xlarge", 0, vec![offering("us-west-2b", CapacityType::OnDemand, 340_000)]));
        all[1].capacity = all[1].capacity.iter().filter(|(name, _)| *name != Resources::PODS).collect();
        all[1].capacity = all[1].capacity.iter().chain([(Resources::PODS, pods)]).collect();
        all
    };
    let count = |pods| choice_of(&class, types(pods), &ask(&json!([]), &[]), &settings()).templates.len();
    assert_eq!((count(29), count(58)), (1, 2));
}

/// Rows: the images that the EC2NodeClass selects, and each template's image with its instance type.
#[tokio::test]
async fn templates_use_the_newest_image_per_architecture() {
    let arm = || {
        let mut kind = kind("m7g.2xlarge", 0, vec![offering("us-west-2a", CapacityType::OnDemand, 326_000)]);
        kind.labels.insert(label::ARCH.to_owned(), vec!["arm64".to_owned()]);
        kind
    };
    let rows = [
        (json!([{"id": "ami-old"}, {"id": "ami-arm"}]), vec![("ami-arm", "m7g.2xlarge"), ("ami-old", "m5.2xlarge")]),
        (json!([{"name": "golden-*"}]), vec![("ami-arm", "m7g.2xlarge"), ("ami-new", "m5.2xlarge")]),
        (json!([{"id": "ami-old"}, {"id": "ami-new"}]), vec![("ami-new", "m5.2xlarge")]),
    ];
    for (terms, expected) in rows {
        let class = class(json!({"amiFamily": "Custom", "amiSelectorTerms": terms})).await;
        let choice = choice_of(&class, [plain(), vec![arm()]].concat(), &ask(&json!([]), &[]), &settings());
        let launched = |template: &LaunchTemplateRequest| {
            let config = choice.configs.iter().find(|config| config.launch_template == template.name).unwrap();
            let [only] = config.overrides.as_slice() else { panic!("{config:?}") };
            assert_eq!(only.image_id, template.image_id, "{terms}");
            (template.image_id.clone(), only.instance_type.clone())
        };
        let found: Vec<(String, String)> = choice.templates.iter().map(launched).collect();
        let found: Vec<(&str, &str)> = found.iter().map(|(image, kind)| (image.as_str(), kind.as_str())).collect();
        assert_eq!(found, expected, "{terms}");
    }
}

#[test]
fn block_devices_round_volume_sizes_up_to_gib() {
    let spec: EC2NodeClassSpec = serde_json::from_value(json!({
        "subnetSelectorTerms": [], "securityGroupSelectorTerms": [], "amiSelectorTerms": [],
        "blockDeviceMappings": [
            {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20G"}},
            {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "20Gi"}},
            {"deviceName": "/dev/xvdc", "ebs": {"volumeSize": "1"}},
        ],
    }))
    .unwrap();
    let sizes: Vec<Option<u32>> =
        cloud::launch::block_devices(&spec, spec.resolved_ami_family()).into_iter().map(|one| one.size_gib).collect();
    assert_eq!(sizes, [Some(19), Some(20), Some(1)]);
}
