//! Addresses of launches in flight, which DescribeSubnets does not count yet.
//!
//! The free addresses of a subnet change only when instances and their pods have started. A new launch counts the addresses of
//! its instances in every subnet that it may use. After EC2's answer only the subnets of the launched instances count, and
//! after a failed launch none. After [`COUNTED`] the free addresses of the subnet itself are current.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{LaunchChoice, Token};
use crate::calls::FleetAnswer;

/// Time after which the pods of an instance have their addresses and the EC2NodeClass, resolved every minute, is current.
const COUNTED: SignedDuration = SignedDuration::from_mins(2);

/// Addresses by launch and subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight(BTreeMap<Token, Taken>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Taken {
    since: Timestamp,
    /// Addresses of one instance.
    each: i64,
    subnets: BTreeMap<String, i64>,
}

impl InFlight {
    /// Counts a new launch of `instances` instances, and forgets launches older than [`COUNTED`].
    pub fn begin(&mut self, token: &Token, choice: &LaunchChoice, instances: usize, now: Timestamp) {
        self.0.retain(|_, taken| taken.counts(now));
        let each = i64::from(choice.addresses) + 1;
        let all = each.saturating_mul(i64::try_from(instances).unwrap_or(i64::MAX));
        let overrides = choice.configs.iter().flat_map(|config| &config.overrides);
        let subnets = overrides.map(|one| (one.subnet_id.clone(), all)).collect();
        self.0.insert(token.clone(), Taken { since: now, each, subnets });
    }

    /// Restricts the count to the subnets of the launched instances, after EC2's answer.
    pub fn settle(&mut self, token: &Token, answer: &FleetAnswer, now: Timestamp) {
        let Some(taken) = self.0.get_mut(token) else { return };
        taken.since = now;
        taken.subnets.clear();
        for one in &answer.instances {
            *taken.subnets.entry(one.subnet_id.clone()).or_default() += taken.each;
        }
    }

    /// Forgets a failed launch.
    pub fn release(&mut self, token: &Token) {
        self.0.remove(token);
    }

    /// Returns the addresses that launches in flight use in a subnet.
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
