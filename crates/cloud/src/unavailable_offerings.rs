//! What was out of stock lately, and where EC2 was unreliable: the next choice looks elsewhere, spreads over pools, and
//! comes back carefully.
//!
//! A pool that EC2 has nothing in is left alone for three minutes, as Karpenter does. Then it is **on trial**: one launch
//! may try it while others that have something else leave it alone. If it fails again it is left alone for twice as long, up
//! to [`LONGEST`]; what it gives clears its name at once; and each [`FADES`] in which nothing happens halves the next wait.
//!
//! Every shortage has the scope of its cause: a pool (type, zone, way of buying, reservation or placement group), a quota
//! of the account (all types of a class of families), a subnet, or a whole capacity type.

mod quota;
mod risk;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use planner::{CapacityType, MicroDollars};

pub use quota::{FamilyClass, family_class};
pub use risk::{HALF_LIFE, HIGHEST, Incident, Risk};

/// How long a first shortage is believed (aws 3.5).
pub const REMEMBERED: SignedDuration = SignedDuration::from_mins(3);
/// How long the worst is believed.
pub const LONGEST: SignedDuration = SignedDuration::from_mins(24);
/// After so long on trial without another word, a shortage counts one failure less.
pub const FADES: SignedDuration = SignedDuration::from_mins(15);
/// A launch that tries a pool has reported by then, or never will.
const TRIAL: SignedDuration = SignedDuration::from_secs(60);

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
    /// An offering inside a placement group: elsewhere in the zone there may be some.
    Placed {
        /// How it is bought.
        capacity_type: CapacityType,
        /// Instance type.
        instance_type: String,
        /// Zone name.
        zone: String,
        /// The group's id.
        group: String,
        /// The partition, in groups that have some.
        partition: Option<u32>,
    },
    /// A placement group that takes no more machines in a zone.
    Group {
        /// The group's id.
        group: String,
        /// Zone name.
        zone: String,
    },
    /// A capacity reservation without free capacity, by id.
    Reservation(String),
    /// All types that draw on a quota of the account.
    Quota {
        /// How they are bought.
        capacity_type: CapacityType,
        /// The families of the quota.
        class: FamilyClass,
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

    /// The pool, where the scope is one that has a price.
    fn pool(&self) -> Option<(CapacityType, &str, &str)> {
        match self {
            Self::Offering { capacity_type, instance_type, zone } => Some((*capacity_type, instance_type, zone)),
            _ => None,
        }
    }
}

/// What is known of one shortage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShortageRecord {
    until: Timestamp,
    /// How often in a row it failed when it was tried again; at least 1.
    failures: u32,
    /// When a launch set out to try it.
    trial: Option<Timestamp>,
}

impl ShortageRecord {
    fn lasts(&self, now: Timestamp) -> bool {
        self.until > now
    }

    /// Failures that still count, after what has faded since the shortage was over.
    fn failures(&self, now: Timestamp) -> u32 {
        let faded = now.duration_since(self.until).as_secs().max(0) / FADES.as_secs();
        self.failures.saturating_sub(u32::try_from(faded).unwrap_or(u32::MAX))
    }

    fn on_trial(&self, now: Timestamp) -> bool {
        self.trial.is_some_and(|began| now.duration_since(began) < TRIAL)
    }
}

/// How long the `failures`th failure in a row is believed.
fn believed(failures: u32) -> SignedDuration {
    let factor = 1i32 << failures.saturating_sub(1).min(16);
    REMEMBERED.checked_mul(factor).map_or(LONGEST, |time| time.min(LONGEST))
}

/// The memory of shortages and of risks. Lives in one process: after a restart EC2 says again what it lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnavailableOfferings {
    known: BTreeMap<Scope, ShortageRecord>,
    risk: Risk,
    sequence: u64,
    /// Up to when expiries have been counted.
    looked: Timestamp,
}

impl UnavailableOfferings {
    /// A memory in which trouble does not touch prices.
    #[must_use]
    pub fn without_risk() -> Self {
        Self { risk: Risk::off(), ..Self::default() }
    }

    /// Remembers a shortage from `now` on. Said again while it lasts, it lasts longer; said again after it was over, twice
    /// as long as before.
    pub fn mark(&mut self, scope: Scope, now: Timestamp) {
        let before = self.known.get(&scope);
        let failures = match before {
            Some(memory) if memory.lasts(now) => memory.failures,
            Some(memory) => memory.failures(now) + 1,
            None => 1,
        };
        if let Some((capacity_type, kind, zone)) = scope.pool().filter(|_| before.is_none_or(|one| !one.lasts(now))) {
            self.risk.note(Incident::Shortage, capacity_type, kind, zone, now);
        }
        let until = now.checked_add(believed(failures)).unwrap_or(Timestamp::MAX);
        let until = before.map_or(until, |memory| until.max(memory.until));
        self.known.insert(scope, ShortageRecord { until, failures, trial: None });
        self.sequence += 1;
    }

    /// EC2 takes machines back here: the pool is out of stock, and its price carries that for a while.
    pub fn interrupted(&mut self, scope: Scope, now: Timestamp) {
        if let Some((capacity_type, kind, zone)) = scope.pool() {
            self.risk.note(Incident::Interruption, capacity_type, kind, zone, now);
        }
        self.mark(scope, now);
    }

    /// EC2 launched from here: whatever was said against it is over.
    pub fn served(&mut self, scope: &Scope) {
        if self.known.remove(scope).is_some() {
            self.sequence += 1;
        }
    }

    /// Notes that a launch sets out to try what it needs of these; others leave them alone until it has reported.
    pub fn try_out<'s>(&mut self, scopes: impl IntoIterator<Item = &'s Scope>, now: Timestamp) {
        for scope in scopes {
            if let Some(memory) = self.known.get_mut(scope).filter(|memory| !memory.lasts(now) && !memory.on_trial(now))
            {
                memory.trial = Some(now);
            }
        }
    }

    /// Forgets what has faded; whether anything is different for those who buy or plan: a shortage is over, or prices
    /// have moved.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let looked = self.looked;
        let over = self.known.values().any(|memory| memory.until > looked && memory.until <= now);
        self.known.retain(|_, memory| memory.lasts(now) || memory.failures(now) > 0);
        let moved = self.risk.expire(now);
        self.looked = now.max(looked);
        self.sequence += u64::from(over || moved);
        over || moved
    }

    /// Whether an offering is out of stock: by itself, with its quota, or with all of its capacity type.
    #[must_use]
    pub fn holds(&self, capacity_type: CapacityType, instance_type: &str, zone: &str, now: Timestamp) -> bool {
        self.lasts(&Scope::CapacityType(capacity_type), now)
            || self.lasts(&Scope::Quota { capacity_type, class: family_class(instance_type) }, now)
            || self.lasts(&Scope::offering(capacity_type, instance_type, zone), now)
    }

    /// Whether a placement group has no room for an offering; a shortage outside of the group counts too.
    #[must_use]
    pub fn holds_placed(
        &self,
        (capacity_type, instance_type, zone): (CapacityType, &str, &str),
        (group, partition): (&str, Option<u32>),
        now: Timestamp,
    ) -> bool {
        let placed = Scope::Placed {
            capacity_type,
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            group: group.to_owned(),
            partition,
        };
        self.holds(capacity_type, instance_type, zone, now)
            || self.lasts(&Scope::Group { group: group.to_owned(), zone: zone.to_owned() }, now)
            || self.lasts(&placed, now)
    }

    /// Whether a capacity reservation has nothing left, whatever it said of itself before.
    #[must_use]
    pub fn holds_reservation(&self, id: &str, now: Timestamp) -> bool {
        self.lasts(&Scope::Reservation(id.to_owned()), now)
    }

    /// Whether a subnet has no addresses.
    #[must_use]
    pub fn holds_subnet(&self, id: &str, now: Timestamp) -> bool {
        self.lasts(&Scope::Subnet(id.to_owned()), now)
    }

    /// Whether another launch is trying out right now whether the offering is back.
    #[must_use]
    pub fn is_on_trial(&self, capacity_type: CapacityType, instance_type: &str, zone: &str, now: Timestamp) -> bool {
        let scopes = [
            Scope::CapacityType(capacity_type),
            Scope::Quota { capacity_type, class: family_class(instance_type) },
            Scope::offering(capacity_type, instance_type, zone),
        ];
        scopes.iter().any(|scope| self.known.get(scope).is_some_and(|memory| memory.on_trial(now)))
    }

    /// The price by which an offering competes: EC2's, and a premium for what happened there lately.
    #[must_use]
    pub fn priced(
        &self,
        capacity_type: CapacityType,
        instance_type: &str,
        zone: &str,
        price: MicroDollars,
    ) -> MicroDollars {
        self.risk.priced(capacity_type, instance_type, zone, price)
    }

    /// Changes with every mark and every expiry: what was computed under another number is stale.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// When the next shortage is over.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.known.values().map(|memory| memory.until).filter(|until| *until > self.looked).min()
    }

    fn lasts(&self, scope: &Scope, now: Timestamp) -> bool {
        self.known.get(scope).is_some_and(|memory| memory.lasts(now))
    }
}

#[cfg(test)]
mod tests;
