//! Whether a pool's launches come to something: the last few registrations of each pool, good and bad (core 3.1).
//!
//! It is told, in the condition `NodeRegistrationHealthy`, and gates nothing.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::{Mutex, MutexGuard};

/// So many results count.
const REMEMBERED: usize = 4;

/// How one launch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registration {
    /// Its node registered.
    Good,
    /// It was given up.
    Bad {
        /// One word: why.
        reason: String,
        /// A sentence: why.
        message: String,
    },
}

/// The last results of one pool, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistrationHistory(VecDeque<Registration>);

/// What the results come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationHealth {
    /// Nothing is known yet.
    Unknown,
    /// Fewer than half of the last launches failed.
    Healthy,
    /// Half of them or more failed; the last failure says why.
    Unhealthy {
        /// One word.
        reason: String,
        /// A sentence.
        message: String,
    },
}

impl RegistrationHistory {
    fn record(&mut self, result: Registration) {
        self.0.push_back(result);
        if self.0.len() > REMEMBERED {
            self.0.pop_front();
        }
    }

    /// Half of the four places filled with failures is too many, however few results there are.
    #[must_use]
    pub fn verdict(&self) -> RegistrationHealth {
        let failures = || {
            self.0.iter().filter_map(|result| match result {
                Registration::Bad { reason, message } => Some((reason, message)),
                Registration::Good => None,
            })
        };
        match failures().next_back() {
            Some((reason, message)) if failures().count() * 2 >= REMEMBERED => {
                RegistrationHealth::Unhealthy { reason: reason.clone(), message: message.clone() }
            }
            _ if self.0.contains(&Registration::Good) => RegistrationHealth::Healthy,
            _ => RegistrationHealth::Unknown,
        }
    }
}

/// The rings of all pools, by the pools' UIDs: a pool of the same name is another pool.
#[derive(Debug, Default)]
pub struct Registrations(Mutex<BTreeMap<String, RegistrationHistory>>);

impl Registrations {
    /// Takes in one result.
    pub fn record(&self, pool: &str, result: Registration) {
        self.rings().entry(pool.to_owned()).or_default().record(result);
    }

    /// Starts anew: pool or class have changed, and what was is no sign any more.
    pub fn reset(&self, pool: &str) {
        self.rings().remove(pool);
    }

    /// What is known of a pool.
    #[must_use]
    pub fn verdict(&self, pool: &str) -> RegistrationHealth {
        self.rings().get(pool).map_or(RegistrationHealth::Unknown, RegistrationHistory::verdict)
    }

    fn rings(&self) -> MutexGuard<'_, BTreeMap<String, RegistrationHistory>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::{Registration, RegistrationHealth, RegistrationHistory};

    #[test]
    fn two_failures_among_the_last_four_are_too_many() {
        let bad = || Registration::Bad { reason: "LaunchFailed".to_owned(), message: "no".to_owned() };
        let sick = RegistrationHealth::Unhealthy { reason: "LaunchFailed".to_owned(), message: "no".to_owned() };
        let good = || Registration::Good;
        let rows = [
            (vec![], RegistrationHealth::Unknown),
            (vec![good()], RegistrationHealth::Healthy),
            (vec![bad()], RegistrationHealth::Unknown),
            (vec![bad(), bad()], sick.clone()),
            (vec![good(), bad(), bad()], sick.clone()),
            (vec![good(), good(), good(), bad()], RegistrationHealth::Healthy),
            (vec![bad(), bad(), good(), good(), good()], RegistrationHealth::Healthy),
            (vec![good(), bad(), good(), good(), bad()], sick),
        ];
        for (results, verdict) in rows {
            let mut ring = RegistrationHistory::default();
            results.iter().cloned().for_each(|result| ring.record(result));
            assert_eq!(ring.verdict(), verdict, "{results:?}");
        }
    }
}
