//! Risk premiums: a pool with interruptions or insufficient capacity has a higher price for comparisons for a while.
//!
//! The premium is a share of the price in thousandths. Each interruption adds 150 and each lack of capacity 30, up to
//! [`HIGHEST`]. A premium halves every [`HALF_LIFE`], with linear interpolation. Premiums change in steps of ten minutes, so
//! that catalogues are not rebuilt all the time. Only choices use premiums; reported EC2 prices never contain them.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use planner::{CapacityType, MicroDollars};

/// Time in which a premium halves.
pub const HALF_LIFE: SignedDuration = SignedDuration::from_hours(6);
/// Maximum premium in thousandths of the price.
pub const HIGHEST: u32 = 600;
/// Step in seconds between changes of premiums.
const STEP: i64 = 600;

/// An incident of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// EC2 interrupted an instance.
    Interruption,
    /// EC2 had insufficient capacity.
    Shortage,
}

impl Incident {
    /// Returns the premium of the incident in thousandths of the price.
    fn weight(self) -> u32 {
        match self {
            Self::Interruption => 150,
            Self::Shortage => 30,
        }
    }
}

/// A premium at the time of its last increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Premium {
    thousandths: u32,
    since: Timestamp,
}

impl Premium {
    fn at(self, now: Timestamp) -> u32 {
        let passed = now.duration_since(self.since).as_secs().max(0);
        let halves = u32::try_from(passed / HALF_LIFE.as_secs()).unwrap_or(u32::MAX);
        let Some(whole) = self.thousandths.checked_shr(halves) else { return 0 };
        let rest = u32::try_from(passed % HALF_LIFE.as_secs()).unwrap_or(0);
        let length = u32::try_from(HALF_LIFE.as_secs()).unwrap_or(u32::MAX);
        // At most 600 times 21,600, so no overflow.
        whole - whole * rest / (2 * length)
    }
}

type Pool = (CapacityType, String, String);

/// Premiums by pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Risk {
    off: bool,
    premiums: BTreeMap<Pool, Premium>,
    /// Step of the current prices.
    step: Timestamp,
}

impl Risk {
    /// Creates a value that records nothing.
    #[must_use]
    pub fn off() -> Self {
        Self { off: true, ..Self::default() }
    }

    /// Records an incident of a pool.
    pub fn note(&mut self, incident: Incident, capacity_type: CapacityType, kind: &str, zone: &str, now: Timestamp) {
        if self.off {
            return;
        }
        let key = (capacity_type, kind.to_owned(), zone.to_owned());
        let before = self.premiums.get(&key).map_or(0, |premium| premium.at(now));
        let thousandths = (before + incident.weight()).min(HIGHEST);
        self.premiums.insert(key, Premium { thousandths, since: now });
        self.step = self.step.max(step(now));
    }

    /// Deletes faded premiums. Returns true if prices changed.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let step = step(now);
        if self.premiums.is_empty() || step <= self.step {
            return false;
        }
        self.step = step;
        self.premiums.retain(|_, premium| premium.at(step) > 0);
        true
    }

    /// Returns the price with its premium, rounded up to whole millionths.
    #[must_use]
    pub fn priced(&self, capacity_type: CapacityType, kind: &str, zone: &str, price: MicroDollars) -> MicroDollars {
        if self.premiums.is_empty() {
            return price;
        }
        let premium = self.premiums.get(&(capacity_type, kind.to_owned(), zone.to_owned()));
        let thousandths = i64::from(premium.map_or(0, |premium| premium.at(self.step)));
        MicroDollars(price.0.saturating_add((price.0.saturating_mul(thousandths).saturating_add(999)) / 1000))
    }
}

fn step(now: Timestamp) -> Timestamp {
    let seconds = now.as_second();
    Timestamp::from_second(seconds - seconds.rem_euclid(STEP)).unwrap_or(now)
}
