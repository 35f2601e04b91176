//! Premium for preferences: each workload keeps separate hosts if they cost no more than its own limit.

use planner::{NodePreference, Preference, PreferenceDecision};

use super::*;

/// Creates a workload whose pods prefer separate hosts.
fn separate_app(app: &str, cpu: i64, mebibytes: i64) -> PodShape {
    let selector = Some(Selector(vec![Requirement::new("app", Operator::In, [app])]));
    let term = PodTerm { key: label::HOSTNAME.to_owned(), selector, ..PodTerm::default() };
    PodShape { prefers_apart: vec![PodPreference { weight: 100, term }], ..shape(app, cpu, mebibytes, Vec::new()) }
}

fn with_premium(snapshot: &Snapshot, premium: PreferencePremium) -> Plan {
    let mut snapshot = snapshot.clone();
    snapshot.policy.preference_premium = premium;
    let decided = plan(&snapshot);
    assert_eq!(findings(&snapshot, &decided), Vec::<String>::new());
    assert_eq!(pending(&decided), 0);
    decided
}

/// Returns the decision about the workload of a pod.
fn decision_of(decided: &Plan, pod: usize) -> &PreferenceDecision {
    decided.report.preferences.iter().find(|it| it.pods.contains(&pod)).unwrap()
}

fn is_dropped(decided: &Plan, pod: usize) -> bool {
    let dropped = match &decided.report.pods[pod] {
        PodVerdict::Existing { dropped, .. } | PodVerdict::Launch { dropped, .. } => Some(dropped),
        _ => None,
    };
    dropped.unwrap().iter().any(|it| matches!(it, Preference::Apart { .. }))
}

#[test]
fn preference_is_kept_beside_a_dear_preference() {
    let mut snapshot = cluster();
    // Each of these pods fills the smallest host, so separate hosts cost as much as shared ones.
    add_pods(&mut snapshot, separate_app("large", 1700, 3000), 4);
    add_pods(&mut snapshot, separate_app("small", 250, 512), 20);
    let decided = with_premium(&snapshot, PreferencePremium::Percent(10));
    assert!((0..4).all(|pod| !is_dropped(&decided, pod)), "{:#?}", decided.launches);
    assert!(decision_of(&decided, 0).is_honoured);
    let small = decision_of(&decided, 4);
    assert!(!small.is_honoured && small.premium > small.limit && is_dropped(&decided, 4), "{small:?}");
    let unlimited = with_premium(&snapshot, PreferencePremium::Unlimited);
    assert!(cost(&decided) * 2 < cost(&unlimited), "{} for {}", cost(&decided), cost(&unlimited));
}

/// Hosts for an even share of both workloads would have to be large.
#[test]
fn hosts_of_one_workload_are_not_enlarged_for_another() {
    let mut snapshot = cluster();
    let types = &mut Arc::make_mut(&mut snapshot.catalogues[0]).types;
    types.retain(|kind| ["m.large", "m.2xlarge"].contains(&kind.name.as_str()));
    for kind in types {
        let price = if kind.name == "m.large" { 100_000 } else { 380_000 };
        kind.offerings.iter_mut().for_each(|offering| offering.price = MicroDollars(price));
    }
    add_pods(&mut snapshot, separate_app("web", 400, 256), 6);
    add_pods(&mut snapshot, separate_app("api", 1700, 1024), 2);
    add_pods(&mut snapshot, shape("job", 100, 64, Vec::new()), 1);
    let decided = with_premium(&snapshot, PreferencePremium::Percent(10));
    assert_eq!(cost(&decided), 400_000, "{:#?}", decided.launches);
}

#[test]
fn preference_is_dropped_beside_a_large_fleet() {
    let mut snapshot = cluster();
    add_pods(&mut snapshot, shape("batch", 30_000, 55_000, Vec::new()), 30);
    add_pods(&mut snapshot, separate_app("small", 250, 512), 40);
    let decided = with_premium(&snapshot, PreferencePremium::Percent(10));
    let small = decision_of(&decided, 30);
    assert!(!small.is_honoured && small.premium > small.limit, "{small:?}");
    assert!(small.premium.unwrap().0 * 10 < cost(&decided), "{small:?} of {}", cost(&decided));
}

#[test]
fn preference_premium_of_the_pool_overrides_the_policy() {
    let mut snapshot = cluster();
    add_pods(&mut snapshot, separate_app("small", 250, 512), 20);
    let mut hosts = |of_pool: Option<PreferencePremium>, policy: PreferencePremium| {
        snapshot.pools[0].preference_premium = of_pool;
        with_premium(&snapshot, policy).launches.len()
    };
    let (none, all) = (PreferencePremium::Percent(0), PreferencePremium::Unlimited);
    assert_eq!(hosts(Some(all), none), 20);
    assert_eq!(hosts(None, all), 20);
    assert_eq!(hosts(Some(none), all), hosts(None, none));
    assert!(hosts(None, none) < 5);
}

#[test]
fn preference_has_the_limit_of_its_weight() {
    let mut snapshot = cluster();
    add_pods(&mut snapshot, separate_app("small", 250, 512), 20);
    let limit = |snapshot: &Snapshot| {
        let decided = with_premium(snapshot, PreferencePremium::Percent(10));
        decision_of(&decided, 0).limit.unwrap().0
    };
    let alone = limit(&snapshot);
    let mut beside = (*snapshot.shapes[0]).clone();
    let term = vec![Requirement::new(label::CAPACITY_TYPE, Operator::In, ["on-demand"])];
    beside.preferred = vec![NodePreference { weight: 25, term }];
    snapshot.shapes[0] = Arc::new(beside);
    assert_eq!(limit(&snapshot), alone * 100 / 125);
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn plan_honours_preferences_within_their_limits(
        workloads in collection::vec((sample::select(vec![(250, 512), (700, 1000), (1700, 3000)]), 1usize..12), 1..4),
        plain in 0usize..20,
        percent in 0u32..30,
    ) {
        let mut snapshot = cluster();
        for (number, ((cpu, mebibytes), pods)) in workloads.into_iter().enumerate() {
            add_pods(&mut snapshot, separate_app(&format!("app-{number}"), cpu, mebibytes), pods);
        }
        add_pods(&mut snapshot, shape("batch", 900, 2048, Vec::new()), plain);
        let decided = with_premium(&snapshot, PreferencePremium::Percent(percent));
        let unlimited = with_premium(&snapshot, PreferencePremium::Unlimited);
        prop_assert!(cost(&decided) <= cost(&unlimited), "{} for {}", cost(&decided), cost(&unlimited));
        for decision in &decided.report.preferences {
            let within = decision.premium <= decision.limit;
            prop_assert!(within || !decision.is_honoured || cost(&decided) == cost(&unlimited), "{:?}", decision);
            prop_assert!(!within || decision.is_honoured, "{:?}", decision);
            for pod in decision.pods.iter().filter(|_| decision.is_honoured) {
                prop_assert!(!is_dropped(&decided, *pod), "{:?}", decision);
            }
        }
        let shared = with_premium(&snapshot, PreferencePremium::Percent(0));
        let most = cost(&shared) * i64::from(100 + percent) / 100;
        prop_assert!(cost(&decided) <= most.max(cost(&shared) * 101 / 100), "{} for {}", cost(&decided), cost(&shared));
    }
}

/// Workloads that are spread over zones, and over hosts if possible, use the hosts that they need without the latter.
#[test]
fn soft_spread_over_hosts_costs_no_more_than_its_premium() {
    let fleet = |soft: bool, premium: PreferencePremium| {
        let mut snapshot = cluster_in(&["a", "b", "c"]);
        for number in 0..12 {
            let app = format!("web-{number:02}");
            let (cpu, mebibytes) = (200 + 150 * (number % 5), 256 << (number % 4));
            let pods = usize::try_from(3 + number % 4 * 3).unwrap();
            let spreads = [Spread { key: label::ZONE.to_owned(), ..spread(&app, 1, true) }, spread(&app, 1, false)];
            let spreads = if soft { spreads.to_vec() } else { spreads[..1].to_vec() };
            add_pods(&mut snapshot, shape(&app, cpu, mebibytes, spreads), pods);
        }
        with_premium(&snapshot, premium)
    };
    let percent = PreferencePremium::Percent(10);
    let (soft, none) = (fleet(true, percent), fleet(false, percent));
    let unlimited = fleet(true, PreferencePremium::Unlimited);
    assert!(cost(&unlimited) > cost(&soft), "separate hosts cost {}, shared ones {}", cost(&unlimited), cost(&soft));
    assert!(cost(&soft) * 10 <= cost(&none) * 11, "{} without preferences {}", cost(&soft), cost(&none));
    let decisions = &soft.report.preferences;
    assert_eq!(decisions.len(), 12, "{decisions:#?}");
    let within = |it: &PreferenceDecision| !it.is_honoured || it.premium <= it.limit;
    assert!(decisions.iter().all(within), "{decisions:#?}");
}

/// A workload of two pods keeps two hosts, whatever they cost.
#[test]
fn two_pods_that_prefer_separate_hosts_never_share_one() {
    let mut snapshot = cluster();
    add_pods(&mut snapshot, separate_app("gateway", 100, 128), 2);
    add_pods(&mut snapshot, shape("batch", 1000, 2048, Vec::new()), 20);
    let decided = with_premium(&snapshot, PreferencePremium::Percent(0));
    let hosts: Vec<usize> = (0..2).filter_map(|pod| launch_of(&decided, pod)).collect();
    assert!(hosts.len() == 2 && hosts[0] != hosts[1], "{:#?}", decided.launches);
}

fn launch_of(decided: &Plan, pod: usize) -> Option<usize> {
    decided.launches.iter().position(|launch| launch.pods.contains(&pod))
}
