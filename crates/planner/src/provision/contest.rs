//! Several solutions of one plan, each in a manner of its own; the best is kept.
//!
//! They are worked out on two threads, each solution on one of them: which is the best does not depend on it. A pod that
//! has a place in the first solution keeps one, whatever others bring: no pod is given up so that another finds a place.

use std::collections::BTreeSet;
use std::thread;

use super::Solver;
use super::manner::{self, Manner, Score};
use super::topology::Foreseen;
use crate::{Plan, PodVerdict, Snapshot};

/// How often a plan is begun anew, at most, because something in it was not foreseen.
const MOST_SURPRISES: usize = 4;

/// A plan with what speaks for it.
struct Solution {
    score: Score,
    plan: Plan,
    /// Pods without a place.
    left: BTreeSet<usize>,
}

/// The best solution, the first among equals.
pub(super) fn best(snapshot: &Snapshot) -> Plan {
    let mut all = side_by_side(snapshot, &manner::ALWAYS);
    let first = all.first().map(|first| first.left.clone()).unwrap_or_default();
    let (pods, shapes) = all.first().map_or((0, 0), |first| at_issue(snapshot, &first.plan));
    all.extend(side_by_side(snapshot, manner::more(pods, shapes)));
    all.retain(|solution| solution.left.is_subset(&first));
    all.into_iter().min_by_key(|solution| solution.score).map(|best| best.plan).unwrap_or_default()
}

/// How many pods a plan launches nodes for or finds no place for, and how many shapes they have.
fn at_issue(snapshot: &Snapshot, plan: &Plan) -> (usize, usize) {
    let verdicts = snapshot.pods.iter().zip(&plan.report.pods);
    let pods = || verdicts.clone().filter(|(_, verdict)| !matches!(verdict, PodVerdict::Existing { .. }));
    let shapes: BTreeSet<usize> = pods().map(|(pod, _)| pod.shape).collect();
    (pods().count(), shapes.len())
}

/// Solutions in the order of their manners.
fn side_by_side(snapshot: &Snapshot, manners: &[Manner]) -> Vec<Solution> {
    let solve = |manners: &[Manner]| -> Vec<Solution> { manners.iter().map(|it| solution(snapshot, *it)).collect() };
    let (ones, others) = manners.split_at(manners.len().div_ceil(2));
    thread::scope(|scope| {
        let others = scope.spawn(|| solve(others));
        let mut all = solve(ones);
        all.extend(others.join().unwrap_or_default());
        all
    })
}

fn solution(snapshot: &Snapshot, manner: Manner) -> Solution {
    let solver = solved(snapshot, manner);
    let score = solver.score();
    let plan = solver.finish();
    let placed = |verdict: &PodVerdict| matches!(verdict, PodVerdict::Existing { .. } | PodVerdict::Launch { .. });
    let left =
        plan.report.pods.iter().enumerate().filter(|(_, verdict)| !placed(verdict)).map(|(pod, _)| pod).collect();
    Solution { score, plan, left }
}

/// One solution, begun anew while it opens domains that a spread did not count on, or leaves pods without a place whose
/// launches would have brought along whom those who came first did not count on.
fn solved(snapshot: &Snapshot, manner: Manner) -> Solver<'_> {
    let mut foreseen = Foreseen::default();
    let mut solver = Solver::new(snapshot, &foreseen, manner);
    solver.solve();
    for _ in 0..MOST_SURPRISES {
        let before = foreseen.clone();
        foreseen.extend(solver.unforeseen());
        if foreseen == before {
            break;
        }
        solver = Solver::new(snapshot, &foreseen, manner);
        solver.solve();
    }
    solver
}
