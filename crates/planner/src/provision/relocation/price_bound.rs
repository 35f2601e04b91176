//! Lower bound of the price of a single node for some pods. The bound is far cheaper than a search for places and often
//! decides.

use std::collections::BTreeMap;

use crate::Resources;

use crate::provision::Solver;
use crate::provision::capacity::node_template::TemplateId;
use crate::provision::demand::dimensions::add;

/// Returns the cost of the cheapest single node for some pods.
pub(in crate::provision) fn cheapest_node(solver: &mut Solver<'_>, pods: &[usize]) -> Option<i64> {
    let mut shapes: BTreeMap<usize, usize> = BTreeMap::new();
    for pod in pods {
        *shapes.entry(solver.problem.demand_of[*pod]).or_default() += 1;
    }
    let mut used = solver.problem.input.dimensions.amounts(&Resources::default());
    shapes.iter().for_each(|(shape, count)| add(&mut used, &solver.problem.demands[*shape].requests, *count));
    let mut best: Option<i64> = None;
    for base in solver.capacity.templates.growing() {
        let mut template = Some(base);
        for shape in shapes.keys() {
            let class = solver.problem.demands[*shape].levels.last().map(|level| level.class);
            template = template.zip(class).and_then(|(template, class)| {
                solver
                    .capacity
                    .templates
                    .for_class(template, class, &solver.problem.requirement_sets, &mut solver.topology)
                    .first()
                    .copied()
            });
        }
        let prices = template.into_iter().flat_map(|template| {
            let fee = solver.capacity.templates.pool_template_of(template).pool.node_fee.0;
            let with_reservations = with_reservations(solver, template);
            let price = |template: &TemplateId| Some(solver.capacity.templates.lowest_price(*template, &used)? + fee);
            with_reservations.iter().filter_map(price).min()
        });
        best = best.into_iter().chain(prices).min();
    }
    best
}

/// Returns the template, and its variants that draw on one capacity reservation.
fn with_reservations(solver: &mut Solver<'_>, template: TemplateId) -> Vec<TemplateId> {
    let mut templates = vec![template];
    for id in solver.capacity.reservations.available() {
        templates.extend(solver.capacity.templates.reserved(template, &id, &mut solver.topology));
    }
    templates
}
