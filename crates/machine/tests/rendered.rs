//! Rendered user data of every image family, case by case: `documents/FAMILY/CASE` is the reviewed document. `BLESS=1` rewrites
//! the documents.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

#[path = "rendered/cases.rs"]
mod cases;
#[path = "rendered/refused.rs"]
mod refused;
#[path = "rendered/round_trip.rs"]
mod round_trip;
#[path = "rendered/support.rs"]
mod support;
