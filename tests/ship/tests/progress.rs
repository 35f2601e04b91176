//! Tests of long steps of Makefile targets: their output, their log, and the counts in the summary of `make test`.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use ship::{Outcome, root, run};
use tempfile::TempDir;

/// Runs a shell script as the step `build` of a target.
fn step(cache: &TempDir, script: &str) -> Outcome {
    let mut command = Command::new(root().join("tests/steps/run"));
    command.args(["build", "building a program", "first time: 1 minute", "sh", "-c", script]);
    run(command.env("KERF_CACHE", cache.path()))
}

#[test]
fn run_is_silent_when_a_step_takes_less_than_a_second() {
    let cache = tempfile::tempdir().unwrap();
    let Outcome { well, output } = step(&cache, "echo text");
    assert!(well && output.is_empty(), "{output}");
    assert_eq!(fs::read_to_string(cache.path().join("logs/build.log")).unwrap(), "text\n");
}

#[test]
fn run_shows_duration_of_last_run_when_there_was_one() {
    let cache = tempfile::tempdir().unwrap();
    let output = step(&cache, "sleep 1.2").output;
    assert!(output.starts_with("==> building a program (first time: 1 minute)\n"), "{output}");
    assert!(output.contains("    done in "), "{output}");
    let output = step(&cache, "sleep 1.2").output;
    assert!(output.starts_with("==> building a program (first time: 1 minute; 1 s last time)\n"), "{output}");
}

#[test]
fn run_ends_a_failed_step_with_its_log() {
    let cache = tempfile::tempdir().unwrap();
    let Outcome { well, output } = step(&cache, "seq 100; echo the cause; exit 3");
    assert!(!well);
    let log = cache.path().join("logs/build.log");
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.first().copied(), Some("==> building a program (first time: 1 minute)"));
    assert!(lines.contains(&"    the cause") && lines.contains(&"    62") && !lines.contains(&"    61"), "{output}");
    let end = format!("==> building a program: failed with status 3; the whole log: {}", log.display());
    assert_eq!(lines.last().copied(), Some(end.as_str()));
}

#[test]
fn run_names_the_registry_that_was_not_reached() {
    let rows = [
        ("error: failed to download from `https://static.example/crates/x`", "crates"),
        (
            "go: example.org/x@v1: Get \"https://proxy.example/x\": dial tcp: lookup proxy.example: no such host",
            "Go modules",
        ),
        ("WARNING: Retrying (Retry(total=4)) after connection broken", "Python packages (PyPI)"),
        ("E: Failed to fetch http://deb.example/x  Temporary failure resolving", "Debian packages"),
    ];
    for (line, registry) in rows {
        let cache = tempfile::tempdir().unwrap();
        let output = step(&cache, &format!("echo '{line}'; exit 1")).output;
        let expected =
            format!("==> building a program: cannot reach the registry of {registry}, which this step needs");
        assert!(output.lines().any(|line| line == expected), "{output}");
    }
    let cache = tempfile::tempdir().unwrap();
    let output = step(&cache, "echo 'error: expected `;`'; exit 1").output;
    assert!(!output.contains("registry"), "{output}");
}

#[test]
fn run_stops_the_step_when_it_is_terminated() {
    let cache = tempfile::tempdir().unwrap();
    let script = "trap 'echo stopped; exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let log = cache.path().join("logs/build.log");
    let mut command = Command::new("bash");
    let waits = format!("until grep -qs ready {0}; do sleep 0.05; done; kill -TERM $!; wait $!", log.display());
    let run_script = root().join("tests/steps/run");
    let line = format!("{} build title usual bash -c \"$SCRIPT\" & {waits}", run_script.display());
    let Outcome { well, output } =
        run(command.args(["-c", &line]).env("SCRIPT", script).env("KERF_CACHE", cache.path()));
    assert!(!well && output.contains("failed with status 9"), "{output}");
    assert_eq!(fs::read_to_string(log).unwrap(), "ready\nstopped\n");
}

/// Writes a `cargo` that has built two test programs, one that fails and one that skips a test, and a `make` without work.
/// Returns the PATH.
fn with_builders(cache: &TempDir) -> String {
    let script = |name: &str, text: &str| {
        let path = cache.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    fs::write(cache.path().join("Cargo.toml"), "[package]\nname = \"made-up\"\n").unwrap();
    let good = script(
        "good",
        "echo 'running 2 tests'; echo 'test a ... ok'; echo 'test b ... ok'; echo 'made-up b: not root' >>\"$KERF_SKIPPED\"
         echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s'",
    );
    let bad = script(
        "bad",
        "echo 'running 1 test'; echo 'test c ... FAILED'; echo; echo 'failures:'; echo; echo '---- c stdout ----'
         echo 'left is not right'; echo; echo 'failures:'; echo '    c'
         echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s'; exit 101",
    );
    let artifact = |name: &str, path: &str| {
        serde_json::json!({"reason": "compiler-artifact", "executable": path, "profile": {"test": true}, "target": {"name": name},
            "manifest_path": cache.path().join("Cargo.toml")})
    };
    script("make", "exit 0");
    script("cargo", &format!("echo '{}'; echo '{}'", artifact("good", &good), artifact("bad", &bad)));
    format!("{}:{}", cache.path().display(), std::env::var("PATH").unwrap())
}

#[test]
fn test_counts_passed_failed_and_skipped_tests() {
    let cache = tempfile::tempdir().unwrap();
    let mut command = Command::new(root().join("tests/steps/test"));
    command.env("PATH", with_builders(&cache)).env("KERF_CACHE", cache.path()).env_remove("KERF_FORBID_SKIPS");
    let Outcome { well, output } = run(&mut command);
    assert!(!well, "{output}");
    for expected in ["FAILED   made-up bad: c", "         left is not right", "skipped  made-up b: not root"] {
        assert!(output.lines().any(|line| line == expected), "{expected}: {output}");
    }
    assert!(output.ends_with("test: 1 passed, 1 failed, 1 skipped\n"), "{output}");
}

#[test]
fn test_fails_when_skips_are_forbidden() {
    let cache = tempfile::tempdir().unwrap();
    let path = with_builders(&cache);
    fs::copy(cache.path().join("good"), cache.path().join("bad")).unwrap();
    let run_test = |forbid: &str| {
        let mut command = Command::new(root().join("tests/steps/test"));
        command.env("PATH", &path).env("KERF_CACHE", cache.path());
        run(command.env("KERF_FORBID_SKIPS", forbid))
    };
    assert!(run_test("0").well);
    let Outcome { well, output } = run_test("1");
    assert!(!well && output.contains("KERF_FORBID_SKIPS=1: a skipped test is a failure"), "{output}");
}
