//! The lower bound is one: no fleet undercuts it, and on markets small enough to try everything it is as high as fractions
//! of machines allow.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use good_lp::{Expression, ProblemVariables, Solution, SolverModel, Variable, clarabel, constraint, variable};
use peers::bound::{Item, Machine, Market, of_market, within};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What sums of doubles and the solver's own tolerance may come to.
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
        room: vec![f64::from(*cpu), f64::from(*memory)],
        takes: vec![true; items.len()],
    };
    Market { items: items.iter().map(item).collect(), machines: machines.iter().map(machine).collect() }
}

/// Every way to fill a machine, as counts of all items.
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
    all.retain(|counts| (0..2).all(|dimension| used(counts, dimension) <= machine.room[dimension]));
    all
}

/// Every way to fill every machine, with what the machine costs.
fn ways(market: &Market) -> Vec<(f64, Vec<u32>)> {
    let machines = market.machines.iter();
    machines.flat_map(|it| fillings(market, it).into_iter().map(|counts| (it.price, counts))).collect()
}

/// The cheapest fleet, by trying everything.
fn cheapest(ways: &[(f64, Vec<u32>)], wanted: Vec<u32>, known: &mut BTreeMap<Vec<u32>, f64>) -> f64 {
    if wanted.iter().all(|count| *count == 0) {
        return 0.0;
    }
    if let Some(price) = known.get(&wanted) {
        return *price;
    }
    let mut best = f64::INFINITY;
    for (price, counts) in ways {
        let left: Vec<u32> = wanted.iter().zip(counts).map(|(wanted, count)| wanted.saturating_sub(*count)).collect();
        if left != wanted {
            best = best.min(price + cheapest(ways, left, known));
        }
    }
    known.insert(wanted, best);
    best
}

/// The linear program over all ways at once.
fn relaxed(market: &Market, ways: &[(f64, Vec<u32>)]) -> f64 {
    let mut variables = ProblemVariables::new();
    let worths: Vec<Variable> = market.items.iter().map(|_| variables.add(variable().min(0.0))).collect();
    let total: Expression = worths.iter().zip(&market.items).map(|(worth, item)| *worth * item.count).sum();
    let mut program = variables.maximise(total.clone()).using(clarabel);
    for (price, counts) in ways {
        let worth: Expression = worths.iter().zip(counts).map(|(worth, count)| *worth * f64::from(*count)).sum();
        program = program.with(constraint!(worth <= *price));
    }
    program.solve().unwrap().eval(total)
}

fn items(kinds: usize, most: u32) -> impl Strategy<Value = Vec<(u32, u32, u32, bool)>> {
    prop::collection::vec((1_u32..=9, 1_u32..=9, 1..=most, prop::bool::weighted(0.3)), 1..=kinds)
}

/// The last machine holds anything, so that everything has a place.
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
    fn on_tiny_markets_it_is_the_optimum_in_fractions(items in items(3, 3), machines in machines(3)) {
        let all = market(&items, &machines);
        let bound = of_market(&all.clone().reduced().unwrap()).unwrap();
        let ways = ways(&all);
        let wanted = all.items.iter().map(|item| item.count as u32).collect();
        let best = cheapest(&ways, wanted, &mut BTreeMap::new());
        prop_assert!(bound.dollars <= best * (1.0 + SLACK), "bound {} above the optimum {best}", bound.dollars);
        let fractions = relaxed(&all, &ways);
        prop_assert!(bound.ceiling >= fractions * (1.0 - SLACK), "ceiling {} below {fractions}", bound.ceiling);
        prop_assert!(bound.is_close(), "{bound:?}");
        prop_assert!(bound.dollars <= fractions * (1.0 + SLACK), "bound {} above {fractions}", bound.dollars);
        prop_assert!(bound.dollars >= fractions * (1.0 - 2e-3), "bound {} far below {fractions}", bound.dollars);
    }

    #[test]
    fn it_is_one_however_early_the_search_ends(items in items(3, 3), machines in machines(3), rounds in 0_usize..4) {
        let all = market(&items, &machines);
        let bound = within(&all.clone().reduced().unwrap(), rounds).unwrap();
        prop_assert!(bound.rounds <= rounds);
        let fractions = relaxed(&all, &ways(&all));
        prop_assert!(bound.dollars <= fractions * (1.0 + SLACK), "bound {} above {fractions}", bound.dollars);
        prop_assert!(bound.ceiling >= fractions * (1.0 - SLACK), "ceiling {} below {fractions}", bound.ceiling);
    }

    #[test]
    fn no_fleet_undercuts_it(items in items(8, 12), machines in machines(6), seed in prop::collection::vec(any::<u32>(), 256)) {
        let all = market(&items, &machines);
        let bound = of_market(&all.clone().reduced().unwrap()).unwrap();
        let fleet = random_fleet(&all, &seed);
        prop_assert!(bound.dollars <= fleet * (1.0 + SLACK), "bound {} above a fleet of {fleet}", bound.dollars);
    }
}

/// Pods in some order, each on the first machine with room, else on a new one of some type that holds it.
fn random_fleet(market: &Market, seed: &[u32]) -> f64 {
    let mut chance = seed.iter().copied().cycle();
    let mut pods: Vec<(u32, usize)> = Vec::new();
    for (position, item) in market.items.iter().enumerate() {
        pods.extend((0..item.count as u32).filter_map(|_| Some((chance.next()?, position))));
    }
    pods.sort_unstable();
    let mut fleet: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
    let mut cost = 0.0;
    for (_, position) in pods {
        let item = &market.items[position];
        let fits = |room: &[f64]| item.needs.iter().zip(room).all(|(need, room)| need <= room);
        let open = fleet.iter().position(|(room, held)| fits(room) && held[position] < item.most);
        let place = open.unwrap_or_else(|| {
            let holding: Vec<&Machine> = market.machines.iter().filter(|machine| fits(&machine.room)).collect();
            let machine = holding[chance.next().unwrap() as usize % holding.len()];
            cost += machine.price;
            fleet.push((machine.room.clone(), vec![0.0; market.items.len()]));
            fleet.len() - 1
        });
        let (room, held) = &mut fleet[place];
        room.iter_mut().zip(&item.needs).for_each(|(room, need)| *room -= need);
        held[position] += 1.0;
    }
    cost
}

#[test]
fn pods_that_keep_apart_need_a_machine_each() {
    let machines = [(10, 10, 10), (3, 2, 2)];
    let together = of_market(&market(&[(1, 1, 20, false)], &machines)).unwrap();
    let apart = of_market(&market(&[(1, 1, 20, true)], &machines)).unwrap();
    assert!((together.dollars - 20.0).abs() < 0.02, "{together:?}");
    assert!((apart.dollars - 60.0).abs() < 0.06, "{apart:?}");
}

#[test]
fn a_pod_that_fits_nowhere_is_named() {
    let error = market(&[(11, 1, 2, false)], &[(10, 10, 10)]).reduced().unwrap_err();
    assert!(error.to_string().contains("fits no machine"), "{error}");
}
