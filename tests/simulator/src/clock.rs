//! Clocks that are independent of the machine's clock.

use std::cell::Cell;
use std::time::Instant;

use cloud::fake::Clock;
use jiff::{SignedDuration, Timestamp};

/// Number of replicas of the controller that have clocks of their own.
pub const REPLICAS: usize = 2;

thread_local! {
    /// An instant of tokio's clock and its time. A paused clock belongs to the runtime of one thread.
    static BEGIN: Cell<(Instant, Timestamp)> = Cell::new((Instant::now(), Timestamp::now()));
    /// Difference of each replica's clock from tokio's clock.
    static SKEWS: Cell<[SignedDuration; REPLICAS]> = const { Cell::new([SignedDuration::ZERO; REPLICAS]) };
}

/// Returns the time of tokio's clock. A paused clock advances as soon as all tasks wait.
#[must_use]
pub fn of_tokio() -> Timestamp {
    // The first access must come before everything else, because no event may be earlier.
    let (begin, moment) = BEGIN.get();
    let passed = tokio::time::Instant::now().into_std().saturating_duration_since(begin);
    moment + SignedDuration::try_from(passed).unwrap()
}

/// Sets the time of an instant of tokio's clock, for this thread.
pub fn set(begin: tokio::time::Instant, moment: Timestamp) {
    BEGIN.set((begin.into_std(), moment));
}

/// Sets the difference of each replica's clock from tokio's clock, for this thread.
pub fn skew(skews: [SignedDuration; REPLICAS]) {
    SKEWS.set(skews);
}

/// Returns the clock of a replica.
#[must_use]
pub fn of_replica(replica: usize) -> fn() -> Timestamp {
    const CLOCKS: [fn() -> Timestamp; REPLICAS] = [|| of_tokio() + SKEWS.get()[0], || of_tokio() + SKEWS.get()[1]];
    CLOCKS[replica]
}

/// Clock of tokio for the fake of EC2.
pub struct OfTokio;

impl Clock for OfTokio {
    fn now(&self) -> Timestamp {
        of_tokio()
    }
}
