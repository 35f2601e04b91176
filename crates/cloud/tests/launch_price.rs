//! What a launch requests lies within what its plan priced, for any prices: changed by NodeOverlays, spot above on-demand,
//! capacity reservations and capacity blocks, bare-metal and accelerated types.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::label;
use api::nodeclass::{AmiFamily, EC2NodeClassSpec};
use cloud::fake::settings;
use cloud::launch::{InFlight, LaunchChoice, LaunchOffer, LaunchRequest, choose};
use cloud::nodeclass::{ResolvedClass, ResolvedImage};
use cloud::unavailable_offerings::UnavailableOfferings;
use cloud::{Image, Subnet};
use jiff::Timestamp;
use planner::{
    CapacityType, Catalogue, InstanceType, Launch, MicroDollars, Offering, Operator, Pod, PodShape, Policy, Pool,
    Requirement, Reservation, Resources, Snapshot, check, plan,
};
use proptest::prelude::{ProptestConfig, Strategy, any, proptest};
use proptest::test_runner::RngSeed;
use proptest::{collection, option, prop_assert, prop_assert_eq};

const ZONES: [&str; 2] = ["us-west-2a", "us-west-2b"];

/// Labels of bare-metal and accelerated types.
const EXOTIC: [(&str, &str); 3] =
    [(label::INSTANCE_HYPERVISOR, ""), (label::INSTANCE_GPU_COUNT, "1"), (label::INSTANCE_ACCELERATOR_COUNT, "2")];

fn subnet(zone: &str) -> Subnet {
    Subnet { id: format!("subnet-{zone}"), zone: zone.to_owned(), free_addresses: 1000, ..Subnet::default() }
}

fn class() -> ResolvedClass {
    let image = Image { id: "ami-1".to_owned(), ..Image::default() };
    ResolvedClass {
        name: "default".to_owned(),
        spec: EC2NodeClassSpec::default(),
        family: AmiFamily::Al2023,
        agent: false,
        agent_settings: None,
        subnets: ZONES.map(subnet).into(),
        security_groups: Vec::new(),
        images: vec![ResolvedImage { image, requirements: Vec::new() }],
        reservations: Vec::new(),
        placement_group: None,
        instance_profile: "nodes".to_owned(),
        omits_own_tags: false,
    }
}

/// An offering: zone, price and availability.
fn offering(capacity_type: CapacityType, zone: usize, price: i64, available: bool) -> Offering {
    Offering {
        zone: ZONES[zone].to_owned(),
        capacity_type,
        price: MicroDollars(price),
        premium: MicroDollars(0),
        available,
        labels: BTreeMap::new(),
        reservation: None,
    }
}

fn reserved(kind: usize, price: i64, block: bool) -> Offering {
    let id = format!("cr-{kind}");
    let labels = [
        (label::CAPACITY_RESERVATION_ID, id.clone()),
        (label::CAPACITY_RESERVATION_TYPE, if block { "capacity-block" } else { "default" }.to_owned()),
    ];
    Offering {
        labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
        reservation: Some(Reservation { id, remaining: 2 }),
        ..offering(CapacityType::Reserved, 0, price, true)
    }
}

/// Spot and on-demand of each zone as price and availability, a reservation as price and kind, performance, size, and the row of
/// [`EXOTIC`].
type TypeRow = (Vec<Option<(i64, bool)>>, Option<(Option<i64>, bool)>, Option<u32>, i64, Option<usize>);

/// Types of 2 to 8 CPUs with any prices, as NodeOverlays can make them.
fn types() -> impl Strategy<Value = Vec<InstanceType>> {
    let price = || (1i64..6).prop_map(|price| price * 20_000);
    let one = (price(), any::<bool>());
    let sold = collection::vec(option::weighted(0.7, one), 4);
    let block = option::weighted(0.2, (option::weighted(0.3, price()), any::<bool>()));
    let performance = option::weighted(0.2, 800u32..1400);
    let exotic = option::weighted(0.4, 0usize..EXOTIC.len());
    collection::vec((sold, block, performance, 0i64..3, exotic), 1..6).prop_map(|rows| {
        let kind = |(number, (sold, block, performance, size, exotic)): (usize, TypeRow)| {
            let sides = [(CapacityType::Spot, 0), (CapacityType::Spot, 1), (CapacityType::OnDemand, 0)];
            let sides = sides.into_iter().chain([(CapacityType::OnDemand, 1)]);
            let sold = sides.zip(sold).filter_map(|((of, zone), row): (_, Option<(i64, bool)>)| {
                row.map(|(price, available)| offering(of, zone, price, available))
            });
            let mut offerings: Vec<Offering> = sold.collect();
            offerings
                .extend(block.map(|(price, block): (Option<i64>, bool)| reserved(number, price.unwrap_or(0), block)));
            let amounts: Resources =
                [(Resources::CPU, 2000 << size), (Resources::MEMORY, 64 << 30), (Resources::PODS, 50)]
                    .into_iter()
                    .collect();
            InstanceType {
                name: format!("t{number}.large"),
                capacity: amounts.clone(),
                allocatable: amounts,
                offerings,
                performance,
                labels: exotic
                    .map(|row| EXOTIC[row])
                    .map(|(key, value)| (key.to_owned(), vec![value.to_owned()]))
                    .into_iter()
                    .collect(),
                ..InstanceType::default()
            }
        };
        rows.into_iter().enumerate().map(kind).collect()
    })
}

fn snapshot(types: Vec<InstanceType>, pods: &[i64], capacity_types: &[&str]) -> Snapshot {
    let shape = |cpu: &i64| {
        let requests = [(Resources::CPU, cpu * 1000), (Resources::PODS, 1)].into_iter().collect();
        Arc::new(PodShape { requests, ..PodShape::default() })
    };
    let pod = |shape| Pod { uid: format!("{shape}"), name: format!("default/web-{shape}"), shape, ..Pod::default() };
    let well_known = label::CORE_WELL_KNOWN.iter().chain(&label::AWS_WELL_KNOWN).map(|key| (*key).to_owned());
    let requirements = vec![Requirement::new(label::CAPACITY_TYPE, Operator::In, capacity_types.iter().copied())];
    Snapshot {
        policy: Policy { well_known: well_known.collect(), least_spot_types: 1, ..Policy::default() },
        pools: vec![Pool { name: "general".to_owned(), requirements, ..Pool::default() }],
        catalogues: vec![Arc::new(Catalogue { name: "default".to_owned(), types, ..Catalogue::default() })],
        shapes: pods.iter().map(shape).collect(),
        pods: (0..pods.len()).map(pod).collect(),
        ..Snapshot::default()
    }
}

fn request(launch: &Launch) -> LaunchRequest {
    let types = Requirement::new(label::INSTANCE_TYPE, Operator::In, launch.instance_types.iter());
    LaunchRequest {
        pool: launch.pool.clone(),
        requirements: launch.requirements.iter().chain([&types]).collect(),
        requests: launch.requests.clone(),
        overlay_priced: true,
        ..LaunchRequest::default()
    }
}

/// Returns the offerings that EC2 may use, each with its type.
fn requested<'a>(choice: &LaunchChoice, types: &'a [InstanceType]) -> Vec<(&'a InstanceType, &'a Offering)> {
    let pools = choice.configs.iter().flat_map(|config| &config.overrides);
    let sold = pools.flat_map(|pool| {
        let kind = types.iter().filter(move |kind| kind.name == pool.instance_type);
        let offerings = kind.flat_map(|kind| kind.offerings.iter().map(move |it| (kind, it)));
        offerings.filter(move |(_, it)| it.zone == pool.zone && it.capacity_type == choice.capacity_type)
    });
    sold.collect()
}

/// Price per unit of performance, computed without the planner.
fn cost((kind, offering): &(&InstanceType, &Offering)) -> i64 {
    offering.price.0 * 1000 / i64::from(kind.performance.unwrap_or(1000))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]
    #[test]
    fn choose_requests_only_what_the_plan_priced(
        types in types(),
        pods in collection::vec(1i64..8, 1..5),
        sides in 0usize..4,
    ) {
        let sides: &[&str] = match sides {
            0 => &["spot", "on-demand"],
            1 => &["on-demand", "reserved"],
            2 => &["spot"],
            _ => &["spot", "on-demand", "reserved"],
        };
        let snapshot = snapshot(types, &pods, sides);
        let (class, settings, types) = (class(), settings(), &snapshot.catalogues[0].types);
        let planned = plan(&snapshot);
        prop_assert_eq!(check(&snapshot, &planned), Vec::new());
        for launch in &planned.launches {
            let offer = LaunchOffer {
                class: &class,
                catalogue: &snapshot.catalogues[0],
                shortages: &UnavailableOfferings::default(),
                in_flight: &InFlight::default(),
                settings: &settings,
                now: Timestamp::UNIX_EPOCH,
            };
            let choice = choose(&request(launch), &offer);
            prop_assert!(choice.is_ok(), "{choice:?} {launch:?}");
            let Ok(choice) = choice else { continue };
            let used = requested(&choice, types);
            let mut kinds = used.iter().map(|(kind, _)| kind);
            prop_assert!(kinds.all(|kind| launch.instance_types.contains(&kind.name)), "{choice:?} {launch:?}");
            let exotic = |name: &&String| types.iter().any(|kind| kind.name == **name && !kind.labels.is_empty());
            let count = launch.instance_types.iter().filter(exotic).count();
            prop_assert!(count == 0 || count == launch.instance_types.len(), "{launch:?}");
            let first = choice.configs.iter().flat_map(|config| &config.overrides).map(|pool| pool.priority).min();
            prop_assert_eq!(first, used.iter().map(cost).min());
            let mut best = used.iter().filter(|it| Some(cost(it)) == first);
            prop_assert!(best.any(|(_, it)| it.price == launch.price), "{choice:?} {launch:?}");
            let list = types.iter().filter(|kind| launch.instance_types.contains(&kind.name));
            let list = list.flat_map(|kind| kind.offerings.iter().map(move |it| (kind, it)));
            let allowed = |it: &Offering| sides.contains(&"on-demand") && it.capacity_type == CapacityType::OnDemand;
            let limit = list.filter(|(_, it)| it.available && allowed(it)).map(|it| cost(&it)).min();
            let is_spot = choice.capacity_type == CapacityType::Spot;
            let above = |it: &(&InstanceType, &Offering)| is_spot && limit.is_some_and(|limit| cost(it) > limit);
            prop_assert!(!used.iter().any(above), "spot above on-demand: {choice:?}");
        }
    }
}
