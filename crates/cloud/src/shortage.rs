//! What was out of stock lately, so that the next plan looks elsewhere: remembered for three minutes, then tried again.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use planner::CapacityType;

/// How long a shortage is believed (aws 3.5).
pub const REMEMBERED: SignedDuration = SignedDuration::from_mins(3);

/// What is out of stock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// One instance type in one zone, bought one way.
    Offering {
        /// How it is bought.
        capacity_type: CapacityType,
        /// Instance type.
        instance_type: String,
        /// Zone name.
        zone: String,
    },
    /// Everything that is bought this way.
    CapacityType(CapacityType),
    /// A subnet without addresses, by id.
    Subnet(String),
}

impl Scope {
    /// The scope of one offering.
    #[must_use]
    pub fn offering(capacity_type: CapacityType, instance_type: &str, zone: &str) -> Self {
        Self::Offering { capacity_type, instance_type: instance_type.to_owned(), zone: zone.to_owned() }
    }
}

/// The memory of shortages. Lives in one process: after a restart EC2 says again what it lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shortages {
    until: BTreeMap<Scope, Timestamp>,
    sequence: u64,
}

impl Shortages {
    /// Remembers a shortage from `now` on; said again, it lasts longer.
    pub fn mark(&mut self, scope: Scope, now: Timestamp) {
        self.until.insert(scope, now.checked_add(REMEMBERED).unwrap_or(Timestamp::MAX));
        self.sequence += 1;
    }

    /// Forgets what is over; whether there was any.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let before = self.until.len();
        self.until.retain(|_, until| *until > now);
        let changed = self.until.len() != before;
        self.sequence += u64::from(changed);
        changed
    }

    /// Whether an offering is out of stock, by itself or with all of its capacity type.
    #[must_use]
    pub fn holds(&self, capacity_type: CapacityType, instance_type: &str, zone: &str, now: Timestamp) -> bool {
        self.lasts(&Scope::CapacityType(capacity_type), now)
            || self.lasts(&Scope::offering(capacity_type, instance_type, zone), now)
    }

    /// Whether a subnet has no addresses.
    #[must_use]
    pub fn holds_subnet(&self, id: &str, now: Timestamp) -> bool {
        self.lasts(&Scope::Subnet(id.to_owned()), now)
    }

    /// Changes with every mark and every expiry: what was computed under another number is stale.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// When the next shortage is over.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.until.values().min().copied()
    }

    fn lasts(&self, scope: &Scope, now: Timestamp) -> bool {
        self.until.get(scope).is_some_and(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_lasts_three_minutes_and_longer_when_repeated() {
        let start = Timestamp::constant(1_790_000_000, 0);
        let at = |seconds: i64| start.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        let mut memory = Shortages::default();
        let holds = |memory: &Shortages, seconds| memory.holds(CapacityType::Spot, "m5.large", "a", at(seconds));
        memory.mark(Scope::offering(CapacityType::Spot, "m5.large", "a"), at(0));
        assert!(holds(&memory, 179) && !holds(&memory, 180));
        assert!(!memory.holds(CapacityType::OnDemand, "m5.large", "a", at(0)));
        assert!(!memory.holds(CapacityType::Spot, "m5.large", "b", at(0)));
        memory.mark(Scope::offering(CapacityType::Spot, "m5.large", "a"), at(100));
        assert!(holds(&memory, 279));
        let before = memory.sequence();
        assert!(!memory.expire(at(279)) && memory.sequence() == before);
        assert_eq!(memory.next_expiry(), Some(at(280)));
        assert!(memory.expire(at(280)) && memory.sequence() > before);
    }

    #[test]
    fn a_whole_capacity_type_and_a_subnet_can_be_short() {
        let now = Timestamp::constant(1_790_000_000, 0);
        let mut memory = Shortages::default();
        memory.mark(Scope::CapacityType(CapacityType::Spot), now);
        memory.mark(Scope::Subnet("subnet-1".to_owned()), now);
        assert!(memory.holds(CapacityType::Spot, "any", "where", now));
        assert!(memory.holds_subnet("subnet-1", now) && !memory.holds_subnet("subnet-2", now));
    }
}
