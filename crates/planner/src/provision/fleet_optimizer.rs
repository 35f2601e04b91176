//! The cheapest fleet for pods that only their sizes keep apart, as nearly as it can be found: which machines, and what
//! goes on each.
//!
//! Filling machines is a cutting-stock problem. With fractions of machines allowed it is a linear program whose columns
//! are all ways to fill a machine (`program`); those that matter are found one by one, each the filling that is worth
//! most at present (`filling`). A real fleet is dug out of the fractions: whole machines are kept, what is left is solved
//! again, and where nothing whole is left, the largest fraction is rounded up.
//!
//! Worths are floating-point numbers, the only ones in the planner. They are added, multiplied, divided and compared in
//! one fixed order, which every machine rounds alike; whether pods fit is decided in whole numbers.

mod greedy;
mod linear_program;
mod pattern_search;

use linear_program::{Column, LinearProgram};
use pattern_search::PatternSearch;

/// How many items the linear program bears: its work grows with their square.
const MOST_ROWS: usize = 120;

/// What can be bought, in any number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MachineKind {
    /// Greater than zero.
    pub(super) cost: i64,
    pub(super) room: Vec<i64>,
}

/// Pods that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodItem {
    pub(super) needs: Vec<i64>,
    pub(super) count: usize,
    /// How many of them may share a machine.
    pub(super) most: usize,
    /// What a place on other machines than these costs one of them, where they may go there.
    pub(super) elsewhere: Option<i64>,
}

/// Machines that are filled alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) kind: usize,
    /// Items by position, and how many of each.
    pub(super) counts: Vec<(usize, usize)>,
    pub(super) times: usize,
}

/// A cheap fleet for all items that do not go elsewhere, and the steps that it took. What the linear program does not come
/// to within so many steps is filled greedily; beyond twice as many, the fleet is less than that.
pub(super) fn fleet(kinds: &[MachineKind], items: &[PodItem], most_steps: u64) -> (Vec<Pattern>, u64) {
    let mut filler = PatternSearch::new(kinds, items);
    let mut left: Vec<usize> = items.iter().map(|item| item.count).collect();
    let mut fleet = Vec::new();
    if items.len() <= MOST_ROWS {
        from_fractions(&mut filler, &mut left, &mut fleet, most_steps);
    }
    let most_steps = filler.looks.saturating_add(most_steps);
    greedy::fill(&mut filler, &mut left, &mut fleet, most_steps);
    (fleet, filler.looks)
}

/// Solves the linear program for what is left, keeps what is whole, and so on.
fn from_fractions(filler: &mut PatternSearch<'_>, left: &mut [usize], fleet: &mut Vec<Pattern>, most_steps: u64) {
    let mut known = Vec::new();
    while left.iter().any(|count| *count > 0) && filler.looks < most_steps {
        filler.limit_counts(left);
        let Some(mut program) = LinearProgram::new(filler.kinds, filler.items, left) else { break };
        program.improve(filler, &mut known, most_steps);
        keep(&program.solution(), left, fleet);
    }
}

/// Keeps whole machines of a solution, or, where there are none, the one that comes nearest to it.
fn keep(solution: &[(&Column, f64)], left: &mut [usize], fleet: &mut Vec<Pattern>) {
    let mut any = false;
    for (column, times) in solution.iter().filter(|(_, times)| *times >= 1.0) {
        any |= take(column, *times as usize, left, fleet);
    }
    if !any {
        let nearest = solution.iter().reduce(|best, other| if other.1 > best.1 { other } else { best });
        if let Some((column, _)) = nearest {
            take(column, 1, left, fleet);
        }
    }
}

/// Takes machines as long as there are pods left for whole ones; the last may get fewer. Says whether any was taken.
fn take(column: &Column, times: usize, left: &mut [usize], fleet: &mut Vec<Pattern>) -> bool {
    let whole = column.counts.iter().map(|(item, count)| left[*item] / count).min().unwrap_or(0).min(times);
    let some = column.counts.iter().map(|(item, count)| (*item, (*count).min(left[*item])));
    let counts: Vec<(usize, usize)> = some.filter(|(_, count)| *count > 0).collect();
    let times = whole.max(1);
    counts.iter().for_each(|(item, count)| left[*item] -= count * times);
    let any = !counts.is_empty();
    if let Some(kind) = column.kind.filter(|_| any) {
        fleet.push(Pattern { kind, counts, times });
    }
    any
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kinds() -> impl Strategy<Value = Vec<MachineKind>> {
        let kind = (1_i64..100, 1_i64..20, 1_i64..40)
            .prop_map(|(cost, cpu, memory)| MachineKind { cost: cost * 1000, room: vec![cpu, memory] });
        let largest = MachineKind { cost: 200_000, room: vec![20, 40] };
        proptest::collection::vec(kind, 0..6).prop_map(move |mut kinds| {
            kinds.push(largest.clone());
            kinds
        })
    }

    fn items() -> impl Strategy<Value = Vec<PodItem>> {
        let item = (1_i64..10, 0_i64..20, 1_usize..12, 1_usize..4).prop_map(|(cpu, memory, count, most)| PodItem {
            needs: vec![cpu, memory],
            count,
            most,
            elsewhere: None,
        });
        proptest::collection::vec(item, 1..8)
    }

    fn total(kinds: &[MachineKind], fleet: &[Pattern]) -> i64 {
        fleet.iter().map(|pattern| kinds[pattern.kind].cost * pattern.times as i64).sum()
    }

    fn assert_carries(kinds: &[MachineKind], items: &[PodItem], fleet: &[Pattern]) {
        let mut carried = vec![0; items.len()];
        for pattern in fleet {
            let mut used = [0; 2];
            for (item, count) in &pattern.counts {
                assert!(*count > 0 && *count <= items[*item].most, "{pattern:?}");
                carried[*item] += count * pattern.times;
                used.iter_mut().zip(&items[*item].needs).for_each(|(used, need)| *used += need * *count as i64);
            }
            assert!(used.iter().zip(&kinds[pattern.kind].room).all(|(used, room)| used <= room), "{pattern:?}");
        }
        assert_eq!(carried, items.iter().map(|item| item.count).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn a_fleet_carries_every_pod_once(kinds in kinds(), items in items()) {
            let (fleet, _) = fleet(&kinds, &items, u64::MAX);
            assert_carries(&kinds, &items, &fleet);
        }

        #[test]
        fn many_shapes_are_carried_too(kinds in kinds(), items in items()) {
            let (mut left, mut fleet): (Vec<usize>, _) = (items.iter().map(|item| item.count).collect(), Vec::new());
            greedy::fill(&mut PatternSearch::new(&kinds, &items), &mut left, &mut fleet, u64::MAX);
            assert_carries(&kinds, &items, &fleet);
        }

        #[test]
        fn one_shape_costs_at_most_a_machine_more_than_fractions_would(kinds in kinds(), cpu in 1_i64..10, whole in 1_usize..5) {
            let one = PodItem { needs: vec![cpu, 0], count: 1, most: usize::MAX, elsewhere: None };
            let loads = kinds.iter().map(|kind| (kind.cost, linear_program::fits(&one.needs, &kind.room)));
            let best = loads.filter(|(_, load)| *load > 0).min_by_key(|(cost, load)| (cost * 1_000_000 / *load as i64, *load));
            let (cost, load) = best.expect("the largest machine holds one");
            let items = [PodItem { count: load * whole, ..one }];
            let (fleet, _) = fleet(&kinds, &items, u64::MAX);
            let total = total(&kinds, &fleet);
            prop_assert!(total <= cost * whole as i64 + cost, "{total}: {fleet:?}");
        }
    }

    fn item(cpu: i64, memory: i64, count: usize) -> PodItem {
        PodItem { needs: vec![cpu, memory], count, most: usize::MAX, elsewhere: None }
    }

    #[test]
    fn what_fills_each_others_gaps_shares_machines() {
        let kinds = [MachineKind { cost: 100, room: vec![4, 4] }, MachineKind { cost: 190, room: vec![8, 8] }];
        let (fleet, _) = fleet(&kinds, &[item(3, 1, 10), item(1, 3, 10)], u64::MAX);
        assert_eq!(total(&kinds, &fleet), 950, "{fleet:?}");
    }

    #[test]
    fn who_is_cheaper_elsewhere_only_fills_gaps() {
        let kinds = [MachineKind { cost: 1000, room: vec![4, 4] }];
        let guest = PodItem { elsewhere: Some(10), ..item(1, 1, 9) };
        let (fleet, _) = fleet(&kinds, &[item(3, 3, 2), guest], u64::MAX);
        assert_eq!(total(&kinds, &fleet), 2000, "{fleet:?}");
        let guests: usize = fleet.iter().flat_map(|it| &it.counts).filter(|(item, _)| *item == 1).map(|it| it.1).sum();
        assert_eq!(guests, 1, "{fleet:?}");
    }

    #[test]
    fn a_search_without_steps_plans_nothing() {
        let kinds = [MachineKind { cost: 100, room: vec![4, 4] }];
        assert_eq!(fleet(&kinds, &[item(1, 1, 3)], 0), (Vec::new(), 0));
    }
}
