//! PodDisruptionBudgets with the numbers of their pods, as the disruption controller counts them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{Pod, PodDisruptionBudget};

/// Budgets, each with its number of expected and of healthy pods.
#[derive(Default)]
pub(super) struct Budgets {
    budgets: Vec<Counted>,
    /// Positions of the budgets that select a pod, by UID.
    of: BTreeMap<String, Vec<usize>>,
    /// Positions of budgets whose numbers have changed.
    stale: BTreeSet<usize>,
}

struct Counted {
    budget: Arc<PodDisruptionBudget>,
    expected: i32,
    healthy: i32,
}

impl Budgets {
    pub(super) fn list(&self) -> impl Iterator<Item = &Arc<PodDisruptionBudget>> {
        self.budgets.iter().map(|counted| &counted.budget)
    }

    /// Returns the budgets that select a pod.
    pub(super) fn of(&self, uid: &str) -> impl Iterator<Item = &Arc<PodDisruptionBudget>> {
        self.of.get(uid).into_iter().flatten().map(|position| &self.budgets[*position].budget)
    }

    /// Replaces all budgets, and counts the pods again.
    pub(super) fn replace<'p>(
        &mut self,
        budgets: &[Arc<PodDisruptionBudget>],
        pods: impl Iterator<Item = (&'p String, &'p Arc<Pod>)>,
    ) {
        let counted =
            |budget: &Arc<PodDisruptionBudget>| Counted { budget: Arc::clone(budget), expected: 0, healthy: 0 };
        self.budgets = budgets.iter().map(counted).collect();
        self.of.clear();
        self.stale = (0..self.budgets.len()).collect();
        for (uid, pod) in pods {
            self.update(uid, None, Some(pod));
        }
    }

    /// Takes over a new, changed or removed pod.
    pub(super) fn update(&mut self, uid: &str, before: Option<&Pod>, after: Option<&Pod>) {
        if self.budgets.is_empty() {
            return;
        }
        if let Some(pod) = after.filter(|_| before.is_none()) {
            let selects = |position: &usize| self.budgets[*position].budget.selects(pod);
            let own: Vec<usize> = (0..self.budgets.len()).filter(selects).collect();
            if !own.is_empty() {
                self.of.insert(uid.to_owned(), own);
            }
        }
        let (was, is) = (count(before), count(after));
        for position in self.of.get(uid).into_iter().flatten().filter(|_| was != is) {
            let counted = &mut self.budgets[*position];
            counted.expected += is.0 - was.0;
            counted.healthy += is.1 - was.1;
            self.stale.insert(*position);
        }
        if after.is_none() {
            self.of.remove(uid);
        }
    }

    /// Writes the status of budgets whose numbers have changed.
    pub(super) fn count(&mut self) {
        for position in std::mem::take(&mut self.stale) {
            let Counted { budget, expected, healthy } = &mut self.budgets[position];
            let status = budget.counted(*expected, *healthy);
            if budget.status != status {
                Arc::make_mut(budget).status = status;
            }
        }
    }
}

/// Returns the number of expected and of healthy pods that a pod counts for. A workload replaces a terminating pod, so that its
/// replacement counts.
fn count(pod: Option<&Pod>) -> (i32, i32) {
    let counts = pod.filter(|pod| !pod.is_terminating() && !pod.is_terminal());
    counts.map_or((0, 0), |pod| (1, i32::from(pod.is_ready())))
}
