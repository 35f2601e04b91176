//! Addresses that are as good as taken: DescribeSubnets learns of them only when instances and their pods have come.
//!
//! A launch counts the addresses of its instances in every subnet that it may use; once EC2 has answered, only where the
//! instances are, and when nothing came of it, nowhere. After [`COUNTED`] the subnet's own number tells the truth.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{LaunchChoice, Token};
use crate::calls::FleetAnswer;

/// By then a machine's pods have their addresses, and the class has been resolved anew (every minute).
const COUNTED: SignedDuration = SignedDuration::from_mins(2);

/// Addresses by launch and subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight(BTreeMap<Token, Taken>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Taken {
    since: Timestamp,
    /// What one instance takes.
    each: i64,
    subnets: BTreeMap<String, i64>,
}

impl InFlight {
    /// A launch of so many instances begins; older ones that are over are forgotten.
    pub fn begin(&mut self, token: &Token, choice: &LaunchChoice, instances: usize, now: Timestamp) {
        self.0.retain(|_, taken| taken.counts(now));
        let each = i64::from(choice.addresses) + 1;
        let all = each.saturating_mul(i64::try_from(instances).unwrap_or(i64::MAX));
        let overrides = choice.configs.iter().flat_map(|config| &config.overrides);
        let subnets = overrides.map(|one| (one.subnet_id.clone(), all)).collect();
        self.0.insert(token.clone(), Taken { since: now, each, subnets });
    }

    /// EC2 has answered: only the subnets of its instances stay counted.
    pub fn settle(&mut self, token: &Token, answer: &FleetAnswer, now: Timestamp) {
        let Some(taken) = self.0.get_mut(token) else { return };
        taken.since = now;
        taken.subnets.clear();
        for one in &answer.instances {
            *taken.subnets.entry(one.subnet_id.clone()).or_default() += taken.each;
        }
    }

    /// Nothing came of the launch.
    pub fn give_back(&mut self, token: &Token) {
        self.0.remove(token);
    }

    /// What is counted in a subnet.
    #[must_use]
    pub fn free_in(&self, subnet: &str, now: Timestamp) -> i64 {
        self.0.values().filter(|taken| taken.counts(now)).filter_map(|taken| taken.subnets.get(subnet)).sum()
    }
}

impl Taken {
    fn counts(&self, now: Timestamp) -> bool {
        now.duration_since(self.since) < COUNTED
    }
}
