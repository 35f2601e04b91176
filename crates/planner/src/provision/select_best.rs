//! Selection of the best of several solutions, one per strategy.
//!
//! Two threads compute the solutions, each solution on one of them; the result does not depend on the threads. A pod with a
//! place in the first solution keeps one in the result: no pod becomes unschedulable so that another finds a place.

pub(super) mod pod_groups;
mod premium;
pub(super) mod strategy;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use crate::{Plan, PodShape, PodVerdict, Snapshot, Spread};

use super::demand::capacity_split;
use super::phases::even_hosts::has_even_pods;
use super::phases::fill_existing::fill_existing_only;
use super::phases::finish::{Score, costs, finish, score};
use super::phases::rehearsal::new_domains;
use super::topology::KnownDomains;
use super::{PlanInput, Solver};
use strategy::Strategy;

/// Maximum number of restarts of a plan after facts that it did not foresee.
const MOST_SURPRISES: usize = 4;

/// Maximum number of a workload's shapes that are tried for the on-demand base.
const MOST_EXCHANGES: usize = 4;

/// Plan with its score.
#[derive(Clone)]
struct StrategyResult {
    score: Score,
    /// Cost of each launch.
    costs: Vec<i64>,
    plan: Plan,
    /// Pods without a place.
    left: BTreeSet<usize>,
}

/// Returns the best solution, the first among equals: with the spot shares that workloads request, unless more pods have a
/// place without them.
pub(super) fn best(input: &PlanInput<'_>) -> Plan {
    let (input, plan) = with_other_bases(input.clone(), best_of(input));
    let Some(parts) = capacity_split::without_preferences(&input.parts, &plan) else { return plan };
    let other = best_of(&input.with_parts(parts));
    if other.report.order.len() > plan.report.order.len() { other } else { plan }
}

/// Tries to assign the on-demand base to other pods of a workload where pods of the base find no place. Keeps the exchange if
/// more pods have a place.
fn with_other_bases(mut input: PlanInput<'_>, mut plan: Plan) -> (PlanInput<'_>, Plan) {
    for attempt in 0..MOST_EXCHANGES {
        let exchanged = capacity_split::exchanged(input.snapshot, &input.parts, &plan, attempt);
        let Some(exchanged) = exchanged.map(|parts| input.with_parts(parts)) else { break };
        let other = best_of(&exchanged);
        if places_more(&other, &plan) {
            (input, plan) = (exchanged, other);
        }
    }
    (input, plan)
}

/// Reports whether a plan places all pods that another one places, and more.
fn places_more(plan: &Plan, other: &Plan) -> bool {
    let placed: BTreeSet<usize> = plan.report.order.iter().copied().collect();
    placed.len() > other.report.order.len() && other.report.order.iter().all(|pod| placed.contains(pod))
}

fn best_of(input: &PlanInput<'_>) -> Plan {
    let snapshot = input.snapshot;
    let begun = match begin(input) {
        StartState::Whole(plan) => return *plan,
        StartState::Begun(solver) => solver,
    };
    let mut all = side_by_side(*begun, &strategy::ALWAYS);
    let first = all.first().map(|first| first.left.clone()).unwrap_or_default();
    let (pods, shapes) = all.first().map_or((0, 0), |first| at_issue(snapshot, &first.plan));
    let more = strategy::more(pods, shapes);
    if !more.is_empty() {
        all.extend(side_by_side(Solver::new(input, &KnownDomains::default()), more));
    }
    if strategy::are_few(pods, shapes) && may_deal(snapshot) {
        let solver = Solver::new(input, &KnownDomains::default());
        all.extend(has_even_pods(&solver).then(|| solution(solver, strategy::EVEN)));
    }
    all.retain(|solution| solution.left.is_subset(&first));
    let best = all.into_iter().min_by_key(|solution| solution.score);
    match best {
        Some(best) if strategy::are_few(pods, shapes) && prefers_separate(snapshot) => {
            premium::within_premium(input, best, &first, strategy::shared(pods, shapes)).plan
        }
        best => best.map(|best| best.plan).unwrap_or_default(),
    }
}

/// Reports whether some pods may prefer separate hosts.
fn prefers_separate(snapshot: &Snapshot) -> bool {
    let spreads = |shape: &PodShape| shape.spread.iter().any(Spread::prefers_separate_hosts);
    snapshot.shapes.iter().any(|shape| !shape.prefers_apart.is_empty() || spreads(shape))
}

/// Reports whether some pods are spread over domains, or need other pods in theirs.
fn may_deal(snapshot: &Snapshot) -> bool {
    snapshot.shapes.iter().any(|shape| !shape.spread.is_empty() || !shape.near.is_empty())
}

/// Common first part of the strategies that every plan uses.
enum StartState<'a> {
    /// The complete plan: there is nothing to launch.
    Whole(Box<Plan>),
    Begun(Box<Solver<'a>>),
}

fn begin<'a>(input: &PlanInput<'a>) -> StartState<'a> {
    let nothing = KnownDomains::default();
    let mut solver = Solver::new(input, &nothing);
    if fill_existing_only(&mut solver) {
        if new_domains(&mut solver) == nothing {
            return StartState::Whole(Box::new(finish(solver)));
        }
        // The rehearsal of this plan failed and discarded its counts.
        solver = Solver::new(input, &nothing);
    }
    StartState::Begun(Box::new(solver))
}

/// Returns the number of pods for which a plan launches nodes or finds no place, and the number of their shapes.
fn at_issue(snapshot: &Snapshot, plan: &Plan) -> (usize, usize) {
    let verdicts = snapshot.pods.iter().zip(&plan.report.pods);
    let pods = || verdicts.clone().filter(|(_, verdict)| !matches!(verdict, PodVerdict::Existing { .. }));
    let shapes: BTreeSet<usize> = pods().map(|(pod, _)| pod.shape).collect();
    (pods().count(), shapes.len())
}

/// Returns solutions in the order of their strategies, all from one initial state.
fn side_by_side(begun: Solver<'_>, strategies: &[Strategy]) -> Vec<StrategyResult> {
    let (ones, others) = strategies.split_at(strategies.len().div_ceil(2));
    let copy = begun.clone();
    thread::scope(|scope| {
        let others = scope.spawn(move || one_by_one(copy, others));
        let mut all = one_by_one(begun, ones);
        all.extend(others.join().unwrap_or_default());
        all
    })
}

fn one_by_one(begun: Solver<'_>, strategies: &[Strategy]) -> Vec<StrategyResult> {
    let Some((last, others)) = strategies.split_last() else { return Vec::new() };
    let mut all: Vec<StrategyResult> = others.iter().map(|strategy| solution(begun.clone(), *strategy)).collect();
    all.push(solution(begun, *last));
    all
}

fn solution(begun: Solver<'_>, strategy: Strategy) -> StrategyResult {
    let solver = solved(begun, strategy);
    let (score, costs) = (score(&solver), costs(&solver).collect());
    let plan = finish(solver);
    let placed = |verdict: &PodVerdict| matches!(verdict, PodVerdict::Existing { .. } | PodVerdict::Launch { .. });
    let left =
        plan.report.pods.iter().enumerate().filter(|(_, verdict)| !placed(verdict)).map(|(pod, _)| pod).collect();
    StrategyResult { score, costs, plan, left }
}

/// Returns one solution. Starts again while the plan opens domains that a spread did not count. The same applies while pods
/// have no place because of DaemonSet pods that earlier pods did not count, and to a plan that relies on a minimum of hosts in
/// vain. From the second restart on, a plan relies on none, so that the last one is valid.
fn solved(begun: Solver<'_>, strategy: Strategy) -> Solver<'_> {
    let input = begun.problem.input.clone();
    let separate = Arc::clone(&begun.progress.separate);
    let mut known = KnownDomains::default();
    let mut solver = begun;
    solver.progress.strategy = strategy;
    solver.solve();
    for restarts in 0..MOST_SURPRISES {
        let before = known.clone();
        known.extend(new_domains(&mut solver));
        if known == before {
            break;
        }
        known.all_pinned |= restarts > 0;
        solver = Solver::new(&input, &known);
        solver.progress.strategy = strategy;
        solver.progress.separate = Arc::clone(&separate);
        solver.solve();
    }
    solver
}
