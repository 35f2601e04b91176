//! Price of preferences: pods that prefer separate hosts keep them where the fleet gets dearer by no more than the premium. They
//! prefer them by anti-affinity, or by a spread over hosts with `ScheduleAnyway`.
//!
//! The start is the fleet in which no workload keeps separate hosts. One workload after the other, the one with the highest
//! cost first, keeps its hosts if the difference in cost is within its own limit. A preference is therefore neither dropped nor
//! honoured because of the cost of another workload's preference.
//!
//! The limit is a percentage of what the workload costs on shared hosts: its part of the cost of its launches, by requests.
//! Workloads together therefore pay at most this percentage of the fleet. Of the limit counts the part that these preferences
//! have in the weights of all preferences of the pods. The NodePools that launch the shared hosts decide which percentage
//! applies, the lowest of several.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{StrategyResult, side_by_side};
use crate::provision::fleet::total_requests;
use crate::provision::phases::even_hosts::separate_shapes;
use crate::provision::select_best::strategy::Strategy;
use crate::provision::topology::{GroupId, KnownDomains};
use crate::provision::{PlanInput, Solver};
use crate::{MicroDollars, PodVerdict, Preference, PreferenceDecision, PreferencePremium, Snapshot};

/// Maximum number of workloads that are decided one by one; those with the lowest cost beyond it are decided together.
const MOST_WORKLOADS: usize = 16;
/// Weight of a spread with `ScheduleAnyway`, which has none of its own: as much as the heaviest affinity.
const SPREAD_WEIGHT: i128 = 100;
/// Maximum number of rounds: an honoured preference may open hosts that another workload can use.
const MOST_ROUNDS: usize = 2;

/// Workload whose pods prefer separate hosts.
#[derive(Clone, Default)]
struct Workload {
    shapes: BTreeSet<usize>,
    /// Positions of its pending pods in the snapshot.
    pods: Vec<usize>,
}

/// Inputs of the solutions that are compared.
struct Comparison<'a> {
    input: &'a PlanInput<'a>,
    strategies: Vec<Strategy>,
    workloads: Vec<Workload>,
    /// Pods that may be without a place.
    left: &'a BTreeSet<usize>,
}

/// Returns the solution that honours preferences within their premium, with a decision for each workload. `best` honours all
/// of them, and `strategies` share hosts. Pods that are not `left` need a place.
pub(super) fn within_premium(
    input: &PlanInput<'_>,
    best: StrategyResult,
    left: &BTreeSet<usize>,
    strategies: Vec<Strategy>,
) -> StrategyResult {
    let snapshot = input.snapshot;
    let workloads = if is_unlimited(snapshot) { Vec::new() } else { workloads(input) };
    if workloads.is_empty() {
        return best;
    }
    let comparison = Comparison { input, strategies, workloads, left };
    let Some(shared) = comparison.solve(&BTreeSet::new()) else { return best };
    if best.score <= shared.score {
        let free = |workload: &Workload| decision(snapshot, workload, Some(0), comparison.limit(&shared, workload));
        let decisions = comparison.workloads.iter().map(free).collect();
        return with_decisions(best, decisions);
    }
    let (chosen, decisions) = comparison.decide(shared, &best);
    if best.score > chosen.score {
        return with_decisions(chosen, decisions);
    }
    let honoured = |decision| PreferenceDecision { is_honoured: true, ..decision };
    with_decisions(best, decisions.into_iter().map(honoured).collect())
}

impl<'a> Comparison<'a> {
    /// Returns the cheapest solution in which these shapes keep separate hosts; `None` if each leaves further pods without a
    /// place.
    fn solve(&self, separate: &BTreeSet<usize>) -> Option<StrategyResult> {
        let mut begun = Solver::new(self.input, &KnownDomains::default());
        begun.progress.separate = Arc::new(separate.clone());
        let solutions = side_by_side(begun, &self.strategies).into_iter();
        let valid = |solution: &StrategyResult| {
            solution.left.is_subset(self.left)
                && self.workloads.iter().all(|workload| has_two_hosts(solution, workload))
        };
        solutions.filter(valid).min_by_key(|solution| solution.score)
    }

    fn decide(&self, mut chosen: StrategyResult, best: &StrategyResult) -> (StrategyResult, Vec<PreferenceDecision>) {
        let candidates = self.candidates(&chosen);
        let everything: BTreeSet<usize> = self.workloads.iter().flat_map(|workload| workload.shapes.clone()).collect();
        let mut separate: BTreeSet<usize> = BTreeSet::new();
        let mut decisions: Vec<Option<PreferenceDecision>> = vec![None; candidates.len()];
        for _ in 0..MOST_ROUNDS {
            let before = separate.len();
            for (candidate, decided) in candidates.iter().zip(&mut decisions) {
                if candidate.shapes.is_subset(&separate) {
                    continue;
                }
                if !shares_hosts(&chosen, candidate) {
                    *decided = Some(decision(self.input.snapshot, candidate, Some(0), self.limit(&chosen, candidate)));
                    continue;
                }
                let all: BTreeSet<usize> = separate.union(&candidate.shapes).copied().collect();
                let other = self.solve(&all);
                let costs = other.iter().chain((all == everything).then_some(best)).map(|it| it.score);
                let least = costs.filter(|score| score.0 <= chosen.score.0).map(|score| score.1).min();
                let premium = least.map(|cost| (cost - chosen.score.1).max(0));
                let next = decision(self.input.snapshot, candidate, premium, self.limit(&chosen, candidate));
                if next.is_honoured {
                    separate = all;
                    chosen = other.filter(|other| Some(other.score.1) == least).unwrap_or_else(|| best.clone());
                }
                *decided = Some(next);
            }
            if separate.len() == before {
                break;
            }
        }
        (chosen, decisions.into_iter().flatten().collect())
    }

    /// Returns the workloads in the order of their decisions: those with the highest cost first, the last ones together.
    fn candidates(&self, shared: &StrategyResult) -> Vec<Workload> {
        let mut order: Vec<&Workload> = self.workloads.iter().collect();
        order.sort_by_cached_key(|workload| -self.cost(shared, workload));
        let mut candidates: Vec<Workload> = order.iter().take(MOST_WORKLOADS).map(|it| (*it).clone()).collect();
        let mut rest = Workload::default();
        for workload in order.into_iter().skip(MOST_WORKLOADS) {
            rest.shapes.extend(&workload.shapes);
            rest.pods.extend(&workload.pods);
        }
        candidates.extend((!rest.pods.is_empty()).then_some(rest));
        candidates
    }

    /// Returns the highest additional cost of separate hosts for a workload; `None` if it is unlimited.
    fn limit(&self, shared: &StrategyResult, workload: &Workload) -> Option<i64> {
        let percent = match self.premium(shared, workload) {
            PreferencePremium::Percent(percent) => i128::from(percent),
            PreferencePremium::Unlimited => return None,
        };
        let shapes = workload.pods.iter().map(|pod| &self.input.snapshot.shapes[self.input.snapshot.pods[*pod].shape]);
        let (mut own, mut all) = (0_i128, 0_i128);
        for shape in shapes {
            let spreads = shape.spread.iter().filter(|it| it.prefers_separate_hosts()).count() as i128;
            let weights: i128 = shape.prefers_apart.iter().map(|it| i128::from(it.weight)).sum();
            let apart = weights + spreads * SPREAD_WEIGHT;
            own += apart;
            all += apart + shape.preferred.iter().map(|it| i128::from(it.weight)).sum::<i128>();
        }
        let limit = self.cost(shared, workload) * percent * own / (100 * all.max(1));
        Some(i64::try_from(limit).unwrap_or(i64::MAX))
    }

    /// Returns the premium of the NodePools that launch a workload's hosts, the lowest of several.
    fn premium(&self, shared: &StrategyResult, workload: &Workload) -> PreferencePremium {
        let usual = self.input.snapshot.policy.preference_premium;
        let launches: BTreeSet<usize> = launches_of(shared, workload).map(|(_, launch)| launch).collect();
        let pool = |launch: &usize| {
            let name = &shared.plan.launches[*launch].pool;
            let pool = self.input.snapshot.pools.iter().find(|pool| pool.name == *name);
            pool.and_then(|pool| pool.preference_premium).unwrap_or(usual)
        };
        launches.iter().map(pool).min().unwrap_or(usual)
    }

    /// Returns a workload's part of the cost of its launches, by requests.
    fn cost(&self, shared: &StrategyResult, workload: &Workload) -> i128 {
        let requests = |pod: usize| {
            let shape = &self.input.snapshot.shapes[self.input.snapshot.pods[pod].shape];
            i128::from(total_requests(shape, 1)).max(1)
        };
        let mut own: BTreeMap<usize, i128> = BTreeMap::new();
        for (pod, launch) in launches_of(shared, workload) {
            *own.entry(launch).or_default() += requests(pod);
        }
        let part = |(launch, own): (usize, i128)| {
            let all: i128 = shared.plan.launches[launch].pods.iter().map(|pod| requests(*pod)).sum();
            i128::from(shared.costs[launch]) * own / all.max(1)
        };
        own.into_iter().map(part).sum()
    }
}

/// Returns the workloads whose pods prefer separate hosts: the pods that avoid the same pods.
fn workloads(input: &PlanInput<'_>) -> Vec<Workload> {
    let solver = Solver::new(input, &KnownDomains::default());
    let mut workloads: BTreeMap<GroupId, Workload> = BTreeMap::new();
    let groups: BTreeMap<usize, GroupId> = separate_shapes(&solver).into_iter().collect();
    for (pod, shape) in solver.problem.demand_of.iter().enumerate() {
        let is_pending = input.snapshot.pods[pod].nominated.is_none();
        if let Some(group) = groups.get(shape).filter(|_| is_pending) {
            let workload = workloads.entry(*group).or_default();
            workload.shapes.insert(*shape);
            workload.pods.push(pod);
        }
    }
    workloads.into_values().collect()
}

/// Reports whether several pods of a workload that are all launched have two hosts or more.
fn has_two_hosts(solution: &StrategyResult, workload: &Workload) -> bool {
    let launched: Vec<usize> = launches_of(solution, workload).map(|(_, launch)| launch).collect();
    launched.len() < workload.pods.len().max(2) || launched.iter().any(|launch| *launch != launched[0])
}

/// Reports whether every NodePool honours preferences at any cost.
fn is_unlimited(snapshot: &Snapshot) -> bool {
    let usual = snapshot.policy.preference_premium;
    let unlimited = |premium: Option<PreferencePremium>| premium.unwrap_or(usual) == PreferencePremium::Unlimited;
    snapshot.pools.iter().all(|pool| unlimited(pool.preference_premium))
}

/// Returns the launched pods of a workload with the positions of their launches.
fn launches_of(solution: &StrategyResult, workload: &Workload) -> impl Iterator<Item = (usize, usize)> {
    let launch = |pod: &usize| match solution.plan.report.pods[*pod] {
        PodVerdict::Launch { launch, .. } => Some((*pod, launch)),
        _ => None,
    };
    workload.pods.iter().filter_map(launch)
}

/// Reports whether pods of a workload dropped their preference for separate hosts.
fn shares_hosts(solution: &StrategyResult, workload: &Workload) -> bool {
    let drops = |pod: &usize| match &solution.plan.report.pods[*pod] {
        PodVerdict::Existing { dropped, .. } | PodVerdict::Launch { dropped, .. } => {
            dropped.iter().any(Preference::is_for_separate_hosts)
        }
        PodVerdict::Unschedulable { .. } | PodVerdict::Postponed => false,
    };
    workload.pods.iter().any(drops)
}

/// Creates the decision about a workload; without a premium, separate hosts leave pods without a place.
fn decision(snapshot: &Snapshot, workload: &Workload, premium: Option<i64>, limit: Option<i64>) -> PreferenceDecision {
    let is_honoured = premium.is_some_and(|premium| limit.is_none_or(|limit| premium <= limit));
    let mut pods = workload.pods.clone();
    pods.retain(|pod| snapshot.pods[*pod].holder.is_none());
    PreferenceDecision { pods, is_honoured, premium: premium.map(MicroDollars), limit: limit.map(MicroDollars) }
}

fn with_decisions(mut solution: StrategyResult, mut decisions: Vec<PreferenceDecision>) -> StrategyResult {
    decisions.sort_by(|one, other| one.pods.cmp(&other.pods));
    solution.plan.report.preferences = decisions;
    solution
}
