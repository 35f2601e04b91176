//! Initial fillings: those of fleets for several times the pods, built node by node with the most valuable filling.
//!
//! A fleet for several times the pods has hardly more waste than one for the pods themselves. Its fillings complement each
//! other, so the optimum of the master program is close at once.

use super::filling::{Filling, Search};
use super::master::Columns;
use super::{Machine, Market};

/// Number of times that the pods are repeated.
const TIMES: f64 = 8.0;
/// Additional value of a pod while no pod of its kind is placed, as a share. With it, all kinds run out together.
const HURRY: f64 = 0.01;
/// Nodes that cannot be filled for this share of their price are used only when no other node can be filled well.
const PROMISING: f64 = 0.97;
/// Share of the price below which a node is filled badly.
const BADLY: f64 = 0.5;
/// Steps of each search.
const STEPS: u64 = 100;

/// Returns the fillings of such fleets and those of each item alone; the latter keep every value finite.
pub(super) fn columns(market: &Market, searches: &mut [Search<'_>], worths: &[f64]) -> Columns {
    let mut columns = Columns::singles(market);
    let mut left: Vec<f64> = market.items.iter().map(|item| item.count * TIMES).collect();
    let most = market.limits();
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

/// Returns the node that the remaining pods fill best for its price.
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
