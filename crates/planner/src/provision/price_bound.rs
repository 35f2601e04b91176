//! Lower bound of the price of a single node for some pods. The bound is far cheaper than a search for places and often
//! decides.

use std::collections::BTreeMap;

use super::Relocator;
use super::dimensions::add;
use crate::Resources;

impl Relocator<'_> {
    /// Returns the cost of the cheapest single node for all pods of some nodes, as far as sizes and labels decide.
    pub(crate) fn price_bound(&mut self, nodes: &[usize]) -> Option<i64> {
        let pods: Vec<usize> = nodes.iter().flat_map(|node| &self.own[*node]).copied().collect();
        self.cheapest_node(&pods)
    }

    /// Returns the cost of the cheapest single node for some pods.
    pub(super) fn cheapest_node(&mut self, pods: &[usize]) -> Option<i64> {
        let solver = &mut self.solver;
        let mut shapes: BTreeMap<usize, usize> = BTreeMap::new();
        for pod in pods {
            *shapes.entry(solver.demand_of[*pod]).or_default() += 1;
        }
        let mut used = solver.dimensions.amounts(&Resources::default());
        shapes.iter().for_each(|(shape, count)| add(&mut used, &solver.demands[*shape].requests, *count));
        let mut best: Option<i64> = None;
        for base in solver.frames.growing() {
            let mut frame = Some(base);
            for shape in shapes.keys() {
                let class = solver.demands[*shape].levels.last().map(|level| level.class);
                frame = frame.zip(class).and_then(|(frame, class)| {
                    solver.frames.for_class(frame, class, &solver.wants, &mut solver.topology).first().copied()
                });
            }
            let entry = frame.and_then(|frame| Some((frame, solver.frames.first_fit(frame, &used)?)));
            let price = entry.map(|(frame, entry)| {
                let fee = solver.frames.template_of(frame).pool.node_fee.0;
                solver.frames.get(frame).entries[entry].price + fee
            });
            best = best.into_iter().chain(price).min();
        }
        best
    }
}
