//! Approximately cheapest fleet for pods that only their sizes constrain: the nodes, and the pods on each.
//!
//! Filling nodes is a cutting-stock problem. With fractions of nodes allowed, the problem is a linear program whose columns are
//! all possible patterns of a node (`linear_program`). Column generation adds the relevant patterns one by one, each the most
//! valuable at that point (`pattern_search`). The integer fleet comes from the fractions: whole nodes are kept, and the
//! remaining pods are solved again. Where no whole node is left, the largest fraction is rounded up.
//!
//! Values of pods are floating-point numbers, the only ones in the planner. Additions, multiplications, divisions and
//! comparisons have one fixed order, which every machine rounds alike. Integers decide whether pods fit.

mod greedy;
pub(super) mod known_fleets;
mod linear_program;
mod pattern_search;

use linear_program::LinearProgram;
use pattern_search::{Column, PatternSearch};

/// Maximum number of items of the linear program: its work grows with their square.
const MOST_ROWS: usize = 120;

/// Node type, available in any number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MachineKind {
    /// Greater than zero.
    pub(super) cost: i64,
    pub(super) capacity: Vec<i64>,
}

/// Identical pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodItem {
    pub(super) needs: Vec<i64>,
    pub(super) count: usize,
    /// Maximum number of these pods per node.
    pub(super) most: usize,
    /// Cost of one of these pods on other nodes, where it may run there.
    pub(super) cost_elsewhere: Option<i64>,
}

/// Nodes with identical contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) kind: usize,
    /// Items by position, and the count of each.
    pub(super) counts: Vec<(usize, usize)>,
    pub(super) times: usize,
}

/// Returns a cheap fleet for all items that no other nodes take, and the number of its steps. Items that the linear program
/// does not reach within `most_steps` are placed greedily. Beyond twice as many steps, the fleet is incomplete.
pub(super) fn fleet(kinds: &[MachineKind], items: &[PodItem], most_steps: u64) -> (Vec<Pattern>, u64) {
    let mut search = PatternSearch::new(kinds, items);
    let mut left: Vec<usize> = items.iter().map(|item| item.count).collect();
    let mut fleet = Vec::new();
    if items.len() <= MOST_ROWS {
        from_fractions(&mut search, &mut left, &mut fleet, most_steps);
    }
    let most_steps = search.steps.saturating_add(most_steps);
    greedy::fill(&mut search, &mut left, &mut fleet, most_steps);
    (fleet, search.steps)
}

/// Solves the linear program for the remaining pods, keeps whole nodes, and repeats.
fn from_fractions(search: &mut PatternSearch<'_>, left: &mut [usize], fleet: &mut Vec<Pattern>, most_steps: u64) {
    let mut known = Vec::new();
    while left.iter().any(|count| *count > 0) && search.steps < most_steps {
        search.limit_counts(left);
        let Some(mut program) = LinearProgram::new(search.kinds, search.items, left) else { break };
        program.improve(search, &mut known, most_steps);
        keep(&program.solution(), left, fleet);
    }
}

/// Keeps the whole nodes of a solution; where there are none, keeps the one with the largest fraction.
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

/// Adds nodes while enough pods are left for whole ones; the last may receive fewer. Reports whether a node was added.
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
            .prop_map(|(cost, cpu, memory)| MachineKind { cost: cost * 1000, capacity: vec![cpu, memory] });
        let largest = MachineKind { cost: 200_000, capacity: vec![20, 40] };
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
            cost_elsewhere: None,
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
            assert!(
                used.iter().zip(&kinds[pattern.kind].capacity).all(|(used, capacity)| used <= capacity),
                "{pattern:?}"
            );
        }
        assert_eq!(carried, items.iter().map(|item| item.count).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn fleet_places_every_pod_once(kinds in kinds(), items in items()) {
            let (fleet, _) = fleet(&kinds, &items, u64::MAX);
            assert_carries(&kinds, &items, &fleet);
        }

        #[test]
        fn greedy_fill_places_every_pod_once(kinds in kinds(), items in items()) {
            let (mut left, mut fleet): (Vec<usize>, _) = (items.iter().map(|item| item.count).collect(), Vec::new());
            greedy::fill(&mut PatternSearch::new(&kinds, &items), &mut left, &mut fleet, u64::MAX);
            assert_carries(&kinds, &items, &fleet);
        }

        #[test]
        fn fleet_exceeds_fractional_cost_by_at_most_one_node(kinds in kinds(), cpu in 1_i64..10, whole in 1_usize..5) {
            let one = PodItem { needs: vec![cpu, 0], count: 1, most: usize::MAX, cost_elsewhere: None };
            let loads = kinds.iter().map(|kind| (kind.cost, pattern_search::fits(&one.needs, &kind.capacity)));
            let best = loads.filter(|(_, load)| *load > 0).min_by_key(|(cost, load)| (cost * 1_000_000 / *load as i64, *load));
            let (cost, load) = best.expect("the largest machine holds one");
            let items = [PodItem { count: load * whole, ..one }];
            let (fleet, _) = fleet(&kinds, &items, u64::MAX);
            let total = total(&kinds, &fleet);
            prop_assert!(total <= cost * whole as i64 + cost, "{total}: {fleet:?}");
        }
    }

    fn item(cpu: i64, memory: i64, count: usize) -> PodItem {
        PodItem { needs: vec![cpu, memory], count, most: usize::MAX, cost_elsewhere: None }
    }

    #[test]
    fn fleet_combines_pods_when_their_requests_complement() {
        let kinds = [MachineKind { cost: 100, capacity: vec![4, 4] }, MachineKind { cost: 190, capacity: vec![8, 8] }];
        let (fleet, _) = fleet(&kinds, &[item(3, 1, 10), item(1, 3, 10)], u64::MAX);
        assert_eq!(total(&kinds, &fleet), 950, "{fleet:?}");
    }

    #[test]
    fn fleet_only_fills_gaps_when_pods_are_cheaper_elsewhere() {
        let kinds = [MachineKind { cost: 1000, capacity: vec![4, 4] }];
        let guest = PodItem { cost_elsewhere: Some(10), ..item(1, 1, 9) };
        let (fleet, _) = fleet(&kinds, &[item(3, 3, 2), guest], u64::MAX);
        assert_eq!(total(&kinds, &fleet), 2000, "{fleet:?}");
        let guests: usize = fleet.iter().flat_map(|it| &it.counts).filter(|(item, _)| *item == 1).map(|it| it.1).sum();
        assert_eq!(guests, 1, "{fleet:?}");
    }

    #[test]
    fn fleet_is_empty_when_no_steps_are_allowed() {
        let kinds = [MachineKind { cost: 100, capacity: vec![4, 4] }];
        assert_eq!(fleet(&kinds, &[item(1, 1, 3)], 0), (Vec::new(), 0));
    }
}
