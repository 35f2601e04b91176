//! A skipped test must differ from a passed test.

use std::process::Command;

/// Variable that is set in the second process, which skips its test.
const SKIPS: &str = "KERF_TEST_SKIPS";

#[test]
fn report_appends_package_test_and_reason() {
    if std::env::var_os(SKIPS).is_some() {
        skip::report("no such device");
        return;
    }
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let program = std::env::current_exe().expect("the path of this test program");
    let output = Command::new(program)
        .args(["--exact", "report_appends_package_test_and_reason"])
        .env(SKIPS, "1")
        .env("KERF_SKIPPED", file.path())
        .env("CARGO_PKG_NAME", "skip")
        .output()
        .expect("this test program runs again");

    assert!(output.status.success(), "{output:?}");
    let line = "skip report_appends_package_test_and_reason: no such device\n";
    assert_eq!(std::fs::read_to_string(file.path()).expect("the report"), line);
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("skipped {line}")), "{output:?}");
}
