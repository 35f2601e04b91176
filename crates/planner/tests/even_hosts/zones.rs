//! Pods that are spread over zones and hosts: kube-scheduler binds all of them in any order.

use super::*;

/// Host of the model, in a zone.
struct ZoneHost {
    host: Host,
    zone: usize,
}

fn spread_pods(pods: usize, host_skew: u32, zones: &[&str], zone_skew: u32) -> (Snapshot, PodShape) {
    let mut snapshot = cluster_in(zones);
    let web = shape("web", 1000, 2048, vec![spread("web", host_skew, true), over_zones(zone_skew)]);
    add_pods(&mut snapshot, web.clone(), pods);
    (snapshot, web)
}

fn zone_hosts(snapshot: &Snapshot, plan: &Plan, web: &PodShape, zones: &[&str]) -> Vec<ZoneHost> {
    let zone = |launch: &planner::Launch| {
        let fixed = launch.requirements.iter().find(|it| it.key == label::ZONE).unwrap();
        zones.iter().position(|zone| fixed.values == [*zone]).unwrap()
    };
    let hosts = launched_hosts(snapshot, plan, web).into_iter().zip(&plan.launches);
    hosts.map(|(host, launch)| ZoneHost { host, zone: zone(launch) }).collect()
}

/// Binds pods to any host that both spreads allow; returns the number of pods that remain.
fn bind_in_zones(
    hosts: &mut [ZoneHost],
    mut pods: i64,
    skews: (i64, i64),
    choices: &mut impl Iterator<Item = usize>,
) -> i64 {
    while pods > 0 {
        let mut by_zone: BTreeMap<usize, i64> = BTreeMap::new();
        hosts.iter().for_each(|it| *by_zone.entry(it.zone).or_default() += it.host.pods);
        let (least, emptiest) = (hosts.iter().map(|it| it.host.pods).min(), by_zone.values().min());
        let (least, emptiest) = (least.unwrap_or(0), *emptiest.unwrap_or(&0));
        let allows = |it: &ZoneHost| {
            let is_spread = it.host.pods + 1 - least <= skews.0 && by_zone[&it.zone] + 1 - emptiest <= skews.1;
            it.host.pods < it.host.capacity && is_spread
        };
        let allowed: Vec<usize> = (0..hosts.len()).filter(|host| allows(&hosts[*host])).collect();
        if allowed.is_empty() {
            break;
        }
        hosts[allowed[choices.next().unwrap_or(0) % allowed.len()]].host.pods += 1;
        pods -= 1;
    }
    pods
}

#[test]
fn uneven_hosts_cost_less_than_equal_numbers_of_hosts_by_zone() {
    let zones = ["a", "b", "c", "d", "e"];
    let (snapshot, web) = spread_pods(50, 2, &zones, 5);
    let decided = plan(&snapshot);
    assert_eq!(findings(&snapshot, &decided), Vec::<String>::new());
    assert_eq!(pending(&decided), 0);
    let equal = cost_of_hosts(&snapshot, &web, 50, (1..10).map(|hosts| hosts * 5));
    assert!(cost(&decided) * 10 < equal * 9, "{} for {equal}: {:#?}", cost(&decided), decided.launches);
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn hosts_in_zones_bind_all_pods_in_any_order(
        pods in 1usize..60,
        skews in (1u32..4, 1u32..8),
        zones in 2usize..7,
        choices in collection::vec(any::<usize>(), 64),
    ) {
        let zones = &["a", "b", "c", "d", "e", "f"][..zones];
        let (snapshot, web) = spread_pods(pods, skews.0, zones, skews.1);
        let decided = plan(&snapshot);
        prop_assert_eq!(findings(&snapshot, &decided), Vec::<String>::new());
        prop_assert_eq!(pending(&decided), 0);
        let mut hosts = zone_hosts(&snapshot, &decided, &web, zones);
        let skews = (i64::from(skews.0), i64::from(skews.1));
        let left = bind_in_zones(&mut hosts, i64::try_from(pods).unwrap(), skews, &mut choices.into_iter().cycle());
        prop_assert_eq!(left, 0, "{:#?}", decided.launches);
    }
}
