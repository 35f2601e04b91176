//! Result of a simulation: breaches of invariants, and totals.

use std::collections::BTreeMap;

use planner::CommandReason;

use crate::clock::{MINUTE, Moment, SECOND, START};
use crate::simulation::Simulation;

/// Time for which a pod may be pending right after its node was disrupted.
const MOMENT: Moment = 2 * MINUTE;
/// Time for the last launches: Kerf deletes an instance that never registers after 15 minutes, and the next launch takes about
/// two minutes.
const REST: Moment = 20 * MINUTE;

/// Returns one sentence per breach; the list is empty if all invariants held.
#[must_use]
pub fn broken(simulation: &Simulation) -> Vec<String> {
    let (audit, record) = (&simulation.audit, &simulation.record);
    let mut broken: Vec<String> =
        audit.breaches.iter().map(|(at, what)| format!("{} s: {what}", (at - START) / SECOND)).collect();
    if let Some((finding, _)) = audit.evidence.as_ref().filter(|_| record.refused > 0) {
        broken.push(format!("{} of {} plans were refused, the first by {finding}", record.refused, record.plans));
    }
    broken.extend(audit.churn.excess());
    broken
}

/// Continues without events and with reliable instances only, until unregistered instances are replaced. Returns the pods that
/// are still pending.
pub fn left_over(simulation: &mut Simulation) -> Vec<String> {
    simulation.only_good_machines();
    simulation.run(simulation.cluster_state.now + REST);
    simulation.waits_longer_than(MOMENT).cloned().collect()
}

/// Returns the totals of a simulation in a few lines.
#[must_use]
pub fn figures(simulation: &Simulation) -> String {
    let (record, audit) = (&simulation.record, &simulation.audit);
    let done = record.moves.iter().filter(|moved| moved.done).count();
    let mut reasons: BTreeMap<CommandReason, usize> = BTreeMap::new();
    record.moves.iter().for_each(|moved| *reasons.entry(moved.reason).or_default() += 1);
    let reasons: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {}", reason.as_str())).collect();
    format!(
        "{} faults ({} spot notices), {} plans, {} of them refused, {} steps, each checked\n\
         controller: {} crashes, {} ends by a panic, {} lost leases, {} takeovers; panics {:?}\n\
         {} stopped watches, {} checks with a stale view, {} false nodes with {} changes\n\
         {} machines bought, {} purchases refused, {} moves begun ({}), {done} carried out, {} pods evicted\n\
         {} of {} replacements given back within minutes, {} for nothing, one and the same pod moved {} times within an hour at most\n\
         {} requests lowered, {} raised; the longest wait of a pod was {} s; {:.2} $ in all",
        record.faults,
        record.notices,
        record.plans,
        record.refused,
        audit.steps,
        record.crashes,
        record.panicked,
        record.lost_leases,
        record.takeovers,
        simulation.panics(),
        record.stopped_watches,
        record.stale_checks,
        record.false_nodes,
        record.false_writes,
        record.launches,
        record.refusals,
        record.moves.len(),
        reasons.join(", "),
        simulation.cluster_state.evicted,
        audit.churn.given_back_soon,
        audit.churn.replacements,
        audit.churn.given_back_for_nothing,
        audit.churn.most_moved,
        record.lowered,
        record.raised,
        audit.longest_wait / SECOND,
        record.spending.dollars(),
    )
}
