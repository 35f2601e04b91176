//! What trouble costs: a pool from which EC2 took machines back, or had none, competes at a higher price for a while.
//!
//! The premium is a share of the price in thousandths. Each interruption adds 150, each shortage 30, up to [`HIGHEST`];
//! every [`HALF_LIFE`] half of it is forgotten, linearly in between. It moves in steps of ten minutes, so that catalogues
//! are not made anew all the time. Only choices see it: no price that is reported as EC2's contains it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use planner::{CapacityType, MicroDollars};

/// After so long half of a premium is forgotten.
pub const HALF_LIFE: SignedDuration = SignedDuration::from_hours(6);
/// No premium is higher, in thousandths of the price.
pub const HIGHEST: u32 = 600;
/// Premiums move at such moments only, in seconds.
const STEP: i64 = 600;

/// What happened to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// EC2 took a machine back.
    Interruption,
    /// EC2 had none.
    Shortage,
}

impl Incident {
    /// What it adds to the premium, in thousandths of the price.
    fn weight(self) -> u32 {
        match self {
            Self::Interruption => 150,
            Self::Shortage => 30,
        }
    }
}

/// A premium as it was when it last grew.
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
        // At most 600 times 21,600: no overflow.
        whole - whole * rest / (2 * length)
    }
}

type Pool = (CapacityType, String, String);

/// Premiums by pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Risk {
    off: bool,
    premiums: BTreeMap<Pool, Premium>,
    /// The step for which prices are computed.
    step: Timestamp,
}

impl Risk {
    /// Remembers nothing.
    #[must_use]
    pub fn off() -> Self {
        Self { off: true, ..Self::default() }
    }

    /// Something happened to a pool.
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

    /// Forgets what has faded; whether prices have moved.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let step = step(now);
        if self.premiums.is_empty() || step <= self.step {
            return false;
        }
        self.step = step;
        self.premiums.retain(|_, premium| premium.at(step) > 0);
        true
    }

    /// The price with its premium, rounded up to whole millionths.
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
