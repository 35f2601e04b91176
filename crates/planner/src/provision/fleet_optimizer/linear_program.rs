//! The linear program over fillings, by the revised simplex method; columns are made when they are wanted.
//!
//! One row an item: the fillings together carry all of its pods, or more. The inverse of the basis is kept whole, for
//! there are no more rows than shapes, a hundred or so.

use super::pattern_search::PatternSearch;
use super::{MachineKind, PodItem};

/// What a filling must be worth beyond its cost to come in, as a share of the cost.
pub(super) const GAIN: f64 = 5e-4;
/// How many columns may come in.
const MOST_ROUNDS: usize = 3_000;
/// How many numbers of the inverse that a round touches count for one step.
const PIVOT: usize = 16;
/// What counts as zero in the inverse and in amounts.
const NOTHING: f64 = 1e-9;
/// How far below zero a worth must be to matter, in micro-dollars.
const CHEAP: f64 = 1e-3;

/// A way to fill one machine, or to leave pods to others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    /// `None`: elsewhere.
    pub(super) kind: Option<usize>,
    pub(super) counts: Vec<(usize, usize)>,
    pub(super) cost: f64,
}

/// What the basis is made of.
enum BasisEntry {
    Column(Column),
    /// Pods of an item that are carried beyond those that there are.
    Surplus,
}

pub(super) struct LinearProgram {
    basis: Vec<(BasisEntry, f64)>,
    inverse: Vec<Vec<f64>>,
    /// How much of each part is used.
    amounts: Vec<f64>,
    /// What one pod more of each item costs at present.
    worths: Vec<f64>,
}

impl LinearProgram {
    /// Begins with each item by itself where that is cheapest; `None` when one of them fits nowhere.
    pub(super) fn new(kinds: &[MachineKind], items: &[PodItem], left: &[usize]) -> Option<Self> {
        let rows = items.len();
        let mut program = Self {
            basis: Vec::with_capacity(rows),
            inverse: vec![vec![0.0; rows]; rows],
            amounts: Vec::with_capacity(rows),
            worths: vec![0.0; rows],
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

    /// Takes in columns as long as they make the fleet cheaper: those that are known already first, then new ones. Carrying
    /// too much comes last: it is seldom needed.
    pub(super) fn improve(&mut self, filler: &mut PatternSearch<'_>, known: &mut Vec<Column>, most_steps: u64) {
        for _ in 0..MOST_ROUNDS {
            filler.looks += (self.worths.len() * self.worths.len() / PIVOT) as u64;
            if filler.looks > most_steps {
                break;
            }
            if let Some(column) = self.best_of(known, filler) {
                self.enter_column(column);
            } else if let Some(column) = filler.best(&self.worths) {
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

    /// Columns in use, and how often; a little more than computed, so that what is whole but for rounding is whole.
    pub(super) fn solution(&self) -> Vec<(&Column, f64)> {
        let used = self.basis.iter().zip(&self.amounts).filter_map(|((part, _), amount)| match part {
            BasisEntry::Column(column) if *amount > NOTHING => Some((column, *amount + 1e-7)),
            _ => None,
        });
        used.collect()
    }

    /// The known column that is worth most beyond its cost.
    fn best_of(&self, known: &[Column], filler: &PatternSearch<'_>) -> Option<Column> {
        let gains =
            known.iter().filter(|column| filler.has_enough_for(column)).map(|column| (self.gain(column), column));
        let best =
            gains.filter(|(gain, _)| *gain > GAIN).reduce(|best, other| if other.0 > best.0 { other } else { best });
        best.map(|(_, column)| column.clone())
    }

    fn gain(&self, column: &Column) -> f64 {
        let worth: f64 = column.counts.iter().map(|(item, count)| self.worths[*item] * *count as f64).sum();
        worth / column.cost - 1.0
    }

    /// The item of which less would have to be carried, if there is one.
    fn cheapest_row(&self) -> Option<usize> {
        let lowest = (0..self.worths.len()).min_by(|one, other| self.worths[*one].total_cmp(&self.worths[*other]));
        lowest.filter(|row| self.worths[*row] < -CHEAP)
    }

    fn enter_column(&mut self, column: Column) {
        let along = |inverse: &Vec<f64>| -> f64 {
            column.counts.iter().map(|(item, count)| inverse[*item] * *count as f64).sum()
        };
        let direction: Vec<f64> = self.inverse.iter().map(along).collect();
        let cost = column.cost;
        self.enter(BasisEntry::Column(column), cost, &direction);
    }

    /// Puts a part into the basis in place of the one that it uses up first.
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
        self.worths.fill(0.0);
        for ((_, cost), row) in self.basis.iter().zip(&self.inverse).filter(|((_, cost), _)| *cost != 0.0) {
            self.worths.iter_mut().zip(row).for_each(|(worth, it)| *worth += cost * it);
        }
    }
}

/// An item by itself where that is cheapest for each of its pods.
fn alone(kinds: &[MachineKind], row: usize, item: &PodItem, left: usize) -> Option<Column> {
    let ways = kinds.iter().enumerate().filter_map(|(position, kind)| {
        let count = fits(&item.needs, &kind.room).min(item.most).min(left);
        (count > 0).then(|| Column { kind: Some(position), counts: vec![(row, count)], cost: cost(kind) })
    });
    let elsewhere = item.elsewhere.map(|cost| Column { kind: None, counts: vec![(row, 1)], cost: cost as f64 });
    let each = |column: &Column| column.cost / column.counts.first().map_or(1.0, |(_, count)| *count as f64);
    ways.chain(elsewhere).reduce(|best, other| if each(&other) < each(&best) { other } else { best })
}

/// What a machine costs; a trifle more than its price, so that among equals fewer machines win.
pub(super) fn cost(kind: &MachineKind) -> f64 {
    kind.cost as f64 + 1.0
}

/// How many pods of such needs fit.
pub(super) fn fits(needs: &[i64], room: &[i64]) -> usize {
    let each = needs.iter().zip(room).filter(|(need, _)| **need > 0).map(|(need, room)| (room / need).max(0));
    each.min().map_or(0, |count| usize::try_from(count).unwrap_or(0))
}
