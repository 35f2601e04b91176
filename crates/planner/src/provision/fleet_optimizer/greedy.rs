//! Fleet for more shapes than the linear program supports: node after node, each with the most valuable pattern for its cost.
//! The value of a pod is its price in a perfectly divisible fleet.

use super::pattern_search::{PatternSearch, cost};
use super::{MachineKind, Pattern, PodItem, take};

/// Number of iterations of the search for the best values.
const ROUNDS: usize = 80;
/// Minimum value of an item, in micro-dollars.
const LEAST: f64 = 1.0;

/// Fills nodes with the remaining pods while steps are left.
pub(super) fn fill(search: &mut PatternSearch<'_>, left: &mut [usize], fleet: &mut Vec<Pattern>, most_steps: u64) {
    if left.iter().all(|count| *count == 0) {
        return;
    }
    let (one, other) = search.scarcest;
    let values = values(search.kinds, search.items, left, one, other);
    while left.iter().any(|count| *count > 0) && search.steps < most_steps {
        search.limit_counts(left);
        let Some(column) = search.fullest(&values) else { break };
        take(&column, usize::MAX, left, fleet);
    }
}

/// Returns the value of each item. Each unit of the two scarcest dimensions has a value at which no node is worth more than its
/// cost. Within this limit, the total value of all items is greatest.
fn values(kinds: &[MachineKind], items: &[PodItem], left: &[usize], one: usize, other: usize) -> Vec<f64> {
    let need = |dimension: usize| -> f64 {
        items.iter().zip(left).map(|(item, left)| item.needs[dimension] as f64 * *left as f64).sum()
    };
    let rooms = kinds.iter().map(|kind| (kind.capacity[one] as f64, kind.capacity[other] as f64, cost(kind)));
    let rooms: Vec<(f64, f64, f64)> = rooms.filter(|(first, second, _)| *first > 0.0 && *second > 0.0).collect();
    let least = |of: &dyn Fn(&(f64, f64, f64)) -> f64| rooms.iter().map(of).fold(f64::INFINITY, f64::min);
    let second_at = |first: f64| least(&|(capacity, second, cost)| (cost - first * capacity) / second);
    let total = |first: f64| first * need(one) + second_at(first) * need(other);
    let (mut low, mut high) = (0.0, least(&|(capacity, _, cost)| cost / capacity));
    for _ in 0..ROUNDS {
        let third = (high - low) / 3.0;
        if total(low + third) < total(high - third) { low += third } else { high -= third }
    }
    let second = second_at(low).max(0.0);
    let worth = |item: &PodItem| low * item.needs[one] as f64 + second * item.needs[other] as f64;
    let at_most = |item: &PodItem| item.cost_elsewhere.map_or(f64::INFINITY, |cost| cost as f64);
    // A pod without requests in the scarce dimensions needs a place too.
    items.iter().map(|item| worth(item).min(at_most(item)).max(LEAST)).collect()
}
