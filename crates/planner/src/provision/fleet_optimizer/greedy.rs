//! A fleet for more shapes than the linear program bears: machine after machine, each the filling that is worth most for
//! its cost, where pods are worth what a perfectly divisible fleet would have to pay for them.

use super::linear_program::cost;
use super::pattern_search::PatternSearch;
use super::{MachineKind, Pattern, PodItem, take};

/// How finely the best worths are searched for.
const ROUNDS: usize = 80;
/// What an item is worth at least, in micro-dollars.
const LEAST: f64 = 1.0;

/// Fills machines with what is left, as long as there are steps.
pub(super) fn fill(filler: &mut PatternSearch<'_>, left: &mut [usize], fleet: &mut Vec<Pattern>, most_steps: u64) {
    if left.iter().all(|count| *count == 0) {
        return;
    }
    let (one, other) = filler.scarcest;
    let worths = worths(filler.kinds, filler.items, left, one, other);
    while left.iter().any(|count| *count > 0) && filler.looks < most_steps {
        filler.limit_counts(left);
        let Some(column) = filler.fullest(&worths) else { break };
        take(&column, usize::MAX, left, fleet);
    }
}

/// What each item is worth when one unit of each of the two scarcest dimensions is worth so much that no machine gives
/// more than it costs, and all items together are worth most.
fn worths(kinds: &[MachineKind], items: &[PodItem], left: &[usize], one: usize, other: usize) -> Vec<f64> {
    let need = |dimension: usize| -> f64 {
        items.iter().zip(left).map(|(item, left)| item.needs[dimension] as f64 * *left as f64).sum()
    };
    let rooms = kinds.iter().map(|kind| (kind.room[one] as f64, kind.room[other] as f64, cost(kind)));
    let rooms: Vec<(f64, f64, f64)> = rooms.filter(|(first, second, _)| *first > 0.0 && *second > 0.0).collect();
    let least = |of: &dyn Fn(&(f64, f64, f64)) -> f64| rooms.iter().map(of).fold(f64::INFINITY, f64::min);
    let second_at = |first: f64| least(&|(room, second, cost)| (cost - first * room) / second);
    let total = |first: f64| first * need(one) + second_at(first) * need(other);
    let (mut low, mut high) = (0.0, least(&|(room, _, cost)| cost / room));
    for _ in 0..ROUNDS {
        let third = (high - low) / 3.0;
        if total(low + third) < total(high - third) { low += third } else { high -= third }
    }
    let second = second_at(low).max(0.0);
    let worth = |item: &PodItem| low * item.needs[one] as f64 + second * item.needs[other] as f64;
    let at_most = |item: &PodItem| item.elsewhere.map_or(f64::INFINITY, |cost| cost as f64);
    // Who asks for nothing scarce must go somewhere all the same.
    items.iter().map(|item| worth(item).min(at_most(item)).max(LEAST)).collect()
}
