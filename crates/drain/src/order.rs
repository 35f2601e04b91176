//! Who wants the node empty, and by when: a drain follows everybody's request at once, and goes on for as long as one of them stands.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::moment::Millis;
use crate::settings::DaemonSets;

/// One request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DrainOrder {
    /// Its identity: of a notice by its content, of a request as it was given.
    pub id: String,
    /// Why, in a few words.
    pub reason: String,
    /// When the machine may be gone.
    pub deadline: Option<Millis>,
    /// What shall happen to pods of DaemonSets.
    pub daemon_sets: DaemonSets,
    /// Whether the deadline is Karpenter's, and so its arithmetic.
    pub termination: bool,
}

/// The requests that stand, by what they come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DrainOrders(BTreeMap<String, DrainOrder>);

impl DrainOrders {
    /// What `source` wants from now on; `None` takes its wish back. Returns whether that is news.
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

    /// What `source` wants.
    #[must_use]
    pub fn get(&self, source: &str) -> Option<&DrainOrder> {
        self.0.get(source)
    }

    /// Whether nobody wants anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The earliest deadline.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        self.0.values().filter_map(|order| order.deadline).min()
    }

    /// DaemonSets go when anyone wants them to.
    #[must_use]
    pub fn daemon_sets(&self) -> DaemonSets {
        self.0.values().map(|order| order.daemon_sets).max().unwrap_or_default()
    }

    /// Whether Karpenter's arithmetic holds: as soon as anyone else wants the node empty, the machine's own rules do.
    #[must_use]
    pub fn is_termination(&self) -> bool {
        !self.is_empty() && self.0.values().all(|order| order.termination)
    }

    /// Their ids, in the order of their sources.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(|order| order.id.as_str())
    }

    /// Why, in a few words.
    #[must_use]
    pub fn reasons(&self) -> String {
        let reasons: Vec<&str> = self.0.values().map(|order| order.reason.as_str()).collect();
        reasons.join(", ")
    }
}
