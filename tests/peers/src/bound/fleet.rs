//! Fillings to begin with: those of fleets for all pods a few times over, machine by machine as they are worth most.
//!
//! Fleets for several times the pods waste hardly more than one for the pods themselves, and their fillings complement
//! each other, so the master program's optimum is near at once.

use super::filling::{Filling, Search};
use super::master::Columns;
use super::{Machine, Market};

/// For how many times the pods.
const TIMES: f64 = 8.0;
/// How much more a pod is worth while nobody of its kind has a place, as a share: so that kinds run out together.
const HURRY: f64 = 0.01;
/// Machines that cannot be filled for this share of their price are left for when the others cannot either.
const PROMISING: f64 = 0.97;
/// The share of the price below which a machine is filled badly.
const BADLY: f64 = 0.5;
/// Steps of each search.
const STEPS: u64 = 100;

/// The fillings of such fleets, and those of each item by itself, which keep every worth finite.
pub(super) fn columns(market: &Market, searches: &mut [Search<'_>], worths: &[f64]) -> Columns {
    let mut columns = Columns::singles(market);
    let mut left: Vec<f64> = market.items.iter().map(|item| item.count * TIMES).collect();
    let most: Vec<f64> = market.items.iter().map(|item| item.most).collect();
    let promises = |it: &mut Search<'_>| it.at_most(worths, &most) > PROMISING * it.price();
    let promising: Vec<bool> = searches.iter_mut().map(promises).collect();
    while let Some((machine, filling)) = next(market, searches, &promising, worths, &left) {
        let times = filling.counts.iter().map(|(item, count)| (left[*item] / count).floor());
        let times = times.fold(f64::INFINITY, f64::min);
        filling.counts.iter().for_each(|(item, count)| left[*item] -= count * times);
        columns.push(machine.price, filling.counts);
    }
    columns
}

/// The machine that what is left fills best for its price.
fn next<'m>(
    market: &'m Market,
    searches: &mut [Search<'_>],
    promising: &[bool],
    worths: &[f64],
    left: &[f64],
) -> Option<(&'m Machine, Filling)> {
    let items = || market.items.iter().zip(left);
    let limits: Vec<f64> = items().map(|(item, left)| left.min(item.most)).collect();
    let worths: Vec<f64> =
        items().zip(worths).map(|((item, left), worth)| worth * (1.0 + HURRY * left / (item.count * TIMES))).collect();
    let mut best = |all: bool| {
        let some = searches.iter_mut().zip(&market.machines).zip(promising).filter(|(_, promising)| all || **promising);
        let filled = some.map(|((search, machine), _)| (machine, search.best(&worths, &limits, 0.0, STEPS)));
        filled.max_by(|one, other| share(one).total_cmp(&share(other)))
    };
    let well = best(false).filter(|it| share(it) >= BADLY);
    well.or_else(|| best(true)).filter(|(_, filling)| !filling.counts.is_empty())
}

fn share((machine, filling): &(&Machine, Filling)) -> f64 {
    filling.worth / machine.price
}
