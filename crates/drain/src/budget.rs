//! Pods that one PodDisruptionBudget holds share their fate, so one of them is asked on behalf of all: the budget's room is found
//! within a second, and thirty blocked pods cost the API server no more requests than one.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff;
use crate::moment::Millis;
use crate::settings::Settings;

/// The budgets that have refused, by `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Budgets(BTreeMap<String, Probe>);

/// When one of a budget's pods may be asked again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Probe {
    /// Rounds in which the budget had no room, since it last had.
    rounds: u32,
    next: Millis,
}

impl Budgets {
    /// The earliest moment to ask again; at once for a budget that has not refused.
    pub(crate) fn next(&self, budget: &str) -> Millis {
        self.0.get(budget).map_or(Millis(0), |probe| probe.next)
    }

    /// The budget had no room at `now`. Refusals of pods that were asked at the same time are one round.
    pub(crate) fn refused(&mut self, settings: &Settings, budget: &str, asked: Option<Duration>, now: Millis) {
        let probe = self.0.entry(budget.to_owned()).or_default();
        if now >= probe.next {
            probe.rounds = probe.rounds.saturating_add(1);
            probe.next = now + backoff::wait(settings, budget, probe.rounds, settings.probe_max);
        }
        probe.next = probe.next.max(now + asked.unwrap_or_default());
    }

    /// It has let a pod go: perhaps it lets another.
    pub(crate) fn gave_way(&mut self, budget: &str, now: Millis) {
        if let Some(probe) = self.0.get_mut(budget) {
            *probe = Probe { rounds: 0, next: now };
        }
    }
}
