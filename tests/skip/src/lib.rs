//! Skipped tests: a test that cannot run on this machine reports the reason, instead of passing silently.
//!
//! libtest cannot skip a test at run time, so a skipped test returns early and counts as passed. `make test` subtracts and
//! lists skipped tests, and fails if `KERF_FORBID_SKIPS=1` is set.

#![expect(clippy::expect_used, reason = "a skip that is not reported should fail the test")]

use std::fs::OpenOptions;
use std::io::Write as _;

/// Variable with the file to which each skipped test appends a line for `make test`.
const FILE: &str = "KERF_SKIPPED";

/// Reports the calling test as skipped. The test must call the function on its own thread, before it returns.
///
/// # Panics
/// Panics when the report cannot be written.
pub fn report(reason: &str) {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let thread = std::thread::current();
    let line = format!("{package} {}: {reason}\n", thread.name().unwrap_or("unnamed test"));
    // libtest captures the output of the macro, so the code writes to standard error directly.
    std::io::stderr().write_all(format!("skipped {line}").as_bytes()).expect("standard error can be written");
    if let Some(path) = std::env::var_os(FILE) {
        let mut file = OpenOptions::new().append(true).open(path).expect("the file in KERF_SKIPPED can be opened");
        file.write_all(line.as_bytes()).expect("the file in KERF_SKIPPED can be written");
    }
}
