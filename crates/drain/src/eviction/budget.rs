//! Retries per PodDisruptionBudget. One eviction request stands for all pods of a budget. So free disruptions are found within
//! a second, and thirty blocked pods cause no more requests than one.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::backoff;
use crate::moment::Millis;
use crate::settings::Settings;

/// Budgets that have refused an eviction, by `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Budgets(BTreeMap<String, Probe>);

/// Retry state of one budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Probe {
    /// Rounds without free disruptions since the last successful eviction.
    rounds: u32,
    next: Millis,
}

impl Budgets {
    /// Returns the earliest time of the next request; immediately for a budget that has not refused.
    pub(crate) fn next(&self, budget: &str) -> Millis {
        self.0.get(budget).map_or(Millis(0), |probe| probe.next)
    }

    /// Records that the budget had no free disruption at `now`. Refusals of simultaneous requests count as one round.
    pub(crate) fn refused(&mut self, settings: &Settings, budget: &str, retry_after: Option<Duration>, now: Millis) {
        let probe = self.0.entry(budget.to_owned()).or_default();
        if now >= probe.next {
            probe.rounds = probe.rounds.saturating_add(1);
            probe.next = now + backoff::wait(settings, budget, probe.rounds, settings.probe_max);
        }
        probe.next = probe.next.max(now + retry_after.unwrap_or_default());
    }

    /// Records a successful eviction: the budget may allow another one.
    pub(crate) fn release(&mut self, budget: &str, now: Millis) {
        if let Some(probe) = self.0.get_mut(budget) {
            *probe = Probe { rounds: 0, next: now };
        }
    }
}
