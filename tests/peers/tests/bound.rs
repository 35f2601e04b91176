//! Tests of the lower bound: no fleet costs less. On inputs small enough for exhaustive search, the bound is as high as the
//! optimum with fractions of nodes.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use good_lp::{Expression, ProblemVariables, Solution, SolverModel, Variable, clarabel, constraint, variable};
use peers::bound::{Item, Machine, Market, Part, of_market, of_part, within};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Tolerance for the rounding error of sums of doubles and of the solver.
const SLACK: f64 = 1e-6;

fn market(items: &[(u32, u32, u32, bool)], machines: &[(u32, u32, u32)]) -> Market {
    let item = |(cpu, memory, count, alone): &(u32, u32, u32, bool)| Item {
        needs: vec![f64::from(*cpu), f64::from(*memory)],
        count: f64::from(*count),
        most: if *alone { 1.0 } else { f64::from(*count) },
    };
    let machine = |(price, cpu, memory): &(u32, u32, u32)| Machine {
        name: format!("{price}-{cpu}-{memory}"),
        price: f64::from(*price),
        allocatable: vec![f64::from(*cpu), f64::from(*memory)],
        takes: vec![true; items.len()],
    };
    Market { items: items.iter().map(item).collect(), machines: machines.iter().map(machine).collect() }
}

/// Returns every filling of a node, as counts of all items.
fn fillings(market: &Market, machine: &Machine) -> Vec<Vec<u32>> {
    let mut all = vec![Vec::new()];
    for item in &market.items {
        let longer = |counts: &Vec<u32>| {
            (0..=item.most as u32)
                .map(|count| counts.iter().copied().chain([count]).collect())
                .collect::<Vec<Vec<u32>>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    let used = |counts: &[u32], dimension: usize| -> f64 {
        market.items.iter().zip(counts).map(|(item, count)| item.needs[dimension] * f64::from(*count)).sum()
    };
    all.retain(|counts| (0..2).all(|dimension| used(counts, dimension) <= machine.allocatable[dimension]));
    all
}

/// Returns every filling of every node, with the price of the node.
fn weighted_fillings(market: &Market) -> Vec<(f64, Vec<u32>)> {
    let machines = market.machines.iter();
    machines.flat_map(|it| fillings(market, it).into_iter().map(|counts| (it.price, counts))).collect()
}

/// Returns the cost of the cheapest fleet, by exhaustive search.
fn cheapest(weighted_fillings: &[(f64, Vec<u32>)], wanted: Vec<u32>, known: &mut BTreeMap<Vec<u32>, f64>) -> f64 {
    if wanted.iter().all(|count| *count == 0) {
        return 0.0;
    }
    if let Some(price) = known.get(&wanted) {
        return *price;
    }
    let mut best = f64::INFINITY;
    for (price, counts) in weighted_fillings {
        let left: Vec<u32> = wanted.iter().zip(counts).map(|(wanted, count)| wanted.saturating_sub(*count)).collect();
        if left != wanted {
            best = best.min(price + cheapest(weighted_fillings, left, known));
        }
    }
    known.insert(wanted, best);
    best
}

/// Returns the cost of the cheapest fleet of so many nodes that places exactly these pods. Each node has at least `least` pods of the
/// first item, and at most `skew` more.
fn cheapest_spread(
    weighted_fillings: &[(f64, Vec<u32>)],
    wanted: &[u32],
    nodes: u32,
    (least, skew): (u32, u32),
) -> f64 {
    if nodes == 0 {
        return if wanted.iter().all(|count| *count == 0) { 0.0 } else { f64::INFINITY };
    }
    let mut best = f64::INFINITY;
    for (price, counts) in weighted_fillings {
        let left: Option<Vec<u32>> =
            wanted.iter().zip(counts).map(|(wanted, count)| wanted.checked_sub(*count)).collect();
        if let Some(left) = left.filter(|_| (least..=least + skew).contains(&counts[0])) {
            best = best.min(price + cheapest_spread(weighted_fillings, &left, nodes - 1, (least, skew)));
        }
    }
    best
}

/// Returns the optimum of the linear program over all weighted fillings together.
fn relaxed(market: &Market, weighted_fillings: &[(f64, Vec<u32>)]) -> f64 {
    let mut variables = ProblemVariables::new();
    let worths: Vec<Variable> = market.items.iter().map(|_| variables.add(variable().min(0.0))).collect();
    let total: Expression = worths.iter().zip(&market.items).map(|(worth, item)| *worth * item.count).sum();
    let mut program = variables.maximise(total.clone()).using(clarabel);
    for (price, counts) in weighted_fillings {
        let worth: Expression = worths.iter().zip(counts).map(|(worth, count)| *worth * f64::from(*count)).sum();
        program = program.with(constraint!(worth <= *price));
    }
    program.solve().unwrap().eval(total)
}

fn items(kinds: usize, most: u32) -> impl Strategy<Value = Vec<(u32, u32, u32, bool)>> {
    prop::collection::vec((1_u32..=9, 1_u32..=9, 1..=most, prop::bool::weighted(0.3)), 1..=kinds)
}

/// Generates nodes; the last one is large enough for any item.
fn machines(kinds: usize) -> impl Strategy<Value = Vec<(u32, u32, u32)>> {
    let any = (4_u32..=40, 1_u32..=20, 1_u32..=20);
    (prop::collection::vec(any, 0..kinds), 10_u32..=40).prop_map(|(mut all, price)| {
        all.push((price, 10, 10));
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn bound_is_the_fractional_optimum_when_the_market_is_tiny(items in items(3, 3), machines in machines(3)) {
        let all = market(&items, &machines);
        let bound = of_market(&all.clone().reduced().unwrap()).unwrap();
        let weighted_fillings = weighted_fillings(&all);
        let wanted = all.items.iter().map(|item| item.count as u32).collect();
        let best = cheapest(&weighted_fillings, wanted, &mut BTreeMap::new());
        prop_assert!(bound.dollars <= best * (1.0 + SLACK), "bound {} above the optimum {best}", bound.dollars);
        let fractions = relaxed(&all, &weighted_fillings);
        prop_assert!(bound.ceiling >= fractions * (1.0 - SLACK), "ceiling {} below {fractions}", bound.ceiling);
        prop_assert!(bound.is_close(), "{bound:?}");
        prop_assert!(bound.dollars <= fractions * (1.0 + SLACK), "bound {} above {fractions}", bound.dollars);
        prop_assert!(bound.dollars >= fractions * (1.0 - 2e-3), "bound {} far below {fractions}", bound.dollars);
    }

    #[test]
    fn bound_is_valid_when_the_search_ends_early(items in items(3, 3), machines in machines(3), rounds in 0_usize..4) {
        let all = market(&items, &machines);
        let bound = within(&all.clone().reduced().unwrap(), rounds).unwrap();
        prop_assert!(bound.rounds <= rounds);
        let fractions = relaxed(&all, &weighted_fillings(&all));
        prop_assert!(bound.dollars <= fractions * (1.0 + SLACK), "bound {} above {fractions}", bound.dollars);
        prop_assert!(bound.ceiling >= fractions * (1.0 - SLACK), "ceiling {} below {fractions}", bound.ceiling);
    }

    #[test]
    fn bound_is_below_fleets(items in items(8, 12), machines in machines(6), seed in prop::collection::vec(any::<u32>(), 256)) {
        let all = market(&items, &machines);
        let bound = of_market(&all.clone().reduced().unwrap()).unwrap();
        let fleet = random_fleet(&all, &seed);
        prop_assert!(bound.dollars <= fleet * (1.0 + SLACK), "bound {} above a fleet of {fleet}", bound.dollars);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn bound_of_whole_nodes_is_between_fractions_and_the_optimum(items in items(3, 3), machines in machines(3)) {
        let all = market(&items, &machines);
        let hosts = 1..=items.iter().map(|item| item.2 as usize).sum();
        let bound = of_part(&Part { market: all.clone(), skews: vec![None; items.len()], hosts }).unwrap();
        let weighted_fillings = weighted_fillings(&all);
        let wanted = all.items.iter().map(|item| item.count as u32).collect();
        let best = cheapest(&weighted_fillings, wanted, &mut BTreeMap::new());
        prop_assert!(bound.dollars <= best * (1.0 + SLACK), "bound {} above the optimum {best}", bound.dollars);
        let fractions = relaxed(&all, &weighted_fillings);
        prop_assert!(bound.dollars >= fractions * (1.0 - 1e-3), "bound {} below {fractions}", bound.dollars);
    }

    #[test]
    fn bound_of_spread_pods_is_below_the_optimum(
        items in items(2, 3), machines in machines(2), skew in 1_u32..=2,
    ) {
        let all = market(&items, &machines);
        let pods: u32 = items.iter().map(|item| item.2).sum();
        let mut skews = vec![None; items.len()];
        skews[0] = Some(f64::from(skew));
        let bound = of_part(&Part { market: all.clone(), skews, hosts: 1..=pods as usize });
        let weighted_fillings = weighted_fillings(&all);
        let wanted: Vec<u32> = all.items.iter().map(|item| item.count as u32).collect();
        let fleets = (1..=pods).flat_map(|nodes| (0..=wanted[0] / nodes).map(move |least| (nodes, least)));
        let costs = fleets.map(|(nodes, least)| cheapest_spread(&weighted_fillings, &wanted, nodes, (least, skew)));
        let best = costs.fold(f64::INFINITY, f64::min);
        match bound {
            Ok(bound) => prop_assert!(bound.dollars <= best * (1.0 + SLACK), "bound {} above {best}", bound.dollars),
            Err(error) => prop_assert!(best.is_infinite(), "{error}, but a fleet costs {best}"),
        }
    }
}

/// Without the spread, one pod is on a small node and the others are on a large one.
#[test]
fn bound_counts_even_hosts_when_pods_are_spread() {
    let all = market(&[(1, 1, 20, false)], &[(12, 20, 20), (2, 1, 1), (10, 7, 7)]);
    let bound = |skew: Option<f64>| of_part(&Part { market: all.clone(), skews: vec![skew], hosts: 2..=20 }).unwrap();
    let (free, even) = (bound(None), bound(Some(1.0)));
    assert!((free.dollars - 14.0).abs() < 1e-3, "{free:?}");
    assert!((even.dollars - 24.0).abs() < 1e-3, "two large nodes with ten pods each: {even:?}");
}

/// Places pods in random order, each on the first node with enough capacity, else on a new node of a random sufficient type.
fn random_fleet(market: &Market, seed: &[u32]) -> f64 {
    let mut random = seed.iter().copied().cycle();
    let mut pods: Vec<(u32, usize)> = Vec::new();
    for (position, item) in market.items.iter().enumerate() {
        pods.extend((0..item.count as u32).filter_map(|_| Some((random.next()?, position))));
    }
    pods.sort_unstable();
    let mut fleet: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
    let mut cost = 0.0;
    for (_, position) in pods {
        let item = &market.items[position];
        let fits =
            |allocatable: &[f64]| item.needs.iter().zip(allocatable).all(|(need, allocatable)| need <= allocatable);
        let open = fleet.iter().position(|(allocatable, held)| fits(allocatable) && held[position] < item.most);
        let place = open.unwrap_or_else(|| {
            let holding: Vec<&Machine> = market.machines.iter().filter(|machine| fits(&machine.allocatable)).collect();
            let machine = holding[random.next().unwrap() as usize % holding.len()];
            cost += machine.price;
            fleet.push((machine.allocatable.clone(), vec![0.0; market.items.len()]));
            fleet.len() - 1
        });
        let (allocatable, held) = &mut fleet[place];
        allocatable.iter_mut().zip(&item.needs).for_each(|(allocatable, need)| *allocatable -= need);
        held[position] += 1.0;
    }
    cost
}

#[test]
fn bound_counts_a_node_per_pod_when_pods_are_anti_affine() {
    let machines = [(10, 10, 10), (3, 2, 2)];
    let together = of_market(&market(&[(1, 1, 20, false)], &machines)).unwrap();
    let apart = of_market(&market(&[(1, 1, 20, true)], &machines)).unwrap();
    assert!((together.dollars - 20.0).abs() < 0.02, "{together:?}");
    assert!((apart.dollars - 60.0).abs() < 0.06, "{apart:?}");
}

#[test]
fn reduced_fails_when_a_pod_fits_no_machine() {
    let error = market(&[(11, 1, 2, false)], &[(10, 10, 10)]).reduced().unwrap_err();
    assert!(error.to_string().contains("fits no machine"), "{error}");
}
