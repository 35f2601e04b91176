//! Linear program over patterns, solved by the revised simplex method with column generation.
//!
//! Each item has one row: the patterns together place all of its pods, or more. The inverse of the basis is stored completely,
//! because there are no more rows than shapes, about a hundred.
//!
//! Solvers such as `microlp` and `clarabel` promise no order of operations, and the same snapshot must give the same plan on
//! every machine.

use super::pattern_search::{Column, GAIN, PatternSearch, cost, fits};
use super::{MachineKind, PodItem};

/// Maximum number of columns that enter the basis.
const MOST_ROUNDS: usize = 3_000;
/// Number of touched elements of the inverse that count as one step.
const PIVOT: usize = 16;
/// Threshold for zero in the inverse and in amounts.
const NOTHING: f64 = 1e-9;
/// Threshold below zero from which a negative value matters, in micro-dollars.
const CHEAP: f64 = 1e-3;

/// Element of the basis.
enum BasisEntry {
    Column(Column),
    /// Slots for pods of an item beyond its existing pods.
    Surplus,
}

pub(super) struct LinearProgram {
    basis: Vec<(BasisEntry, f64)>,
    inverse: Vec<Vec<f64>>,
    /// Amount of each element in use.
    amounts: Vec<f64>,
    /// Present cost of one more pod of each item.
    values: Vec<f64>,
}

impl LinearProgram {
    /// Starts with each item alone on its cheapest node type; returns `None` when an item fits nowhere.
    pub(super) fn new(kinds: &[MachineKind], items: &[PodItem], left: &[usize]) -> Option<Self> {
        let rows = items.len();
        let mut program = Self {
            basis: Vec::with_capacity(rows),
            inverse: vec![vec![0.0; rows]; rows],
            amounts: Vec::with_capacity(rows),
            values: vec![0.0; rows],
        };
        for (row, (item, left)) in items.iter().zip(left).enumerate() {
            let column = alone(kinds, row, item, (*left).max(1))?;
            let count = column.counts.first().map_or(1.0, |(_, count)| *count as f64);
            program.inverse[row][row] = 1.0 / count;
            program.amounts.push(*left as f64 / count);
            let cost = column.cost;
            program.basis.push((BasisEntry::Column(column), cost));
        }
        program.price();
        Some(program)
    }

    /// Adds columns while they reduce the cost of the fleet: known columns first, then new ones. Surplus slots come last,
    /// because they are rarely needed.
    pub(super) fn improve(&mut self, search: &mut PatternSearch<'_>, known: &mut Vec<Column>, most_steps: u64) {
        for _ in 0..MOST_ROUNDS {
            search.steps += (self.values.len() * self.values.len() / PIVOT) as u64;
            if search.steps > most_steps {
                break;
            }
            if let Some(column) = self.best_of(known, search) {
                self.enter_column(column);
            } else if let Some(column) = search.best(&self.values) {
                known.push(column.clone());
                self.enter_column(column);
            } else if let Some(row) = self.cheapest_row() {
                let direction: Vec<f64> = self.inverse.iter().map(|inverse| -inverse[row]).collect();
                self.enter(BasisEntry::Surplus, 0.0, &direction);
            } else {
                break;
            }
        }
    }

    /// Returns the columns in use and their amounts, slightly increased, so that rounding errors do not hide whole numbers.
    pub(super) fn solution(&self) -> Vec<(&Column, f64)> {
        let used = self.basis.iter().zip(&self.amounts).filter_map(|((part, _), amount)| match part {
            BasisEntry::Column(column) if *amount > NOTHING => Some((column, *amount + 1e-7)),
            _ => None,
        });
        used.collect()
    }

    /// Returns the known column with the highest gain.
    fn best_of(&self, known: &[Column], search: &PatternSearch<'_>) -> Option<Column> {
        let gains =
            known.iter().filter(|column| search.has_enough_for(column)).map(|column| (self.gain(column), column));
        let best =
            gains.filter(|(gain, _)| *gain > GAIN).reduce(|best, other| if other.0 > best.0 { other } else { best });
        best.map(|(_, column)| column.clone())
    }

    fn gain(&self, column: &Column) -> f64 {
        let worth: f64 = column.counts.iter().map(|(item, count)| self.values[*item] * *count as f64).sum();
        worth / column.cost - 1.0
    }

    /// Returns the item with the lowest negative value, if there is one.
    fn cheapest_row(&self) -> Option<usize> {
        let lowest = (0..self.values.len()).min_by(|one, other| self.values[*one].total_cmp(&self.values[*other]));
        lowest.filter(|row| self.values[*row] < -CHEAP)
    }

    fn enter_column(&mut self, column: Column) {
        let along = |inverse: &Vec<f64>| -> f64 {
            column.counts.iter().map(|(item, count)| inverse[*item] * *count as f64).sum()
        };
        let direction: Vec<f64> = self.inverse.iter().map(along).collect();
        let cost = column.cost;
        self.enter(BasisEntry::Column(column), cost, &direction);
    }

    /// Puts an element into the basis in place of the one that it exhausts first.
    fn enter(&mut self, part: BasisEntry, cost: f64, direction: &[f64]) {
        let ratios = direction.iter().enumerate().filter(|(_, along)| **along > NOTHING);
        let ratios = ratios.map(|(row, along)| (self.amounts[row] / along, row));
        let Some((ratio, out)) = ratios.reduce(|least, other| if other.0 < least.0 { other } else { least }) else {
            return;
        };
        let pivot: Vec<f64> = self.inverse[out].iter().map(|it| it / direction[out]).collect();
        for (row, along) in direction.iter().enumerate().filter(|(row, along)| *row != out && **along != 0.0) {
            self.amounts[row] = (self.amounts[row] - ratio * along).max(0.0);
            self.inverse[row].iter_mut().zip(&pivot).for_each(|(it, pivot)| *it -= along * pivot);
        }
        self.amounts[out] = ratio;
        self.inverse[out] = pivot;
        self.basis[out] = (part, cost);
        self.price();
    }

    fn price(&mut self) {
        self.values.fill(0.0);
        for ((_, cost), row) in self.basis.iter().zip(&self.inverse).filter(|((_, cost), _)| *cost != 0.0) {
            self.values.iter_mut().zip(row).for_each(|(worth, it)| *worth += cost * it);
        }
    }
}

/// Returns the pattern of an item alone with the lowest cost per pod.
fn alone(kinds: &[MachineKind], row: usize, item: &PodItem, left: usize) -> Option<Column> {
    let ways = kinds.iter().enumerate().filter_map(|(position, kind)| {
        let count = fits(&item.needs, &kind.capacity).min(item.most).min(left);
        (count > 0).then(|| Column { kind: Some(position), counts: vec![(row, count)], cost: cost(kind) })
    });
    let cost_elsewhere =
        item.cost_elsewhere.map(|cost| Column { kind: None, counts: vec![(row, 1)], cost: cost as f64 });
    let each = |column: &Column| column.cost / column.counts.first().map_or(1.0, |(_, count)| *count as f64);
    ways.chain(cost_elsewhere).reduce(|best, other| if each(&other) < each(&best) { other } else { best })
}
