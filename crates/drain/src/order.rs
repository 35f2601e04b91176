//! Drain requests: reason and deadline of each. A drain follows all requests at once, and continues while any of them exists.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::moment::Millis;
use crate::settings::DaemonSets;

/// One drain request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DrainOrder {
    /// Identity of the request: derived from the content of a notice, or as given by the requester.
    pub id: String,
    /// Reason in a few words.
    pub reason: String,
    /// Time at which the instance may terminate.
    pub deadline: Option<Millis>,
    /// Treatment of DaemonSet pods.
    pub daemon_sets: DaemonSets,
    /// `true` if the deadline is Karpenter's termination grace period, so Karpenter's rules for deadlines apply.
    pub termination: bool,
}

/// Current requests, by source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DrainOrders(BTreeMap<String, DrainOrder>);

impl DrainOrders {
    /// Sets the request of `source`; `None` withdraws it. Returns whether the request changed.
    pub fn set(&mut self, source: &str, order: Option<DrainOrder>) -> bool {
        if self.0.get(source) == order.as_ref() {
            return false;
        }
        match order {
            Some(order) => drop(self.0.insert(source.to_owned(), order)),
            None => drop(self.0.remove(source)),
        }
        true
    }

    /// Returns the request of `source`.
    #[must_use]
    pub fn get(&self, source: &str) -> Option<&DrainOrder> {
        self.0.get(source)
    }

    /// Reports whether there are no requests.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the earliest deadline.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        self.0.values().filter_map(|order| order.deadline).min()
    }

    /// Returns the treatment of DaemonSet pods: they are evicted if any request requires it.
    #[must_use]
    pub fn daemon_sets(&self) -> DaemonSets {
        self.0.values().map(|order| order.daemon_sets).max().unwrap_or_default()
    }

    /// Reports whether Karpenter's rules for deadlines apply. Karpenter's rules apply only if all requests are terminations by
    /// Karpenter; any other request enables the agent's own rules.
    #[must_use]
    pub fn is_termination(&self) -> bool {
        !self.is_empty() && self.0.values().all(|order| order.termination)
    }

    /// Returns the ids of the requests, in the order of their sources.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(|order| order.id.as_str())
    }

    /// Returns the reasons in a few words.
    #[must_use]
    pub fn reasons(&self) -> String {
        let reasons: Vec<&str> = self.0.values().map(|order| order.reason.as_str()).collect();
        reasons.join(", ")
    }
}
