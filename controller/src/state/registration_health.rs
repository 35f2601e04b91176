//! Success of a NodePool's launches: the last registrations of each NodePool, successful or not.
//!
//! The result is reported in the condition `NodeRegistrationHealthy` and blocks nothing.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::{Mutex, MutexGuard};

/// Number of results that count.
const REMEMBERED: usize = 4;

/// Result of one launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registration {
    /// Registration of its node.
    Good,
    /// Launch without a registration.
    Bad {
        /// Reason in CamelCase.
        reason: String,
        /// Message with the cause.
        message: String,
    },
}

/// Last results of one NodePool, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistrationHistory(VecDeque<Registration>);

/// Health that follows from the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationHealth {
    /// No result yet, or only too few failures.
    Unknown,
    /// Fewer than half of the last launches failed.
    Healthy,
    /// Half of the last launches or more failed, with the cause of the last failure.
    Unhealthy {
        /// Reason in CamelCase.
        reason: String,
        /// Message with the cause.
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

    /// Returns the health. Two failures in the four places are too many, even if there are fewer results.
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

/// Results of all NodePools by their UIDs: another NodePool of the same name has its own results.
#[derive(Debug, Default)]
pub struct Registrations(Mutex<BTreeMap<String, RegistrationHistory>>);

impl Registrations {
    /// Records one result.
    pub fn record(&self, pool: &str, result: Registration) {
        self.rings().entry(pool.to_owned()).or_default().record(result);
    }

    /// Removes the results of a NodePool: it or its EC2NodeClass changed, so that earlier results are no evidence.
    pub fn reset(&self, pool: &str) {
        self.rings().remove(pool);
    }

    /// Returns the health of a NodePool.
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
    fn verdict_is_unhealthy_when_two_of_the_last_four_failed() {
        let bad = || Registration::Bad { reason: "LaunchFailed".to_owned(), message: "no".to_owned() };
        let unhealthy = RegistrationHealth::Unhealthy { reason: "LaunchFailed".to_owned(), message: "no".to_owned() };
        let good = || Registration::Good;
        let rows = [
            (vec![], RegistrationHealth::Unknown),
            (vec![good()], RegistrationHealth::Healthy),
            (vec![bad()], RegistrationHealth::Unknown),
            (vec![bad(), bad()], unhealthy.clone()),
            (vec![good(), bad(), bad()], unhealthy.clone()),
            (vec![good(), good(), good(), bad()], RegistrationHealth::Healthy),
            (vec![bad(), bad(), good(), good(), good()], RegistrationHealth::Healthy),
            (vec![good(), bad(), good(), good(), bad()], unhealthy),
        ];
        for (results, verdict) in rows {
            let mut ring = RegistrationHistory::default();
            results.iter().cloned().for_each(|result| ring.record(result));
            assert_eq!(ring.verdict(), verdict, "{results:?}");
        }
    }
}
