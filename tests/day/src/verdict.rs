//! What is to be said of a simulation at its end: what was broken on the way, and its figures.

use std::collections::BTreeMap;

use planner::MoveReason;

use crate::clock::{MINUTE, Moment, SECOND, START};
use crate::simulation::Simulation;

/// A pod that came just before the end waits for its machine, as long as that takes to come up.
const BOOTS: Moment = 2 * MINUTE;

/// All that must not be, each in a sentence; nothing where all has held.
#[must_use]
pub fn broken(simulation: &Simulation) -> Vec<String> {
    let (audit, record) = (&simulation.audit, &simulation.record);
    let mut broken: Vec<String> =
        audit.breaches.iter().map(|(at, what)| format!("{} s: {what}", (at - START) / SECOND)).collect();
    if let Some((finding, _)) = audit.evidence.as_ref().filter(|_| record.refused > 0) {
        broken.push(format!("{} of {} plans were refused, the first by {finding}", record.refused, record.plans));
    }
    broken.extend(simulation.waits_longer_than(BOOTS).map(|pod| format!("pod {pod} has no place in the end")));
    broken
}

/// What a simulation came to, in a few lines.
#[must_use]
pub fn figures(simulation: &Simulation) -> String {
    let (record, audit) = (&simulation.record, &simulation.audit);
    let done = record.moves.iter().filter(|moved| moved.done).count();
    let mut reasons: BTreeMap<MoveReason, usize> = BTreeMap::new();
    record.moves.iter().for_each(|moved| *reasons.entry(moved.reason).or_default() += 1);
    let reasons: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {}", reason.as_str())).collect();
    format!(
        "{} faults ({} spot notices, {} deaths of the controller), {} plans, {} of them refused, {} steps, each judged\n\
         {} machines bought, {} purchases refused, {} moves begun ({}), {done} carried out, {} pods evicted\n\
         {} of {} replacements given back within minutes, {} for nothing, one and the same pod moved {} times within an hour at most\n\
         {} requests lowered, {} raised; the longest wait of a pod was {} s; {:.2} $ in all",
        record.faults,
        record.notices,
        record.deaths,
        record.plans,
        record.refused,
        audit.steps,
        record.launches,
        record.refusals,
        record.moves.len(),
        reasons.join(", "),
        simulation.world.evicted,
        audit.churn.given_back_soon,
        audit.churn.replacements,
        audit.churn.given_back_for_nothing,
        audit.churn.most_moved,
        record.lowered(),
        record.raised(),
        audit.longest_wait / SECOND,
        record.dollars(),
    )
}
