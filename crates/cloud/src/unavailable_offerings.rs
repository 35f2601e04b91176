//! Unavailable offerings: capacity that EC2 recently refused, and pools with interruptions. New choices avoid such pools,
//! spread over others, and return to a pool carefully.
//!
//! An unavailable pool is not used for three minutes, as in Karpenter. Then the pool is **on trial**: one launch may probe it
//! while launches with an alternative avoid it. A further failure doubles the time, up to [`LONGEST`]. A successful launch
//! removes the record at once. Each [`FADES`] without an event halves the next time.
//!
//! Every record has the scope of its cause, which is one of these:
//!
//! - a pool: instance type, zone, capacity type, reservation or placement group,
//! - a quota of the account: all types of a class of families,
//! - a subnet,
//! - a whole capacity type.
//!
//! Zones of zonal shifts are unavailable too, until ARC or the end of the shift clears them.

mod quota;
mod risk;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use planner::{CapacityType, MicroDollars};

use crate::calls::ZonalShift;

pub use quota::{FamilyClass, family_class};
pub use risk::{HALF_LIFE, HIGHEST, Incident, Risk};

/// Time for which the first failure makes a scope unavailable.
pub const REMEMBERED: SignedDuration = SignedDuration::from_mins(3);
/// Maximum time for which failures make a scope unavailable.
pub const LONGEST: SignedDuration = SignedDuration::from_mins(24);
/// Time after the end of unavailability in which one failure fades.
pub const FADES: SignedDuration = SignedDuration::from_mins(15);
/// Maximum duration of a trial launch. A launch without a result by then never reports one.
const TRIAL: SignedDuration = SignedDuration::from_secs(60);

/// The scope of unavailable capacity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// One instance type in one zone with one capacity type.
    Offering {
        /// Capacity type.
        capacity_type: CapacityType,
        /// Instance type.
        instance_type: String,
        /// Zone name.
        zone: String,
    },
    /// An offering inside a placement group; the zone may have capacity outside the group.
    Placed {
        /// Capacity type.
        capacity_type: CapacityType,
        /// Instance type.
        instance_type: String,
        /// Zone name.
        zone: String,
        /// Id of the placement group.
        group: String,
        /// Partition, in groups that have partitions.
        partition: Option<u32>,
    },
    /// A placement group that takes no more instances in a zone.
    Group {
        /// Id of the placement group.
        group: String,
        /// Zone name.
        zone: String,
    },
    /// A capacity reservation without available instances, by id.
    Reservation(String),
    /// All types under one quota of the account.
    Quota {
        /// Capacity type.
        capacity_type: CapacityType,
        /// Families of the quota.
        class: FamilyClass,
    },
    /// A whole capacity type.
    CapacityType(CapacityType),
    /// A subnet without free addresses, by id.
    Subnet(String),
}

/// Place in a placement group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPlace<'a> {
    /// Id of the placement group.
    pub group: &'a str,
    /// Partition, in groups that have partitions.
    pub partition: Option<u32>,
}

impl Scope {
    /// Returns the scope of one offering.
    #[must_use]
    pub fn offering(capacity_type: CapacityType, instance_type: &str, zone: &str) -> Self {
        Self::Offering { capacity_type, instance_type: instance_type.to_owned(), zone: zone.to_owned() }
    }

    /// Returns the pool, if the scope is an offering, which has a price.
    fn pool(&self) -> Option<(CapacityType, &str, &str)> {
        match self {
            Self::Offering { capacity_type, instance_type, zone } => Some((*capacity_type, instance_type, zone)),
            _ => None,
        }
    }
}

/// Record of one unavailable scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnavailableRecord {
    until: Timestamp,
    /// Number of consecutive failed attempts; at least 1.
    failures: u32,
    /// Start of the trial launch.
    trial: Option<Timestamp>,
}

impl UnavailableRecord {
    fn lasts(&self, now: Timestamp) -> bool {
        self.until > now
    }

    /// Returns the failures that still count, less those that faded since the end of unavailability.
    fn failures(&self, now: Timestamp) -> u32 {
        let faded = now.duration_since(self.until).as_secs().max(0) / FADES.as_secs();
        self.failures.saturating_sub(u32::try_from(faded).unwrap_or(u32::MAX))
    }

    fn on_trial(&self, now: Timestamp) -> bool {
        self.trial.is_some_and(|began| now.duration_since(began) < TRIAL)
    }
}

/// Reports whether something with this end lasts; without an end it does.
fn lasts_until(end: Option<Timestamp>, now: Timestamp) -> bool {
    end.is_none_or(|end| end > now)
}

/// Returns the time of unavailability after the `failures`th consecutive failure.
fn unavailable_time(failures: u32) -> SignedDuration {
    let factor = 1i32 << failures.saturating_sub(1).min(16);
    REMEMBERED.checked_mul(factor).map_or(LONGEST, |time| time.min(LONGEST))
}

/// Cache of unavailable offerings and risk premiums, in memory only. After a restart EC2 reports insufficient capacity again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnavailableOfferings {
    known: BTreeMap<Scope, UnavailableRecord>,
    /// Zones of applied zonal shifts by zone id, each with the end of the shift; an autoshift has none.
    shifted: BTreeMap<String, Option<Timestamp>>,
    risk: Risk,
    sequence: u64,
    /// Time up to which expiries are counted.
    expired_until: Timestamp,
}

impl UnavailableOfferings {
    /// Creates a cache without risk premiums.
    #[must_use]
    pub fn without_risk() -> Self {
        Self { risk: Risk::off(), ..Self::default() }
    }

    /// Marks a scope as unavailable from `now` on. A repeated mark extends the current time; a mark after its end doubles the
    /// time.
    pub fn mark(&mut self, scope: Scope, now: Timestamp) {
        let before = self.known.get(&scope);
        let failures = match before {
            Some(record) if record.lasts(now) => record.failures,
            Some(record) => record.failures(now) + 1,
            None => 1,
        };
        if let Some((capacity_type, kind, zone)) = scope.pool().filter(|_| before.is_none_or(|one| !one.lasts(now))) {
            self.risk.note(Incident::Shortage, capacity_type, kind, zone, now);
        }
        let until = now.checked_add(unavailable_time(failures)).unwrap_or(Timestamp::MAX);
        let until = before.map_or(until, |record| until.max(record.until));
        self.known.insert(scope, UnavailableRecord { until, failures, trial: None });
        self.sequence += 1;
    }

    /// Records an interruption: the pool is unavailable, and its price has a risk premium for a while.
    pub fn interrupted(&mut self, scope: Scope, now: Timestamp) {
        if let Some((capacity_type, kind, zone)) = scope.pool() {
            self.risk.note(Incident::Interruption, capacity_type, kind, zone, now);
        }
        self.mark(scope, now);
    }

    /// Removes the record of a scope after a successful launch.
    pub fn served(&mut self, scope: &Scope) {
        if self.known.remove(scope).is_some() {
            self.sequence += 1;
        }
    }

    /// Replaces the zonal shifts. Shifts that are not applied or are over have no effect.
    pub fn set_shifts(&mut self, shifts: &[ZonalShift], now: Timestamp) {
        let mut shifted: BTreeMap<String, Option<Timestamp>> = BTreeMap::new();
        for shift in shifts.iter().filter(|shift| shift.applied && lasts_until(shift.expires, now)) {
            let end = shifted.entry(shift.zone_id.clone()).or_insert(shift.expires);
            *end = end.zip(shift.expires).map(|(one, other)| one.max(other));
        }
        self.sequence += u64::from(!shifted.keys().eq(self.shifted.keys()));
        self.shifted = shifted;
    }

    /// Reports whether a zonal shift moves traffic away from a zone, by zone id.
    #[must_use]
    pub fn is_shifted(&self, zone_id: &str, now: Timestamp) -> bool {
        self.shifted.get(zone_id).is_some_and(|end| lasts_until(*end, now))
    }

    /// Returns the ids of the zones that zonal shifts exclude.
    #[must_use]
    pub fn shifted_zones(&self, now: Timestamp) -> BTreeSet<String> {
        self.shifted.iter().filter(|(_, end)| lasts_until(**end, now)).map(|(zone, _)| zone.clone()).collect()
    }

    /// Starts a trial of those scopes that are due for one. Other launches avoid them until the trial has a result.
    pub fn try_out<'s>(&mut self, scopes: impl IntoIterator<Item = &'s Scope>, now: Timestamp) {
        for scope in scopes {
            if let Some(record) = self.known.get_mut(scope).filter(|record| !record.lasts(now) && !record.on_trial(now))
            {
                record.trial = Some(now);
            }
        }
    }

    /// Deletes faded records and ended zonal shifts. Returns true if a scope became available or prices changed.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let expired_until = self.expired_until;
        let over = self.known.values().any(|record| record.until > expired_until && record.until <= now);
        self.known.retain(|_, record| record.lasts(now) || record.failures(now) > 0);
        let shifts = self.shifted.len();
        self.shifted.retain(|_, end| lasts_until(*end, now));
        let cleared = self.shifted.len() < shifts;
        let moved = self.risk.expire(now);
        self.expired_until = now.max(expired_until);
        self.sequence += u64::from(over || moved || cleared);
        over || moved || cleared
    }

    /// Reports whether an offering is unavailable: by itself, by its quota, or by its capacity type.
    #[must_use]
    pub fn holds(&self, capacity_type: CapacityType, instance_type: &str, zone: &str, now: Timestamp) -> bool {
        self.lasts(&Scope::CapacityType(capacity_type), now)
            || self.lasts(&Scope::Quota { capacity_type, class: family_class(instance_type) }, now)
            || self.lasts(&Scope::offering(capacity_type, instance_type, zone), now)
    }

    /// Reports whether an offering is unavailable in a placement group. Unavailability outside the group counts too.
    #[must_use]
    pub fn holds_placed(
        &self,
        capacity_type: CapacityType,
        instance_type: &str,
        zone: &str,
        place: GroupPlace<'_>,
        now: Timestamp,
    ) -> bool {
        let GroupPlace { group, partition } = place;
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

    /// Reports whether a capacity reservation is exhausted, regardless of its listed available count.
    #[must_use]
    pub fn holds_reservation(&self, id: &str, now: Timestamp) -> bool {
        self.lasts(&Scope::Reservation(id.to_owned()), now)
    }

    /// Reports whether a subnet has no free addresses.
    #[must_use]
    pub fn holds_subnet(&self, id: &str, now: Timestamp) -> bool {
        self.lasts(&Scope::Subnet(id.to_owned()), now)
    }

    /// Reports whether another launch is probing the offering now.
    #[must_use]
    pub fn is_on_trial(&self, capacity_type: CapacityType, instance_type: &str, zone: &str, now: Timestamp) -> bool {
        let scopes = [
            Scope::CapacityType(capacity_type),
            Scope::Quota { capacity_type, class: family_class(instance_type) },
            Scope::offering(capacity_type, instance_type, zone),
        ];
        scopes.iter().any(|scope| self.known.get(scope).is_some_and(|record| record.on_trial(now)))
    }

    /// Returns the price for comparisons: EC2's price with the risk premium of recent incidents.
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

    /// Returns a number that changes with every mark and expiry. Results computed with another number are stale.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the time of the next expiry.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        let records = self.known.values().map(|record| record.until);
        records.chain(self.shifted.values().copied().flatten()).filter(|until| *until > self.expired_until).min()
    }

    fn lasts(&self, scope: &Scope, now: Timestamp) -> bool {
        self.known.get(scope).is_some_and(|record| record.lasts(now))
    }
}

#[cfg(test)]
mod tests;
