//! What every image family is told, case by case: `documents/FAMILY/CASE` is what somebody last reviewed. `BLESS=1` writes them anew.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

#[path = "rendered/cases.rs"]
mod cases;
#[path = "rendered/refused.rs"]
mod refused;
#[path = "rendered/round_trip.rs"]
mod round_trip;
#[path = "rendered/support.rs"]
mod support;
