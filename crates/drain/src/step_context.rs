//! Context of a pod's next step: rules, times, and the state of the other pods.

use std::collections::BTreeSet;

use crate::eviction::budget::Budgets;
use crate::moment::Millis;
use crate::pod::Group;
use crate::settings::Settings;

/// View of a drain at one time.
pub(crate) struct StepContext<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) budgets: &'a Budgets,
    /// Budgets for which an eviction is outstanding.
    pub(crate) probed: BTreeSet<&'a str>,
    /// First group that still has pods that must leave.
    pub(crate) first: Group,
    pub(crate) times: StepTimes,
}

/// Times that a pod's next step depends on.
#[derive(Clone, Copy)]
pub(crate) struct StepTimes {
    pub(crate) started: Millis,
    /// Time from which the node's state permits evictions.
    pub(crate) open: Millis,
    /// Time at which a new list was last requested.
    pub(crate) relisted: Millis,
    pub(crate) now: Millis,
}

impl StepContext<'_> {
    /// Returns the time at which a pod that this budget blocks may be evicted again; `None` while another of its pods has an
    /// outstanding request.
    pub(crate) fn probe(&self, budget: &str) -> Option<Millis> {
        (!self.probed.contains(budget)).then(|| self.budgets.next(budget))
    }
}
