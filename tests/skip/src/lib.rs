//! Skipped tests: a test that cannot run on this machine reports that with the reason, instead of passing silently.
//!
//! libtest cannot skip a test at run time, so a skipped test returns early and counts as passed. `make test` subtracts it, lists it, and
//! fails where `KERF_FORBID_SKIPS=1` is set.

#![expect(clippy::expect_used, reason = "a skip that is not reported should fail the test")]

use std::fs::OpenOptions;
use std::io::Write as _;

/// The file to which `make test` has skipped tests appended, one line each.
const FILE: &str = "KERF_SKIPPED";

/// Reports the calling test as skipped. Call it on the test's own thread, before the test returns.
///
/// # Panics
/// When the report cannot be written.
pub fn report(reason: &str) {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let thread = std::thread::current();
    let line = format!("{package} {}: {reason}\n", thread.name().unwrap_or("unnamed test"));
    // Not the macro, whose output libtest captures.
    std::io::stderr().write_all(format!("skipped {line}").as_bytes()).expect("standard error can be written");
    if let Some(path) = std::env::var_os(FILE) {
        let mut file = OpenOptions::new().append(true).open(path).expect("the file in KERF_SKIPPED can be opened");
        file.write_all(line.as_bytes()).expect("the file in KERF_SKIPPED can be written");
    }
}
