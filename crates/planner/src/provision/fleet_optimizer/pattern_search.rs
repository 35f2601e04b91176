//! Search for the most valuable pattern of a node: a knapsack with several dimensions, filled greedily in several orders;
//! exchanges improve the best result.

use super::{MachineKind, PodItem};

/// Minimum gain of a pattern that enters the basis, as a share of its cost.
pub(super) const GAIN: f64 = 5e-4;
/// Number of node types that are filled before the best one is taken.
const WINDOW: usize = 8;
/// Maximum number of exchanges.
const EXCHANGES: usize = 4;
/// Number of steps between the weights of the two scarcest dimensions.
const BALANCES: usize = 12;

/// Pattern of one node, or pods that other nodes take.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    /// `None`: on other nodes.
    pub(super) kind: Option<usize>,
    pub(super) counts: Vec<(usize, usize)>,
    pub(super) cost: f64,
}

pub(super) struct PatternSearch<'a> {
    pub(super) kinds: &'a [MachineKind],
    pub(super) items: &'a [PodItem],
    /// The two dimensions with the greatest total requests, relative to the largest node.
    pub(super) scarcest: (usize, usize),
    /// Maximum number of pods per node, by item.
    most: Vec<usize>,
    /// Ratio of value to cost of the best pattern of each node type at its last evaluation.
    ratios: Vec<f64>,
    /// Balance that was best for each node type.
    balances: Vec<Option<usize>>,
    /// Number of item evaluations so far.
    pub(super) steps: u64,
}

/// Number of evaluations in an exchange that count as one: most find that nothing fits.
const CHEAPER: usize = 8;

/// Node with pods.
#[derive(Clone, Default)]
struct PatternLoad {
    worth: f64,
    counts: Vec<usize>,
    left: Vec<i64>,
}

impl<'a> PatternSearch<'a> {
    pub(super) fn new(kinds: &'a [MachineKind], items: &'a [PodItem]) -> Self {
        let ratios = vec![f64::INFINITY; kinds.len()];
        Self {
            kinds,
            items,
            scarcest: scarcest(kinds, items),
            most: vec![0; items.len()],
            ratios,
            balances: vec![None; kinds.len()],
            steps: 0,
        }
    }

    /// Sets how many pods of each item remain.
    pub(super) fn limit_counts(&mut self, left: &[usize]) {
        self.most = self.items.iter().zip(left).map(|(item, left)| item.most.min(*left)).collect();
    }

    /// Reports whether enough pods remain for the column.
    pub(super) fn has_enough_for(&self, column: &Column) -> bool {
        column.counts.iter().all(|(item, count)| *count <= self.most[*item])
    }

    /// Returns a pattern whose value exceeds its cost. The search covers the few node types with the best ratios so far, then
    /// the next few, until a pattern is found.
    pub(super) fn best(&mut self, values: &[f64]) -> Option<Column> {
        let mut order: Vec<usize> = (0..self.kinds.len()).collect();
        order.sort_by(|one, other| self.ratios[*other].total_cmp(&self.ratios[*one]));
        let found = order.chunks(WINDOW).find_map(|window| self.best_among(window, values));
        found.or_else(|| {
            self.balances.fill(None);
            order.chunks(WINDOW).find_map(|window| self.best_among(window, values))
        })
    }

    /// Returns the pattern with the highest value for its cost over all node types, on the cheapest node type that holds it.
    pub(super) fn fullest(&mut self, values: &[f64]) -> Option<Column> {
        self.balances.fill(None);
        let mut best: Option<(f64, Column)> = None;
        for kind in 0..self.kinds.len() {
            let load = self.fill(kind, values);
            let used: Vec<i64> =
                self.kinds[kind].capacity.iter().zip(&load.left).map(|(capacity, left)| capacity - left).collect();
            let holding = self
                .kinds
                .iter()
                .position(|kind| used.iter().zip(&kind.capacity).all(|(used, capacity)| used <= capacity));
            let column = self.column(holding.unwrap_or(kind), &load);
            let ratio = load.worth / column.cost;
            if ratio > 0.0 && best.as_ref().is_none_or(|(most, _)| ratio > *most) {
                best = Some((ratio, column));
            }
        }
        best.map(|(_, column)| column)
    }

    fn column(&self, kind: usize, load: &PatternLoad) -> Column {
        let counts = load.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect();
        Column { kind: Some(kind), counts, cost: cost(&self.kinds[kind]) }
    }

    fn best_among(&mut self, window: &[usize], values: &[f64]) -> Option<Column> {
        let mut best: Option<(f64, Column)> = None;
        for kind in window.iter().copied() {
            let load = self.fill(kind, values);
            let ratio = load.worth / cost(&self.kinds[kind]);
            self.ratios[kind] = ratio;
            if ratio > 1.0 + GAIN && best.as_ref().is_none_or(|(most, _)| ratio > *most) {
                best = Some((ratio, self.column(kind, &load)));
            }
        }
        best.map(|(_, column)| column)
    }

    /// Returns the best pattern of a node type. Tries only balances next to the previous best one, because values change
    /// slowly.
    fn fill(&mut self, kind: usize, values: &[f64]) -> PatternLoad {
        let capacity = &self.kinds[kind].capacity;
        let around = match self.balances[kind] {
            Some(balance) => balance.saturating_sub(1)..(balance + 2).min(BALANCES),
            None => 0..BALANCES,
        };
        self.steps += (around.len() * self.items.len()) as u64;
        let mut best = (PatternLoad::default(), Vec::new(), 0);
        for balance in around {
            let order = self.order(capacity, values, balance);
            let mut load = PatternLoad { worth: 0.0, counts: vec![0; self.items.len()], left: capacity.clone() };
            self.add_all(&mut load, order.iter().copied(), values);
            if load.worth > best.0.worth {
                best = (load, order, balance);
            }
        }
        let (mut load, order, balance) = best;
        for _ in 0..EXCHANGES {
            let Some(better) = self.exchanged(&load, &order, values) else { break };
            load = better;
        }
        self.balances[kind] = Some(balance);
        load
    }

    /// Returns items with a positive value, those with the highest value per weighted size first.
    fn order(&self, capacity: &[i64], values: &[f64], balance: usize) -> Vec<usize> {
        let scales = self.scales(capacity, balance);
        let welcome =
            |item: &usize| values[*item] > 0.0 && self.most[*item] > 0 && holds(capacity, &self.items[*item].needs);
        let size = |item: usize| -> f64 {
            self.items[item].needs.iter().zip(&scales).map(|(need, scale)| scale * *need as f64).sum()
        };
        let mut order: Vec<(f64, usize)> =
            (0..self.items.len()).filter(welcome).map(|item| (values[item] / size(item), item)).collect();
        order.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        order.into_iter().map(|(_, item)| item).collect()
    }

    /// Adds as many pods as fit, item by item.
    fn add_all(&self, load: &mut PatternLoad, order: impl Iterator<Item = usize>, values: &[f64]) {
        for item in order {
            let needs = &self.items[item].needs;
            let count = self.most[item] - load.counts[item];
            if count > 0 && holds(&load.left, needs) {
                let count = fits(needs, &load.left).min(count);
                self.add(load, item, i64::try_from(count).unwrap_or(0), values);
            }
        }
    }

    fn add(&self, load: &mut PatternLoad, item: usize, count: i64, values: &[f64]) {
        load.counts[item] = load.counts[item].saturating_add_signed(isize::try_from(count).unwrap_or(0));
        load.worth += values[item] * count as f64;
        load.left.iter_mut().zip(&self.items[item].needs).for_each(|(left, need)| *left -= need * count);
    }

    /// Returns the load with one pod replaced by others, if such a load has a higher value.
    fn exchanged(&mut self, load: &PatternLoad, order: &[usize], values: &[f64]) -> Option<PatternLoad> {
        let mut best: Option<PatternLoad> = None;
        let loaded: Vec<usize> = order.iter().copied().filter(|item| load.counts[*item] > 0).collect();
        self.steps += (loaded.len() * order.len() / CHEAPER) as u64;
        for out in loaded {
            let mut other = load.clone();
            self.add(&mut other, out, -1, values);
            self.add_all(&mut other, order.iter().copied().filter(|item| *item != out), values);
            let least = best.as_ref().map_or(load.worth * (1.0 + 1e-9), |best| best.worth);
            if other.worth > least {
                best = Some(other);
            }
        }
        best
    }

    /// Returns the weight of one unit of each dimension. The first balance weights all dimensions alike; the others divide the
    /// weight between the two scarcest and nearly ignore the rest.
    fn scales(&self, capacity: &[i64], balance: usize) -> Vec<f64> {
        let share = balance as f64 / BALANCES as f64;
        let weight = |dimension: usize| match dimension {
            _ if balance == 0 => 1.0,
            it if it == self.scarcest.0 => share,
            it if it == self.scarcest.1 => 1.0 - share,
            _ => 0.01,
        };
        capacity.iter().enumerate().map(|(dimension, capacity)| weight(dimension) / (*capacity).max(1) as f64).collect()
    }
}

/// Returns the two dimensions with the greatest total requests, as shares of the largest node.
fn scarcest(kinds: &[MachineKind], items: &[PodItem]) -> (usize, usize) {
    let dimensions = items.first().map_or(0, |item| item.needs.len());
    let share = |dimension: usize| {
        let need: f64 = items.iter().map(|item| item.needs[dimension] as f64 * item.count as f64).sum();
        let capacity = kinds.iter().map(|kind| kind.capacity[dimension]).max().unwrap_or(0).max(1);
        need / capacity as f64
    };
    let mut order: Vec<usize> = (0..dimensions).collect();
    order.sort_by(|one, other| share(*other).total_cmp(&share(*one)));
    (order.first().copied().unwrap_or(0), order.get(1).or(order.first()).copied().unwrap_or(0))
}

fn holds(capacity: &[i64], needs: &[i64]) -> bool {
    needs.iter().zip(capacity).all(|(need, capacity)| need <= capacity || *need <= 0)
}

/// Returns the cost of a node, slightly more than its price, so that fewer nodes win among equal fleets.
pub(super) fn cost(kind: &MachineKind) -> f64 {
    kind.cost as f64 + 1.0
}

/// Returns the number of pods with these requests that fit.
pub(super) fn fits(needs: &[i64], capacity: &[i64]) -> usize {
    let each =
        needs.iter().zip(capacity).filter(|(need, _)| **need > 0).map(|(need, capacity)| (capacity / need).max(0));
    each.min().map_or(0, |count| usize::try_from(count).unwrap_or(0))
}
