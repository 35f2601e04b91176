//! Limits of the cost: no plan may exceed them, whichever offerings EC2 selects.

use std::collections::BTreeMap;
use std::sync::Arc;

use planner::{
    CapacityType, Catalogue, InstanceType, Launch, MicroDollars, Offer, Offering, Plan, Pod, PodShape, Policy, Pool,
    Requirements, Snapshot, SpendLimit, check, label, plan,
};
use proptest::prelude::{ProptestConfig, any, proptest};
use proptest::{option, prop_assert};

use crate::applied;
use crate::clusters::{Cluster, amounts, cluster};

/// Sets the costs of the nodes, the limits of the NodePools, and the common limits of the first NodePools, by their number.
fn limit(snapshot: &mut Snapshot, pools: &[Option<i64>], together: &[(usize, Option<i64>)]) {
    let cost = |node: &planner::Node| node.claim.as_ref().and(node.price).unwrap_or_default().0;
    for (pool, limit) in snapshot.pools.iter_mut().zip(pools) {
        let own = snapshot.nodes.iter().filter(|node| node.pool.as_ref() == Some(&pool.name));
        pool.cost = MicroDollars(own.map(|node| cost(node)).sum());
        pool.cost_limit = limit.map(MicroDollars);
    }
    for (count, limit) in together {
        let Some(limit) = limit.map(MicroDollars) else { continue };
        let covered = || snapshot.pools.iter().take(*count);
        let pools = covered().map(|pool| pool.name.clone()).collect();
        let cost = MicroDollars(covered().map(|pool| pool.cost.0).sum());
        snapshot.spend_limits.push(SpendLimit { name: format!("limit of {count}"), limit, cost, pools });
    }
}

/// Returns the offerings from which EC2 selects one.
fn offerings<'s>(snapshot: &'s Snapshot, launch: &Launch) -> Vec<&'s Offering> {
    let pool = snapshot.pools.iter().find(|pool| pool.name == launch.pool).unwrap();
    let types = snapshot.catalogues[pool.catalogue].types.iter();
    let requirements: Requirements = launch.requirements.iter().collect();
    let listed = types.filter(|kind| launch.instance_types.contains(&kind.name));
    listed.flat_map(|kind| Offer::new(kind).offerings(&requirements).collect::<Vec<_>>()).collect()
}

/// Returns the cost of the launches if each gets its most expensive offering.
fn most_added(snapshot: &Snapshot, plan: &Plan, is_counted: impl Fn(&Launch) -> bool) -> i64 {
    let counted = plan.launches.iter().filter(|launch| is_counted(launch));
    counted.map(|launch| offerings(snapshot, launch).iter().map(|it| it.charged().0).max().unwrap()).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn plan_never_exceeds_a_limit_of_the_cost(
        Cluster(mut snapshot) in cluster(),
        pools in [option::weighted(0.6, 0i64..300), option::weighted(0.6, 0i64..300), option::weighted(0.6, 0i64..300)],
        of_two in option::weighted(0.3, 0i64..400),
        of_all in option::weighted(0.5, 0i64..500),
        twice in any::<bool>(),
    ) {
        limit(&mut snapshot, &pools, &[(2, of_two), (usize::MAX, of_all)]);
        if twice {
            snapshot = applied::to(&snapshot, &plan(&snapshot));
        }
        let plan = plan(&snapshot);
        let findings = check(&snapshot, &plan);
        prop_assert!(findings.is_empty(), "{:#?}", findings);
        for pool in &snapshot.pools {
            let added = most_added(&snapshot, &plan, |launch| launch.pool == pool.name);
            let within = pool.cost_limit.is_none_or(|limit| added == 0 || pool.cost.0 + added <= limit.0);
            prop_assert!(within, "{}: {} + {added}, limit {:?}", pool.name, pool.cost.0, pool.cost_limit);
        }
        for together in &snapshot.spend_limits {
            let added = most_added(&snapshot, &plan, |launch| together.pools.contains(&launch.pool));
            let within = added == 0 || together.cost.0 + added <= together.limit.0;
            prop_assert!(within, "{added} more for {together:?}");
        }
    }

    /// A limit that leaves room for everything changes only the capacity types: a launch requests one of them. Only `minValues` may then
    /// lack values.
    #[test]
    fn high_limit_places_the_same_pods(Cluster(mut snapshot) in cluster()) {
        snapshot.pools.iter_mut().for_each(|pool| pool.requirements.retain(|it| it.min_values.is_none()));
        let mut limited = snapshot.clone();
        limit(&mut limited, &[], &[(usize::MAX, Some(1 << 50))]);
        let unplaced = |snapshot: &Snapshot| super::unplaced(snapshot, &plan(snapshot));
        prop_assert!(unplaced(&limited).len() <= unplaced(&snapshot).len(), "{:?}", unplaced(&limited));
        for launch in plan(&limited).launches {
            let types: Vec<CapacityType> = offerings(&limited, &launch).iter().map(|it| it.capacity_type).collect();
            prop_assert!(types.windows(2).all(|pair| pair[0] == pair[1]), "{types:?}");
        }
    }
}

#[test]
fn check_finds_a_launch_beyond_a_limit_of_the_cost() {
    let rows: &[(&str, super::Mutation)] = &[
        ("pool default: may cost 10 of 5 micro-dollars per hour", |snapshot, _| {
            snapshot.pools[0].cost_limit = Some(MicroDollars(5));
        }),
        ("the cost of SpendPolicy night: may cost 11 of 10 micro-dollars per hour", |snapshot, _| {
            let (limit, cost) = (MicroDollars(10), MicroDollars(1));
            let pools = ["default".to_owned()].into();
            snapshot.spend_limits = vec![SpendLimit { name: SpendLimit::of_policy("night"), limit, cost, pools }];
        }),
    ];
    super::assert_findings(rows, one_pod);
}

/// Returns a pod, and a NodePool with one type for it at ten micro-dollars.
pub(super) fn one_pod() -> Snapshot {
    let kind = InstanceType {
        name: "m.large".to_owned(),
        capacity: amounts(2000, 8, 10),
        allocatable: amounts(2000, 8, 10),
        offerings: vec![Offering {
            zone: "a".to_owned(),
            capacity_type: CapacityType::OnDemand,
            price: MicroDollars(10),
            premium: MicroDollars(0),
            available: true,
            labels: BTreeMap::new(),
            reservation: None,
        }],
        ..InstanceType::default()
    };
    let well_known = [label::ZONE, label::CAPACITY_TYPE, label::INSTANCE_TYPE].map(str::to_owned);
    Snapshot {
        policy: Policy { well_known: well_known.into(), ..Policy::default() },
        pools: vec![Pool { name: "default".to_owned(), ..Pool::default() }],
        catalogues: vec![Arc::new(Catalogue { types: vec![kind], ..Catalogue::default() })],
        shapes: vec![Arc::new(PodShape { requests: amounts(1000, 1, 1), ..PodShape::default() })],
        pods: vec![Pod { uid: "web".to_owned(), name: "web".to_owned(), ..Pod::default() }],
        ..Snapshot::default()
    }
}
